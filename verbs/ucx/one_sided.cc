// One-sided work over a transport that has none: the target's lane does it when the message comes,
// and answers. So an origin knows what became of its work, and the target touches nothing but its
// shared heap, inside of the bounds.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/memory/memory.h"
#include "verbs/ucx/interface.h"

namespace weft::ucx {
namespace {

// What may be done with the work, and where its region is.
Verdict judge(const WorkMessage& work, std::byte*& region) {
  if (work.form == PieceForm::process) return Verdict::private_;
  if (work.form != PieceForm::view) return Verdict::no_region;
  if (work.bytes > work.region) return Verdict::longer;
  const bool swap = work.message.kind == MessageKind::compare_swap;
  if (swap && (work.region < 8 || work.word % 8 != 0)) return Verdict::misaligned;
  if (work.bytes == 0 && !swap) return Verdict::done;
  const Result<HeapIdentity> heap = heap_identity();
  if (!heap.ok() || work.word > heap->bytes || work.region > heap->bytes - work.word)
    return Verdict::outside;
  region = static_cast<std::byte*>(heap_address(work.word));
  return Verdict::done;
}

const char* sentence(Verdict verdict) {
  switch (verdict) {
    case Verdict::outside:
      return "outside its shared heap";
    case Verdict::longer:
      return "longer than the region";
    case Verdict::no_region:
      return "not a region";
    case Verdict::private_:
      return "its private memory is not reached over UCX";
    case Verdict::misaligned:
      return "not 8 aligned bytes of its shared heap";
    case Verdict::done:
    case Verdict::lost:
      break;
  }
  return "the data did not arrive";
}

std::uint64_t compare_swap(std::byte* word, std::uint64_t expected, std::uint64_t desired) {
  std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(word))
      .compare_exchange_strong(expected, desired, std::memory_order_acq_rel);
  return expected;
}

}  // namespace

std::uint32_t UcxEndpoint::protocol_for(std::size_t bytes) const {
  return bytes > interface_.payload_stride() ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
}

Posted UcxEndpoint::post_work(WorkMessage message, std::span<std::byte> local,
                              const RemoteBuffer& remote, std::uint64_t* found,
                              std::uint64_t ticket) {
  if (!interface_.has_room()) return Posted::full;
  const MessageKind kind = message.message.kind;
  message.message = this->message(kind, kControlChannel, first_work_ + work_.size());
  message.form = remote.form;
  message.word = remote.word;
  message.region = remote.bytes;
  message.bytes = local.size();
  Work& work = work_.emplace_back();
  work.message = message;
  work.ticket = ticket;
  work.local = local;
  work.found = found;
  work.endpoint = this;
  interface_.begin_work(*this);
  if (interface_.closed()) {
    flush_work(Status(Code::closed, "flushed by close"));
  } else if (!failure_.ok()) {
    flush_work(failure_);
  } else if (working()) {
    const std::span<const std::byte> data =
        kind == MessageKind::write ? local : std::span<std::byte>();
    send(&work.message, sizeof work.message, data, protocol_for(data.size()), work.sending);
  }
  return Posted::posted;
}

Posted UcxEndpoint::post_write(std::span<const std::byte> local, const RemoteBuffer& remote,
                               std::uint64_t ticket) {
  WorkMessage message;
  message.message.kind = MessageKind::write;
  // The const is cast away for one record that serves both directions; a write only reads `local`.
  return post_work(message, {const_cast<std::byte*>(local.data()), local.size()}, remote, nullptr,
                   ticket);
}

Posted UcxEndpoint::post_read(std::span<std::byte> local, const RemoteBuffer& remote,
                              std::uint64_t ticket) {
  WorkMessage message;
  message.message.kind = MessageKind::read;
  return post_work(message, local, remote, nullptr, ticket);
}

Posted UcxEndpoint::post_compare_swap(const RemoteBuffer& remote, std::uint64_t expected,
                                      std::uint64_t desired, std::uint64_t* found,
                                      std::uint64_t ticket) {
  WorkMessage message;
  message.message.kind = MessageKind::compare_swap;
  message.expected = expected;
  message.desired = desired;
  return post_work(message, {}, remote, found, ticket);
}

// A peer has at most so much work outstanding; answers that wait for UCX to let go may add as many.
bool UcxEndpoint::take_work(const WorkMessage& work, const Arriving& data, bool& taken) {
  while (!answers_.empty() && answers_.front().sent && !answers_.front().pending)
    answers_.pop_front();
  const bool write = work.message.kind == MessageKind::write;
  if (answers_.size() >= 2 * UcxInterface::kCompletions || data.bytes != (write ? work.bytes : 0))
    return false;
  Answer& answer = answers_.emplace_back();
  answer.endpoint = this;
  answer.message.message = message(MessageKind::answer, kControlChannel, work.message.number);
  std::byte* region = nullptr;
  answer.message.verdict = judge(work, region);
  answer.ready = true;
  if (answer.message.verdict == Verdict::done) {
    if (write && data.rendezvous) {
      answer.ready = false;
      taken = true;
      receive(data.data, region, data.bytes, landed_write, &answer);
      return true;
    }
    if (write && data.bytes != 0) std::memcpy(region, data.data, data.bytes);
    if (work.message.kind == MessageKind::read) answer.data = {region, work.bytes};
    if (work.message.kind == MessageKind::compare_swap)
      answer.message.found = compare_swap(region, work.expected, work.desired);
  }
  send_answers();
  return true;
}

void UcxEndpoint::landed_write(void* request, ucs_status_t status, std::size_t, void* what) {
  auto& answer = *static_cast<Answer*>(what);
  if (request != nullptr) answer.endpoint->library_.request_free(request);
  if (status != UCS_OK) answer.message.verdict = Verdict::lost;
  answer.ready = true;
  answer.endpoint->send_answers();
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
    if (!working()) continue;
    send(&answer.message, sizeof answer.message, answer.data, protocol_for(answer.data.size()),
         answer.pending);
  }
}

bool UcxEndpoint::take_answer(const AnswerMessage& answer, const Arriving& data, bool& taken) {
  const std::uint64_t number = answer.message.number;
  if (number < first_work_) return true;  // flushed in the meantime, like what is answered twice
  if (number - first_work_ >= work_.size()) return false;
  Work& work = work_[number - first_work_];
  if (work.answered) return true;
  const bool read = work.message.message.kind == MessageKind::read;
  if (data.bytes != (read && answer.verdict == Verdict::done ? work.local.size() : 0)) return false;
  work.answered = true;
  work.status = ended(work, answer.verdict);
  if (work.found != nullptr && work.status.ok()) *work.found = answer.found;
  if (data.rendezvous) {
    taken = true;
    work.receiving = true;
    receive(data.data, work.local.data(), data.bytes, landed_read, &work);
  } else if (data.bytes != 0) {
    std::memcpy(work.local.data(), data.data, data.bytes);
  }
  return true;
}

void UcxEndpoint::landed_read(void* request, ucs_status_t status, std::size_t, void* what) {
  auto& work = *static_cast<Work*>(what);
  if (request != nullptr) work.endpoint->library_.request_free(request);
  work.receiving = false;
  if (status != UCS_OK) work.status = work.endpoint->ended(work, Verdict::lost);
}

Status UcxEndpoint::ended(const Work& work, Verdict verdict) const {
  if (verdict == Verdict::done) return {};
  const WorkMessage& asked = work.message;
  const char* what = asked.message.kind == MessageKind::write  ? "writing"
                     : asked.message.kind == MessageKind::read ? "reading"
                                                               : "compare-and-swap of";
  const Code code = verdict == Verdict::private_ ? Code::no_permission
                    : verdict == Verdict::lost   ? Code::unavailable
                                                 : Code::invalid_argument;
  return Status(code,
                fmt::format("{} {} bytes at {:#x} of rank {}: {}", what, asked.bytes, asked.word,
                            peer_, sentence(verdict)),
                peer_);
}

void UcxEndpoint::flush_work(const Status& status) {
  for (Work& work : work_) {
    if (work.answered) continue;
    work.answered = true;
    work.status = status;
  }
}

bool UcxEndpoint::collect() {
  while (!work_.empty()) {
    Work& work = work_.front();
    if (!work.answered || work.sending || work.receiving) return true;
    interface_.end_work(work.ticket, std::move(work.status));
    work_.pop_front();
    ++first_work_;
  }
  return false;
}

bool UcxEndpoint::holds_memory() const {
  const auto held = [](const Work& work) { return work.sending || work.receiving; };
  if (std::any_of(work_.begin(), work_.end(), held)) return true;
  return std::any_of(outgoing_.begin(), outgoing_.end(), [&](const Outgoing& out) {
    return std::any_of(out.sent.get(), out.sent.get() + (out.sent ? interface_.options().slots : 0),
                       [](const Sent& sent) { return sent.piece && sent.piece->pending; });
  });
}

}  // namespace weft::ucx
