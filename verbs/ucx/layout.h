// What travels between two ucx interfaces. Internal to the module; frozen with the wire version.
//
// Every message is an active message. One of the structures below is its header, and the payload is
// its data. Small messages travel several in one active message (batch.h).
//
// An interface is identified by a random nonce. So a second interface of the same rank is another
// peer, and a message that reaches another interface than the one it was meant for is dropped. Two
// interfaces count the endpoints by which they were connected one after the other (`incarnation`),
// so that a message of an earlier endpoint is dropped, too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "verbs/transport/transport.h"

namespace weft::ucx {

enum class MessageKind : std::uint8_t {
  notice = 1,
  credit = 2,        // no notice: only `released` and `ahead`
  goodbye = 3,       // the sender closed its interface
  write = 4,         // one-sided: the data goes to the region
  read = 5,          // one-sided: the region comes back as the data of the answer
  compare_swap = 6,  // one-sided
  answer = 7,        // to one of the three
  hello = 8,         // the first messages of an endpoint; their data is the sender's address
};

// The most channels and slots that a message can name.
inline constexpr std::uint32_t kMostChannels = 1U << 16;
inline constexpr std::uint32_t kMostSlots = 1U << 15;

// What every message begins with.
struct Message {
  std::uint8_t version = kWireVersion;
  MessageKind kind = MessageKind::notice;
  std::uint16_t context = 0;
  std::uint32_t job = 0;
  std::uint64_t from = 0;         // nonce of the sender's interface
  std::uint64_t to = 0;           // nonce of the receiver's
  std::uint16_t rank = 0;         // of the sender
  std::uint16_t incarnation = 0;  // of the sender's endpoint
  std::uint16_t channel = 0;
  std::uint16_t ahead = 0;  // how many of its notices the sender has and has not released
  // Of the notice in its channel, or of the work at its origin; from 0. In a hello 1 if the sender's
  // UCX has asked for its connection or never will.
  std::uint64_t number = 0;
  std::uint64_t released = 0;  // how many notices of the channel the sender has released
};
static_assert(std::is_trivially_copyable_v<Message> && std::is_standard_layout_v<Message>);
static_assert(sizeof(Message) == 48);
static_assert(offsetof(Message, kind) == 1);
static_assert(offsetof(Message, context) == 2);
static_assert(offsetof(Message, job) == 4);
static_assert(offsetof(Message, from) == 8);
static_assert(offsetof(Message, to) == 16);
static_assert(offsetof(Message, rank) == 24);
static_assert(offsetof(Message, incarnation) == 26);
static_assert(offsetof(Message, channel) == 28);
static_assert(offsetof(Message, ahead) == 30);
static_assert(offsetof(Message, number) == 32);
static_assert(offsetof(Message, released) == 40);

struct NoticeMessage {
  Message message;
  WireHeader header;
};
static_assert(sizeof(NoticeMessage) == 112 && offsetof(NoticeMessage, header) == 48);

// write, read and compare_swap.
struct WorkMessage {
  Message message;
  std::uint64_t word = 0;    // RemoteBuffer::word
  std::uint64_t region = 0;  // RemoteBuffer::bytes; in a region its owner's number (RegionKey)
  std::uint64_t bytes = 0;   // how many of them to write or read
  std::uint64_t expected = 0;
  std::uint64_t desired = 0;
  std::uint64_t place = 0;     // the work's place in the order in which its origin sent it, from 0
  std::uint32_t sequence = 0;  // WorkOrder::sequence() of the origin
  PieceForm form = PieceForm::view;
  std::array<std::uint8_t, 3> unused{};
};
static_assert(sizeof(WorkMessage) == 104 && offsetof(WorkMessage, word) == 48);
static_assert(offsetof(WorkMessage, desired) == 80 && offsetof(WorkMessage, place) == 88);
static_assert(offsetof(WorkMessage, sequence) == 96 && offsetof(WorkMessage, form) == 100);

struct AnswerMessage {
  Message message;
  std::uint64_t found = 0;
  WorkVerdict verdict = WorkVerdict::done;
  std::array<std::uint8_t, 7> unused{};
};
static_assert(sizeof(AnswerMessage) == 64 && offsetof(AnswerMessage, verdict) == 56);

// Bytes of the header of such a message; 0 if there is no such kind.
[[nodiscard]] constexpr std::size_t header_bytes_of(MessageKind kind) {
  switch (kind) {
    case MessageKind::notice:
      return sizeof(NoticeMessage);
    case MessageKind::credit:
    case MessageKind::goodbye:
    case MessageKind::hello:
      return sizeof(Message);
    case MessageKind::write:
    case MessageKind::read:
    case MessageKind::compare_swap:
      return sizeof(WorkMessage);
    case MessageKind::answer:
      return sizeof(AnswerMessage);
  }
  return 0;
}

// The address of an interface, as put in the store: this and then UCX's worker address.
struct Address {
  static constexpr std::uint64_t kMagic = 0x57454654'55435841;  // "WEFTUCXA"
  std::uint64_t magic = kMagic;
  std::uint32_t wire_version = kWireVersion;
  std::uint32_t rank = 0;
  std::uint32_t job = 0;
  std::uint32_t context = 0;
  std::uint32_t channels = 0;
  std::uint32_t slots = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t piece_bytes = 0;
  std::uint64_t nonce = 0;
  std::uint64_t worker_bytes = 0;
  // Covers all of the above and the worker address. UCX does not check an address that it is given.
  std::uint64_t checksum = 0;
};
static_assert(std::is_trivially_copyable_v<Address> && sizeof(Address) == 72);

}  // namespace weft::ucx
