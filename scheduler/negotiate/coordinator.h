// coordinator: rank 0's part: it hears what each rank has newly submitted, checks that the ranks
// agree, and decides what is complete.
// Internal to the module.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "scheduler/negotiate/request.h"

namespace weft {

// What all ranks learn in a cycle, in the same order.
struct Decision {
  enum class Kind : std::uint8_t {
    run,         // this request, which every rank has submitted, unless it has joined
    fail,        // the request of this name ends with `status` on all ranks
    all_joined,  // every rank has joined; `rank` was the last. Nobody has joined any more
    stalled,     // `status` says who waits for what; nothing ends
  };
  Kind kind = Kind::run;
  NamedRequest request;  // of `fail` only the name
  Status status;
  Rank rank = kNoRank;
};

namespace negotiate {

// What one rank tells in a cycle.
struct Told {
  Rank rank = kNoRank;
  std::vector<NamedRequest> requests;
  bool joins = false;
  std::vector<std::string> pending;  // if an inquiry runs: the oldest of its pending names
};

// The most names of a rank's answer to an inquiry, and the most that a report has.
inline constexpr std::size_t kMostTold = 256;
inline constexpr std::size_t kMostReported = 16;

class Coordinator {
 public:
  explicit Coordinator(int size) : has_joined_(static_cast<std::size_t>(size)) {}

  // What all ranks tell in a cycle, by rank.
  [[nodiscard]] std::vector<Decision> decide(const std::vector<Told>& told);

  // How many ranks have joined.
  [[nodiscard]] int joined() const;

 private:
  struct Entry {
    NamedRequest request;
    Rank first = kNoRank;         // whose request it is
    std::vector<bool> submitted;  // by rank
    Status error;                 // the first difference between two ranks
    bool is_in_line = false;
  };

  void hear(const Told& told);
  [[nodiscard]] bool is_complete(const Entry& entry) const;
  [[nodiscard]] Decision end(const std::string& name, Entry& entry) const;
  [[nodiscard]] std::string report(const std::vector<Told>& told) const;

  std::map<std::string, Entry, std::less<>> table_;
  std::deque<std::string> order_;  // the names of the table, as they were first heard of
  std::vector<bool> has_joined_;   // by rank
  Rank last_to_join_ = kNoRank;
};

// "0-3, 7".
[[nodiscard]] std::string list_of(const std::vector<bool>& ranks);

// The error of an operation that a rank cannot take part in because it has joined; ok for an
// allreduce, to which it gives zeros.
[[nodiscard]] Status check_joined(const NamedRequest& request, int joined);

}  // namespace negotiate
}  // namespace weft
