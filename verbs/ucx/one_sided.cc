// One-sided work of ours. An active message cannot do it alone, so the target's lane does it when
// the message comes, and answers (target.cc). By the answer the origin knows what became of its
// work.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/ucx/interface.h"

namespace weft::ucx {
namespace {

MessageKind message_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::write:
      return MessageKind::write;
    case WorkKind::read:
      return MessageKind::read;
    case WorkKind::compare_swap:
      break;
  }
  return MessageKind::compare_swap;
}

}  // namespace

std::uint32_t UcxEndpoint::protocol_for(std::size_t bytes) const {
  return bytes > interface_.payload_stride() ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
}

Posted UcxEndpoint::post_work(const WorkRequest& request) {
  if (!interface_.completions().has_room()) return Posted::full;
  const bool is_swap = request.kind == WorkKind::compare_swap;
  Work& work = work_.emplace_back();
  work.request = request;
  work.endpoint = this;
  WorkMessage& message = work.message;
  message.message =
      this->message(message_of(request.kind), kControlChannel, first_work_ + work_.size() - 1);
  message.form = request.remote.form;
  message.word = request.remote.word;
  message.region = request.remote.bytes;
  message.bytes = is_swap ? 0 : request.bytes;
  message.expected = request.expected;
  message.desired = request.desired;
  order_.begin();
  interface_.collect_later(*this);
  if (interface_.closed()) {
    work.answered = true;
    work.status = Status(Code::closed, "flushed by close");
  } else if (!failure_.ok()) {
    work.answered = true;
    work.status = failure_;
  } else if (order_.is_broken()) {
    work.answered = true;
    work.status = order_.behind();
  } else if (Status refused = name_region(message, request); !refused.ok()) {
    work.answered = true;
    work.status = refused;
    order_.fail(message.message.number + 1, refused);
  } else if (working()) {
    message.place = works_sent_++;
    message.sequence = order_.sequence();
    const std::span<const std::byte> data(request.local,
                                          request.kind == WorkKind::write ? request.bytes : 0);
    if (!join_batch(&message, sizeof message, data))
      send(&message, sizeof message, data, protocol_for(data.size()), work.sending);
  }
  return Posted::posted;
}

bool UcxEndpoint::take_answer(const AnswerMessage& answer, const Arriving& data, bool& taken) {
  const std::uint64_t number = answer.message.number;
  if (number < first_work_) return true;  // the work was flushed, or this is its second answer
  if (number - first_work_ >= work_.size()) return false;
  Work& work = work_[number - first_work_];
  if (work.answered) return true;
  const bool read = work.request.kind == WorkKind::read;
  if (data.bytes != (read && answer.verdict == WorkVerdict::done ? work.request.bytes : 0))
    return false;
  work.answered = true;
  end(work, answer.verdict);
  if (work.request.found != nullptr && work.status.ok()) *work.request.found = answer.found;
  if (data.rendezvous) {
    taken = true;
    work.receiving = true;
    receive(data.data, work.request.local, data.bytes, landed_read, &work);
  } else if (data.bytes != 0) {
    std::memcpy(work.request.local, data.data, data.bytes);
  }
  return true;
}

void UcxEndpoint::landed_read(void* request, ucs_status_t status, std::size_t, void* what) {
  auto& work = *static_cast<Work*>(what);
  if (request != nullptr) work.endpoint->library_.request_free(request);
  work.receiving = false;
  if (status != UCS_OK) work.endpoint->end(work, WorkVerdict::lost);
}

// WorkOrder numbers work from 1, messages number it from 0.
void UcxEndpoint::end(Work& work, WorkVerdict verdict) {
  if (verdict == WorkVerdict::done) return;
  work.status = verdict == WorkVerdict::behind ? order_.behind()
                                               : refusal_of(work.request, peer(), verdict, "UCX");
  order_.fail(work.message.message.number + 1, work.status);
}

// Work that was not answered may still be done by the peer, as long as its end is open.
void UcxEndpoint::flush_work(const Status& status) {
  for (Work& work : work_) {
    if (work.answered) continue;
    lingers_ = true;
    work.answered = true;
    work.status = status;
  }
}

bool UcxEndpoint::collect() {
  while (!work_.empty()) {
    Work& work = work_.front();
    if (!work.answered || work.sending || work.receiving) return true;
    order_.end(work.request.ticket, std::move(work.status));
    work_.pop_front();
    ++first_work_;
  }
  return false;
}

bool UcxEndpoint::holds_memory() const {
  const auto held = [](const Work& work) { return work.sending || work.receiving; };
  return std::ranges::any_of(work_, held) || std::ranges::any_of(answers_, &Answer::touches_memory);
}

}  // namespace weft::ucx
