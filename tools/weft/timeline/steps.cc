// Calls are read from each file, matched between the ranks of a context, and laid out by rank in the order of time.
#include "tools/weft/timeline/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "scheduler/vocabulary/vocabulary.h"
#include "tools/weft/timeline/calls.h"

namespace weft {
namespace {

using Kind = ChakraNode::Kind;

Status invalid(std::string why) {
  return Status(Code::invalid_argument, std::move(why));
}

// What a call becomes at its rank.
struct Part {
  Kind kind = Kind::collective;
  Collective operation = Collective::allreduce;
  std::uint64_t bytes = 0;
  Rank peer = kNoRank;  // in the job
  std::uint64_t tag = 0;
  std::string group{};
};

struct PlacedCall {
  const TimelineCall* call = nullptr;
  std::vector<Part> parts;
};

// The calls of one context, by its ranks, and what they become.
class ContextSteps {
 public:
  ContextSteps(const std::vector<const TimelineCalls*>& of_ranks, std::uint64_t number)
      : ranks_(of_ranks), number_(number), placed_(of_ranks.size()) {}

  void match(std::map<std::string, std::size_t>& left_out) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      for (const TimelineCall& call : ranks_[rank]->calls) sort_in(rank, call, left_out);
    for (const auto& [number, calls] : together_) match_all(calls, left_out);
    for (auto& [hash, by_rank] : groups_) match_group(hash, by_rank, left_out);
    match_messages(left_out);
  }

  // By the rank in the job.
  void give(std::vector<std::vector<PlacedCall>>& all) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      for (auto& [call, parts] : placed_[rank])
        all[static_cast<std::size_t>(job_rank(rank))].push_back({call, std::move(parts)});
  }

 private:
  using LeftOut = std::map<std::string, std::size_t>;
  struct Half {
    std::size_t rank;  // whose call it is
    const TimelineCall* call;
  };
  using Calls = std::vector<Half>;

  [[nodiscard]] Rank job_rank(std::size_t rank) const { return ranks_.front()->ranks[rank]; }
  [[nodiscard]] bool is_of_job() const { return ranks_.front()->context == kJobContext; }
  [[nodiscard]] std::string group_name(std::string_view part) const {
    if (part.empty()) return is_of_job() ? "" : ranks_.front()->context;
    return fmt::format("{}:{}", ranks_.front()->context, part);
  }
  void place(const Half& half, Part part) {
    placed_[half.rank][half.call].push_back(std::move(part));
  }
  static void leave_out(LeftOut& left_out, const TimelineCall& call, const char* why,
                        std::size_t count = 1) {
    left_out[fmt::format("{}: {}", call.name, why)] += count;
  }

  void sort_in(std::size_t rank, const TimelineCall& call, LeftOut& left_out) {
    if (!call.is_over) return leave_out(left_out, call, "did not end, or failed");
    if (!call.operation) return leave_out(left_out, call, "Chakra has no such operation");
    if (!call.bytes)
      return leave_out(left_out, call, "the timeline does not say of how many bytes");
    const Half half{rank, &call};
    if (call.name == "group_average") {
      groups_[call.number][rank].push_back(half);
    } else if (has<kOfSomeRanks>(*call.operation)) {
      const bool is_peer = call.peer >= 0 && call.peer < std::ssize(ranks_) &&
                           static_cast<std::size_t>(call.peer) != rank;
      if (!is_peer) return leave_out(left_out, call, "the timeline does not name its peer");
      const auto peer = static_cast<std::size_t>(call.peer);
      if (call.name != "recv") messages_[{rank, peer}].first.push_back(half);
      if (call.name != "send") messages_[{peer, rank}].second.push_back(half);
    } else {
      together_[call.number].push_back(half);
    }
  }

  // A call of all ranks.
  void match_all(const Calls& calls, LeftOut& left_out) {
    const TimelineCall& first = *calls.front().call;
    const bool are_alike =
        std::ranges::all_of(calls, [&](const Half& half) { return half.call->name == first.name; });
    if (calls.size() != ranks_.size() || !are_alike)
      return leave_out(left_out, first, "not all ranks have it, as older records were overwritten",
                       calls.size());
    const Collective operation = *first.operation;
    if (has<kOnGraph>(operation)) return match_neighbors(calls);
    std::uint64_t bytes = 0;
    for (const Half& half : calls) bytes = std::max(bytes, *half.call->bytes);
    if (operation == Collective::barrier) bytes = 0;
    if (operation == Collective::local_allreduce) {
      const std::vector<std::size_t> leaders = leaders_of(calls);
      for (std::size_t i = 0; i < calls.size(); ++i)
        place(calls[i], {.operation = Collective::allreduce,
                         .bytes = bytes,
                         .group = group_name(fmt::format("machine of {}", leaders[i]))});
      return;
    }
    for (const Half& half : calls)
      place(half, {.operation = operation, .bytes = bytes, .group = group_name("")});
  }

  void match_neighbors(const Calls& calls) {
    for (const Half& half : calls) placed_[half.rank][half.call];  // also without neighbors
    for (const Half& from : calls) {
      for (const Rank to : from.call->receivers) {
        const auto reader = std::ranges::find(calls, static_cast<std::size_t>(to), &Half::rank);
        if (reader != calls.end() && reader->rank != from.rank)
          place_message(from, *reader, 2 * number_);
      }
    }
  }

  // By who sends to whom, the lowest rank of each machine.
  [[nodiscard]] std::vector<std::size_t> leaders_of(const Calls& calls) const {
    std::vector<std::size_t> leader(ranks_.size());
    for (std::size_t rank = 0; rank < leader.size(); ++rank) leader[rank] = rank;
    const auto root = [&leader](std::size_t rank) {
      while (leader[rank] != rank) rank = leader[rank];
      return rank;
    };
    for (const Half& half : calls) {
      for (const Rank to : half.call->receivers) {
        if (to < 0 || to >= std::ssize(leader)) continue;
        const std::size_t a = root(half.rank), b = root(static_cast<std::size_t>(to));
        leader[std::max(a, b)] = std::min(a, b);
      }
    }
    std::vector<std::size_t> leaders;
    for (const Half& half : calls)
      leaders.push_back(static_cast<std::size_t>(job_rank(root(half.rank))));
    return leaders;
  }

  // The latest calls of a group are the same ones at all its ranks; older ones may have been overwritten at some.
  void match_group(std::uint64_t hash, std::map<std::size_t, Calls>& by_rank, LeftOut& left_out) {
    std::size_t count = by_rank.begin()->second.size();
    std::size_t calls_of_all = 0;
    for (const auto& [rank, calls] : by_rank) {
      count = std::min(count, calls.size());
      calls_of_all += calls.size();
    }
    const auto is_outside = [&](Rank to) {
      return !by_rank.contains(static_cast<std::size_t>(to));
    };
    for (const auto& [rank, calls] : by_rank)
      for (const Half& half : calls)
        if (std::ranges::any_of(half.call->receivers, is_outside)) count = 0;
    const std::size_t dropped = calls_of_all - count * by_rank.size();
    if (dropped > 0)
      leave_out(left_out, *by_rank.begin()->second.front().call,
                "not all ranks have it, as older records were overwritten", dropped);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t bytes = 0;
      for (const auto& [rank, calls] : by_rank)
        bytes = std::max(bytes, *(calls.end() - static_cast<std::ptrdiff_t>(i) - 1)->call->bytes);
      for (const auto& [rank, calls] : by_rank)
        place(*(calls.end() - static_cast<std::ptrdiff_t>(i) - 1),
              {.operation = Collective::allreduce,
               .bytes = bytes,
               .group = group_name(fmt::format("group {:08x}", hash))});
    }
  }

  void match_messages(LeftOut& left_out) {
    for (const auto& [way, ends] : messages_) {
      const auto& [sends, receives] = ends;
      const std::size_t count = std::min(sends.size(), receives.size());
      if (sends.size() != receives.size())
        leave_out(left_out, *(sends.empty() ? receives : sends).front().call,
                  "the other rank does not have it, as older records were overwritten",
                  sends.size() + receives.size() - 2 * count);
      for (std::size_t i = 0; i < count; ++i)
        place_message(sends[sends.size() - count + i], receives[receives.size() - count + i],
                      2 * number_ + 1);
    }
  }

  void place_message(const Half& from, const Half& to, std::uint64_t tag) {
    const std::uint64_t bytes = *from.call->bytes;
    place(from, {.kind = Kind::send, .bytes = bytes, .peer = job_rank(to.rank), .tag = tag});
    place(to, {.kind = Kind::receive, .bytes = bytes, .peer = job_rank(from.rank), .tag = tag});
  }

  const std::vector<const TimelineCalls*>& ranks_;
  const std::uint64_t number_;  // of the context
  std::map<std::uint64_t, Calls> together_;
  std::map<std::uint64_t, std::map<std::size_t, Calls>> groups_;
  std::map<std::pair<std::size_t, std::size_t>, std::pair<Calls, Calls>> messages_;
  std::vector<std::map<const TimelineCall*, std::vector<Part>>> placed_;
};

// The nodes of a rank.
class RankSteps {
 public:
  explicit RankSteps(Rank rank) : rank_(rank) {}

  std::vector<ChakraNode> lay_out(std::vector<PlacedCall> calls) {
    std::ranges::stable_sort(calls, {}, [](const PlacedCall& each) {
      return std::tuple(each.call->begin_us, each.call->number);
    });
    if (calls.empty()) return {{.id = 1, .name = "no operations", .is_on_cpu = true}};
    first_us_ = free_us_ = calls.front().call->begin_us;
    for (const PlacedCall& each : calls) add(each);
    return std::move(nodes_);
  }

 private:
  struct Open {
    double end_us = 0;
    std::vector<std::uint64_t> ids;
  };

  void add(const PlacedCall& placed) {
    const TimelineCall& call = *placed.call;
    for (const Open& open : open_) {
      if (open.end_us > call.begin_us) continue;
      free_us_ = std::max(free_us_, open.end_us);
      after_.insert(after_.end(), open.ids.begin(), open.ids.end());
    }
    std::erase_if(open_, [&](const Open& open) { return open.end_us <= call.begin_us; });
    compute(call.begin_us - free_us_);
    free_us_ = call.begin_us;
    Open open{call.end_us, {}};
    for (const Part& part : placed.parts) {
      ChakraNode node{.id = ++id_, .name = call.title, .kind = part.kind};
      node.start_us = whole(call.begin_us - first_us_);
      node.us = whole(call.end_us - call.begin_us);
      node.operation = part.operation;
      node.bytes = part.bytes;
      node.peer = part.peer;
      node.rank = rank_;
      node.tag = part.tag;
      node.group = part.group;
      node.after = after_;
      open.ids.push_back(node.id);
      nodes_.push_back(std::move(node));
    }
    open_.push_back(std::move(open));
  }

  // Times are whole microseconds; what is left of one is added to the next.
  void compute(double us) {
    owed_us_ += std::max(0.0, us);
    if (owed_us_ < 1) return;
    ChakraNode node{.id = ++id_, .name = "computation", .is_on_cpu = true};
    node.start_us = whole(free_us_ - first_us_);
    node.us = whole(std::floor(owed_us_));
    owed_us_ -= static_cast<double>(node.us);
    node.after = std::move(after_);
    after_ = {node.id};
    nodes_.push_back(std::move(node));
  }

  static std::uint64_t whole(double us) {
    constexpr double kMost = 1e12;
    return static_cast<std::uint64_t>(std::llround(std::clamp(us, 0.0, kMost)));
  }

  const Rank rank_;
  std::uint64_t id_ = 0;
  double first_us_ = 0;
  double free_us_ = 0;  // since when the rank computes
  double owed_us_ = 0;
  std::vector<std::uint64_t> after_;  // what the next node waits for
  std::vector<Open> open_;
  std::vector<ChakraNode> nodes_;
};

std::string list_of(const std::set<Rank>& ranks) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (const Rank rank : ranks) {
    if (text.size() > kShown * 8) return text + ", …";
    text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  }
  return text;
}

// A context's files by its ranks. All of them must be there.
Result<std::vector<const TimelineCalls*>> by_rank(const std::vector<const TimelineCalls*>& files) {
  const TimelineCalls& first = *files.front();
  std::vector<const TimelineCalls*> sorted(first.ranks.size());
  for (const TimelineCalls* file : files) {
    if (file->ranks != first.ranks)
      return invalid(
          fmt::format("{} and {} are of two jobs: they have a context \"{}\" of different ranks",
                      first.path, file->path, first.context));
    const TimelineCalls*& place = sorted[static_cast<std::size_t>(file->rank)];
    if (place != nullptr)
      return invalid(fmt::format("{} and {} are both of rank {} of the context \"{}\"", place->path,
                                 file->path, file->rank, first.context));
    place = file;
  }
  std::set<Rank> missing;
  for (std::size_t rank = 0; rank < sorted.size(); ++rank)
    if (sorted[rank] == nullptr) missing.insert(static_cast<Rank>(rank));
  if (!missing.empty())
    return invalid(
        fmt::format("{}: its context \"{}\" has {} ranks, and there is no timeline of rank {}",
                    first.path, first.context, sorted.size(), list_of(missing)));
  return sorted;
}

}  // namespace

Result<TimelineSteps> chakra_of(const std::vector<TimelineFile>& files) {
  std::vector<TimelineCalls> all;
  all.reserve(files.size());
  for (const TimelineFile& file : files) {
    WEFT_ASSIGN(TimelineCalls calls, calls_of(file));
    all.push_back(std::move(calls));
  }
  std::map<std::string, std::vector<const TimelineCalls*>> contexts;
  std::set<Rank> ranks;
  for (const TimelineCalls& each : all) {
    contexts[each.context].push_back(&each);
    ranks.insert(each.ranks.begin(), each.ranks.end());
  }
  if (all.empty()) return invalid("no timelines");
  const Rank size = ranks.empty() ? 0 : *ranks.rbegin() + 1;
  if (std::ssize(ranks) != size)
    return invalid(fmt::format(
        "{}: it is of ranks of a job of at least {}, and there are timelines of {} of them; "
        "give those of the job's own context, too",
        all.front().path, size, ranks.size()));
  std::vector<std::vector<PlacedCall>> placed(static_cast<std::size_t>(size));
  std::map<std::string, std::size_t> left_out;
  std::uint64_t number = 0;
  for (const auto& [name, of_context] : contexts) {
    WEFT_ASSIGN(const std::vector<const TimelineCalls*> sorted, by_rank(of_context));
    ContextSteps context(sorted, number++);
    context.match(left_out);
    context.give(placed);
  }
  TimelineSteps steps;
  for (Rank rank = 0; rank < size; ++rank) {
    steps.operations += placed[static_cast<std::size_t>(rank)].size();
    steps.ranks.push_back(
        RankSteps(rank).lay_out(std::move(placed[static_cast<std::size_t>(rank)])));
  }
  if (steps.operations == 0)
    return invalid(fmt::format("{}: has no operation that all its ranks have{}", files.front().path,
                               left_out.empty() ? "" : "; " + left_out.begin()->first));
  for (const auto& [what, count] : left_out)
    steps.left_out.push_back(fmt::format("{} calls of {}", count, what));
  return steps;
}

}  // namespace weft
