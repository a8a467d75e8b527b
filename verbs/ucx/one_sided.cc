// Work of ours: how it is sent, and what its answer says.
#include "verbs/ucx/one_sided.h"

#include <algorithm>
#include <cstring>
#include <utility>

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

OneSided::OneSided(UcxEndpoint& endpoint)
    : endpoint_(endpoint), interface_(endpoint.interface()), order_(interface_.completions()) {}

Posted OneSided::post(const WorkRequest& request) {
  if (!interface_.completions().has_room()) return Posted::full;
  const bool is_swap = request.kind == WorkKind::compare_swap;
  Work& work = work_.emplace_back();
  work.request = request;
  work.owner = this;
  WorkMessage& message = work.message;
  message.message =
      endpoint_.message(message_of(request.kind), kControlChannel, first_work_ + work_.size() - 1);
  message.form = request.remote.form;
  message.word = request.remote.word;
  message.region = request.remote.bytes;
  message.bytes = is_swap ? 0 : request.bytes;
  message.expected = request.expected;
  message.desired = request.desired;
  order_.begin();
  interface_.collect_later(endpoint_);
  if (interface_.closed()) {
    work.answered = true;
    work.status = Status(Code::closed, "flushed by close");
  } else if (!endpoint_.failure().ok()) {
    work.answered = true;
    work.status = endpoint_.failure();
  } else if (order_.is_broken()) {
    work.answered = true;
    work.status = order_.behind();
  } else if (Status refused = name_region(message, request); !refused.ok()) {
    work.answered = true;
    work.status = refused;
    order_.fail(message.message.number + 1, refused);
  } else if (endpoint_.working()) {
    message.place = works_sent_++;
    message.sequence = order_.sequence();
    send(work);
  }
  return Posted::posted;
}

void OneSided::send(Work& work) {
  const WorkRequest& request = work.request;
  const std::span<const std::byte> data(request.local,
                                        request.kind == WorkKind::write ? request.bytes : 0);
  if (endpoint_.sender().join_batch(&work.message, sizeof work.message, data)) return;
  work.waits = endpoint_.is_held();
  if (work.waits) return;
  if (data.size() <= interface_.eager_work_bytes()) return send_copy(work.message, data);
  endpoint_.send(&work.message, sizeof work.message, data, UCP_AM_SEND_FLAG_RNDV, work.sending);
}

// Nothing of the caller stays with UCX, so a path that is given up keeps its connection.
void OneSided::send_copy(const WorkMessage& message, std::span<const std::byte> data) {
  give_back_copies();
  if (endpoint_.send_at_once(&message, sizeof message, data) || !endpoint_.working()) return;
  Copy& copy = copies_.emplace_back();
  copy.message = message;
  if (!data.empty()) {
    copy.data = interface_.pool(true).take();
    std::memcpy(copy.data.get(), data.data(), data.size());
  }
  endpoint_.send(&copy.message, sizeof copy.message, {copy.data.get(), data.size()},
                 UCP_AM_SEND_FLAG_EAGER, copy.pending);
}

void OneSided::give_back_copies() {
  std::erase_if(copies_, [this](Copy& copy) {
    if (copy.pending) return false;
    if (copy.data != nullptr) interface_.pool(true).give(std::move(copy.data));
    return true;
  });
}

void OneSided::send_waiting() {
  for (Work& work : work_)
    if (std::exchange(work.waits, false) && !work.answered && endpoint_.working()) send(work);
}

bool OneSided::take_answer(const AnswerMessage& answer, const Arriving& data, bool& taken) {
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
    endpoint_.receive(data.data, work.request.local, data.bytes, landed_read, &work);
  } else if (data.bytes != 0) {
    std::memcpy(work.request.local, data.data, data.bytes);
  }
  return true;
}

void OneSided::landed_read(void* request, ucs_status_t status, std::size_t, void* what) {
  auto& work = *static_cast<Work*>(what);
  if (request != nullptr) work.owner->interface_.library().request_free(request);
  work.receiving = false;
  if (status != UCS_OK) work.owner->end(work, WorkVerdict::lost);
}

// WorkOrder numbers work from 1, messages number it from 0.
void OneSided::end(Work& work, WorkVerdict verdict) {
  if (verdict == WorkVerdict::done) return;
  work.status = verdict == WorkVerdict::behind
                    ? order_.behind()
                    : refusal_of(work.request, endpoint_.peer(), verdict, "UCX");
  order_.fail(work.message.message.number + 1, work.status);
}

// Work that was not answered may still be done by the peer, as long as its end is open.
void OneSided::flush(const Status& status) {
  for (Work& work : work_) {
    if (work.answered) continue;
    lingers_ = true;
    work.answered = true;
    work.status = status;
  }
}

bool OneSided::collect() {
  while (!work_.empty()) {
    Work& work = work_.front();
    if (!work.answered || work.sending || work.receiving) return true;
    order_.end(work.request.ticket, std::move(work.status));
    work_.pop_front();
    ++first_work_;
  }
  return false;
}

bool OneSided::holds_memory() const {
  return std::ranges::any_of(work_,
                             [](const Work& work) { return work.sending || work.receiving; });
}

Status OneSided::import_region(std::uint32_t number, std::string_view keys) {
  WEFT_ASSIGN(const RegionKey key,
              find_region_key(keys, RegionWay::ucx, endpoint_.nonce(), endpoint_.peer()));
  regions_.emplace(number, key);
  return {};
}

Status OneSided::name_region(WorkMessage& message, const WorkRequest& request) const {
  if (request.remote.form != PieceForm::region) return {};
  const auto found = regions_.find(request.remote.region);
  if (found == regions_.end())
    return refusal_of(request, endpoint_.peer(), WorkVerdict::unknown, "UCX");
  const RegionKey& key = found->second;
  const WorkVerdict verdict = check_region(request, key.word, key.bytes);
  if (verdict != WorkVerdict::done) return refusal_of(request, endpoint_.peer(), verdict, "UCX");
  message.region = key.number;
  return {};
}

}  // namespace weft::ucx
