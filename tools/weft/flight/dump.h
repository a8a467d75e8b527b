// dump: what the flight recorders of ranks have told (engine/trace/flight.h), as values. Internal to the
// commands flight and top.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/base/base.h"

namespace weft::dumps {

struct Wait {
  Rank rank = kNoRank;
  std::string what;
};

struct Op {
  std::string op, state, type, code;
  std::uint64_t count = 0, number = 0;
  Rank peer = kNoRank;
  bool is_of_some_ranks = false;
  int in = 0, out = 0, agreement = 0;
  std::int64_t began_ns = 0, ended_ns = 0;  // 0: not told
  std::vector<Wait> waits;

  [[nodiscard]] bool is_open() const { return state == "runs" || state == "queued"; }
};

struct Name {
  std::string name, op, state;
  std::int64_t began_ns = 0;
};

struct Rail {
  std::string rail;
  std::uint64_t bytes = 0;
  double rate = 0, best = 0;
  int peers = 0, lost = 0;
  std::uint64_t losses = 0;
};

// A context of one rank.
struct Part {
  std::string from;  // the file or the socket
  std::string context, job, host, failure;
  Rank rank = 0, rank_in_job = 0;
  int size = 1;
  std::uint64_t next = 0;
  std::vector<Rank> members;
  std::int64_t clock_ns = 0, time_ns = 0;  // of the machine and of the day, when it was told
  std::int64_t process = 0;
  // Of the process since its start: on a core, and ready to run while others had the core (its worst thread).
  std::int64_t ran_ns = 0, delayed_ns = 0;
  std::vector<Op> ops;
  std::vector<Name> names;
  std::vector<Rail> rails;
  std::string lacking;

  [[nodiscard]] Rank in_job(Rank rank_here) const;
  // The last operation of all ranks that it has called; null: it knows none.
  [[nodiscard]] const Op* last_call() const;
  [[nodiscard]] const Op* of_all(std::uint64_t number) const;
};

// Parts of one dump, or of several in one text. `remarks` are about them: that one is cut short, for example.
struct Dump {
  std::vector<Part> parts;
  std::vector<std::string> remarks;
};

// mismatch: it is no dump, or one of another version. The text begins with `from`.
[[nodiscard]] Result<Dump> read_dump(const std::string& from, std::string_view text);

}  // namespace weft::dumps
