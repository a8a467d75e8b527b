// letters: what two ranks write to each other, entry by entry. A message to a rank is a list of
// entries. A name travels as text the first time, later as a number.
// Internal to the module.
#pragma once

#include <weft/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "scheduler/match/rounds.h"
#include "scheduler/negotiate/negotiate.h"

namespace weft::match {

enum class EntryKind : std::uint8_t {
  want = 1,    // I expect this of you, or to hear that there is nothing: collective, type, size …
  skip = 2,    // you get nothing of this from me
  ask = 3,     // I have this for you, and you do not want it. Is that right?
  refuse = 4,  // this cannot be: status
  batch = 5,   // the next `count` names come as one batch, each with its weight
};

struct Entry {
  EntryKind kind = EntryKind::want;
  std::string name;
  Round round;  // of an item of a batch, the token alone: that of the want
  Collective collective = Collective::neighbor_allreduce;
  DataType type = DataType::f32;
  Compression compression = Compression::none;
  LowRank low_rank{};  // of Compression::low_rank
  std::uint64_t count = 0;
  std::vector<std::size_t> shape;
  bool may_skip = false;
  double weight = 1.0;
  Code code = Code::mismatch;  // of a refusal
  Rank rank = kNoRank;
  std::string text;
};

// How many names a rank remembers for each peer and direction. Older ones travel as text again.
inline constexpr std::size_t kMostNames = 4096;

// The entries to one rank.
class Outbox {
 public:
  void add(const Entry& entry);
  // A batch: the number of its names, and each of them.
  void add_batch(std::size_t names);
  void add_item(const std::string& name, std::uint64_t token, double weight);
  [[nodiscard]] bool is_empty() const { return is_empty_; }
  [[nodiscard]] std::vector<std::byte> take() {
    is_empty_ = true;
    return std::exchange(writer_, {}).take();
  }

 private:
  void name(const std::string& name);
  void round(const Round& round);

  negotiate::Writer writer_;
  bool is_empty_ = true;
  std::unordered_map<std::string, std::size_t> numbers_;
  std::vector<std::string> names_;  // by number
  std::size_t next_ = 0;            // the number that the next new name gets
};

// Reads the entries of one rank.
class Inbox {
 public:
  // Calls `take(entry)` for each entry; a batch gives one entry for itself, with the number of its
  // names as count, and one for each name. Returns false if the message cannot be read.
  template <typename Take>
  bool read(std::span<const std::byte> message, int ranks, Take&& take) {
    negotiate::Reader reader(message);
    while (!reader.is_good()) {
      Entry entry = next(reader, ranks);
      if (reader.is_broken()) return false;
      const bool is_batch = entry.kind == EntryKind::batch;
      const std::uint64_t names = entry.count;
      take(entry);
      for (std::uint64_t i = 0; is_batch && i < names; ++i) {
        Entry item = this->item(reader);
        if (reader.is_broken()) return false;
        take(item);
      }
    }
    return true;
  }

 private:
  [[nodiscard]] Entry next(negotiate::Reader& reader, int ranks);
  [[nodiscard]] Entry item(negotiate::Reader& reader);
  [[nodiscard]] std::string name(negotiate::Reader& reader);
  [[nodiscard]] static Round round(negotiate::Reader& reader);

  std::vector<std::string> names_;  // by number
};

}  // namespace weft::match
