#include "tests/partial/cluster.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::test {
namespace {

constexpr double kLatency = 0.02;  // of a message, at most
constexpr double kNoticed = 0.5;   // after this time a death is known

}  // namespace

Cluster::Cluster(const ClusterOptions& options)
    : options_(options),
      draws_(options.seed),
      generator_(std::make_unique<GroupGenerator>(GroupGenerator::open(options.groups).value())),
      workers_(static_cast<std::size_t>(options.groups.size)) {
  for (Rank rank = 0; rank < options.groups.size; ++rank) {
    at(rank).report.worker = rank;
    after(0.1 * draws_.unit(), [this, rank] { begin_iteration(rank); });
  }
  for (const auto& [when, rank] : options.deaths) after(when, [this, rank] { die(rank); });
}

std::uint64_t Cluster::iterations() const {
  std::uint64_t all = 0;
  for (const Worker& worker : workers_) all += worker.iterations;
  return all;
}

void Cluster::after(double delay, std::function<void()> happens) {
  agenda_.push({now_ + delay, events_++, std::move(happens)});
}

void Cluster::run() {
  while (!agenda_.empty() && agenda_.top().at <= options_.until) {
    const Event event = agenda_.top();
    agenda_.pop();
    now_ = event.at;
    event.happens();
  }
}

void Cluster::begin_iteration(Rank rank) {
  Worker& worker = at(rank);
  if (!worker.is_living) return;
  worker.report.has_asked = true;
  ++worker.report.requests;
  tell(rank, [this, rank, computed_us = worker.report.computed_us] {
    const auto at_us = static_cast<std::uint64_t>(1e6 * now_) + 1;
    return generator_->request(rank, computed_us, at_us);
  });
  const auto slow = options_.slowness.find(rank);
  const double slowness = slow == options_.slowness.end() ? 1 : slow->second;
  const double takes = slowness * (0.95 + 0.1 * draws_.unit());
  after(takes, [this, rank, takes] {
    at(rank).report.computed_us = static_cast<std::uint64_t>(1e6 * takes);
    at(rank).has_computed = true;
    at(rank).computed_at = now_;
    try_end(rank);
  });
}

// A message to the generator of this term.
void Cluster::tell(Rank from, std::function<Status()> event) {
  double& arrives = at(from).to_generator_at;
  arrives = std::max(arrives, now_ + kLatency * draws_.unit());
  after(arrives - now_, [this, from, term = term_, event = std::move(event)] {
    if (term != term_ || generator_ == nullptr) return;
    if (const Status status = event(); !status.ok()) fault(std::string(status.text()));
    send();
    if (at(from).is_leaving && generator_->is_gone(from)) go(from);
  });
}

// What the generator wants to be sent.
void Cluster::send() {
  const auto mail = [this](Rank to, std::function<void()> reads) {
    double& arrives = at(to).from_generator_at;
    arrives = std::max(arrives, now_ + kLatency * draws_.unit());
    after(arrives - now_, [this, term = term_, reads = std::move(reads)] {
      if (term == term_) reads();
    });
  };
  for (const GroupAssignment& each : generator_->assignments()) {
    Worker& worker = at(each.to);
    if (worker.runs != 0)
      fault(fmt::format("rank {} is in groups {} and {}", each.to, worker.runs, each.group));
    worker.runs = each.group;
    for (const Rank member : each.members) {
      if (at(member).has_left && each.group > at(member).last_group)
        fault(fmt::format("rank {} has left and is in group {}", member, each.group));
    }
    last_group_ = std::max(last_group_, each.group);
    GroupReport assigned;
    assigned.group = each.group;
    assigned.answers = each.answers;
    assigned.members.assign(each.members.begin(), each.members.end());
    mail(each.to, [this, to = each.to, assigned] { take(to, assigned); });
  }
}

void Cluster::take(Rank to, const GroupReport& assigned) {
  Worker& worker = at(to);
  if (!worker.is_living) return;
  GroupReport& report = worker.report;
  const bool is_again = report.group == assigned.group && report.answers == assigned.answers;
  if (!is_again && (report.group >= assigned.group || (report.group != 0 && !report.is_done)))
    fault(fmt::format("rank {} gets group {} after {}", to, assigned.group, report.group));
  report.group = assigned.group;
  report.answers = assigned.answers;
  report.members = assigned.members;
  report.is_done = false;
  worker.term = term_;
  try_end(to);
}

bool Cluster::may_end(Rank rank) const {
  const GroupReport& own = at(rank).report;
  if (own.group == 0 || own.is_done || !at(rank).has_computed || !at(rank).is_living) return false;
  if (at(rank).term != term_) return false;
  return std::ranges::all_of(own.members, [&](Rank member) {
    const GroupReport& other = at(member).report;
    const bool is_there = at(member).is_living && other.group == own.group && !other.is_done &&
                          at(member).has_computed && at(member).term == term_;
    const bool was_there = other.group > own.group || (other.group == own.group && other.is_done);
    return is_there || was_there;
  });
}

// The group of this worker, at all its members that can end it now.
void Cluster::try_end(Rank rank) {
  const GroupReport& own = at(rank).report;
  if (own.group == 0 || own.is_done) return;
  const std::uint64_t group = own.group;
  const std::vector<Rank> members = own.members;
  std::vector<Rank> ending;
  for (const Rank member : members) {
    if (at(member).report.group == group && may_end(member)) ending.push_back(member);
  }
  for (const Rank member : ending) end_group(member);
}

void Cluster::end_group(Rank rank) {
  Worker& worker = at(rank);
  worker.report.is_done = true;
  const std::uint64_t group = worker.report.group;
  tell(rank, [this, rank, group] {
    at(rank).runs = 0;
    return generator_->done(rank, group);
  });
  // Waits for the one that answers, or leaves.
  if (!worker.report.answers || worker.is_leaving) return;
  longest_wait_ = std::max(longest_wait_, now_ - worker.computed_at);
  worker.report.has_asked = false;
  worker.has_computed = ++worker.iterations == options_.iterations;
  if (!worker.has_computed) return begin_iteration(rank);
  worker.is_leaving = true;
  tell_leave(rank);
}

void Cluster::tell_leave(Rank rank) {
  tell(rank, [this, rank] {
    at(rank).has_left = true;
    at(rank).last_group = last_group_;
    return generator_->leave(rank);
  });
}

// It has left, and no group runs for it.
void Cluster::go(Rank rank) {
  at(rank).is_living = false;
  if (rank == home_) succeed();
}

void Cluster::die(Rank rank) {
  if (!at(rank).is_living) return;
  at(rank).is_living = false;
  if (rank == home_) generator_ = nullptr;
  after(kNoticed, [this] { succeed(); });
}

// The lowest living worker makes a new generator.
void Cluster::succeed() {
  std::vector<GroupReport> reports;
  for (Worker& worker : workers_) {
    if ((!worker.is_living || worker.is_leaving) && !worker.has_left) {
      worker.has_left = true;
      worker.last_group = last_group_;
    }
    worker.runs = 0;  // it is told again
    worker.is_living &= !worker.is_leaving;
    if (worker.is_living) reports.push_back(worker.report);
  }
  generator_ = nullptr;
  if (reports.empty()) return;
  home_ = reports.front().worker;
  ++term_;
  options_.groups.seed += 1;
  Result<GroupGenerator> made = GroupGenerator::succeed(options_.groups, reports);
  if (!made.ok()) return fault(std::string(made.status().text()));
  generator_ = std::make_unique<GroupGenerator>(std::move(made).value());
  send();
}

}  // namespace weft::test
