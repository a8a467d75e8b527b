// The data path: notices, views and one-sided work. No allocation, lock or system call, but for the
// calls that move private memory and the one that wakes a sleeper.
#include <fmt/core.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "verbs/shm/interface.h"

namespace weft::shm {
namespace {

std::atomic_ref<std::uint32_t> stamp_in(WireHeader* header) {
  return std::atomic_ref<std::uint32_t>(header->stamp);
}

// Copies all of a header but the stamp, in words of 8 bytes and never wider. A load gets the value
// of a store just before it only if that store covers the whole load. A wider load would wait until
// all earlier stores have left the core, and those of the last message may still wait for their
// cache line. The atomic accesses keep compilers from merging the copies.
void copy_words(const WireHeader& from, WireHeader& to) {
  using Word [[gnu::may_alias]] = std::uint64_t;
  static_assert(offsetof(WireHeader, stamp) == 6 * sizeof(Word) + sizeof(WireHeader::checksum));
  const auto* source = reinterpret_cast<const Word*>(&from);
  auto* target = reinterpret_cast<Word*>(&to);
  const auto copy = [&](std::size_t i) {
    __atomic_store_n(target + i, __atomic_load_n(source + i, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
  };
  copy(0);
  copy(1);
  copy(2);
  copy(3);
  copy(4);
  copy(5);
  to.checksum = from.checksum;
  copy(7);
}

}  // namespace

void ask_attention(Hall& hall, std::uint32_t rank) {
  hall.askers[rank / 64].fetch_or(std::uint64_t{1} << rank % 64, std::memory_order_release);
  hall.attention.exchange(1, std::memory_order_acq_rel);
}

Posted ShmEndpoint::post(std::uint32_t channel, const WireHeader& header,
                         std::span<const std::byte> payload, Payload) {
  if (interface_.closed()) [[unlikely]]
    return Posted::full;
  Outgoing& out = outgoing_[channel];
  const bool has_payload = !payload.empty();
  const std::size_t at = out.payloads_posted & payload_mask_;
  const auto is_full = [&] {
    return out.posted - out.released_seen > slot_mask_ ||
           (has_payload && out.payload_ends[at] > out.released_seen);
  };
  if (is_full()) {
    out.released_seen = out.released_line->load(std::memory_order_acquire);
    if (is_full()) return Posted::full;
  }
  WireHeader* target = out.headers + (out.posted & slot_mask_);
  if (has_payload) {
    std::memcpy(out.payloads + at * payload_stride_, payload.data(), payload.size());
    out.payload_ends[at] = out.posted + 1;
    ++out.payloads_posted;
  }
  copy_words(header, *target);
  stamp_in(target).store(stamp_of(out.posted, has_payload), std::memory_order_release);
  ++out.posted;
  if (channel == kControlChannel) {
    ask_attention(*peer_hall_, interface_.hall().rank);
  }
  wake_peer();
  return Posted::posted;
}

Notice ShmEndpoint::front(std::uint32_t channel) {
  if (incoming_.empty() && !find_incoming()) [[unlikely]]
    return {};
  Incoming& in = incoming_[channel];
  WireHeader* header = in.headers + (in.next & slot_mask_);
  if (!is_of(stamp_in(header).load(std::memory_order_acquire), in.next)) return {};
  std::byte* payload = in.payloads + (in.payloads_released & payload_mask_) * payload_stride_;
  __builtin_prefetch(payload);  // fetched while the header is checked
  const Incoming& following = incoming_[in.following];
  __builtin_prefetch(following.headers + (following.next & slot_mask_));
  return {header, payload};
}

void ShmEndpoint::release(std::uint32_t channel) {
  if (incoming_.empty()) [[unlikely]]
    return;  // closed since front() showed it
  Incoming& in = incoming_[channel];
  const std::uint32_t stamp =
      stamp_in(in.headers + (in.next & slot_mask_)).load(std::memory_order_relaxed);
  in.payloads_released += stamp == stamp_of(in.next, true) ? 1 : 0;
  ++in.next;
  in.released_line->store(in.next, std::memory_order_release);
  wake_peer();
}

std::uint64_t ShmEndpoint::arrived(std::uint32_t channel) {
  if (incoming_.empty() && !find_incoming()) return 0;
  const Incoming& in = incoming_[channel];
  std::uint64_t count = in.next;
  while (
      count - in.next <= slot_mask_ &&
      is_of(stamp_in(in.headers + (count & slot_mask_)).load(std::memory_order_acquire), count)) {
    ++count;
  }
  return count;
}

std::uint64_t ShmEndpoint::released(std::uint32_t channel) {
  Outgoing& out = outgoing_[channel];
  if (interface_.closed()) [[unlikely]]
    return out.posted;
  if (out.released_seen != out.posted) {
    out.released_seen = out.released_line->load(std::memory_order_acquire);
  }
  return out.released_seen;
}

void ShmEndpoint::wake_peer() {
  if (peer_hall_->sleeping.load(std::memory_order_relaxed) != kAwake) [[unlikely]]
    wake_owner(*peer_hall_, bell_);
}

const std::byte* ShmEndpoint::view(const RemoteBuffer& remote) {
  if (remote.form == PieceForm::view) {
    return static_cast<const std::byte*>(heap_->at(remote.word, remote.bytes));
  }
  if (remote.form == PieceForm::process && properties_.shares_process) {
    return reinterpret_cast<const std::byte*>(remote.word);
  }
  if (remote.form == PieceForm::region) {
    WorkVerdict why{};
    const PeerRegion* const region = reach({WorkKind::read, remote, remote.bytes}, why);
    if (region != nullptr && region->here != nullptr) return region->here + remote.word;
  }
  return nullptr;
}

void copy(const WorkRequest& work, std::byte* there) {
  work.kind == WorkKind::write ? publish_bytes(there, work.local, work.bytes)
                               : fetch_bytes(work.local, there, work.bytes);
}

Status ShmEndpoint::move(const WorkRequest& work) const {
  const RemoteBuffer& remote = work.remote;
  if (remote.form == PieceForm::region) return move_in_region(work);
  if (remote.form != PieceForm::process) {
    const WorkVerdict verdict = check_bounds(work, kUnknownHeap);
    if (verdict != WorkVerdict::done) return refusal_of(work, peer(), verdict, kOver);
    if (work.bytes == 0) return {};
    auto* const there = static_cast<std::byte*>(heap_->at(remote.word, remote.bytes));
    if (there == nullptr) return refusal_of(work, peer(), WorkVerdict::outside, kOver);
    copy(work, there);
    return {};
  }
  if (work.bytes > remote.bytes) return refusal_of(work, peer(), WorkVerdict::longer, kOver);
  return move_private(work, remote.word);
}

Status ShmEndpoint::move_private(const WorkRequest& work, std::uint64_t address) const {
  if (process_ < 0) return properties_.process_access;
  const bool is_write = work.kind == WorkKind::write;
  std::size_t done = 0;
  while (done < work.bytes) {
    iovec here{work.local + done, work.bytes - done};
    iovec there{reinterpret_cast<void*>(address + done), work.bytes - done};
    const ssize_t moved = is_write ? process_vm_writev(process_, &here, 1, &there, 1, 0)
                                   : process_vm_readv(process_, &here, 1, &there, 1, 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) {
      const int error = errno;
      const std::string what = fmt::format("{} the memory of rank {} (process {})",
                                           is_write ? "writing" : "reading", peer(), process_);
      if (error == ESRCH) return Status(Code::peer_died, what + ": it has ended", peer());
      return system_error(what, error);
    }
    if (moved == 0) return refusal_of(work, peer(), Code::invalid_argument, "not mapped there");
    done += static_cast<std::size_t>(moved);
  }
  return {};
}

Status ShmEndpoint::read_now(std::span<std::byte> local, const RemoteBuffer& remote) {
  return move({WorkKind::read, remote, local.size(), local.data()});
}

Status ShmEndpoint::may_work() {
  if (interface_.closed()) return Status(Code::closed, "flushed by close");
  return order_.is_broken() ? order_.behind() : Status();
}

// The work was done, or refused, before this returns, so all of it ends in the order of posting.
Posted ShmEndpoint::post_work(const WorkRequest& work) {
  if (!interface_.completions().has_room()) return Posted::full;
  Status status = may_work();
  if (status.ok()) status = work.kind == WorkKind::compare_swap ? compare_swap(work) : move(work);
  const std::uint64_t number = order_.begin();
  if (!status.ok()) order_.fail(number, status);
  order_.end(work.ticket, std::move(status));
  return Posted::posted;
}

Result<std::uint64_t*> ShmEndpoint::word_of(const WorkRequest& work) const {
  const RemoteBuffer& remote = work.remote;
  if (remote.form == PieceForm::region) return word_in_region(work);
  const WorkVerdict verdict = check_bounds(work, kUnknownHeap);
  if (verdict != WorkVerdict::done) return refusal_of(work, peer(), verdict, kOver);
  auto* const word = static_cast<std::uint64_t*>(heap_->at(remote.word, remote.bytes));
  if (word == nullptr) return refusal_of(work, peer(), WorkVerdict::outside, kOver);
  return word;
}

Status ShmEndpoint::compare_swap(const WorkRequest& work) const {
  WEFT_ASSIGN(std::uint64_t * word, word_of(work));
  *work.found = work.expected;
  std::atomic_ref<std::uint64_t>(*word).compare_exchange_strong(*work.found, work.desired,
                                                                std::memory_order_acq_rel);
  return {};
}

}  // namespace weft::shm
