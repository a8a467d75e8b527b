// Bounds, completions and order of one-sided work.
#include "verbs/transport/one_sided.h"

#include <fmt/core.h>

#include <atomic>
#include <cstring>

#include "verbs/sanitizers/sanitizers.h"

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
    case WorkVerdict::withdrawn:  // as a rank does that fails, or closes its context
      return Code::peer_left;
    default:
      return Code::invalid_argument;
  }
}

std::string sentence(const WorkRequest& work, WorkVerdict verdict, std::string_view over) {
  const bool is_region = work.remote.form == PieceForm::region;
  switch (verdict) {
    case WorkVerdict::outside:
      return is_region ? "outside of the region" : "outside its shared heap";
    case WorkVerdict::longer:
      return "longer than the region";
    case WorkVerdict::no_region:
      return "not a region";
    case WorkVerdict::private_memory:
      return fmt::format("its private memory is not reached over {}", over);
    case WorkVerdict::misaligned:
      return is_region ? "not 8 aligned bytes" : "not 8 aligned bytes of its shared heap";
    case WorkVerdict::withdrawn:
      return "the rank has withdrawn it, as one does that fails or closes its context";
    case WorkVerdict::unknown:
      return fmt::format("no region {} is imported here", work.remote.region);
    case WorkVerdict::behind:
      return "not done, as work that was posted before it failed";
    default:
      return "the data did not arrive";
  }
}

bool is_aligned(const std::byte* shared) {
  return reinterpret_cast<std::uintptr_t>(shared) % sizeof(Word) == 0;
}

bool is_word(const std::byte* shared, std::size_t bytes) {
  return bytes == sizeof(Word) && is_aligned(shared);
}

// An atomic_ref wants memory that could be written, also where it only loads.
template <typename Unit>
std::atomic_ref<Unit> atomic(const std::byte* shared) {
  return std::atomic_ref<Unit>(*reinterpret_cast<Unit*>(const_cast<std::byte*>(shared)));
}

#ifdef WEFT_THREAD_SANITIZER
template <typename Unit>
void store_unit(std::byte* shared, const std::byte* from) {
  Unit unit = 0;
  std::memcpy(&unit, from, sizeof unit);
  atomic<Unit>(shared).store(unit, std::memory_order_relaxed);
}

template <typename Unit>
void load_unit(std::byte* to, const std::byte* shared) {
  const Unit unit = atomic<Unit>(shared).load(std::memory_order_relaxed);
  std::memcpy(to, &unit, sizeof unit);
}

// Calls `word` for the places of aligned words in `shared`, and `byte` for those of other bytes.
template <typename OfWord, typename OfByte>
void for_units(const std::byte* shared, std::size_t bytes, OfWord word, OfByte byte) {
  for (std::size_t at = 0; at < bytes;) {
    const bool is_whole = bytes - at >= sizeof(Word) && is_aligned(shared + at);
    is_whole ? word(at) : byte(at);
    at += is_whole ? sizeof(Word) : 1;
  }
}

void store_bytes(std::byte* shared, const std::byte* from, std::size_t bytes) {
  for_units(
      shared, bytes, [&](std::size_t at) { store_unit<Word>(shared + at, from + at); },
      [&](std::size_t at) { store_unit<std::uint8_t>(shared + at, from + at); });
}

void load_bytes(std::byte* to, const std::byte* shared, std::size_t bytes) {
  for_units(
      shared, bytes, [&](std::size_t at) { load_unit<Word>(to + at, shared + at); },
      [&](std::size_t at) { load_unit<std::uint8_t>(to + at, shared + at); });
}

// ThreadSanitizer knows no fences, and the compiler warns of them.
void keep_later_stores_behind() {}
void keep_later_loads_behind() {}
#else
void store_bytes(std::byte* shared, const std::byte* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(shared, from, bytes);
}

void load_bytes(std::byte* to, const std::byte* shared, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, shared, bytes);
}

// On x86 these fences cost nothing.
void keep_later_stores_behind() {
  std::atomic_thread_fence(std::memory_order_release);
}

void keep_later_loads_behind() {
  std::atomic_thread_fence(std::memory_order_acquire);
}
#endif

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
  const bool is_region = work.remote.form == PieceForm::region;
  return Status(code,
                fmt::format("{} {} bytes at {:#x} of {}rank {}: {}", doing(work.kind), work.bytes,
                            work.remote.word, is_region ? "a region of " : "", peer, why),
                peer);
}

Status refusal_of(const WorkRequest& work, Rank peer, WorkVerdict verdict, std::string_view over) {
  return refusal_of(work, peer, code_of(verdict), sentence(work, verdict, over));
}

void publish_bytes(std::byte* shared, const std::byte* from, std::size_t bytes) {
  if (!is_word(shared, bytes)) return store_bytes(shared, from, bytes);
  Word word = 0;
  std::memcpy(&word, from, sizeof word);
  atomic<Word>(shared).store(word, std::memory_order_release);
  keep_later_stores_behind();
}

void fetch_bytes(std::byte* to, const std::byte* shared, std::size_t bytes) {
  if (!is_word(shared, bytes)) return load_bytes(to, shared, bytes);
  const Word word = atomic<Word>(shared).load(std::memory_order_acquire);
  std::memcpy(to, &word, sizeof word);
}

void copy_shared(std::byte* to, const std::byte* shared, std::size_t bytes) {
  load_bytes(to, shared, bytes);
  keep_later_loads_behind();
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
