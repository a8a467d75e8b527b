// Contexts are taken one at a time: whose operations of all ranks have one number on every rank.
#include "tools/weft/flight/judge.h"

#include <fmt/core.h>
#include <weft/types.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace weft::dumps {
namespace {

constexpr double kNsPerS = 1e9;

std::size_t size_of_type(const std::string& type) {
  for (std::size_t number = 0; number < kDataTypes; ++number) {
    const auto each = static_cast<DataType>(number);
    if (name(each) == type) return size_of(each);
  }
  return 1;
}

std::string amount(double bytes) {
  const char* const units[] = {"bytes", "KiB", "MiB", "GiB"};
  int unit = 0;
  constexpr double kStep = 1024;
  for (; bytes >= kStep && unit < 3; ++unit) bytes /= kStep;
  return bytes == std::floor(bytes) ? fmt::format("{:.0f} {}", bytes, units[unit])
                                    : fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string seconds_text(double seconds) {
  constexpr double kMs = 1e3;
  return seconds < 1 ? fmt::format("{:.0f} ms", seconds * kMs) : fmt::format("{:.1f} s", seconds);
}

double since(const Part& part, std::int64_t began_ns) {
  return began_ns == 0 ? 0 : static_cast<double>(part.clock_ns - began_ns) / kNsPerS;
}

// Whether the elements must be equal on all ranks.
bool has_common_count(const std::string& op) {
  return op == "allreduce" || op == "neighbor_allreduce" || op == "broadcast" || op == "reduce" ||
         op == "local_allreduce" || op == "hierarchical_neighbor_allreduce";
}

std::string shape_of(const Op& op) {
  if (op.op == "barrier") return op.op;
  std::string text = fmt::format("{} of {} x {}", op.op, op.count, op.type);
  if (op.peer != kNoRank && !op.is_of_some_ranks) text += fmt::format(" with root {}", op.peer);
  return text;
}

bool disagree(const Op& a, const Op& b) {
  if (a.op != b.op) return true;
  if (a.op == "barrier") return false;
  return a.type != b.type || a.agreement != b.agreement ||
         (has_common_count(a.op) && a.count != b.count);
}

class OfContext {
 public:
  OfContext(std::vector<const Part*> parts, std::vector<Verdict>& verdicts)
      : verdicts_(verdicts), front_(*parts.front()) {
    for (const Part* part : parts) by_rank_[part->rank] = part;
  }

  void judge() {
    find_mismatch();
    find_waits();
    find_some();
    find_names();
    find_failures();
  }

 private:
  using Kind = Verdict::Kind;

  [[nodiscard]] const Part* part_of(Rank rank) const {
    const auto found = by_rank_.find(rank);
    return found == by_rank_.end() ? nullptr : found->second;
  }
  [[nodiscard]] std::vector<Rank> in_job(const std::set<Rank>& ranks) const {
    std::vector<Rank> all;
    for (const Rank rank : ranks) all.push_back(front_.in_job(rank));
    std::ranges::sort(all);
    return all;
  }
  [[nodiscard]] std::string where() const {
    return front_.context == "job" ? "" : fmt::format(" in context {}", front_.context);
  }

  // The first operation in which ranks do not call the same.
  void find_mismatch() {
    std::map<std::uint64_t, std::vector<std::pair<Rank, const Op*>>> by_number;
    for (const auto& [rank, part] : by_rank_)
      for (const Op& op : part->ops)
        if (!op.is_of_some_ranks && op.state != "queued")
          by_number[op.number].push_back({rank, &op});
    for (const auto& [number, calls] : by_number) {
      const Op& first = *calls.front().second;
      std::map<std::string, std::set<Rank>> by_shape;
      for (const auto& [rank, op] : calls)
        by_shape[disagree(first, *op) ? shape_of(*op) : shape_of(first)].insert(rank);
      if (by_shape.size() == 1 && std::ranges::none_of(calls, [&](const auto& call) {
            return disagree(first, *call.second);
          }))
        continue;
      std::string text;
      const std::set<Rank>* fewest = nullptr;
      for (const auto& [shape, ranks] : by_shape) {
        text += fmt::format("{}{} called {}", text.empty() ? "" : ", ", ranks_text(in_job(ranks)),
                            shape);
        if (fewest == nullptr || ranks.size() < fewest->size()) fewest = &ranks;
      }
      if (by_shape.size() == 1) text += " with another operator or algorithm on some";
      verdicts_.push_back({Kind::mismatch,
                           in_job(*fewest),
                           {},
                           front_.context,
                           fmt::format("operation #{}{} differs: {}", number, where(), text),
                           0});
      return;
    }
  }

  struct Waiters {
    const Op* op = nullptr;
    std::set<Rank> ranks;
    double seconds = 0;
  };

  // Who waits for whom in operations of all ranks: the one who waits for nobody is the cause.
  void find_waits() {
    std::map<std::pair<Rank, std::uint64_t>, Waiters> waited_for;
    for (const auto& [rank, part] : by_rank_)
      for (const Op& op : part->ops) {
        if (op.state != "runs" || op.is_of_some_ranks) continue;
        for (const Wait& wait : op.waits) {
          Waiters& waiters = waited_for[{wait.rank, op.number}];
          waiters.op = &op;
          waiters.ranks.insert(rank);
          waiters.seconds = std::max(waiters.seconds, since(*part, op.began_ns));
        }
      }
    for (const auto& [key, waiters] : waited_for) tell(key.first, waiters);
    // If a rank is absent, that others wait for each other follows from it.
    const auto is_kind = [](Kind kind) {
      return [kind](const Verdict& each) { return each.kind == kind; };
    };
    if (std::ranges::any_of(verdicts_, is_kind(Kind::absent)))
      std::erase_if(verdicts_, is_kind(Kind::waits));
  }

  void tell(Rank rank, const Waiters& waiters) {
    const Part* const part = part_of(rank);
    const std::string who = ranks_text(in_job({rank}));
    const std::string whom =
        fmt::format("{} {} waited{}", ranks_text(in_job(waiters.ranks)),
                    waiters.ranks.size() == 1 ? "has" : "have",
                    waiters.seconds == 0 ? "" : " " + seconds_text(waiters.seconds));
    const auto add = [&](Kind kind, std::string text) -> Verdict& {
      return verdicts_.emplace_back(Verdict{kind, in_job({rank}), in_job(waiters.ranks),
                                            front_.context, std::move(text), waiters.seconds});
    };
    if (part == nullptr)
      return (void)add(Kind::absent,
                       fmt::format("{} tells nothing (it has ended, hangs, or its file is "
                                   "missing), and {} for it in {}{}",
                                   who, whom, op_text(*waiters.op), where()));
    if (part->next <= waiters.op->number) {
      const Op* const last = part->last_call();
      std::string text = fmt::format("{} has not called {}{}, for which {}; ", who,
                                     op_text(*waiters.op), where(), whom);
      if (last == nullptr) {
        text += "it has called nothing yet";
      } else {
        text += fmt::format("its last call was {}", op_text(*last));
        if (last->ended_ns != 0)
          text += fmt::format(", which ended {} ago", seconds_text(since(*part, last->ended_ns)));
      }
      return (void)add(Kind::absent, std::move(text));
    }
    const Op* const own = part->of_all(waiters.op->number);
    if (own != nullptr && disagree(*own, *waiters.op)) return;  // find_mismatch() has told
    // Whoever waits in turn is no cause; that of whom it waits is.
    const bool waits_too = std::ranges::any_of(part->ops, [](const Op& op) {
      return op.state == "runs" && !op.is_of_some_ranks && !op.waits.empty();
    });
    if (!waits_too)
      add(Kind::waits, fmt::format("{} is in {}{} and waits for nobody, and {} for it: it is slow, "
                                   "or what it sends does not arrive",
                                   who, op_text(*waiters.op), where(), whom));
    else if (is_mutual(rank, waiters))
      add(Kind::waits,
          fmt::format("{} and {} wait for each other in {}{}: what they send does not "
                      "arrive, or the graphs differ",
                      who, ranks_text(in_job(waiters.ranks)), op_text(*waiters.op), where()))
          .is_mutual = true;
  }

  // Both wait in one operation. Of each pair the higher rank is told.
  [[nodiscard]] bool is_mutual(Rank rank, const Waiters& waiters) const {
    const Op* const own = part_of(rank)->of_all(waiters.op->number);
    if (own == nullptr) return false;
    return std::ranges::any_of(own->waits, [&](const Wait& wait) {
      return wait.rank < rank && waiters.ranks.contains(wait.rank);
    });
  }

  // send, recv, pair_average, group_average.
  void find_some() {
    for (const auto& [rank, part] : by_rank_)
      for (const Op& op : part->ops) {
        if (op.state != "runs" || !op.is_of_some_ranks) continue;
        for (const Wait& wait : op.waits) tell_some(rank, *part, op, wait.rank);
      }
  }

  void tell_some(Rank rank, const Part& part, const Op& op, Rank other) {
    const Part* const theirs = part_of(other);
    const double seconds = since(part, op.began_ns);
    const std::string who = ranks_text(in_job({other}));
    const std::string what =
        fmt::format("{} for which {} has waited{}{}", op_text(op), ranks_text(in_job({rank})),
                    seconds == 0 ? "" : " " + seconds_text(seconds), where());
    std::string text;
    if (theirs == nullptr) {
      text = fmt::format("{} tells nothing; it is needed in {}", who, what);
    } else if (std::ranges::none_of(theirs->ops, [&](const Op& each) {
                 return each.is_of_some_ranks && each.is_open() && each.op == op.op &&
                        (each.peer == rank || each.in + each.out > 2);
               })) {
      text = fmt::format("{} has not called its part of {}", who, what);
      if (const Op* last = theirs->last_call())
        text += fmt::format("; its last call of all ranks was {}", op_text(*last));
    } else {
      return;
    }
    verdicts_.push_back(
        {Kind::absent, in_job({other}), in_job({rank}), front_.context, std::move(text), seconds});
  }

  // Names that some ranks have submitted and others have not.
  void find_names() {
    std::map<std::string, Waiters> names;
    std::map<std::string, std::string> ops;
    for (const auto& [rank, part] : by_rank_)
      for (const Name& each : part->names) {
        Waiters& waiters = names[each.name];
        waiters.ranks.insert(rank);
        waiters.seconds = std::max(waiters.seconds, since(*part, each.began_ns));
        ops[each.name] = each.op;
      }
    constexpr std::size_t kMostTold = 10;
    std::size_t told = 0;
    for (const auto& [name, waiters] : names) {
      std::set<Rank> lack;
      for (const auto& [rank, part] : by_rank_)
        if (!waiters.ranks.contains(rank)) lack.insert(rank);
      if (lack.empty()) continue;
      if (++told > kMostTold) break;
      verdicts_.push_back(
          {Kind::names, in_job(lack), in_job(waiters.ranks), front_.context,
           fmt::format("{} has not submitted \"{}\" ({}), which {} submitted {} ago{}",
                       ranks_text(in_job(lack)), name, ops[name], ranks_text(in_job(waiters.ranks)),
                       seconds_text(waiters.seconds), where()),
           waiters.seconds});
    }
  }

  void find_failures() {
    std::map<std::string, std::set<Rank>> by_text;
    for (const auto& [rank, part] : by_rank_)
      if (!part->failure.empty()) by_text[part->failure].insert(rank);
    for (const auto& [text, ranks] : by_text)
      verdicts_.push_back({Kind::failure,
                           {},
                           in_job(ranks),
                           front_.context,
                           fmt::format("{} failed{}: {}", ranks_text(in_job(ranks)), where(), text),
                           0});
  }

  std::vector<Verdict>& verdicts_;
  const Part& front_;
  std::map<Rank, const Part*> by_rank_;
};

}  // namespace

std::string ranks_text(std::vector<Rank> ranks) {
  std::ranges::sort(ranks);
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += text.empty() ? "" : end == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
    if (end - i > 1) text += fmt::format("{}{}", end - i == 2 ? " and " : "-", ranks[end - 1]);
    i = end;
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + text;
}

std::string op_text(const Op& op) {
  std::string text = op.op;
  if (op.is_of_some_ranks) {
    text += op.op != "send/recv" ? "" : op.in == 0 ? " (send)" : " (recv)";
  } else {
    text += fmt::format(" #{}", op.number);
  }
  if (op.op == "barrier") return text;
  return text + fmt::format(" ({}, {})", amount(static_cast<double>(bytes_of(op))), op.type);
}

std::size_t bytes_of(const Op& op) {
  return op.count * size_of_type(op.type);
}

std::vector<Verdict> judge(const std::vector<Part>& parts) {
  std::map<std::pair<std::string, std::string>, std::vector<const Part*>> by_context;
  for (const Part& part : parts) by_context[{part.job, part.context}].push_back(&part);
  std::vector<Verdict> verdicts;
  for (const auto& [key, of_context] : by_context) {
    std::vector<Verdict> own;
    OfContext(of_context, own).judge();
    for (Verdict& each : own) {
      each.job = key.first;
      verdicts.push_back(std::move(each));
    }
  }
  std::ranges::stable_sort(verdicts, {}, [](const Verdict& each) {
    return std::tuple(static_cast<int>(each.kind), -each.seconds);
  });
  return verdicts;
}

}  // namespace weft::dumps
