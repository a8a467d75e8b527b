// One-sided work, which the poster does itself: in place where the peer's memory is mapped or of this
// process, else by calls of the kernel.
#include <fmt/core.h>
#include <sys/uio.h>

#include <cerrno>

#include "verbs/shm/interface.h"

namespace weft::shm {

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
