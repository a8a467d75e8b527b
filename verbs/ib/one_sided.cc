// One-sided work: the device does it, at the peer without the peer's time. The peer's heap is
// reached chunk by chunk; only the first touch of a chunk asks its lane to register it.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/ib/interface.h"
#include "verbs/memory/memory.h"

namespace weft::ib {
namespace {

constexpr const char* kOutside = "outside its shared heap";

const char* doing(ibv_wr_opcode what) {
  switch (what) {
    case IBV_WR_RDMA_WRITE:
      return "writing";
    case IBV_WR_RDMA_READ:
      return "reading";
    default:
      return "compare-and-swap of";
  }
}

}  // namespace

Posted IbEndpoint::post_write(std::span<const std::byte> local, const RemoteBuffer& remote,
                              std::uint64_t ticket) {
  Work work;
  work.what = IBV_WR_RDMA_WRITE;
  work.ticket = ticket;
  // The const is cast away for one record that serves both directions; a write only reads `local`.
  work.local = {const_cast<std::byte*>(local.data()), local.size()};
  return post_work(std::move(work), remote);
}

Posted IbEndpoint::post_read(std::span<std::byte> local, const RemoteBuffer& remote,
                             std::uint64_t ticket) {
  Work work;
  work.what = IBV_WR_RDMA_READ;
  work.ticket = ticket;
  work.local = local;
  return post_work(std::move(work), remote);
}

Posted IbEndpoint::post_compare_swap(const RemoteBuffer& remote, std::uint64_t expected,
                                     std::uint64_t desired, std::uint64_t* found,
                                     std::uint64_t ticket) {
  Work work;
  work.what = IBV_WR_ATOMIC_CMP_AND_SWP;
  work.ticket = ticket;
  work.expected = expected;
  work.desired = desired;
  work.found = found;
  return post_work(std::move(work), remote);
}

Posted IbEndpoint::post_work(Work asked, const RemoteBuffer& remote) {
  if (!interface_.has_room()) return Posted::full;
  Work& work = works_.emplace_back(std::move(asked));
  interface_.begin_work(*this);
  work.word = remote.word;
  work.reach = remote.bytes;
  if (work.found != nullptr) work.local = std::as_writable_bytes(std::span(&work.swapped, 1));
  if (interface_.closed()) {
    work.status = Status(Code::closed, "flushed by close");
  } else if (!failure_.ok()) {
    work.status = failure_;
  } else {
    work.status = judge(work, remote);
  }
  if (work.status.ok() && !work.local.empty()) {
    Result<Registrations::Use> use =
        interface_.registrations().find(work.local.data(), work.local.size());
    work.status = use.status();
    if (use.ok()) work.use = std::move(use).value();
  }
  if (!work.status.ok()) work.begun = work.local.size();
  if (interface_.closed() || !failure_.ok()) {
    begun_ = works_.size();  // nobody pumps any more
    return Posted::posted;
  }
  interface_.pump_later(*this);
  if (interface_.armed()) pump();
  return Posted::posted;
}

Status IbEndpoint::no(const Work& work, Code code, const char* why) const {
  return Status(code,
                fmt::format("{} {} bytes at {:#x} of rank {}: {}", doing(work.what),
                            work.local.size(), work.word, peer_, why),
                peer_);
}

Status IbEndpoint::judge(const Work& work, const RemoteBuffer& remote) const {
  if (remote.form == PieceForm::process)
    return no(work, Code::no_permission, "its private memory is not reached over RDMA");
  if (remote.form != PieceForm::view) return no(work, Code::invalid_argument, "not a region");
  if (work.found != nullptr && (remote.bytes < sizeof work.swapped || remote.word % 8 != 0))
    return no(work, Code::invalid_argument, "not 8 aligned bytes of its shared heap");
  if (work.local.size() > remote.bytes)
    return no(work, Code::invalid_argument, "longer than the region");
  if (remote.word + remote.bytes < remote.word) return no(work, Code::invalid_argument, kOutside);
  return {};
}

// In the order in which it was asked for: what waits for a chunk holds back what is behind it.
void IbEndpoint::pump_works() {
  while (failure_.ok() && begun_ < works_.size() && begin(works_[begun_])) ++begun_;
}

// True once all of it was handed to the device, or none of it may be any more.
bool IbEndpoint::begin(Work& work) {
  while (work.begun < work.local.size()) {
    const std::uint64_t at = work.word + work.begun;
    Chunk& chunk = chunks_[at / kChunkBytes];
    if (!chunk.known) {
      if (std::exchange(chunk.asked, true)) return false;
      Control expose;
      expose.kind = ControlKind::expose;
      expose.chunk = at / kChunkBytes;
      say(expose);
      return false;
    }
    if (chunk.key == 0 || work.word + work.reach > heap_bytes_) {
      work.status = no(work, Code::invalid_argument, kOutside);
      return true;
    }
    if (!has_room(0, 1)) return false;
    post_part(work, chunk,
              std::min(kChunkBytes - at % kChunkBytes, work.local.size() - work.begun));
    if (!failure_.ok()) return true;
  }
  return true;
}

void IbEndpoint::post_part(Work& work, const Chunk& chunk, std::uint64_t bytes) {
  const std::uint64_t remote = chunk.address + (work.word + work.begun) % kChunkBytes;
  PostList list;
  ibv_send_wr& request = list.add();
  list.part(request, work.local.data() + work.begun, bytes, work.use->lkey());
  request.opcode = work.what;
  if (work.what == IBV_WR_ATOMIC_CMP_AND_SWP) {
    request.wr.atomic.remote_addr = remote;
    request.wr.atomic.rkey = chunk.key;
    request.wr.atomic.compare_add = work.expected;
    request.wr.atomic.swap = work.desired;
  } else {
    request.wr.rdma.remote_addr = remote;
    request.wr.rdma.rkey = chunk.key;
  }
  finish(queues_[0], request, bytes, true);
  work.last = queues_[0].posted;
  work.begun += bytes;
  hand_over(0, list);
}

bool IbEndpoint::take_exposed(const Control& control) {
  const auto found = chunks_.find(control.chunk);
  if (found == chunks_.end() || !found->second.asked || found->second.known) return false;
  found->second = {true, true, control.key, control.address};
  heap_bytes_ = control.heap_bytes;
  interface_.pump_later(*this);
  return true;
}

// Whole chunks of the heap only; what a rank asks for stays registered.
Control IbInterface::expose(std::uint64_t chunk) {
  Control answer;
  answer.kind = ControlKind::exposed;
  answer.chunk = chunk;
  const Result<HeapIdentity> heap = heap_identity();
  if (heap.ok()) answer.heap_bytes = heap->bytes;
  if (chunk >= answer.heap_bytes / kChunkBytes) return answer;
  void* memory = heap_address(chunk * kChunkBytes);
  Owned<ibv_mr>& region = exposed_[chunk];
  if (region == nullptr) {
    Result<Owned<ibv_mr>> made =
        register_memory(memory, kChunkBytes,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                            IBV_ACCESS_REMOTE_ATOMIC);
    if (!made.ok()) {
      exposed_.erase(chunk);
      warn_once(made.status());
      return answer;
    }
    region = std::move(made).value();
  }
  answer.address = reinterpret_cast<std::uintptr_t>(memory);
  answer.key = region->rkey;
  return answer;
}

void IbEndpoint::flush_work(const Status& status) {
  for (Work& work : works_) {
    if (!work.status.ok() || (work.begun == work.local.size() && work.last <= retired_whole()))
      continue;
    work.status = status;
    work.last = 0;
  }
  begun_ = works_.size();
}

// Without a failure all of queue pair 0 that is retired has ended well.
std::uint64_t IbEndpoint::retired_whole() const {
  return queues_.empty() ? 0 : queues_[0].retired;
}

bool IbEndpoint::collect() {
  while (!works_.empty()) {
    Work& work = works_.front();
    if (begun_ == 0 || work.last > retired_whole()) return true;
    if (work.found != nullptr && work.status.ok()) *work.found = work.swapped;
    interface_.end_work(work.ticket, std::move(work.status));
    works_.pop_front();
    --begun_;
  }
  return false;
}

}  // namespace weft::ib
