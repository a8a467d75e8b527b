// term: see the header.
#include "engine/partial/term.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <weft/macros.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace weft {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
// How often deaths and deadlines are looked at.
constexpr std::int64_t kLookNs = 50 * kNsPerMs;
// How often a rank must be found gone, 1 ms apart, before that is the error: it may have left because of
// a third rank, of which this one hears meanwhile.
constexpr int kLooksAtDeparture = 16;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// When a request comes, on the generator's clock.
std::uint64_t now_us() {
  return static_cast<std::uint64_t>(now_ns() / 1000);
}

}  // namespace

// A wait of the worker: over when there is something to read.
class GroupTerm::Arrival final : public OperationStep {
 public:
  explicit Arrival(GroupTerm& term) : term_(term) {}
  bool advance() override { return false; }
  void abandon(const Status& why) override { term_.abandon(why); }
  [[nodiscard]] bool is_over() const override {
    return !term_.inbox_.empty() || !term_.failure_.ok();
  }
  [[nodiscard]] const Status& status() const override { return term_.failure_; }

 private:
  GroupTerm& term_;
};

GroupTerm::GroupTerm(std::unique_ptr<GroupHost> host, TermOptions options)
    : host_(std::move(host)),
      lane_(host_->shared_lane()),
      options_(std::move(options)),
      reader_([this](Rank from, Mail::Message message) { read(from, message); }) {}

GroupTerm::~GroupTerm() {
  host_->close();
}

Status GroupTerm::begin(bool is_first) {
  if (generates()) {
    has_left_.resize(options_.ranks.size());
    if (is_first) {
      WEFT_ASSIGN(generator_, GroupGenerator::open(options_.groups));
    } else {
      reports_.resize(options_.ranks.size());
    }
  }
  heard_ns_ = now_ns();
  return host_->attend(*this);
}

Rank GroupTerm::number_of(Rank rank) const {
  return static_cast<Rank>(std::ranges::lower_bound(options_.ranks, rank) - options_.ranks.begin());
}

Status GroupTerm::failure() {
  const Lane::Hold hold(*lane_);
  return failure_;
}

void GroupTerm::send(const GroupMessage& message) {
  const Lane::Hold hold(*lane_);
  if (!failure_.ok()) return;
  if (generates()) {
    take(options_.ranks.front(), message);
  } else {
    host_->send_mail(0, encode(message));
  }
  lane_->leave();
}

Result<GroupMessage> GroupTerm::next(bool leaves) {
  const Lane::Hold hold(*lane_);
  leaves_ = leaves;
  waits_since_ns_ = now_ns();
  is_waiting_ = true;
  next_look_ns_ = std::min(next_look_ns_, waits_since_ns_ + kLookNs);
  Arrival arrival(*this);
  lane_->run(arrival);
  is_waiting_ = false;
  if (!failure_.ok()) return failure_;
  GroupMessage message = std::move(inbox_.front());
  inbox_.pop_front();
  return message;
}

bool GroupTerm::advance() {
  if (!failure_.ok()) return false;
  now_ns_ = now_ns();
  const bool moved = host_->advance_mail(reader_);
  if (failure_.ok() && now_ns_ >= next_look_ns_) look();
  return moved;
}

std::int64_t GroupTerm::next_ns() const {
  const bool looks = is_waiting_ || (generates() && !is_over_);
  return failure_.ok() && looks ? next_look_ns_ : kNever;
}

void GroupTerm::abandon(const Status& why) {
  if (failure_.ok()) failure_ = why;
}

void GroupTerm::read(Rank from, std::span<const std::byte> bytes) {
  if (!failure_.ok()) return;
  Result<GroupMessage> message = decode_group_message(from, bytes, options_.groups.size);
  if (!message.ok()) return host_->fail(message.status());
  using enum GroupMessage::Kind;
  const bool is_to_generator = message->kind == turn || message->kind == report;
  if (is_to_generator ? !generates() : from != 0) {
    return host_->fail(
        Status(Code::mismatch,
               fmt::format("{}: rank {} takes another rank for the generator of groups",
                           options_.title, from),
               from));
  }
  if (is_to_generator) return take(options_.ranks[static_cast<std::size_t>(from)], *message);
  if (leaves_) waits_since_ns_ = now_ns_;
  if (message->kind != going_on) inbox_.push_back(*std::move(message));
}

// What a worker tells the generator.
void GroupTerm::take(Rank worker, const GroupMessage& message) {
  heard_ns_ = now_ns();
  if (message.kind == GroupMessage::Kind::report) return collect(worker, message);
  if (!generator_) return early_.push_back({worker, message});
  act(worker, message);
}

void GroupTerm::collect(Rank worker, const GroupMessage& report) {
  const auto number = static_cast<std::size_t>(number_of(worker));
  if (number >= reports_.size() || reports_[number]) {
    return host_->fail(Status(Code::mismatch,
                              fmt::format("{}: rank {} reports to a generator that waits for none",
                                          options_.title, worker),
                              static_cast<Rank>(number)));
  }
  reports_[number] = report;
  if (std::ranges::all_of(reports_, [](const auto& each) { return each.has_value(); })) succeed();
}

// A worker that leaves and is in no group reports nothing to the state machine, as if it were gone.
void GroupTerm::succeed() {
  std::vector<GroupReport> reports;
  std::vector<Rank> leaving;
  for (std::size_t number = 0; number < reports_.size(); ++number) {
    const GroupMessage& each = *reports_[number];
    has_left_[number] = each.leaves;
    if (each.leaves && (each.group == 0 || each.is_done)) continue;
    const Rank worker = options_.ranks[number];
    if (each.leaves) leaving.push_back(worker);
    reports.push_back({.worker = worker,
                       .requests = each.requests,
                       .has_asked = each.asks,
                       .computed_us = each.computed_us,
                       .group = each.group,
                       .answers = each.answers,
                       .is_done = each.is_done,
                       .members = each.members});
  }
  GroupOptions groups = options_.groups;
  groups.seed += static_cast<std::uint64_t>(groups.size) - options_.ranks.size();
  Result<GroupGenerator> made = GroupGenerator::succeed(std::move(groups), reports);
  if (!accept(made.status().rank(), made.status())) return;
  generator_ = *std::move(made);
  (void)accept(kNoRank, {});
  for (const Rank worker : leaving) act(worker, {.kind = GroupMessage::Kind::turn, .leaves = true});
  for (const Turn& each : std::exchange(early_, {})) act(each.worker, each.message);
  if (generator_->living() == 0 && generator_->groups() == 0) tell_over();
}

void GroupTerm::act(Rank worker, const GroupMessage& turn) {
  GroupGenerator& generator = *generator_;
  if (turn.group != 0 && !accept(worker, generator.done(worker, turn.group))) return;
  if (turn.asks && !accept(worker, generator.request(worker, turn.computed_us, now_us()))) return;
  if (turn.leaves) {
    has_left_[static_cast<std::size_t>(number_of(worker))] = true;
    if (!accept(worker, generator.leave(worker))) return;
  }
  if (generator.living() == 0 && generator.groups() == 0) tell_over();
}

// Sends what follows from an event of the generator, unless the event was an error. That ends the term:
// the worker and the generator do not mean the same.
bool GroupTerm::accept(Rank worker, const Status& status) {
  if (!failure_.ok()) return false;
  if (!status.ok()) {
    host_->fail(Status(Code::mismatch, fmt::format("{}: {}", options_.title, status.text()),
                       worker == kNoRank ? kNoRank : number_of(worker)));
    return false;
  }
  if (!generator_) return true;
  for (const GroupAssignment& each : generator_->assignments()) {
    deliver(number_of(each.to), {.kind = GroupMessage::Kind::assignment,
                                 .answers = each.answers,
                                 .group = each.group,
                                 .members = {each.members.begin(), each.members.end()}});
  }
  return failure_.ok();
}

void GroupTerm::deliver(Rank to, GroupMessage message) {
  if (to != host_->rank()) return host_->send_mail(to, encode(message));
  inbox_.push_back(std::move(message));
}

void GroupTerm::tell_over() {
  if (std::exchange(is_over_, true)) return;
  for (Rank to = 0; to < host_->size(); ++to) deliver(to, {.kind = GroupMessage::Kind::over});
}

void GroupTerm::look() {
  next_look_ns_ = now_ns_ + kLookNs;
  if (generates()) tell_going_on();
  check_departures();
  if (is_waiting_ && failure_.ok()) check_deadline();
}

// Those that wait for the end hear that others still train, four times in their deadline.
void GroupTerm::tell_going_on() {
  if (is_over_ || heard_ns_ <= told_ns_) return;
  if (now_ns_ - told_ns_ < host_->deadline_ms() * kNsPerMs / 4) return;
  told_ns_ = now_ns_;
  for (std::size_t number = 1; number < has_left_.size(); ++number) {
    if (has_left_[number])
      deliver(static_cast<Rank>(number), {.kind = GroupMessage::Kind::going_on});
  }
}

void GroupTerm::check_departures() {
  const Rank gone = find_departure();
  if (gone == kNoRank) {
    departures_ = 0;
    return;
  }
  next_look_ns_ = now_ns_ + kNsPerMs;
  if (++departures_ < kLooksAtDeparture) return;
  host_->fail(Status(Code::peer_left,
                     fmt::format("{}: rank {} closed its context without end()", options_.title,
                                 options_.ranks[static_cast<std::size_t>(gone)]),
                     gone));
}

// The generator needs all workers, and a worker that waits needs the generator.
Rank GroupTerm::find_departure() {
  if (!generates()) return is_waiting_ && host_->has_left(0) ? 0 : kNoRank;
  if (is_over_) return kNoRank;
  for (Rank rank = 1; rank < host_->size(); ++rank)
    if (host_->has_left(rank)) return rank;
  return kNoRank;
}

void GroupTerm::check_deadline() {
  const std::int64_t since =
      generates() && leaves_ ? std::max(heard_ns_, waits_since_ns_) : waits_since_ns_;
  if (now_ns_ - since < host_->deadline_ms() * kNsPerMs) return;
  host_->fail(
      Status(Code::timed_out,
             fmt::format("{}: rank {} waited {} ms (WEFT_DEADLINE_MS) for {}", options_.title,
                         options_.ranks[static_cast<std::size_t>(host_->rank())],
                         host_->deadline_ms(), waited_for())));
}

std::string GroupTerm::waited_for() const {
  if (!generates()) {
    return fmt::format("the generator of groups at rank {} to {}", options_.ranks.front(),
                       leaves_ ? "say that all have left" : "assign a group");
  }
  std::vector<Rank> silent;
  for (std::size_t number = 0; number < has_left_.size(); ++number) {
    const bool is_there =
        reports_.empty() || generator_ ? bool{has_left_[number]} : reports_[number].has_value();
    if (!is_there) silent.push_back(options_.ranks[number]);
  }
  const std::string_view what = !generator_ ? "report to it" : leaves_ ? "leave" : "end a group";
  return fmt::format("ranks {} to {}", fmt::join(silent, ", "), what);
}

}  // namespace weft
