// chain: posting, repeating and giving up.
#include "engine/one_sided/chain.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace weft::one_sided {
namespace {

// Each repeat needs a path that failed meanwhile, and a bond has a few.
constexpr int kMostRepeats = 16;

// Whether another path may do what this one did not.
bool is_of_the_path(Code code) {
  return code == Code::unavailable || code == Code::timed_out || code == Code::system;
}

}  // namespace

Status no_answer(Rank rank) {
  return Status(Code::timed_out,
                fmt::format("rank {} did not answer before the deadline (WEFT_DEADLINE_MS)", rank),
                rank);
}

void Chain::begin(const Place& place, std::int64_t patience_ns, Repeats repeats) {
  rank_ = place.rank;
  endpoint_ = way_ = place.endpoint;
  memory_ = place.memory;
  patience_ns_ = patience_ns;
  deadline_ns_ = 0;
  works_.clear();
  stage_ = 0;
  posted_ = ended_ = 0;
  may_repeat_ = repeats;
  repeats_ = 0;
  given_up_ = is_over_ = false;
  failure_ = status_ = {};
}

void Chain::add(Work work) {
  work.remote = memory_.part(work.offset, work.local.size());
  work.stage = stage_;
  if (memory_.mapped != nullptr) work.mapped = memory_.mapped + work.offset;
  works_.push_back(work);
}

bool Chain::may_post(const Work& work) const {
  return ended_ >= work.stage || way_->properties().keeps_order;
}

Posted Chain::post(const Work& work) {
  return way_->post_work({work.kind, work.remote, work.local.size(), work.local.data(), ticket()});
}

bool Chain::is_mapped() const {
  return std::ranges::all_of(works_, [](const Work& work) { return work.mapped != nullptr; });
}

void Chain::copy() {
  for (const Work& work : works_) {
    if (work.kind == WorkKind::write)
      publish_bytes(work.mapped, work.local.data(), work.local.size());
    else
      fetch_bytes(work.local.data(), work.mapped, work.local.size());
  }
}

bool Chain::advance() {
  if (is_over_) return false;
  if (posted_ == 0 && is_mapped()) {
    copy();
    is_over_ = true;
    return true;
  }
  bool moved = false;
  while (!given_up_ && failure_.ok() && posted_ < works_.size() && may_post(works_[posted_]) &&
         post(works_[posted_]) == Posted::posted) {
    ++posted_;
    moved = true;
  }
  if (!moved) check_deadline();
  look_at_end();
  return moved;
}

void Chain::give_up(const Status& why) {
  if (is_over_ || std::exchange(given_up_, true)) return;
  if (failure_.ok()) failure_ = why;
  patience_ns_ = std::min(patience_ns_, kEndingNs);
  deadline_ns_ = 0;
  look_at_end();
}

void Chain::work_ended(const Status& status) {
  ++ended_;
  if (failure_.ok() && !status.ok()) failure_ = status;
  look_at_end();
}

void Chain::look_at_end() {
  if (is_over_ || is_busy()) return;
  if (failure_.ok()) {
    is_over_ = posted_ == works_.size();
    return;
  }
  const bool may_repeat = may_repeat_ != Repeats::never && repeats_ < kMostRepeats;
  if (!given_up_ && is_of_the_path(failure_.code()) && endpoint_->failure().ok() && may_repeat) {
    ++repeats_;
    way_ = endpoint_;
    posted_ = ended_ = 0;
    failure_ = {};
    return;
  }
  is_over_ = true;
  status_ = Status(failure_.code(), std::string(failure_.text()), rank_);
}

// Work that was posted uses the caller's memory until it has ended. So a peer that does not answer
// in time loses its connection: only that ends the work.
void Chain::check_deadline() {
  if (given_up_ && !is_busy()) return;
  const std::int64_t now = now_ns();
  if (deadline_ns_ == 0) deadline_ns_ = now + patience_ns_;
  if (now < deadline_ns_) return;
  if (!std::exchange(given_up_, true)) failure_ = no_answer(rank_);
  if (is_busy()) endpoint_->abandon(failure_);
}

}  // namespace weft::one_sided
