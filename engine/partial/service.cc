// service: see the header.
#include "engine/partial/service.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <weft/macros.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "engine/membership/membership.h"

namespace weft {
namespace {

constexpr std::int64_t kAwaitMs = 20;  // between two looks at who has died

}  // namespace

Result<std::unique_ptr<GroupService>> GroupService::open(std::unique_ptr<GroupHost> host,
                                                         GroupServiceOptions options) {
  WEFT_ASSIGN(std::vector<int> machines, host->machines());
  std::unique_ptr<GroupService> made(new GroupService(std::move(options), std::move(machines)));
  const Output& model = made->options_.model;
  WEFT_ASSIGN(made->mean_,
              Memory::allocate(std::max<std::size_t>(1, model.count * size_of(model.type))));
  std::vector<Rank> all(static_cast<std::size_t>(host->size()));
  std::iota(all.begin(), all.end(), 0);
  WEFT_RETURN_IF_ERROR(made->begin_term(std::move(host), std::move(all)));
  if (made->is_static()) WEFT_RETURN_IF_ERROR(made->meet());
  return made;
}

Status GroupService::begin_term(std::unique_ptr<GroupHost> host, std::vector<Rank> ranks) {
  const bool is_first = term_ == nullptr;
  TermOptions options{.groups = {.size = static_cast<int>(machines_.size()),
                                 .law = options_.law,
                                 .machine = machines_,
                                 .seed = options_.seed},
                      .ranks = std::move(ranks),
                      .title = options_.title};
  auto term = std::make_unique<GroupTerm>(std::move(host), std::move(options));
  if (!is_first) failed_.push_back(std::move(term_));
  term_ = std::move(term);
  if (!is_static()) return term_->begin(is_first);
  schedule();
  return {};
}

// The schedule counts ranks machine by machine.
void GroupService::schedule() {
  const auto machine_of = [&](Rank rank) { return machines_[static_cast<std::size_t>(rank)]; };
  ranks_ = term_->ranks();
  std::ranges::stable_sort(ranks_, {}, machine_of);
  locals_.clear();
  for (std::size_t place = 0; place < ranks_.size(); ++place) {
    const bool is_first = place == 0 || machine_of(ranks_[place]) != machine_of(ranks_[place - 1]);
    if (is_first) locals_.push_back(0);
    ++locals_.back();
  }
  place_ = static_cast<int>(std::ranges::find(ranks_, self()) - ranks_.begin());
}

void GroupService::say(const GroupMessage& message) {
  if (is_static()) return;
  ++usage_.messages_sent;
  term_->send(message);
}

Status GroupService::ask() {
  if (has_ended_) return Status(Code::closed, options_.title + ": has ended");
  if (has_asked_) return {};
  has_asked_ = true;
  ++requests_;
  say({.asks = true, .computed_us = computed_us_});
  return {};
}

Result<std::vector<Rank>> GroupService::average(bool asks) {
  if (computes_since_ns_ != 0) {
    computed_us_ = static_cast<std::uint64_t>(
        std::max<std::int64_t>(1, (now_ns() - computes_since_ns_) / 1000));
  }
  WEFT_RETURN_IF_ERROR(ask());
  while (true) {
    WEFT_ASSIGN(const GroupMessage group, next(false));
    WEFT_ASSIGN(const bool has_run, run(group));
    if (!has_run) continue;
    finish(group, asks && group.answers);
    if (!group.answers) continue;
    computes_since_ns_ = now_ns();
    return group.members;
  }
}

Result<GroupMessage> GroupService::next(bool leaves) {
  if (is_static()) return next_static();
  while (true) {
    Result<GroupMessage> message = term_->next(leaves);
    if (!message.ok()) {
      WEFT_RETURN_IF_ERROR(recover(message.status()));
      continue;
    }
    ++usage_.messages_received;
    failed_.clear();
    if (message->kind == GroupMessage::Kind::assignment) {
      newest_ = *message;
      newest_.is_done = false;
    }
    return message;
  }
}

Result<GroupMessage> GroupService::next_static() {
  std::vector<Rank> group = {self()};
  if (iteration() >= resumed_at_) {
    WEFT_ASSIGN(group, scheduled(iteration()));
  }
  return GroupMessage{.kind = GroupMessage::Kind::assignment,
                      .answers = true,
                      .group = requests_,
                      .members = std::move(group)};
}

Result<std::vector<Rank>> GroupService::scheduled(std::uint64_t iteration) const {
  WEFT_ASSIGN(std::vector<Rank> group, static_group(iteration, locals_, place_));
  for (Rank& each : group) each = ranks_[static_cast<std::size_t>(each)];
  std::ranges::sort(group);
  return group;
}

// Over a network it is the connection to a rank that shows when the rank leaves. So all that will meet
// are connected from the beginning.
Status GroupService::meet() {
  const double own = 0;
  double mean = 0;
  for (std::uint64_t iteration = 0; iteration < kStaticPeriod; ++iteration) {
    WEFT_ASSIGN(const std::vector<Rank> group, scheduled(iteration));
    if (group.size() > 1) {
      WEFT_RETURN_IF_ERROR(average_of(group, {&own, 1, DataType::f64}, {&mean, 1, DataType::f64}));
    }
  }
  return {};
}

Status GroupService::average_of(const std::vector<Rank>& group, const Input& x, const Output& y) {
  std::vector<Rank> numbers;
  for (const Rank rank : group) numbers.push_back(term_->number_of(rank));
  return term_->host().run(
      Request{.collective = Collective::group_average, .input = x, .output = y, .group = numbers});
}

// Whether the group has run. If not, a member is gone, and another assignment follows.
Result<bool> GroupService::run(const GroupMessage& group) {
  if (group.members.size() < 2) return true;
  const Output& model = options_.model;
  const Status status = average_of(group.members, {model.data, model.count, model.type},
                                   {mean_.data(), model.count, model.type});
  if (!status.ok()) {
    WEFT_RETURN_IF_ERROR(recover(status));
    return false;
  }
  if (model.count != 0) std::memcpy(model.data, mean_.data(), model.count * size_of(model.type));
  ++usage_.groups;
  return true;
}

void GroupService::finish(const GroupMessage& group, bool asks) {
  newest_.is_done = true;
  if (group.answers) has_asked_ = asks;
  if (asks) ++requests_;
  say({.asks = asks, .group = group.group, .computed_us = computed_us_});
}

Status GroupService::recover(Status why) {
  while (true) {
    std::vector<Rank> left = survivors(why);
    if (left.size() == term_->ranks().size() || !std::ranges::binary_search(left, self()))
      return in_first_numbers(why);  // nobody is gone, or the others take this rank for gone
    WEFT_ASSIGN(std::unique_ptr<GroupHost> host, term_->host().among(left));
    WEFT_RETURN_IF_ERROR(begin_term(std::move(host), std::move(left)));
    ++usage_.successions;
    why = is_static() ? resume() : await(0);
    if (!why.ok()) continue;
    report();
    return {};
  }
}

// The schedule goes on with the iteration of the rank that is ahead. Who is behind rests until then.
Status GroupService::resume() {
  for (Rank number = 0; number < term_->host().size(); ++number)
    WEFT_RETURN_IF_ERROR(await(number));
  const std::uint64_t own = iteration();
  WEFT_RETURN_IF_ERROR(term_->host().run(Request{.collective = Collective::allreduce,
                                                 .input = {&own, 1, DataType::u64},
                                                 .output = {&resumed_at_, 1, DataType::u64},
                                                 .op = ReduceOp::max}));
  failed_.clear();
  return meet();
}

// Ranks of the first term.
std::vector<Rank> GroupService::survivors(const Status& why) {
  std::vector<Rank> left;
  for (const Rank rank : term_->ranks()) {
    const Rank number = term_->number_of(rank);
    const bool is_named = is_gone(why) && why.rank() == number;
    if (!is_named && !is_known_gone(number)) left.push_back(rank);
  }
  return left;
}

// A rank that closes its context after the end of a schedule is gone as well.
bool GroupService::is_known_gone(Rank number) {
  GroupHost& host = term_->host();
  if (host.has_died(number)) return true;
  if (!is_static()) return false;
  const std::shared_ptr<Lane> lane = host.shared_lane();
  const Lane::Hold hold(*lane);
  return host.has_left(number);
}

// The rank may compute for long before it hears of the death, and may die meanwhile.
Status GroupService::await(Rank number) {
  if (number == term_->host().rank()) return {};
  const Deadline deadline = Deadline::after_ms(term_->host().deadline_ms());
  while (true) {
    const Status status = term_->host().await(number, kAwaitMs);
    if (status.code() != Code::timed_out) return status;
    if (deadline.passed()) {
      return Status(
          Code::timed_out,
          fmt::format("{}: rank {} waited {} ms (WEFT_DEADLINE_MS) for rank {} to go on "
                      "without a rank that is gone",
                      options_.title, term_->host().rank(), term_->host().deadline_ms(), number),
          number);
    }
    WEFT_RETURN_IF_ERROR(term_->failure());
  }
}

void GroupService::report() {
  GroupMessage message = newest_;
  message.kind = GroupMessage::Kind::report;
  message.asks = has_asked_;
  message.leaves = leaves_;
  message.requests = requests_;
  message.computed_us = computed_us_;
  say(message);
}

// An error of a later term has the numbers of that term's context.
Status GroupService::in_first_numbers(const Status& why) const {
  const std::vector<Rank>& ranks = term_->ranks();
  if (ranks.size() == machines_.size() || why.rank() == kNoRank) return why;
  return Status(why.code(),
                fmt::format("{} (ranks are counted in {})", why.text(), fmt::join(ranks, ", ")),
                ranks[static_cast<std::size_t>(why.rank())]);
}

Status GroupService::end() {
  if (has_ended_) return {};
  if (is_static()) return end_static();
  if (!std::exchange(leaves_, true)) say({.leaves = true});
  bool is_over = false;
  while (true) {
    const Result<GroupMessage> message = next(true);
    if (!message.ok()) {
      if (!is_over) return message.status();
      break;
    }
    if (message->kind == GroupMessage::Kind::over) {
      is_over = true;
      const Status left = term_->host().leave();
      if (left.ok() || !is_gone(left)) break;
      // Others may have missed the end.
      if (!recover(left).ok()) break;
      continue;
    }
    WEFT_ASSIGN(const bool has_run, run(*message));
    if (has_run) finish(*message, false);
  }
  has_ended_ = true;
  return {};
}

// Ranks that are behind may need this one to resume. Those that are there no more have ended, too.
Status GroupService::end_static() {
  Status left = term_->host().leave();
  while (!left.ok() && recover(left).ok()) left = term_->host().leave();
  has_ended_ = left.ok() || is_gone(left);
  return has_ended_ ? Status() : in_first_numbers(left);
}

}  // namespace weft
