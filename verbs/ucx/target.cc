// Work of the peer: when it is begun, and how it is answered.
#include "verbs/ucx/target.h"

#include <algorithm>
#include <cstring>

#include "verbs/memory/memory.h"
#include "verbs/ucx/interface.h"

namespace weft::ucx {
namespace {

WorkKind kind_of(MessageKind kind) {
  switch (kind) {
    case MessageKind::write:
      return WorkKind::write;
    case MessageKind::read:
      return WorkKind::read;
    default:
      return WorkKind::compare_swap;
  }
}

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return !a.empty() && !b.empty() && std::less<>()(a.data(), b.data() + b.size()) &&
         std::less<>()(b.data(), a.data() + a.size());
}

std::uint64_t compare_swap(std::byte* word, std::uint64_t expected, std::uint64_t desired) {
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(word))
      .compare_exchange_strong(expected, desired, std::memory_order_acq_rel);
  return expected;
}

}  // namespace

Target::Target(UcxEndpoint& endpoint) : endpoint_(endpoint), interface_(endpoint.interface()) {}

// Of a region the message has no length beside that of the work itself.
WorkRequest Target::request_of(const WorkMessage& work) {
  const bool is_swap = work.message.kind == MessageKind::compare_swap;
  const std::size_t bytes = work.form != PieceForm::region ? work.region
                            : is_swap                      ? sizeof work.desired
                                                           : work.bytes;
  return {kind_of(work.message.kind), {work.form, work.word, bytes}, work.bytes};
}

// A peer has at most Completions::kMost pieces of work outstanding. As many answers again may wait
// until UCX no longer reads them.
bool Target::take_work(const WorkMessage& work, const Arriving& data, bool& taken) {
  drop_answers();
  const bool has_data = work.message.kind == MessageKind::write;
  if (answers_.size() >= 2 * Completions::kMost || data.bytes != (has_data ? work.bytes : 0))
    return false;
  if (work.place != next_place_ || !may_begin(work, data.rendezvous))
    return keep(work, data, taken);
  if (!waiting_.empty() && waiting_.front().is_here) return false;
  if (!waiting_.empty()) waiting_.pop_front();
  ++next_place_;
  begin_work(work, data, taken);
  proceed();
  return true;
}

void Target::drop_answers() {
  while (!answers_.empty() && answers_.front().sent && !answers_.front().pending) {
    if (answers_.front().copy != nullptr)
      interface_.pool(true).give(std::move(answers_.front().copy));
    answers_.pop_front();
  }
}

bool Target::may_begin(const WorkMessage& work, bool rendezvous) const {
  const bool is_bulk = rendezvous || work.message.kind == MessageKind::read;
  std::span<std::byte> place;
  (void)find_place(work, place);  // work that is refused touches nothing
  return std::ranges::none_of(answers_, [&](const Answer& answer) {
    return answer.touches_memory() && (!is_bulk || overlap(place, answer.place));
  });
}

bool Target::moves(std::span<const std::byte> memory) const {
  return std::ranges::any_of(answers_, [&](const Answer& answer) {
    return answer.touches_memory() && overlap(memory, answer.place);
  });
}

bool Target::holds_memory() const {
  return std::ranges::any_of(answers_, &Answer::touches_memory);
}

bool Target::is_over() const {
  return std::ranges::none_of(answers_, [](const Answer& answer) { return bool(answer.pending); });
}

bool Target::keep(const WorkMessage& work, const Arriving& data, bool& taken) {
  const std::uint64_t place = work.place - next_place_;
  if (place >= Completions::kMost) return false;
  if (waiting_.size() <= place) waiting_.resize(place + 1);
  Waiting& waiting = waiting_[place];
  if (waiting.is_here) return false;
  waiting.is_here = true;
  waiting.message = work;
  waiting.data = data;
  taken = data.bytes != 0 && (data.rendezvous || data.can_be_kept);
  if (!taken && data.bytes != 0) {
    const auto* bytes = static_cast<const std::byte*>(data.data);
    waiting.copy.assign(bytes, bytes + data.bytes);
    waiting.data.data = waiting.copy.data();
  }
  interface_.proceed_later(endpoint_);
  return true;
}

// A callback of UCX may call this function again. Then the inner call returns and the outer one
// goes on.
void Target::proceed() {
  if (!endpoint_.failure().ok()) return drop_waiting();
  if (proceeding_) return;
  proceeding_ = true;
  while (!waiting_.empty() && waiting_.front().is_here &&
         may_begin(waiting_.front().message, waiting_.front().data.rendezvous)) {
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    ++next_place_;
    bool taken = false;
    begin_work(next.message, next.data, taken);
    if (!taken) free_kept(next);
  }
  proceeding_ = false;
}

// Frees the memory of UCX that was kept for the work.
void Target::free_kept(const Waiting& work) {
  if (work.is_here && work.data.bytes != 0 && work.copy.empty())
    interface_.library().am_data_release(interface_.worker(), work.data.data);
}

void Target::drop_waiting() {
  for (const Waiting& work : std::exchange(waiting_, {})) free_kept(work);
}

// Whether the work stays where peers may work. If so, `place` is the memory of ours that it reads
// or writes.
WorkVerdict Target::find_place(const WorkMessage& work, std::span<std::byte>& place) const {
  const WorkRequest request = request_of(work);
  const bool is_swap = request.kind == WorkKind::compare_swap;
  const std::size_t bytes = is_swap ? sizeof work.desired : work.bytes;
  if (work.form == PieceForm::region) {
    const std::span<std::byte>* const region = interface_.exposed(work.region);
    if (region == nullptr) return WorkVerdict::withdrawn;
    const auto begin = reinterpret_cast<std::uintptr_t>(region->data());
    const WorkVerdict verdict = check_region(request, begin, region->size());
    if (verdict == WorkVerdict::done && bytes != 0) place = region->subspan(work.word, bytes);
    return verdict;
  }
  const Result<HeapIdentity> heap = heap_identity();
  const WorkVerdict verdict = check_bounds(request, heap.ok() ? heap->bytes : 0);
  if (verdict == WorkVerdict::done && bytes != 0)
    place = {static_cast<std::byte*>(heap_address(work.word)), bytes};
  return verdict;
}

// Sets `taken` if UCX goes on moving the data (a rendezvous) and therefore has to keep them.
void Target::begin_work(const WorkMessage& work, const Arriving& data, bool& taken) {
  Answer& answer = answers_.emplace_back();
  answer.target = this;
  answer.sequence = work.sequence;
  answer.message.message =
      endpoint_.message(MessageKind::answer, kControlChannel, work.message.number);
  std::span<std::byte> place;
  const WorkVerdict verdict =
      failed_sequence_ == work.sequence ? WorkVerdict::behind : find_place(work, place);
  answer.place = place;
  answer.message.verdict = verdict;
  answer.ready = true;
  if (verdict != WorkVerdict::done) {
    failed_sequence_ = work.sequence;
  } else if (work.message.kind == MessageKind::compare_swap) {
    answer.message.found = compare_swap(place.data(), work.expected, work.desired);
  } else if (work.message.kind == MessageKind::read) {
    answer.data = place;
  } else if (data.rendezvous) {
    answer.ready = false;
    taken = true;
    return endpoint_.receive(data.data, place.data(), data.bytes, landed_write, &answer);
  } else {
    publish_bytes(place.data(), static_cast<const std::byte*>(data.data), data.bytes);
  }
  send_answers();
}

void Target::landed_write(void* request, ucs_status_t status, std::size_t, void* what) {
  auto& answer = *static_cast<Answer*>(what);
  Target& target = *answer.target;
  if (request != nullptr) target.interface_.library().request_free(request);
  if (status != UCS_OK) {
    answer.message.verdict = WorkVerdict::lost;
    target.failed_sequence_ = answer.sequence;
  }
  answer.ready = true;
  target.send_answers();
  target.proceed();
}

void Target::send_answers() {
  if (!endpoint_.connected()) {
    interface_.answer_later(endpoint_);
    return;
  }
  if (endpoint_.is_held()) return;
  for (Answer& answer : answers_) {
    if (answer.sent) continue;
    if (!answer.ready) return;
    answer.sent = true;
    if (!endpoint_.working() ||
        endpoint_.sender().join_batch(&answer.message, sizeof answer.message, answer.data))
      continue;
    std::span<const std::byte> data = answer.data;
    if (data.size() <= interface_.eager_work_bytes()) {
      if (endpoint_.send_at_once(&answer.message, sizeof answer.message, data) ||
          !endpoint_.working())
        continue;
      answer.copy = interface_.pool(true).take();
      if (!data.empty()) std::memcpy(answer.copy.get(), data.data(), data.size());
      data = {answer.copy.get(), data.size()};
    }
    endpoint_.send(&answer.message, sizeof answer.message, data,
                   endpoint_.protocol_for(data.size()), answer.pending);
  }
}

}  // namespace weft::ucx
