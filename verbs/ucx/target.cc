// One-sided work of a peer. Our lane does it, only inside our shared heap and inside the regions that
// we expose, and answers.
//
// Work is begun in the order in which its origin sent it (WorkMessage::place). Most work has ended
// when begin_work() returns. Two kinds have not, because UCX goes on moving their data: large
// writes and reads. They are called bulk. Bulk waits only for unfinished work on the same bytes, so
// that it streams at full speed. All other work may publish or take a word, and waits for all
// unfinished work before it.
//
// If work is refused, the rest of its sequence (WorkOrder::sequence()) is refused, too: the work
// that its origin posted before it could know of the refusal.
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

// Of a region the message has no length beside that of the work itself.
WorkRequest UcxEndpoint::request_of(const WorkMessage& work) {
  const bool is_swap = work.message.kind == MessageKind::compare_swap;
  const std::size_t bytes = work.form != PieceForm::region ? work.region
                            : is_swap                      ? sizeof work.desired
                                                           : work.bytes;
  return {kind_of(work.message.kind), {work.form, work.word, bytes}, work.bytes};
}

// A peer has at most Completions::kMost pieces of work outstanding. As many answers again may wait
// until UCX no longer reads them.
bool UcxEndpoint::take_work(const WorkMessage& work, const Arriving& data, bool& taken) {
  while (!answers_.empty() && answers_.front().sent && !answers_.front().pending)
    answers_.pop_front();
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

bool UcxEndpoint::may_begin(const WorkMessage& work, bool rendezvous) const {
  const bool is_bulk = rendezvous || work.message.kind == MessageKind::read;
  std::span<std::byte> place;
  (void)find_place(work, place);  // work that is refused touches nothing
  return std::ranges::none_of(answers_, [&](const Answer& answer) {
    return answer.touches_memory() && (!is_bulk || overlap(place, answer.place));
  });
}

bool UcxEndpoint::moves(std::span<const std::byte> memory) const {
  return std::ranges::any_of(answers_, [&](const Answer& answer) {
    return answer.touches_memory() && overlap(memory, answer.place);
  });
}

bool UcxEndpoint::keep(const WorkMessage& work, const Arriving& data, bool& taken) {
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
  interface_.proceed_later(*this);
  return true;
}

// A callback of UCX may call this function again. Then the inner call returns and the outer one
// goes on.
void UcxEndpoint::proceed() {
  if (!failure_.ok()) return drop_waiting();
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
void UcxEndpoint::free_kept(const Waiting& work) {
  if (work.is_here && work.data.bytes != 0 && work.copy.empty())
    library_.am_data_release(interface_.worker(), work.data.data);
}

void UcxEndpoint::drop_waiting() {
  for (const Waiting& work : std::exchange(waiting_, {})) free_kept(work);
}

// Whether the work stays where peers may work. If so, `place` is the memory of ours that it reads
// or writes.
WorkVerdict UcxEndpoint::find_place(const WorkMessage& work, std::span<std::byte>& place) const {
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
void UcxEndpoint::begin_work(const WorkMessage& work, const Arriving& data, bool& taken) {
  Answer& answer = answers_.emplace_back();
  answer.endpoint = this;
  answer.sequence = work.sequence;
  answer.message.message = message(MessageKind::answer, kControlChannel, work.message.number);
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
    return receive(data.data, place.data(), data.bytes, landed_write, &answer);
  } else {
    publish_bytes(place.data(), static_cast<const std::byte*>(data.data), data.bytes);
  }
  send_answers();
}

void UcxEndpoint::landed_write(void* request, ucs_status_t status, std::size_t, void* what) {
  auto& answer = *static_cast<Answer*>(what);
  UcxEndpoint& endpoint = *answer.endpoint;
  if (request != nullptr) endpoint.library_.request_free(request);
  if (status != UCS_OK) {
    answer.message.verdict = WorkVerdict::lost;
    endpoint.failed_sequence_ = answer.sequence;
  }
  answer.ready = true;
  endpoint.send_answers();
  endpoint.proceed();
}

void UcxEndpoint::send_answers() {
  if (!connected()) {
    interface_.answer_later(*this);
    return;
  }
  for (Answer& answer : answers_) {
    if (answer.sent) continue;
    if (!answer.ready) return;
    answer.sent = true;
    if (!working() || join_batch(&answer.message, sizeof answer.message, answer.data)) continue;
    send(&answer.message, sizeof answer.message, answer.data, protocol_for(answer.data.size()),
         answer.pending);
  }
}

}  // namespace weft::ucx
