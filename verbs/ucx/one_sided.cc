// One-sided work of ours. An active message cannot do it alone, so the target's lane does it when
// the message comes, and answers (target.cc). By the answer the origin knows what became of its
// work.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/ucx/interface.h"

namespace weft::ucx {

std::uint32_t UcxEndpoint::protocol_for(std::size_t bytes) const {
  return bytes > interface_.payload_stride() ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
}

Posted UcxEndpoint::post_work(WorkMessage message, std::span<std::byte> local,
                              const RemoteBuffer& remote, std::uint64_t* found,
                              std::uint64_t ticket) {
  if (!interface_.completions().has_room()) return Posted::full;
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
  } else if (Status refused = name_region(work.message, remote); !refused.ok()) {
    work.answered = true;
    work.status = refused;
    order_.fail(work.message.message.number + 1, refused);
  } else if (working()) {
    work.message.place = works_sent_++;
    work.message.sequence = order_.sequence();
    const std::span<const std::byte> data =
        kind == MessageKind::write ? local : std::span<std::byte>();
    if (!join_batch(&work.message, sizeof work.message, data))
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

bool UcxEndpoint::take_answer(const AnswerMessage& answer, const Arriving& data, bool& taken) {
  const std::uint64_t number = answer.message.number;
  if (number < first_work_) return true;  // the work was flushed, or this is its second answer
  if (number - first_work_ >= work_.size()) return false;
  Work& work = work_[number - first_work_];
  if (work.answered) return true;
  const bool read = work.message.message.kind == MessageKind::read;
  if (data.bytes != (read && answer.verdict == WorkVerdict::done ? work.local.size() : 0))
    return false;
  work.answered = true;
  end(work, answer.verdict);
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
  if (status != UCS_OK) work.endpoint->end(work, WorkVerdict::lost);
}

// WorkOrder numbers work from 1, messages number it from 0.
void UcxEndpoint::end(Work& work, WorkVerdict verdict) {
  if (verdict == WorkVerdict::done) return;
  work.status = verdict == WorkVerdict::behind
                    ? order_.behind()
                    : refusal_of(request_of(work.message), peer_, verdict, "UCX");
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
    order_.end(work.ticket, std::move(work.status));
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
