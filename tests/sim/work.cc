#include "tests/sim/work.h"

#include <algorithm>
#include <cstring>

namespace weft {
namespace {

constexpr std::string_view kOver = "a simulated network";

}  // namespace

Posted SimWork::post(const WorkRequest& what, const Status& over, const SimDelay& delay,
                     bool in_order) {
  if (!completions_.has_room()) return Posted::full;
  auto work = std::make_shared<Work>();
  work->request = what;
  work->number = order_.begin();
  work->sequence = order_.sequence();
  works_.push_back(work);
  work->status = !over.ok() ? over : order_.is_broken() ? order_.behind() : admit(*work);
  work->sequence = order_.sequence();
  work->has_ended = !work->status.ok();
  if (work->has_ended) return Posted::posted;
  work->due = delay();
  if (in_order && !flying_.empty()) work->due = std::max(flying_.back()->due, work->due);
  const auto next =
      std::ranges::upper_bound(flying_, work->due, {}, [](const auto& each) { return each->due; });
  flying_.insert(next, std::move(work));
  return Posted::posted;
}

Status SimWork::admit(Work& work) {
  const WorkRequest& request = work.request;
  WorkVerdict verdict = WorkVerdict::unknown;
  const auto region = regions_.find(request.remote.region);
  if (request.remote.form != PieceForm::region) {
    verdict = WorkVerdict::no_region;
  } else if (region != regions_.end()) {
    work.key = region->second;
    verdict = check_region(request, work.key.word, work.key.bytes);
  }
  if (verdict == WorkVerdict::done) return {};
  Status why = refusal_of(request, peer_, verdict, kOver);
  order_.fail(work.number, why);
  return why;
}

void SimWork::hold_copies() {
  for (const auto& work : flying_) {
    if (work->request.kind == WorkKind::write && !work->copy)
      work->copy.emplace(work->request.local, work->request.local + work->request.bytes);
  }
}

void SimWork::land(std::uint64_t now, const SimRegions& regions, bool sends,
                   const SimDelay& delay) {
  while (!flying_.empty() && flying_.front()->due <= now) {
    const std::shared_ptr<Work> work = flying_.front();
    flying_.pop_front();
    const bool is_write = work->request.kind == WorkKind::write;
    if (is_write && !work->copy && !sends) continue;  // nobody has what it carries
    const auto region = regions.find(work->key.number);
    work->verdict = failed_sequence_ == work->sequence ? WorkVerdict::behind
                    : region == regions.end()          ? WorkVerdict::withdrawn
                                                       : WorkVerdict::done;
    if (work->verdict == WorkVerdict::done)
      carry_out(*work, region->second);
    else
      failed_sequence_ = work->sequence;
    work->answer_due = delay();
  }
}

void SimWork::carry_out(Work& work, std::span<std::byte> region) const {
  const WorkRequest& request = work.request;
  std::byte* const there = region.data() + request.remote.word;
  if (request.kind == WorkKind::write) {
    std::copy_n(work.copy ? work.copy->data() : request.local, request.bytes, there);
    return;
  }
  work.answer.assign(there, there + request.bytes);
  if (request.kind == WorkKind::read) return;
  if (std::memcmp(there, &request.expected, sizeof request.expected) == 0)
    std::memcpy(there, &request.desired, sizeof request.desired);
}

void SimWork::take_answers(std::uint64_t now) {
  for (const auto& work : works_) {
    if (work->has_ended) continue;
    if (!work->answer_due || *work->answer_due > now) return;
    work->has_ended = true;
    if (work->verdict != WorkVerdict::done) {
      work->status = refusal_of(work->request, peer_, work->verdict, kOver);
      order_.fail(work->number, work->status);
    } else if (work->request.found != nullptr) {
      std::memcpy(work->request.found, work->answer.data(), work->answer.size());
    } else {
      std::ranges::copy(work->answer, work->request.local);
    }
  }
}

void SimWork::collect(const Status& failure) {
  while (!works_.empty()) {
    Work& work = *works_.front();
    if (!work.has_ended && failure.ok()) return;
    if (!work.has_ended) lingers_ = true;
    order_.end(work.request.ticket, work.has_ended ? work.status : failure);
    works_.pop_front();
  }
}

}  // namespace weft
