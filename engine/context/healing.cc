// healing: calls, and what becomes of them when a rank dies.
#include "engine/context/healing.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "engine/context/healing_call.h"

namespace weft {
namespace {

// Up to so many ranks the spectral gap takes a few milliseconds.
constexpr int kMostForGap = 64;
// With so many calls in flight, those that have ended are looked for: nobody may wait for them.
constexpr std::size_t kManyInFlight = 16;

}  // namespace

namespace {

// A rank that has come back is alone in its core.
Config seen_by_user(const Context::Core& core) {
  Config config = core.config();
  const Store& store = core.rank_map().events().store();
  if (core.rank_map().is_outside()) {
    config.rank = store.rank();
    config.size = store.size();
  }
  return config;
}

}  // namespace

Context::Healing::Healing(std::shared_ptr<Core> first)
    : first_(std::move(first)),
      config_(seen_by_user(*first_)),
      present_(std::make_shared<const Survivors>(Survivors{ranks_of_size(config_.size), first_})),
      numbers_(present_->ranks),
      given_(*exponential_graph(config_.size)),
      graph_(std::make_shared<const Graph>(given_)),
      is_outside_(first_->rank_map().is_outside()),
      needs_state_(is_outside_.load()) {
  if (!is_outside_) return;
  present_ = std::make_shared<const Survivors>(Survivors{{config_.rank}, first_});
  number_ranks();
}

void Context::Healing::number_ranks() {
  std::ranges::fill(numbers_, kNoRank);
  for (std::size_t number = 0; number < present_->ranks.size(); ++number)
    numbers_[static_cast<std::size_t>(present_->ranks[number])] = static_cast<Rank>(number);
}

Context::Healing::~Healing() {
  close();
}

// Callbacks that run meanwhile may want the mutex.
void Context::Healing::close() {
  std::vector<Present> all;
  {
    Lock lock(mutex_);
    wait_until_healed(lock);
    if (failure_.ok()) failure_ = Status(Code::closed, "the context was closed");
    all.swap(failed_);
    all.push_back(present_);
  }
  for (const Present& each : all) each->core->close();
  first_->close();
  const Lock lock(mutex_);
  forget_ended();
  for (const std::shared_ptr<Call>& call : in_flight_) call->finish(failure_);
  in_flight_.clear();
}

std::shared_ptr<Context::Core> Context::Healing::core() {
  const Lock lock(mutex_);
  return present_->core;
}

std::vector<Rank> Context::Healing::members() {
  const Lock lock(mutex_);
  return present_->ranks;
}

const Graph& Context::Healing::graph() {
  const Lock lock(mutex_);
  return *graph_;
}

Rank Context::Healing::number_of(Rank rank) const {
  const bool is_rank = rank >= 0 && rank < std::ssize(numbers_);
  return is_rank ? numbers_[static_cast<std::size_t>(rank)] : rank;
}

void Context::Healing::wait_until_healed(Lock& lock) {
  changed_.wait(lock, [this] { return !is_healing_; });
}

// The next call of this rank. It has not begun.
std::shared_ptr<Context::Healing::Call> Context::Healing::new_call(const Request& request) {
  const bool is_counted = !is_of_some_ranks(request.collective);
  auto call =
      std::make_shared<Call>(shared_from_this(), request, is_counted ? calls_++ : kNotCounted);
  call->save();
  return call;
}

// As long as nobody dies, this is a call of the core and two turns of the mutex.
Status Context::Healing::run(const Request& request) {
  Present where;
  return run(request, where);
}

Status Context::Healing::run(const Request& request, Present& where) {
  std::shared_ptr<Call> call;
  Present in;
  Translated here;
  {
    Lock lock(mutex_);
    wait_until_healed(lock);
    WEFT_RETURN_IF_ERROR(failure_);
    WEFT_RETURN_IF_ERROR(check_inside(name(request.collective)));
    call = new_call(request);
    Status status = translate(request, here);
    if (status.ok() && call->index != kNotCounted && call->index < resumed_at_)
      status = rest(request);
    else if (status.ok())
      in = call->in = present_;
    if (in == nullptr) {
      if (!failed_.empty()) where = failed_.back();
      end(*call, std::move(status));
      return call->status;
    }
    ++blocking_;
  }
  const Status status = death_behind(*in->core, in->core->run(here.request));
  {
    const Lock lock(mutex_);
    --blocking_;
    call->status = status;
    if (is_gone(status)) {
      in_flight_.push_back(call);
      std::ranges::stable_sort(in_flight_, {}, [](const auto& each) { return each->index; });
    } else if (call->index != kNotCounted) {
      done_ = std::max(done_, call->index + 1);
    }
    changed_.notify_all();
  }
  if (!is_gone(status)) settle(*call, in, status);
  const Status ended = is_gone(status) ? finish(*call) : call->status;
  where = call->ended_in;
  return ended;
}

Result<Handle> Context::Healing::start(const Request& request) {
  std::shared_ptr<Call> call;
  {
    Lock lock(mutex_);
    wait_until_healed(lock);
    WEFT_RETURN_IF_ERROR(failure_);
    WEFT_RETURN_IF_ERROR(check_inside(name(request.collective)));
    if (in_flight_.size() >= kManyInFlight) forget_ended();
    call = new_call(request);
    in_flight_.push_back(call);
    begin_again(*call);
    // A wrong argument is an error of this call, on every rank.
    if (call->is_over && call->status.code() == Code::invalid_argument) return call->status;
  }
  return Handle(std::make_shared<Operation>(std::shared_ptr<Outcome>(std::move(call))));
}

Result<std::optional<Handle>> Context::Healing::run_for(const Request& request,
                                                        std::int64_t patience_ns) {
  WEFT_ASSIGN(Handle handle, start(request));
  if (!handle.wait_for(patience_ns)) return std::optional<Handle>(std::move(handle));
  WEFT_RETURN_IF_ERROR(handle.wait());
  return std::optional<Handle>();
}

Status Context::Healing::finish(Call& call) {
  do {
    Handle handle;
    {
      Lock lock(mutex_);
      wait_until_healed(lock);
      if (call.is_over) return call.status;
      handle = call.handle;
    }
    if (!handle.is_empty()) (void)handle.wait();
  } while (!go_on(call));
  const Lock lock(mutex_);
  return call.status;
}

bool Context::Healing::go_on(Call& call) {
  Present in;
  Status status;
  {
    Lock lock(mutex_);
    if (call.is_over) return true;
    if (is_healing_) return false;
    in = call.in;
    if (!call.handle.is_empty() && !call.handle.test()) return false;  // it has begun again
    status = call.handle.is_empty() ? call.status : call.handle.wait();
  }
  status = death_behind(*in->core, status);
  if (is_gone(status)) {
    const Status healed = heal(in, status);
    const Lock lock(mutex_);
    if (!healed.ok() && !call.is_over) end(call, healed);
    return call.is_over;
  }
  settle(call, in, status);
  return true;
}

// The call has ended in that core.
void Context::Healing::settle(Call& call, const Present& in, const Status& status) {
  std::vector<Present> ended;
  {
    const Lock lock(mutex_);
    if (call.is_over || call.in != in) return;
    if (status.ok() && in == present_) ended.swap(failed_);
    end(call, in_users_numbers(*in, status));
  }
  for (const Present& each : ended) {
    each->core->close();
    each->core->rank_map().take_back_all();
  }
}

void Context::Healing::end(Call& call, Status status) {
  if (call.ended_in == nullptr) call.ended_in = call.in;
  call.finish(std::move(status));
  if (call.index != kNotCounted) done_ = std::max(done_, call.index + 1);
  std::erase_if(in_flight_, [&](const auto& each) { return each.get() == &call; });
}

Status Context::Healing::in_users_numbers(const Survivors& in, const Status& status) const {
  return in.core == first_ ? status : in_numbers_of(in.ranks, status);
}

// One thread of the process heals. Blocking calls of others end first, because the core has failed.
Status Context::Healing::heal(const Present& failed, const Status& why,
                              std::optional<Entrance> entrance) {
  Lock lock(mutex_);
  wait_until_healed(lock);
  WEFT_RETURN_IF_ERROR(failure_);
  if (present_ != failed) return {};
  is_healing_ = true;
  lock.unlock();
  if (!why.ok()) failed->core->give_up(why);
  lock.lock();
  changed_.wait(lock, [this] { return blocking_ == 0; });
  forget_ended();
  lock.unlock();
  Passage passage{.from = failed, .entrance = std::move(entrance)};
  Regrouping regrouping{.meet = [&](const Survivors& all) { return meet(all, passage); },
                        .look = {}};
  if (first_->rank_map().is_jobs_own()) regrouping.look = [&] { return look(passage); };
  Result<Survivors> left = find_survivors(*first_, config_.rank, *failed, why, regrouping);
  lock.lock();
  if (left.ok()) {
    adopt(*std::move(left), passage);
  } else {
    failure_ = left.status();
  }
  is_healing_ = false;
  changed_.notify_all();
  return failure_;
}

// Ends the calls that have ended well in their core.
void Context::Healing::forget_ended() {
  const auto has_ended = [](const std::shared_ptr<Call>& call) {
    return !call->handle.is_empty() && call->handle.test() && call->handle.wait().ok();
  };
  for (const std::shared_ptr<Call>& call : std::vector(in_flight_))
    if (has_ended(call)) end(*call, {});
}

void Context::Healing::adopt(Survivors left, const Passage& passage) {
  const std::shared_ptr<const Graph> before = graph_;
  failed_.push_back(std::exchange(present_, std::make_shared<const Survivors>(std::move(left))));
  const std::vector<Rank> were = failed_.back()->ranks;
  number_ranks();
  resumed_at_ = passage.resumed_at;
  if (passage.entrance) {
    done_ = std::max(done_, passage.entrance->resumed_at);
    for (const Newcomer& each : passage.entrance->newcomers)
      if (is_present(each.who.rank)) let_in_.push_back(each.who.rank);
  }
  const bool was_outside = is_outside_.exchange(false);
  if (was_outside) calls_ = passage.entrance->resumed_at;
  graphs_before_.push_back(before);
  if (const Status healed = set_healed_graph(given_, weighted_); !healed.ok()) {
    failure_ = healed;
    return;
  }
  if (!was_outside) tell(were, *before);
  for (const std::shared_ptr<Call>& call : std::vector(in_flight_)) {
    call->restore();
    begin_again(*call);
  }
}

// Starts the call in the present core, or ends it by rule if the others are ahead of it.
void Context::Healing::begin_again(Call& call) {
  const Request& request = call.request.get();
  const bool is_new = call.in == nullptr;
  call.handle = Handle();
  const Present before = std::exchange(call.in, present_);
  const bool is_over = call.index != kNotCounted && call.index < resumed_at_;
  if (is_over) call.ended_in = before;
  Translated here;
  if (Status status = translate(request, here); !status.ok()) return end(call, std::move(status));
  if (const std::string_view why = call.why_not_again(); !is_new && !why.empty()) {
    return end(call, Status(Code::peer_died, fmt::format("{}: {}; the context goes on",
                                                         name(request.collective), why)));
  }
  if (is_over) return end(call, rest(request));
  Result<Handle> handle = present_->core->start(here.request);
  if (handle.ok()) {
    call.handle = *handle;
  } else if (is_gone(handle.status())) {
    call.status = handle.status();
  } else {
    end(call, in_users_numbers(*present_, handle.status()));
  }
}

Status Context::Healing::set_graph(const Graph& graph, bool weighted) {
  if (graph.size() != config_.size) {
    return Status(Code::invalid_argument, fmt::format("set_graph: {} has {} ranks, the job has {}",
                                                      graph.name(), graph.size(), config_.size));
  }
  finish_all();
  Lock lock(mutex_);
  wait_until_healed(lock);
  WEFT_RETURN_IF_ERROR(failure_);
  WEFT_RETURN_IF_ERROR(set_healed_graph(graph, weighted));
  given_ = graph;
  weighted_ = weighted;
  return {};
}

Status Context::Healing::set_healed_graph(const Graph& given, bool weighted) {
  if (is_whole()) {
    WEFT_RETURN_IF_ERROR(present_->core->set_graph(given, weighted));
    graph_ = std::make_shared<const Graph>(given);
    return {};
  }
  Graph left = given;
  if (!weighted) {
    WEFT_ASSIGN(left, reweighted(given, WeightRule::uniform));
  }
  std::vector<Rank> gone;
  for (std::size_t rank = 0; rank < numbers_.size(); ++rank)
    if (!is_present(static_cast<Rank>(rank))) gone.push_back(static_cast<Rank>(rank));
  WEFT_ASSIGN(left, without(left, gone));
  WEFT_ASSIGN(const Graph here, among(left, present_->ranks));
  WEFT_RETURN_IF_ERROR(present_->core->set_graph(here, true));
  graph_ = std::make_shared<const Graph>(left);
  return {};
}

// The first of those that are there says it to all.
void Context::Healing::tell(const std::vector<Rank>& before, const Graph& graph_before) const {
  std::vector<Rank> gone, back;
  std::ranges::set_difference(before, present_->ranks, std::back_inserter(gone));
  std::ranges::set_difference(present_->ranks, before, std::back_inserter(back));
  const auto first = std::ranges::find_if(before, [this](Rank rank) { return is_present(rank); });
  const bool is_first = *first == config_.rank;
  const LogScope scope({config_.log, config_.rank});
  const auto list = [](const std::vector<Rank>& ranks, std::string_view what) {
    if (ranks.empty()) return std::string();
    return fmt::format("rank{} {} {} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "),
                       ranks.size() == 1 ? "is" : "are", what);
  };
  std::string text =
      fmt::format("{}{}{}{}: the context goes on with {} of {} ranks", list(gone, "gone"),
                  gone.empty() || back.empty() ? "" : ", ", list(back, "back"),
                  gone.empty() && back.empty() ? "a rank died and is back" : "",
                  present_->ranks.size(), numbers_.size());
  if (is_first && numbers_.size() <= kMostForGap) {
    const Result<Graph> old = among(graph_before, before), now = among(*graph_, present_->ranks);
    if (old.ok() && now.ok()) {
      text += fmt::format("; spectral gap {:.3f}, before {:.3f}", mixing(*now).spectral_gap,
                          mixing(*old).spectral_gap);
    }
  }
  log(is_first ? LogLevel::warning : LogLevel::info, text);
}

}  // namespace weft
