// Receiver: what a connection gets from the peer. Notices stay in the ring where the device wrote
// them until they are released. The Receiver counts how many have come, and what the peer was told
// of that.
//
// Every message is checked before it changes anything: peers are not trusted with indices and
// sizes.
//
// Owner: an IbEndpoint, in whose lane everything here runs; an object lives as long as its
// endpoint. Invariants, for each channel: reported <= next <= arrived <= next + slots. Internal to
// the module.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "verbs/ib/exposures.h"
#include "verbs/ib/ib.h"
#include "verbs/ib/layout.h"
#include "verbs/ib/objects.h"

namespace weft::ib {

class IbInterface;
class IbEndpoint;

class Receiver {
 public:
  explicit Receiver(IbEndpoint& endpoint);

  // Takes places of the shared receive queue for the peer's messages; how many, 0 if none are left.
  std::uint32_t reserve();
  // The peer sends nothing more: its places go back.
  void give_back();
  [[nodiscard]] std::uint32_t granted() const { return granted_; }

  // False: the message breaks the protocol.
  [[nodiscard]] bool take_notice(const Immediate& immediate);
  [[nodiscard]] bool grant(const Control& want);

  [[nodiscard]] Notice front(std::uint32_t channel) const;
  void release(std::uint32_t channel);
  [[nodiscard]] std::uint64_t arrived(std::uint32_t channel) const {
    return incoming_[channel].arrived;
  }

  // A message of the peer was taken out of the receive queue.
  void count_received() { ++received_; }
  [[nodiscard]] std::uint32_t received() const { return received_; }
  // Whether the peer has to be told of what was received. Otherwise it may soon wait for places in
  // our receive queue that are free already.
  [[nodiscard]] bool owes_received() const { return received_ - told_received_ >= granted_ / 2; }
  // The peer is told of all that was received.
  void told_received() { told_received_ = received_; }
  // How many notices of the channel were released. The caller tells the peer in a notice, so this
  // counts as reported.
  [[nodiscard]] std::uint32_t tell_released(std::uint32_t channel);
  void report_releases();
  // Where pieces of memory of other devices arrive, for people; empty: the peer has none.
  [[nodiscard]] std::string receive_buffers() const;

 private:
  struct Incoming {
    std::uint64_t next = 0;  // the number of the next notice to be released
    std::uint64_t arrived = 0;
    std::uint64_t reported = 0;        // the `next` that the peer was told last
    bool waiting = false;              // among `unreported_`
    std::array<Buffer, kRings> rings;  // that of another device is none of these
    DeviceMemory::ReceiveBuffer receive_buffer;
    std::shared_ptr<const ExposedMemory> receive_buffer_share;
    std::unique_ptr<RingKind[]> slots;  // which ring each arrival lies in
  };

  void make_receive_buffer(Incoming& in);
  [[nodiscard]] bool has_ring(const Incoming& in, RingKind ring) const {
    return in.rings[static_cast<std::size_t>(ring)] ||
           (ring == RingKind::device && in.receive_buffer.owner);
  }
  // Where the head of a notice lies.
  [[nodiscard]] const std::byte* head_of(const Incoming& in, RingKind ring,
                                         std::size_t place) const;

  IbEndpoint& endpoint_;
  IbInterface& interface_;
  std::uint32_t granted_ = 0;   // messages that the peer may have in our receive queue
  std::uint32_t reserved_ = 0;  // of that, not given back yet
  std::uint32_t received_ = 0;
  std::uint32_t told_received_ = 0;
  std::vector<Incoming> incoming_;
  int receive_buffers_ = 0;
  Status no_landing_;                      // why the last one that was asked for could not be made
  std::vector<std::uint32_t> unreported_;  // channels with releases that the peer does not know
};

}  // namespace weft::ib
