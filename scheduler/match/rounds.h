// rounds: which submission of a name at one rank is the same as one at another rank.
//
// The k-th submission of a name at one rank is the k-th at every other one. To count them, a rank would
// have to remember every name for ever. It remembers a name only while it is submitted now and then:
//
//   gap since the name was last submitted     what the rank does
//   at most 2 windows of submissions          counts on
//   at most 3 windows                         counts on, and counts anew from here as well
//   more                                      counts anew from here alone: it has forgotten
//
// The submissions of a rank, of whatever name, are its clock. Ranks may submit in different orders, as
// long as the same submission comes at most half a window earlier at one than at another. Then gaps
// differ by a window at most: where one rank counts anew alone, each other one counts anew, too. So two ranks
// have a count in common: the latest one that either of them began alone. A count is named by the clock at
// which it began. Those of a name began more than two windows apart, so a clock within half a window tells
// which is meant.
// Internal to the module.
#pragma once

#include <weft/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

namespace weft::match {

// One submission of a name.
struct Round {
  static constexpr std::size_t kMost = 4;
  struct Count {
    std::uint64_t origin = 0;  // the clock at which it began
    std::uint64_t number = 0;  // submissions of the name since then
    friend bool operator==(const Count&, const Count&) = default;
  };
  std::array<Count, kMost> counts{};  // ascending by origin
  std::size_t size = 0;     // how many; 0: an operation of some ranks, which are not counted
  std::uint64_t token = 0;  // no other submission of the name at this rank has it

  [[nodiscard]] bool is_counted() const { return size != 0; }
  void begin_count(std::uint64_t origin);
  void count_on();
  friend bool operator==(const Round&, const Round&) = default;
};

enum class Place : std::uint8_t { before, same, after };

class Rounds {
 public:
  explicit Rounds(std::uint64_t window) : window_(window) {}

  // Submissions that all ranks do, and those that only some do.
  Round begin(const std::string& name);
  Round begin_uncounted();
  // Where a round of another rank is, seen from one of this rank; from the latest one of the name.
  [[nodiscard]] Place place(const Round& own, const Round& other) const;
  [[nodiscard]] Place place(const std::string& name, const Round& other) const;

  // Neighbors that are late hear that a round has failed here, and why. ok: it has not.
  void fail(const std::string& name, const Round& round, const Status& status);
  [[nodiscard]] Status failure(const std::string& name, const Round& other) const;

  [[nodiscard]] std::size_t known() const { return young_.size() + old_.size(); }

 private:
  struct Failure {
    Round round;
    Status status;
  };
  struct Known {
    Round latest;
    std::uint64_t at = 0;  // the clock then
    std::unique_ptr<const Failure> failure;
  };
  [[nodiscard]] const Known* find(const std::string& name) const;
  void age();

  const std::uint64_t window_;
  std::uint64_t clock_ = 0;
  std::uint64_t uncounted_ = 0;
  // Names that were submitted since the young generation began, and in the one before.
  std::uint64_t young_since_ = 0;
  std::unordered_map<std::string, Known> young_, old_;
};

}  // namespace weft::match
