// One-sided work: bounds, chunks of the peer's heap, and work requests.
#include "verbs/ib/one_sided.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/ib/endpoint.h"
#include "verbs/ib/interface.h"

namespace weft::ib {
namespace {

constexpr std::string_view kOver = "RDMA";
constexpr std::string_view kUnregistered =
    "it could not register that memory, most likely for want of locked memory (ulimit -l there)";
// A request of this size or more has a completion of its own. Its time on the wire is longer than
// what a completion costs, and without one its caller would wait for the rest of the list.
constexpr std::uint64_t kOwnCompletion = 16 << 10;

ibv_wr_opcode opcode_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::write:
      return IBV_WR_RDMA_WRITE;
    case WorkKind::read:
      return IBV_WR_RDMA_READ;
    case WorkKind::compare_swap:
      break;
  }
  return IBV_WR_ATOMIC_CMP_AND_SWP;
}

}  // namespace

OneSided::OneSided(IbEndpoint& endpoint)
    : endpoint_(endpoint),
      interface_(endpoint.interface()),
      queues_(endpoint.queues()),
      order_(interface_.completions()) {}

Posted OneSided::post(const WorkRequest& request) {
  const bool is_swap = request.kind == WorkKind::compare_swap;
  if (!interface_.completions().has_room() || (is_swap && swaps_ == Scratch::kSwaps))
    return Posted::full;
  order_.begin();
  if (!std::exchange(is_listed_, true)) interface_.collect_later(endpoint_);
  Work& work = works_.push();
  work.request = request;
  if (is_swap) {
    ++swaps_;
    std::uint64_t& answer = endpoint_.scratch().found[swaps_posted_++ % Scratch::kSwaps];
    work.request.local = reinterpret_cast<std::byte*>(&answer);
  }
  const bool is_over = interface_.closed() || !endpoint_.failure().ok();
  if (interface_.closed()) {
    work.status = Status(Code::closed, "flushed by close");
  } else if (!endpoint_.failure().ok()) {
    work.status = endpoint_.failure();
  } else if (order_.is_broken()) {
    work.status = order_.behind();
  } else {
    work.status = admit(work);
    if (!work.status.ok()) order_.fail(order_.ended() + works_.size(), work.status);
  }
  if (!work.status.ok()) work.begun = work.request.bytes;
  if (is_over) {
    begun_ = works_.size();  // nobody pumps any more
    return Posted::posted;
  }
  interface_.pump_later(endpoint_);
  if (interface_.armed()) endpoint_.pump();
  return Posted::posted;
}

// What can be known of the work before anything of it is sent.
Status OneSided::admit(Work& work) const {
  WEFT_RETURN_IF_ERROR(admit_place(work));
  if (work.is_swap() && interface_.device().atomic_cap == IBV_ATOMIC_NONE) {
    return refusal_of(work.request, endpoint_.peer(), Code::unavailable,
                      "the device has no atomic operations");
  }
  return work.request.bytes == 0 ? Status() : name_local(work);
}

Status OneSided::admit_place(Work& work) const {
  const RemoteBuffer& remote = work.request.remote;
  WorkVerdict verdict = WorkVerdict::unknown;
  if (remote.form != PieceForm::region) {
    verdict = check_bounds(work.request, kUnknownHeap);
  } else if (const auto found = regions_.find(remote.region); found != regions_.end()) {
    const RegionKey& key = found->second;
    verdict = check_region(work.request, key.word, key.bytes);
    work.region_address = key.word + remote.word;
    work.region_key = key.access;
  }
  if (verdict == WorkVerdict::done) return {};
  return refusal_of(work.request, endpoint_.peer(), verdict, kOver);
}

// What fits into a work request is copied there; the device never looks at where it came from.
Status OneSided::name_local(Work& work) const {
  const bool is_swap = work.is_swap();
  const bool is_host = is_swap || interface_.is_host(work.request.local);
  const bool inside = work.request.kind == WorkKind::write &&
                      work.request.bytes <= interface_.inline_bytes() && is_host;
  if (is_swap) work.key = endpoint_.scratch_key();
  if (is_swap || inside) return {};
  if (!is_host) {
    if (const std::optional<std::uint32_t> key = interface_.exposed_key(work.local())) {
      work.key = *key;
      return {};
    }
  }
  WEFT_ASSIGN(work.use, interface_.registered(work.local()));
  work.key = work.use->lkey();
  return {};
}

// Begins work in the order of posting. Work that waits for a chunk holds back all work behind it.
void OneSided::pump() {
  PostList list;
  while (endpoint_.failure().ok() && begun_ < works_.size() && begin(works_[begun_], list)) {
    ++begun_;
    if (const Work& work = works_[begun_ - 1]; !work.status.ok()) flush_behind(work.status);
  }
  hand_over(list);
}

// Work `begun_` is the first behind one that failed. Only what was posted before the failure was
// known is here; post() refuses the rest.
void OneSided::flush_behind(const Status& why) {
  order_.fail(order_.ended() + begun_, why);
  for (; begun_ < works_.size(); ++begun_) {
    Work& work = works_[begun_];
    if (!work.status.ok()) continue;
    work.status = order_.behind();
    work.begun = work.request.bytes;
  }
}

// Returns true once all of the work is in the list or was handed over, or once it has failed.
bool OneSided::begin(Work& work, PostList& list) {
  const RemoteBuffer& remote = work.request.remote;
  if (remote.form == PieceForm::region) return begin_in_region(work, list);
  while (work.begun < work.request.bytes) {
    const Chunk* chunk = chunk_at(remote.word + work.begun);
    if (chunk == nullptr) return false;
    if (check_bounds(work.request, heap_bytes_) != WorkVerdict::done) {
      work.status = refusal_of(work.request, endpoint_.peer(), WorkVerdict::outside, kOver);
      return true;
    }
    if (chunk->key == 0) {
      chunks_[touched_] = {};  // the next work there asks the peer again
      work.status = refusal_of(work.request, endpoint_.peer(), Code::exhausted, kUnregistered);
      return true;
    }
    if (!has_room(list)) return false;
    const std::uint64_t place = (remote.word + work.begun) % kChunkBytes;
    add_part(work, chunk->address + place, chunk->key, kChunkBytes - place, list);
  }
  return true;
}

// In parts as well: devices have a longest message.
bool OneSided::begin_in_region(Work& work, PostList& list) {
  while (work.begun < work.request.bytes) {
    if (!has_room(list)) return false;
    add_part(work, work.region_address + work.begun, work.region_key, kChunkBytes, list);
  }
  return true;
}

// Whether there is room for one more work request, perhaps after those of the list are handed over.
bool OneSided::has_room(PostList& list) {
  if (list.full()) hand_over(list);
  return endpoint_.failure().ok() && queues_.has_room(0, list.count() + 1);
}

// The chunk of the peer's heap that `word` lies in; nullptr: the peer is being asked for it.
const OneSided::Chunk* OneSided::chunk_at(std::uint64_t word) {
  const std::uint64_t number = word / kChunkBytes;
  if (last_chunk_ == nullptr || touched_ != number) {
    touched_ = number;
    last_chunk_ = &chunks_[number];
  }
  if (last_chunk_->known) return last_chunk_;
  if (std::exchange(last_chunk_->asked, true)) return nullptr;
  Control expose;
  expose.kind = ControlKind::expose;
  expose.chunk = number;
  endpoint_.sender().say(expose);
  return nullptr;
}

void OneSided::add_part(Work& work, std::uint64_t address, std::uint32_t key, std::uint64_t most,
                        PostList& list) {
  const std::uint64_t bytes = std::min(most, work.request.bytes - work.begun);
  ibv_send_wr& request = list.add();
  list.part(request, work.request.local + work.begun, bytes, work.key);
  request.opcode = opcode_of(work.request.kind);
  if (work.is_swap()) {
    request.wr.atomic.remote_addr = address;
    request.wr.atomic.rkey = key;
    request.wr.atomic.compare_add = work.request.expected;
    request.wr.atomic.swap = work.request.desired;
  } else {
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = key;
  }
  if (must_wait(work.request.kind)) request.send_flags |= IBV_SEND_FENCE;
  queues_.finish(0, request, bytes, bytes >= kOwnCompletion);
  if (!interface_.is_host(work.request.local)) request.send_flags &= ~unsigned{IBV_SEND_INLINE};
  work.last = queues_[0].posted;
  if (work.request.kind != WorkKind::write) last_fetch_ = work.last;
  work.begun += bytes;
}

// A queue pair begins requests in order, but it may answer a read or an atomic operation after it
// has done a write behind it (InfiniBand's table of ordering). A fence holds back whatever changes
// memory until all reads and atomic operations before it have ended.
bool OneSided::must_wait(WorkKind kind) const {
  return kind != WorkKind::read && last_fetch_ > queues_[0].retired;
}

void OneSided::hand_over(PostList& list) {
  if (list.count() == 0) return;
  queues_.signal_last(0, list);
  queues_.hand_over(0, list);
}

bool OneSided::take_exposed(const Control& control) {
  const auto found = chunks_.find(control.chunk);
  if (found == chunks_.end() || !found->second.asked || found->second.known) return false;
  found->second = {true, true, control.key, control.address};
  heap_bytes_ = control.heap_bytes;
  interface_.pump_later(endpoint_);
  return true;
}

void OneSided::flush(const Status& status) {
  for (std::size_t place = 0; place < works_.size(); ++place) {
    Work& work = works_[place];
    if (!work.status.ok() || (work.begun == work.request.bytes && work.last <= retired())) continue;
    lingers_ |= work.last > retired();
    work.status = status;
    work.last = 0;
  }
  begun_ = works_.size();
}

// Without a failure all of queue pair 0 that is retired has ended well.
std::uint64_t OneSided::retired() const {
  return queues_.size() == 0 ? 0 : queues_[0].retired;
}

bool OneSided::collect() {
  while (!works_.empty()) {
    Work& work = works_.front();
    if (begun_ == 0 || work.last > retired()) return true;
    if (work.is_swap()) {
      --swaps_;
      if (work.status.ok())
        std::memcpy(work.request.found, work.request.local, sizeof *work.request.found);
    }
    work.use.reset();
    order_.end(work.request.ticket, std::move(work.status));
    works_.pop();
    --begun_;
  }
  is_listed_ = false;
  return false;
}

}  // namespace weft::ib
