// Bounds, completions and order of one-sided work.
#include "verbs/transport/one_sided.h"

#include <fmt/core.h>

#include <atomic>
#include <cstring>

namespace weft {
namespace {

using Word = std::uint64_t;

const char* doing(WorkKind kind) {
  switch (kind) {
    case WorkKind::write:
      return "writing";
    case WorkKind::read:
      return "reading";
    case WorkKind::compare_swap:
      break;
  }
  return "compare-and-swap of";
}

Code code_of(WorkVerdict verdict) {
  switch (verdict) {
    case WorkVerdict::private_memory:
      return Code::no_permission;
    case WorkVerdict::lost:
    case WorkVerdict::behind:
      return Code::unavailable;
    default:
      return Code::invalid_argument;
  }
}

std::string sentence(WorkVerdict verdict, std::string_view over) {
  switch (verdict) {
    case WorkVerdict::outside:
      return "outside its shared heap";
    case WorkVerdict::longer:
      return "longer than the region";
    case WorkVerdict::no_region:
      return "not a region";
    case WorkVerdict::private_memory:
      return fmt::format("its private memory is not reached over {}", over);
    case WorkVerdict::misaligned:
      return "not 8 aligned bytes of its shared heap";
    case WorkVerdict::behind:
      return "not done, as work that was posted before it failed";
    default:
      return "the data did not arrive";
  }
}

bool is_word(const std::byte* shared, std::size_t bytes) {
  return bytes == sizeof(Word) && reinterpret_cast<std::uintptr_t>(shared) % sizeof(Word) == 0;
}

}  // namespace

WorkVerdict check_bounds(const WorkRequest& work, std::uint64_t heap_bytes) {
  const RemoteBuffer& remote = work.remote;
  const bool is_swap = work.kind == WorkKind::compare_swap;
  if (remote.form == PieceForm::process) return WorkVerdict::private_memory;
  if (remote.form != PieceForm::view) return WorkVerdict::no_region;
  if (is_swap && (remote.bytes < sizeof(Word) || remote.word % sizeof(Word) != 0))
    return WorkVerdict::misaligned;
  if (work.bytes > remote.bytes) return WorkVerdict::longer;
  if (work.bytes == 0 && !is_swap) return WorkVerdict::done;
  const bool is_inside = remote.word <= heap_bytes && remote.bytes <= heap_bytes - remote.word;
  return is_inside ? WorkVerdict::done : WorkVerdict::outside;
}

Status refusal_of(const WorkRequest& work, Rank peer, Code code, std::string_view why) {
  return Status(code,
                fmt::format("{} {} bytes at {:#x} of rank {}: {}", doing(work.kind), work.bytes,
                            work.remote.word, peer, why),
                peer);
}

Status refusal_of(const WorkRequest& work, Rank peer, WorkVerdict verdict, std::string_view over) {
  return refusal_of(work, peer, code_of(verdict), sentence(verdict, over));
}

void publish_bytes(std::byte* shared, const std::byte* from, std::size_t bytes) {
  if (!is_word(shared, bytes)) {
    if (bytes != 0) std::memcpy(shared, from, bytes);
    return;
  }
  Word word = 0;
  std::memcpy(&word, from, sizeof word);
  std::atomic_ref<Word>(*reinterpret_cast<Word*>(shared)).store(word, std::memory_order_release);
}

void copy_shared(std::byte* to, const std::byte* shared, std::size_t bytes) {
  std::memcpy(to, shared, bytes);
}

void fetch_bytes(std::byte* to, const std::byte* shared, std::size_t bytes) {
  if (!is_word(shared, bytes)) {
    if (bytes != 0) std::memcpy(to, shared, bytes);
    return;
  }
  // An atomic_ref wants memory that could be written; this only loads.
  auto& place = *reinterpret_cast<Word*>(const_cast<std::byte*>(shared));
  const Word word = std::atomic_ref<Word>(place).load(std::memory_order_acquire);
  std::memcpy(to, &word, sizeof word);
}

std::uint64_t Completions::end(std::uint64_t ticket, Status status) {
  --outstanding_;
  ended_.push() = {ticket, std::move(status)};
  return told_ + ended_.size();
}

std::size_t Completions::poll(std::span<Completion> completions) {
  std::size_t count = 0;
  for (; count < completions.size() && !ended_.empty(); ++count) {
    completions[count] = std::move(ended_.front());
    ended_.pop();
  }
  told_ += count;
  return count;
}

std::uint64_t WorkOrder::begin() {
  completions_.begin();
  return ++begun_;
}

void WorkOrder::end(std::uint64_t ticket, Status status) {
  last_completion_ = completions_.end(ticket, std::move(status));
  if (++ended_ == failed_) failed_completion_ = last_completion_;
}

void WorkOrder::fail(std::uint64_t work, const Status& why) {
  if (failed_ != 0) return;
  failed_ = work;
  why_ = why;
}

bool WorkOrder::is_broken() {
  if (failed_ == 0) return false;
  if (failed_completion_ == 0 || completions_.told() < failed_completion_) return true;
  failed_ = failed_completion_ = 0;
  ++sequence_;
  return false;
}

Status WorkOrder::behind() const {
  return Status(Code::unavailable,
                fmt::format("not done, as work that was posted before it failed: {}", why_.text()),
                why_.rank());
}

}  // namespace weft
