// tasks: turns, puts, gets and raw transfers.
#include "engine/window/tasks.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "engine/window/window.h"

namespace weft::window {

void Task::keep_window() {
  owner_ = window_.shared_from_this();
}

std::int64_t Task::patience_ns() const {
  if (end_ns_ == 0) return window_.patience_ns();
  return std::max<std::int64_t>(end_ns_ - now_ns(), 0);
}

void Task::begin_anew(CallName call, std::unique_ptr<Locks> locks) {
  call_ = call;
  locks_ = std::move(locks);
  staging_ = {};
  end_ns_ = 0;
  step_ = Step::waits;
  status_ = {};
}

Status Task::named(const Status& status) const {
  return Status(status.code(),
                fmt::format("{}: {}: {}", name(call_), window_.title(), status.text()),
                status.rank());
}

// Keeps the first error.
void Task::note(const Status& status) {
  if (status_.ok() && !status.ok()) status_ = named(status);
}

// A network tells sooner that the path to a rank has failed than other ranks or the Store tell why.
void Task::ask() {
  step_ = Step::asks;
  asks_end_ns_ = status_.ok() || !window_.has_lost_path_to(status_.rank())
                     ? 0
                     : now_ns() + window_.lost_path_patience_ns();
}

bool Task::has_answer() {
  if (asks_end_ns_ == 0) return true;
  const Status alive = window_.check_alive(status_.rank());
  if (!alive.ok()) status_ = named(alive);
  return !alive.ok() || now_ns() >= asks_end_ns_;
}

bool Task::advance() {
  switch (step_) {
    case Step::waits:
      if (!window_.is_turn_of(*this)) return false;
      note(abandoned_.ok() ? window_.check_open() : abandoned_);
      fetch();
      break;
    case Step::fetches:
      if (!have_copies_ended()) return false;
      if (status_.ok()) window_.publish();
      lock();
      break;
    case Step::locks:
      locks_->advance();
      if (locks_->are_held()) {
        note(begin());
        if (!status_.ok()) (void)locks_->release(end_ns_);
        step_ = status_.ok() ? Step::works : Step::unlocks;
      } else if (locks_->are_free()) {
        note(locks_->status());
        step_ = Step::over;
      } else {
        return false;
      }
      break;
    case Step::works: {
      const bool moved = proceed();
      if (!is_done()) return moved;
      note(finish());
      ask();
      [[fallthrough]];
    }
    case Step::asks:
      if (!has_answer()) return false;
      if (locks_ != nullptr) (void)locks_->release(end_ns_);
      store();
      break;
    case Step::stores:
      if (!have_copies_ended()) return false;
      unlock();
      break;
    case Step::unlocks:
      locks_->advance();
      if (!locks_->are_free()) return false;
      note(locks_->status());
      step_ = Step::over;
      break;
    case Step::over:
      return false;
  }
  if (step_ == Step::over) end();
  return true;
}

void Task::end() {
  if (locks_ != nullptr) window_.settle(*locks_);
  window_.end_turn(*this);
}

// The clock is read only where something besides the work is waited for.
void Task::fetch() {
  if (locks_ != nullptr || !staging_.is_empty()) end_ns_ = window_.deadline_ns();
  if (!status_.ok() || staging_.is_empty()) return lock();
  note(staging_.fetch());
  step_ = status_.ok() ? Step::fetches : Step::over;
}

void Task::lock() {
  if (status_.ok() && locks_ != nullptr) note(locks_->acquire(end_ns_));
  if (status_.ok() && locks_ == nullptr) note(begin());
  step_ = !status_.ok() ? Step::over : locks_ != nullptr ? Step::locks : Step::works;
}

void Task::store() {
  if (!staging_.has_stores() || !(status_.ok() || stores_anyway())) return unlock();
  step_ = Step::stores;
  note(staging_.store());
}

void Task::unlock() {
  step_ = locks_ != nullptr ? Step::unlocks : Step::over;
}

bool Task::have_copies_ended() {
  const bool are_over = staging_.is_over();
  if (!are_over && now_ns() < end_ns_) return false;
  note(are_over ? staging_.status() : staging_.too_late());
  return true;
}

void Task::abandon(const Status& why) {
  if (abandoned_.ok()) abandoned_ = why;
  if (step_ == Step::works) give_up(why);
  if (step_ == Step::waits || step_ == Step::works || step_ == Step::over) return;
  // The swaps have ended with the interface; copies end by themselves.
  note(why);
  step_ = Step::over;
  window_.end_turn(*this);
}

void PutTask::prepare(bool accumulates, const Output& x, const WindowPut& how,
                      std::unique_ptr<Locks> locks) {
  begin_anew(accumulates ? CallName::accumulate : CallName::put, std::move(locks));
  accumulates_ = accumulates;
  x_ = x;
  self_weight_ = how.self_weight;
  signal_ = how.signal;
  compression_ = how.compression;
  first_ = {};
}

Status PutTask::begin() {
  SlotWriter::Message message{.p = window_.p_to_send(),
                              .signal = signal_,
                              .compression = compression_,
                              .patience_ns = patience_ns()};
  for (const Target& target : targets_) {
    message.scale = target.weight;
    Status status = window_.check_alive(target.writer->there());
    if (status.ok()) {
      status = accumulates_ ? target.writer->accumulate(x_.data, message)
                            : target.writer->put(x_.data, message);
    }
    if (first_.ok()) first_ = status;
  }
  return {};
}

bool PutTask::proceed() {
  bool moved = false;
  for (const Target& target : targets_) {
    if (target.writer->is_over()) continue;
    moved |= target.writer->advance();
    if (target.writer->is_over()) continue;
    if (const Status gone = window_.check_alive(target.writer->there()); !gone.ok())
      target.writer->give_up(gone);
  }
  return moved;
}

bool PutTask::is_done() const {
  return std::ranges::all_of(targets_, [](const Target& each) { return each.writer->is_over(); });
}

void PutTask::give_up(const Status& why) {
  for (const Target& target : targets_) target.writer->give_up(why);
}

Status PutTask::finish() {
  for (const Target& target : targets_) {
    if (first_.ok()) first_ = target.writer->status();
  }
  if (self_weight_ != 1.0) window_.scale(x_, self_weight_);
  return first_;
}

GetTask::GetTask(WindowObject& window, std::unique_ptr<Locks> locks, std::vector<Source> sources)
    : Task(CallName::get, window, std::move(locks)), sources_(std::move(sources)) {}

Status GetTask::begin() {
  for (Source& source : sources_) {
    WEFT_RETURN_IF_ERROR(window_.check_alive(source.tensor));
    WEFT_RETURN_IF_ERROR(window_.make_incoming(*source.reader));
  }
  for (Source& source : sources_) ask(source);
  return {};
}

// The version is read before and after the tensor, in order: if it is even and has not changed, the
// owner wrote nothing in between. A large tensor comes over all rails, between two chains.
void GetTask::ask(Source& source) const {
  const std::span<std::byte> incoming(source.reader->incoming(), window_.shape().bytes());
  source.chain.begin(source.part, patience_ns());
  source.chain.read(&source.before, sizeof source.before, offsetof(Head, version));
  source.chain.then();
  source.spreads = !source.has_failed_spread &&
                   source.spread.begin(WorkKind::read, source.tensor, incoming, 0, patience_ns());
  if (source.spreads) return;
  source.chain.go_to(source.tensor.memory);
  source.chain.read(incoming.data(), incoming.size(), 0);
  source.chain.go_to(source.part.memory);
  ask_rest(source);
}

void GetTask::ask_rest(Source& source) const {
  source.chain.read(&source.p, sizeof source.p, offsetof(Head, p));
  source.chain.then();
  source.chain.read(&source.after, sizeof source.after, offsetof(Head, version));
}

bool GetTask::go_on(Source& source) const {
  const bool moved = source.chain.advance();
  if (!source.chain.is_over()) return moved;
  if (source.spreads && source.chain.status().ok()) {
    const bool spread = source.spread.advance();
    if (!source.spread.is_over()) return spread || moved;
    source.spreads = false;
    if (!source.spread.status().ok()) {
      source.has_failed_spread = true;
      ask(source);
      return true;
    }
    source.chain.begin(source.part, patience_ns());
    ask_rest(source);
    return true;
  }
  const bool is_whole = source.before == source.after && source.before % 2 == 0;
  source.is_done = !source.chain.status().ok() || is_whole;
  if (!source.is_done) ask(source);
  return true;
}

bool GetTask::proceed() {
  bool moved = false;
  for (Source& source : sources_) {
    if (source.is_done) continue;
    moved |= go_on(source);
    if (source.is_done) continue;
    if (const Status gone = window_.check_alive(source.tensor); !gone.ok()) {
      source.chain.give_up(gone);
      source.spread.give_up(gone);
    }
  }
  return moved;
}

bool GetTask::is_done() const {
  return std::ranges::all_of(sources_, &Source::is_done);
}

void GetTask::give_up(const Status& why) {
  for (Source& source : sources_) {
    source.chain.give_up(why);
    source.spread.give_up(why);
  }
}

Status GetTask::finish() {
  Status first;
  for (Source& source : sources_) {
    Status status = source.chain.status();
    if (status.ok()) status = window_.fill_slot(*source.reader, source.weight, source.p);
    if (first.ok()) first = status;
  }
  return first;
}

RawTask::RawTask(WindowObject& window, const Place& tensor, std::vector<Part> parts,
                 SlotWriter* writer, int signal)
    : Task(writer != nullptr ? CallName::write : CallName::read, window, nullptr),
      tensor_(tensor),
      parts_(std::move(parts)),
      writer_(writer),
      signal_(signal) {}

Status RawTask::begin() {
  WEFT_RETURN_IF_ERROR(window_.check_alive(tensor_));
  chain_.begin(tensor_, patience_ns());
  for (const Part& part : parts_) {
    writer_ != nullptr ? chain_.write(part.local, part.bytes, part.offset)
                       : chain_.read(part.local, part.bytes, part.offset);
  }
  if (signal_ < 0) return {};
  chain_.go_to(writer_->there().memory);
  writer_->raise(chain_, signal_);
  return {};
}

Status RawTask::finish() {
  if (signal_ >= 0) tensor_.endpoint->wake_peer();
  return chain_.status();
}

bool WaitTask::advance() {
  if (is_over_) return false;
  if (is_there_()) {
    end({});
  } else if (const Status lost = lost_ ? lost_() : Status(); !lost.ok()) {
    end(is_there_() ? Status() : lost);  // it may have come before whoever sent it went
  } else if (now_ns() >= end_ns_) {
    end(late_ ? late_() : Status());
  }
  return is_over_;
}

void WaitTask::abandon(const Status& why) {
  if (!is_over_) end(why);
}

void WaitTask::end(const Status& status) {
  is_over_ = true;
  status_ = status;
  if (ended_) ended_(status);
}

TellTask::TellTask(const Place& part, std::size_t offset, std::uint64_t base,
                   std::int64_t patience_ns)
    : base_(base) {
  chain_.begin(part, patience_ns);
  chain_.write(&base_, sizeof base_, offset);
}

}  // namespace weft::window
