// negotiator: see the header.
#include "scheduler/negotiate/negotiator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft {

using negotiate::Kind;
using negotiate::Reader;
using negotiate::Told;
using negotiate::Writer;

Negotiator::Negotiator(const NegotiateOptions& options)
    : options_(options),
      steps_(negotiate::exchange_steps(options.rank, options.size)),
      children_(negotiate::children_of(options.rank, options.size)),
      cache_(options.cache_capacity),
      coordinator_(options.size),
      stall_clock_(options.stall_ns) {}

Status Negotiator::submit(NamedRequest request, std::int64_t now) {
  if (!failure_.ok()) return failure_;
  const auto refuse = [](std::string text) {
    return Status(Code::invalid_argument, std::move(text));
  };
  if (request.name.empty()) return refuse("an operation by name needs a name");
  if (request.name.size() > kMostNameBytes)
    return refuse(
        fmt::format("a name of {} bytes is longer than {}", request.name.size(), kMostNameBytes));
  if (request.tensors.size() > kMostTensors)
    return refuse(fmt::format("{}: {} tensors are more than {}", request.name,
                              request.tensors.size(), kMostTensors));
  if (has_joined())
    return refuse(fmt::format("{}: this rank has joined, and waits for the others", request.name));
  const std::string name = request.name;
  const auto [at, is_new] = pending_.try_emplace(name);
  if (!is_new) return refuse(fmt::format("{}: an operation of this name is pending", name));
  at->second = {std::move(request), now, kNoPlace, submissions_++};
  file(name, at->second);
  note_news(now);
  stall_check_ns_ = std::min(stall_check_ns_, now + options_.stall_ns);
  return {};
}

Status Negotiator::join(std::int64_t now) {
  if (!failure_.ok()) return failure_;
  if (has_joined()) return Status(Code::invalid_argument, "this rank has joined already");
  if (!pending_.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("join: {} is pending; wait for it first", pending_.begin()->first));
  }
  joins_ = true;
  note_news(now);
  return {};
}

void Negotiator::note_news(std::int64_t now) {
  if (!std::exchange(has_news_, true)) news_ns_ = now;
}

// Puts a pending name where the next contribution finds it: by its bit, or to be told.
void Negotiator::file(const std::string& name, Pending& pending) {
  const auto place = cache_.find(name);
  if (place && cache_.at(*place) == pending.request) {
    pending.place = *place;
    bits_.set(*place);
  } else {
    pending.place = kNoPlace;
    untold_.push_back(name);
  }
}

void Negotiator::receive(Rank from, std::span<const std::byte> message, std::int64_t now) {
  if (!failure_.ok()) return;
  now_ = now;
  Reader reader(message);
  const std::uint64_t kind = reader.number(static_cast<std::uint64_t>(Kind::call));
  const std::uint64_t cycle = reader.number();
  // A call that crossed the contribution for which it asks is late.
  const bool is_call = kind == static_cast<std::uint64_t>(Kind::call);
  const bool has_begun = cycle < cycle_ || (cycle == cycle_ && phase_ != Phase::idle);
  if (is_call && reader.is_good() && has_begun) return;
  // A rank is at most one cycle ahead, and sends at most one message of a kind in a cycle.
  const bool is_near = cycle == cycle_ || cycle == cycle_ + 1;
  const bool is_twice = std::ranges::any_of(arrived_, [&](const negotiate::Arrived& other) {
    return other.cycle == cycle && other.from == from &&
           static_cast<std::uint64_t>(other.kind) == kind;
  });
  if (reader.is_broken() || kind == 0 || !is_near || is_twice || from < 0 || from >= options_.size)
    return malformed(from);
  const auto body = reader.rest();
  arrived_.push_back({cycle, static_cast<Kind>(kind), from, {body.begin(), body.end()}});
  if (phase_ != Phase::idle) run();
}

void Negotiator::malformed(Rank from) {
  failure_ = Status(Code::mismatch,
                    fmt::format("rank {} sent a control message that cannot be read", from), from);
}

bool Negotiator::has_arrived() const {
  return std::ranges::any_of(
      arrived_, [this](const negotiate::Arrived& each) { return each.cycle == cycle_; });
}

bool Negotiator::take(Kind kind, Rank from, std::vector<std::byte>& body) {
  const auto found = std::ranges::find_if(arrived_, [&](const negotiate::Arrived& each) {
    return each.cycle == cycle_ && each.kind == kind && each.from == from;
  });
  if (found == arrived_.end()) return false;
  body = std::move(found->body);
  arrived_.erase(found);
  return true;
}

void Negotiator::send(Rank to, Kind kind, Writer body) {
  Writer message;
  message.number(static_cast<std::uint64_t>(kind)).number(cycle_).bytes(body.take());
  std::vector<std::byte> bytes = message.take();
  ++counts_.messages;
  counts_.bytes += bytes.size();
  if (kind == Kind::requests || kind == Kind::decisions) ++counts_.coordinator_messages;
  messages_.push_back({to, std::move(bytes)});
}

std::int64_t Negotiator::next_ns() const {
  if (!failure_.ok()) return kNever;
  std::int64_t next = stall_check_ns_;
  if (phase_ == Phase::idle && has_news_) next = std::min(next, news_ns_ + options_.gather_ns);
  return next;
}

void Negotiator::step(std::int64_t now) {
  if (!failure_.ok()) return;
  now_ = now;
  if (now >= stall_check_ns_) inquire();
  while (failure_.ok() && phase_ == Phase::idle) {
    const bool is_due = has_news_ && now >= news_ns_ + options_.gather_ns;
    if (!is_due && !has_arrived()) return;
    begin();
    run();
  }
}

// Looks for a request that has been pending too long, and for the time to look again.
void Negotiator::inquire() {
  const std::int64_t oldest = oldest_ns();
  stall_check_ns_ = oldest == kNever ? kNever : stall_clock_.due_ns(oldest);
  if (stall_check_ns_ > now_) return;
  stall_check_ns_ = now_ + options_.stall_ns;
  inquires_ = true;
  note_news(now_ - options_.gather_ns);
}

std::int64_t Negotiator::oldest_ns() const {
  std::int64_t oldest = kNever;
  for (const auto& [name, pending] : pending_) oldest = std::min(oldest, pending.since_ns);
  return oldest;
}

std::vector<Rank> Negotiator::awaited() const {
  std::vector<Rank> ranks;
  switch (phase_) {
    case Phase::idle:
      if (pending_.empty() && !has_joined()) break;
      for (Rank rank = 0; rank < options_.size; ++rank)
        if (rank != options_.rank) ranks.push_back(rank);
      break;
    case Phase::exchange:
      ranks.push_back(steps_[step_].peer);
      break;
    case Phase::requests:
      ranks.assign(children_.begin() + static_cast<std::ptrdiff_t>(children_heard_),
                   children_.end());
      break;
    case Phase::decisions:
      ranks.push_back(negotiate::parent_of(options_.rank));
      break;
  }
  return ranks;
}

void Negotiator::begin() {
  ++counts_.cycles;
  phase_ = Phase::exchange;
  step_ = 0;
  has_sent_ = false;
  has_news_ = false;
  std::erase_if(arrived_, [this](const negotiate::Arrived& each) {
    return each.kind == Kind::call && each.cycle == cycle_;
  });
  known_ = {};
  known_.has_new = !untold_.empty() || joins_;
  known_.inquires = inquires_;
  known_.told = std::exchange(tells_, 0);
  known_.pending = has_joined_ ? negotiate::Bits(cache_.places(), true) : bits_;
  for (const std::string& name : untold_) {
    const auto place = cache_.find(name);
    if (!place) continue;
    if (known_.invalid.size() == 0) known_.invalid = negotiate::Bits(cache_.places());
    known_.invalid.set(*place);
  }
}

void Negotiator::run() {
  while (failure_.ok() && phase_ != Phase::idle && advance()) {
  }
}

bool Negotiator::advance() {
  switch (phase_) {
    case Phase::idle:
      return false;
    case Phase::exchange:
      return advance_exchange();
    case Phase::requests:
      return advance_requests();
    case Phase::decisions:
      return advance_decisions();
  }
  return false;
}

bool Negotiator::advance_exchange() {
  if (step_ == steps_.size()) {
    outcome();
    return true;
  }
  const negotiate::Step& step = steps_[step_];
  if (step.sends && !std::exchange(has_sent_, true)) {
    Writer body;
    write(body, known_);
    send(step.peer, Kind::bits, std::move(body));
  }
  if (step.receives) {
    std::vector<std::byte> body;
    if (!take(Kind::bits, step.peer, body)) {
      if (step.calls && !std::exchange(has_sent_, true)) send(step.peer, Kind::call, {});
      return false;
    }
    Reader reader(body);
    const negotiate::Contribution heard = read_contribution(reader, cache_.places());
    if (!reader.is_good()) {
      malformed(step.peer);
      return false;
    }
    if (step.is_outcome) {
      known_ = heard;
    } else {
      known_.merge(heard);
    }
  }
  ++step_;
  has_sent_ = false;
  return true;
}

void Negotiator::outcome() {
  invalidate();
  run_hits();
  if (!known_.has_new && !known_.inquires) return finish();
  phase_ = Phase::requests;
  heard_.assign(1, tell());
  counts_.misses += heard_.front().requests.size();
  tells_join_ = joins_;
  children_heard_ = 0;
}

void Negotiator::invalidate() {
  for (std::size_t place = 0; place < known_.invalid.size(); ++place) {
    if (!known_.invalid.test(place)) continue;
    ++counts_.invalidations;
    if (known_.pending.test(place)) known_.pending.clear(place);
    drop(place);
  }
}

// Removes a name from the cache. If it is pending here, rank 0 has to be told.
void Negotiator::drop(std::size_t place) {
  const std::string name = cache_.at(place).name;
  cache_.erase(place);
  if (!bits_.test(place)) return;
  bits_.clear(place);
  const auto found = pending_.find(name);
  if (found == pending_.end()) return;
  found->second.place = kNoPlace;
  untold_.push_back(name);
  if (!std::exchange(has_news_, true)) news_ns_ = 0;
}

void Negotiator::run_hits() {
  std::vector<std::size_t> hits;
  for (std::size_t place = 0; place < known_.pending.size(); ++place) {
    if (known_.pending.test(place) && cache_.has(place)) hits.push_back(place);
  }
  std::ranges::stable_sort(hits, std::greater<>(),
                           [this](std::size_t place) { return cache_.at(place).priority; });
  for (const std::size_t place : hits) {
    ++counts_.hits;
    cache_.use(place);
    bits_.clear(place);
    Decision decision;
    decision.request = cache_.at(place);
    pending_.erase(decision.request.name);
    decision.status = negotiate::check_joined(decision.request, joined_);
    if (!decision.status.ok()) decision.kind = Decision::Kind::fail;
    decisions_.push_back(std::move(decision));
  }
}

// What this rank has to tell rank 0. A name that the cache has with another shape was submitted
// after this rank contributed: the next cycle invalidates it.
Told Negotiator::tell() {
  Told told;
  told.rank = options_.rank;
  told.joins = joins_;
  std::erase_if(untold_, [&](const std::string& name) {
    if (cache_.find(name)) return false;
    const auto found = pending_.find(name);  // it may have been decided since
    if (found != pending_.end()) told.requests.push_back(found->second.request);
    return true;
  });
  if (!known_.inquires) return told;
  std::vector<const Pending*> oldest;
  for (const auto& [name, pending] : pending_) oldest.push_back(&pending);
  std::ranges::sort(oldest, {}, &Pending::order);
  for (const Pending* each : oldest) {
    if (told.pending.size() == negotiate::kMostTold) break;
    told.pending.push_back(each->request.name);
  }
  return told;
}

bool Negotiator::advance_requests() {
  while (children_heard_ < children_.size()) {
    const Rank child = children_[children_heard_];
    std::vector<std::byte> body;
    if (!take(Kind::requests, child, body)) return false;
    Reader reader(body);
    const std::size_t entries = reader.length();
    for (std::size_t i = 0; i < entries && !reader.is_broken(); ++i)
      heard_.push_back(read_told(reader, options_.size));
    if (!reader.is_good()) {
      malformed(child);
      return false;
    }
    ++children_heard_;
  }
  phase_ = Phase::decisions;
  if (options_.rank == 0) return true;
  Writer body;
  body.number(heard_.size());
  for (const Told& each : heard_) write(body, each);
  send(negotiate::parent_of(options_.rank), Kind::requests, std::move(body));
  return true;
}

bool Negotiator::advance_decisions() {
  std::vector<std::byte> body;
  if (options_.rank == 0) {
    std::ranges::sort(heard_, {}, &Told::rank);
    const std::vector<Decision> decided = coordinator_.decide(heard_);
    Writer writer;
    writer.number(static_cast<std::uint64_t>(coordinator_.joined())).number(decided.size());
    for (const Decision& each : decided) write(writer, each);
    body = writer.take();
  } else if (!take(Kind::decisions, negotiate::parent_of(options_.rank), body)) {
    return false;
  }
  Reader reader(body);
  const auto joined = static_cast<int>(reader.number(static_cast<std::uint64_t>(options_.size)));
  std::vector<Decision> decided;
  const std::size_t count = reader.length();
  for (std::size_t i = 0; i < count && !reader.is_broken(); ++i)
    decided.push_back(read_decision(reader, options_.size));
  if (!reader.is_good()) {
    malformed(negotiate::parent_of(options_.rank));
    return false;
  }
  for (const Rank child : children_) {
    Writer copy;
    copy.bytes(body);
    send(child, Kind::decisions, std::move(copy));
  }
  // What waited for a rank that has joined since need not wait any more.
  if (joined > joined_ && !pending_.empty() && !std::exchange(has_news_, true)) news_ns_ = 0;
  joined_ = joined;
  if (tells_join_) {
    joins_ = false;
    has_joined_ = true;
  }
  apply(std::move(decided));
  finish();
  return true;
}

void Negotiator::apply(std::vector<Decision> decisions) {
  for (Decision& decision : decisions) {
    switch (decision.kind) {
      case Decision::Kind::run:
        pending_.erase(decision.request.name);
        cache(decision.request);
        break;
      case Decision::Kind::fail:
        pending_.erase(decision.request.name);
        break;
      case Decision::Kind::all_joined:
        has_joined_ = false;
        joined_ = 0;
        break;
      case Decision::Kind::stalled:
        break;
    }
    decisions_.push_back(std::move(decision));
  }
  if (!known_.inquires) return;
  inquires_ = false;
  // Everyone has heard it: nobody asks again before the next time.
  if (const std::int64_t oldest = oldest_ns(); oldest != kNever) stall_clock_.told(oldest, now_);
}

void Negotiator::cache(const NamedRequest& request) {
  if (cache_.capacity() == 0) return;
  if (const auto known = cache_.find(request.name)) drop(*known);
  if (cache_.is_full()) {
    ++counts_.evictions;
    drop(cache_.oldest());
  }
  cache_.insert(request);
  bits_.grow(cache_.places());
}

void Negotiator::finish() {
  phase_ = Phase::idle;
  // What was submitted while the cycle ran may have been decided in it: then nothing is new.
  if (pending_.empty() && !joins_) has_news_ = inquires_ = false;
  ++cycle_;
  heard_.clear();
  if (!decisions_.empty() || known_.told != 0)
    ended_.push_back({known_.told, std::exchange(decisions_, {})});
}

}  // namespace weft
