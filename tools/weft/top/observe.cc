// Times are compared within a rank alone: clocks of hosts have nothing in common.
#include "tools/weft/top/observe.h"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <limits>
#include <set>

#include "tools/weft/flight/judge.h"

namespace weft::dumps {
namespace {

constexpr double kNsPerS = 1e9;
constexpr double kLeastWait_s = 0.2;  // a shorter one is the course of things
constexpr double kSlowRail = 0.6;     // of what it has carried for long
// A rank is slow if the usual one is in operations for so much of the time, and it is for half of that at most.
constexpr double kLeastInOperations = 0.2;
constexpr double kDelayed = 0.2;     // of the time without a core
constexpr double kIdle = 0.2;        // of a core
constexpr double kLeastGain = 0.01;  // less is not worth a word
constexpr double kPercent = 100;

const Part* same(const std::vector<Part>& parts, const Part& part) {
  const auto found = std::ranges::find_if(parts, [&part](const Part& other) {
    return other.job == part.job && other.context == part.context && other.rank == part.rank &&
           other.process == part.process;
  });
  return found == parts.end() ? nullptr : &*found;
}

double seconds_between(const Part* before, const Part& now) {
  return before == nullptr ? 0 : static_cast<double>(now.clock_ns - before->clock_ns) / kNsPerS;
}

// How far its records reach back. A ring that is not full tells of all calls.
std::int64_t reach_ns(const Part& part) {
  if (part.ops.size() < kCallsOfLook) return std::numeric_limits<std::int64_t>::max();
  const auto first = std::ranges::find_if(part.ops, [](const Op& op) { return op.began_ns != 0; });
  return first == part.ops.end() ? std::numeric_limits<std::int64_t>::max()
                                 : part.clock_ns - first->began_ns;
}

// For how much of the last `window_ns` it was in an operation. A call that was over at once has no time.
double share_in_operations(const Part& part, std::int64_t window_ns) {
  std::vector<std::pair<std::int64_t, std::int64_t>> spans;
  for (const Op& op : part.ops) {
    const std::int64_t end = op.ended_ns == 0 ? part.clock_ns : op.ended_ns;
    if (op.began_ns != 0) spans.push_back({op.began_ns, end});
  }
  std::ranges::sort(spans);
  std::int64_t in_ns = 0;
  std::int64_t from = part.clock_ns - window_ns;
  for (const auto& [begin, end] : spans) {
    in_ns += std::max<std::int64_t>(0, end - std::max(begin, from));
    from = std::max(from, end);
  }
  return window_ns <= 0 ? 0 : static_cast<double>(in_ns) / static_cast<double>(window_ns);
}

// The upper one of two.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

RailRow rail_row(const Rail& rail, const Part* before, double seconds) {
  RailRow row;
  row.rail = rail.rail;
  row.lost = rail.lost;
  row.rate = rail.rate;
  row.usual = rail.best;
  if (before == nullptr || seconds <= 0) return row;
  const auto earlier = std::ranges::find(before->rails, rail.rail, &Rail::rail);
  if (earlier == before->rails.end()) return row;
  row.bytes_per_s =
      static_cast<double>(rail.bytes - std::min(earlier->bytes, rail.bytes)) / seconds;
  row.losses = rail.losses - std::min(earlier->losses, rail.losses);
  return row;
}

RankRow row_of(const Part& part, const Part* before, std::int64_t window_ns) {
  RankRow row;
  row.job = part.job;
  row.rank = part.rank_in_job;
  row.host = part.host;
  row.process = part.process;
  if (const Op* last = part.last_call()) row.last = op_text(*last);
  const double seconds = seconds_between(before, part);
  if (seconds > 0)
    row.calls_per_s = static_cast<double>(part.next - std::min(before->next, part.next)) / seconds;
  for (const Op& op : part.ops) {
    if (op.state != "runs" || op.began_ns == 0) continue;
    for (const Wait& wait : op.waits) row.waits_for.push_back(part.in_job(wait.rank));
    if (!op.waits.empty())
      row.waits_s =
          std::max(row.waits_s, static_cast<double>(part.clock_ns - op.began_ns) / kNsPerS);
  }
  std::ranges::sort(row.waits_for);
  const auto [begin, end] = std::ranges::unique(row.waits_for);
  row.waits_for.erase(begin, end);
  row.in_operations = share_in_operations(part, window_ns);
  for (const Rail& rail : part.rails) row.rails.push_back(rail_row(rail, before, seconds));
  return row;
}

// What the kernel says about why it is slow.
std::string why_slow(const Part& now, const Part* before) {
  const double seconds = seconds_between(before, now);
  if (seconds <= 0 || now.ran_ns == 0) return "";
  const double delayed =
      static_cast<double>(now.delayed_ns - before->delayed_ns) / kNsPerS / seconds;
  const double ran = static_cast<double>(now.ran_ns - before->ran_ns) / kNsPerS / seconds;
  if (delayed >= kDelayed)
    return fmt::format(
        "; others have its core: it was ready and did not run for {:.0f}% of the time",
        kPercent * std::min(1.0, delayed));
  if (ran >= 0 && ran < kIdle)
    return fmt::format("; it uses {:.0f}% of a core: it sleeps, or waits for something else",
                       kPercent * ran);
  return "";
}

std::string gain_text(double gain, const std::string& when) {
  return gain < kLeastGain
             ? ""
             : fmt::format("; {} a step would take {:.0f}% less", when, kPercent * gain);
}

// A step is a rank's own work and its operations. What the slowest rank is in operations is what they take
// if nobody waits. With the slow ranks as the usual one, the longest own work of the others is what remains.
double gain_without(const std::vector<const RankRow*>& rows, const std::set<Rank>& slow,
                    double usual) {
  double least_in_operations = 1, longest_other = 1 - usual;
  for (const RankRow* row : rows) {
    least_in_operations = std::min(least_in_operations, row->in_operations);
    if (!slow.contains(row->rank)) longest_other = std::max(longest_other, 1 - row->in_operations);
  }
  return std::max(0.0, 1 - least_in_operations - longest_other);
}

void find_slow_ranks(const std::vector<const RankRow*>& rows, const std::vector<const Part*>& parts,
                     const std::vector<Part>& before, std::vector<Cause>& causes) {
  if (rows.size() < 2) return;
  std::vector<double> shares;
  for (const RankRow* row : rows) shares.push_back(row->in_operations);
  const double usual = median(shares);
  if (usual < kLeastInOperations) return;
  std::set<Rank> slow;
  std::size_t slowest = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i]->in_operations <= usual / 2) slow.insert(rows[i]->rank);
    if (rows[i]->in_operations < rows[slowest]->in_operations) slowest = i;
  }
  if (slow.empty()) return;
  Cause cause{"slow_rank", rows.front()->job, {slow.begin(), slow.end()}, "", 0, ""};
  cause.gain = gain_without(rows, slow, usual);
  const RankRow& worst = *rows[slowest];
  cause.text = fmt::format(
      "{} {} {:.1f}x slow: the usual rank is in operations for {:.0f}% of the time, and {} for "
      "{:.0f}%{}{}",
      ranks_text(cause.ranks), slow.size() == 1 ? "is" : "are", worst.slow, kPercent * usual,
      slow.size() == 1 ? "it" : ranks_text({worst.rank}), kPercent * worst.in_operations,
      why_slow(*parts[slowest], same(before, *parts[slowest])),
      gain_text(cause.gain, "at the usual pace"));
  causes.push_back(std::move(cause));
}

void find_lost_rails(const RankRow& row, std::vector<Cause>& causes) {
  for (const RailRow& rail : row.rails) {
    const std::string who = fmt::format("rail {} of rank {}", rail.rail, row.rank);
    if (rail.lost != 0)
      causes.push_back({"lost_rail",
                        row.job,
                        {row.rank},
                        rail.rail,
                        0,
                        fmt::format("{} does not lead to {} of its peers", who, rail.lost)});
    else if (rail.losses != 0)
      causes.push_back(
          {"lost_rail",
           row.job,
           {row.rank},
           rail.rail,
           0,
           fmt::format("{} was given up {} times since the last look", who, rail.losses)});
  }
}

std::size_t largest_call(const std::vector<const Part*>& parts) {
  std::size_t bytes = 0;
  for (const Part* part : parts)
    for (const Op& op : part->ops)
      if (!op.is_of_some_ranks) bytes = std::max(bytes, bytes_of(op));
  return bytes;
}

// The rails of the job's hosts, as they are or as they usually are.
RatedScene scene_of(const std::vector<const Part*>& parts, bool usual) {
  constexpr double kGbit = 8e-9;
  constexpr std::size_t kMostHosts = 16;  // more would take long and tell the same
  constexpr int kMostRanks = 8;
  RatedScene scene;
  std::map<std::string, RatedHost> hosts;
  for (const Part* part : parts) {
    RatedHost& host = hosts[part->host];
    host.name = part->host;
    for (const Rail& rail : part->rails) {
      if (rail.best <= 0) continue;
      double& gbit = host.gbit_per_s[rail.rail];
      gbit = std::max(gbit, kGbit * (usual ? rail.best : rail.rate));
      if (rail.rail.starts_with("ib:")) scene.is_rdma = true;
    }
  }
  scene.ranks = std::clamp(static_cast<int>(parts.size() / hosts.size()), 1, kMostRanks);
  for (const auto& [name, host] : hosts)
    if (scene.hosts.size() < kMostHosts) scene.hosts.push_back(host);
  scene.bytes = largest_call(parts);
  return scene;
}

// Of ranks that wait for each other: whether each has sent over its rails since the last look. Then their operation is on its
// way, over rails that may be slow.
bool all_send(const Verdict& verdict, const std::vector<RankRow>& rows) {
  const auto sends = [&](Rank rank) {
    return std::ranges::any_of(rows, [&](const RankRow& row) {
      return row.job == verdict.job && row.rank == rank &&
             std::ranges::any_of(row.rails,
                                 [](const RailRow& rail) { return rail.bytes_per_s > 0; });
    });
  };
  return std::ranges::all_of(verdict.culprits, sends) &&
         std::ranges::all_of(verdict.waiting, sends);
}

std::string time_text(std::int64_t time_ns) {
  const std::time_t seconds = time_ns / static_cast<std::int64_t>(kNsPerS);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%H:%M:%S", &parts);
  return text.data();
}

}  // namespace

void Observer::note_rails(const RankRow& row, std::int64_t time_ns) {
  for (const RailRow& rail : row.rails) {
    if (rail.usual <= 0) continue;
    const RailOfRank key{row.job, row.rank, rail.rail};
    if (rail.share() >= kSlowRail) {
      slow_since_.erase(key);
    } else {
      slow_since_.emplace(key, known_.contains(key) ? time_ns : 0);
    }
    known_[key] = true;
  }
}

// The part of its time that an allreduce as large as the largest call would save with all rails at their usual
// rates.
double Observer::gain_of_rails(const std::vector<const Part*>& parts) const {
  const RatedScene scene = scene_of(parts, false);
  if (scene.hosts.size() < 2 || scene.bytes == 0) return 0;
  const Result<double> now = cost_(scene);
  const Result<double> usual = cost_(scene_of(parts, true));
  return now.ok() && usual.ok() && *now > 0 ? std::max(0.0, 1 - *usual / *now) : 0;
}

// A rail that is slow between two ranks is so for both: it is one cause.
void Observer::find_slow_rails(const std::vector<const RankRow*>& rows,
                               const std::vector<const Part*>& parts,
                               std::vector<Cause>& causes) const {
  struct Slow {
    double share = 1;
    std::int64_t since_ns = 0;
    std::vector<Rank> ranks;
  };
  std::map<std::string, Slow> slow;
  double in_operations = 0;
  for (const RankRow* row : rows) {
    in_operations += row->in_operations / static_cast<double>(rows.size());
    for (const RailRow& rail : row->rails) {
      const auto since = slow_since_.find({row->job, row->rank, rail.rail});
      if (rail.usual <= 0 || since == slow_since_.end()) continue;
      Slow& of = slow[rail.rail];
      of.share = std::min(of.share, rail.share());
      of.since_ns = std::max(of.since_ns, since->second);
      of.ranks.push_back(row->rank);
    }
  }
  if (slow.empty()) return;
  const double gain = in_operations * gain_of_rails(parts);
  for (const auto& [rail, of] : slow)
    causes.push_back(
        {"slow_rail", rows.front()->job, of.ranks, rail, gain,
         fmt::format("rail {} of {} runs at {:.2f} of its rate{}{}", rail, ranks_text(of.ranks),
                     of.share, of.since_ns == 0 ? "" : " since " + time_text(of.since_ns),
                     gain_text(gain, slow.size() == 1 ? "at its usual rate"
                                                      : "with all rails at their usual rates"))});
}

void Observer::look_at_job(const std::vector<const Part*>& parts, View& view) {
  std::int64_t window_ns = std::numeric_limits<std::int64_t>::max();
  for (const Part* part : parts) {
    window_ns = std::min(window_ns, reach_ns(*part));
    if (const Part* const earlier = same(before_, *part))
      window_ns = std::min(window_ns, part->clock_ns - earlier->clock_ns);
  }
  if (window_ns == std::numeric_limits<std::int64_t>::max()) window_ns = 0;
  const std::size_t first = view.ranks.size();
  for (const Part* part : parts) {
    view.ranks.push_back(row_of(*part, same(before_, *part), window_ns));
    note_rails(view.ranks.back(), part->time_ns);
  }
  std::vector<double> shares;
  std::vector<const RankRow*> rows;
  for (std::size_t i = first; i < view.ranks.size(); ++i) {
    shares.push_back(view.ranks[i].in_operations);
    rows.push_back(&view.ranks[i]);
  }
  const double usual = median(shares);
  constexpr double kLeast = 0.01;  // of the time, that a rank needs for itself at least
  for (std::size_t i = first; i < view.ranks.size(); ++i)
    view.ranks[i].slow = (1 - view.ranks[i].in_operations) / std::max(kLeast, 1 - usual);
  find_slow_ranks(rows, parts, before_, view.causes);
  find_slow_rails(rows, parts, view.causes);
  for (const RankRow* row : rows) find_lost_rails(*row, view.causes);
}

View Observer::next(std::vector<Part> parts) {
  static constexpr const char* kKinds[] = {"absent", "mismatch", "waits",
                                           "names",  "failure",  "busy"};
  View view;
  std::map<std::string, std::vector<const Part*>> jobs;
  for (const Part& part : parts) {
    view.time_ns = std::max(view.time_ns, part.time_ns);
    if (part.context.starts_with("job")) jobs[part.job].push_back(&part);
  }
  for (auto& [job, ranks] : jobs) {
    std::ranges::sort(ranks, {}, &Part::rank_in_job);
    look_at_job(ranks, view);
  }
  std::vector<Cause> stand;
  for (const Verdict& verdict : judge(parts)) {
    const bool counts = verdict.seconds >= kLeastWait_s ||
                        verdict.kind == Verdict::Kind::mismatch ||
                        verdict.kind == Verdict::Kind::failure;
    if (counts && !(verdict.is_mutual && all_send(verdict, view.ranks)))
      stand.push_back({kKinds[static_cast<std::size_t>(verdict.kind)], verdict.job,
                       verdict.culprits, "", 0, verdict.text});
  }
  view.causes.insert(view.causes.begin(), std::make_move_iterator(stand.begin()),
                     std::make_move_iterator(stand.end()));
  for (RankRow& row : view.ranks)
    for (const Part& part : parts)
      if (part.job == row.job && part.rank_in_job == row.rank) row.names += part.names.size();
  before_ = std::move(parts);
  return view;
}

}  // namespace weft::dumps
