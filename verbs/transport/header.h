// The wire header: 64 bytes that travel with every piece, in the same write as its data. Frozen:
// fixed widths and offsets, asserted below; a change is a new kWireVersion. Little endian, as all
// supported machines are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace weft {

inline constexpr std::uint8_t kWireVersion = 14;

// What a notice means.
enum class NoticeKind : std::uint8_t {
  none = 0,
  data = 1,     // a piece of a message
  credit = 2,   // no data for you in this operation, but I expect yours
  query = 3,    // control: in operation n, you are my peer; am I yours?
  refusal = 4,  // control: no, in operation n you are not
  failure = 5,  // control: my context failed, text attached
  path = 6,     // control: between two bonds, about a path; nobody above sees it
  mail = 7,     // a piece of a message of engine/mail; on the control channel: connect to me
  digest = 8,   // the checksum of my result of this operation
  rails = 9,    // control: what is left of my rails, and what the ranks agree on (engine/context)
};

// Where a piece's bytes are.
enum class PieceForm : std::uint8_t {
  inlined = 0,  // in WireHeader::word: at most 8 bytes
  payload = 1,  // behind the header, in the slot
  view = 2,     // in the sender's shared heap at offset WireHeader::word, to be read in place
  process = 3,  // in the sender's private memory at address WireHeader::word
  region = 4,   // of one-sided work alone, never in a notice: in a region that was imported
  runs = 5,     // in several runs of the sender's shared heap, of which a list is at offset
                // WireHeader::word
};

// A run of a list.
struct WireRun {
  std::uint64_t offset = 0;  // in the sender's shared heap
  std::uint64_t bytes = 0;   // not 0
};
static_assert(sizeof(WireRun) == 16);

enum NoticeFlag : std::uint8_t {
  kFlagLast = 1,           // the last piece of its message
  kFlagCredit = 2,         // also says: I expect your data in this operation
  kFlagSends = 4,          // in a query: I send to you (else: I expect from you)
  kFlagNothing = 8,        // the message has no data in this operation: leave its term out
  kFlagDeviceMemory = 16,  // a view that names GPU memory, or a payload that is there: a CPU cannot
                           // read it. Of a payload the transport says so
  kFlagChecked = 32,       // the sender checks pieces: `checksum` is that of this one
  kFlagCompared = 64,      // the sender compares its result of this operation
};

// In WireHeader::checksum: none, as the bytes were where no CPU can read them.
inline constexpr std::uint32_t kNoChecksum = 0;

struct WireHeader {
  std::uint8_t version = kWireVersion;
  NoticeKind kind = NoticeKind::none;
  PieceForm form = PieceForm::inlined;
  std::uint8_t flags = 0;
  std::uint8_t collective = 0;  // which operation the sender runs
  std::uint8_t data_type = 0;
  std::uint16_t path = 0;  // which of the paths between the two carried it
  std::uint32_t job = 0;   // hash of the job's key
  std::uint16_t context = 0;
  std::uint16_t agreement =
      0;  // what the ranks of an operation must have in common: agreement_of()
  std::uint32_t epoch = 0;
  std::uint32_t operation = 0;           // number of the operation in its context, modulo 2^32
  std::uint32_t piece = 0;               // number of the piece in its message
  std::uint32_t bytes = 0;               // of this piece
  double weight = 1.0;                   // send-side weight, multiplied in by the receiver
  double p = 0.0;                        // push-sum weight
  std::uint32_t checksum = kNoChecksum;  // CRC-32C of a piece and its weight, or of a result
  std::uint32_t stamp = 0;  // a transport's: written last where the receiver polls memory; the
                            // number of the notice in a bond, carried unchanged by networks
  std::uint64_t word = 0;   // by form: the inlined bytes, an offset or an address
};

static_assert(std::is_trivially_copyable_v<WireHeader> && std::is_standard_layout_v<WireHeader>);
static_assert(sizeof(WireHeader) == 64);
static_assert(offsetof(WireHeader, version) == 0);
static_assert(offsetof(WireHeader, kind) == 1);
static_assert(offsetof(WireHeader, form) == 2);
static_assert(offsetof(WireHeader, flags) == 3);
static_assert(offsetof(WireHeader, collective) == 4);
static_assert(offsetof(WireHeader, data_type) == 5);
static_assert(offsetof(WireHeader, path) == 6);
static_assert(offsetof(WireHeader, job) == 8);
static_assert(offsetof(WireHeader, context) == 12);
static_assert(offsetof(WireHeader, agreement) == 14);
static_assert(offsetof(WireHeader, epoch) == 16);
static_assert(offsetof(WireHeader, operation) == 20);
static_assert(offsetof(WireHeader, piece) == 24);
static_assert(offsetof(WireHeader, bytes) == 28);
static_assert(offsetof(WireHeader, weight) == 32);
static_assert(offsetof(WireHeader, p) == 40);
static_assert(offsetof(WireHeader, checksum) == 48);
static_assert(offsetof(WireHeader, stamp) == 52);
static_assert(offsetof(WireHeader, word) == 56);

inline constexpr std::size_t kInlineBytes = sizeof(WireHeader::word);

}  // namespace weft
