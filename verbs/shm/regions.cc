// Regions: those that we expose, and one-sided work on those of peers.
#include <fmt/core.h>

#include "verbs/shm/interface.h"

namespace weft::shm {

Result<Region> ShmInterface::expose(std::span<std::byte> memory) {
  if (closed_) return Status(Code::closed, "exposing a region: shm is closed");
  WEFT_ASSIGN(const Exposed exposed, set_mark());
  const RemoteBuffer named = describe_memory(memory.data(), memory.size());
  RegionKey key;
  key.way = RegionWay::shm;
  key.form = named.form;
  key.owner = owner_of(identity_.nonce, block_name_);
  key.word = named.word;
  key.bytes = memory.size();
  key.number = new_region_number();
  key.mark = heap_offset(exposed.mark, sizeof *exposed.mark);
  key.exposure = exposed.exposure;
  exposed_.emplace(key.number, exposed);
  return Region{key.number, encode(key)};
}

void ShmInterface::withdraw(std::uint32_t number) {
  const auto found = exposed_.find(number);
  if (found == exposed_.end()) return;
  clear_mark(found->second);
  exposed_.erase(found);
}

// What a key says is checked as all that comes from peers: it leads to no address outside of the
// peer's heap here, and to private memory only where the kernel checks each access.
Status ShmEndpoint::import_region_as(std::uint32_t number, std::string_view keys) {
  PeerRegion region;
  WEFT_ASSIGN(region.key,
              find_region_key(keys, RegionWay::shm, owner_of(heap_nonce_, block_name_), peer()));
  const RegionKey& key = region.key;
  const Status damaged(
      Code::mismatch,
      fmt::format("the key of a region of rank {} leads out of its shared memory", peer()), peer());
  if (key.mark % sizeof(Mark) != 0) return damaged;
  region.mark = static_cast<const Mark*>(heap_->at(key.mark, sizeof(Mark)));
  if (region.mark == nullptr) return damaged;
  if (key.form == PieceForm::view) {
    region.here = static_cast<std::byte*>(heap_->at(key.word, key.bytes));
    if (region.here == nullptr) return damaged;
  } else if (properties_.shares_process) {
    region.here = reinterpret_cast<std::byte*>(key.word);
  } else if (key.bytes != 0 && !properties_.process_access.ok()) {
    return Status(properties_.process_access.code(),
                  fmt::format("a region of rank {} is in its private memory, and {}", peer(),
                              properties_.process_access.text()),
                  peer());
  }
  regions_.emplace(number, region);
  return {};
}

// The region that the work names, if the work stays inside it and the region is exposed; else
// `why` says what is wrong.
const PeerRegion* ShmEndpoint::reach(const WorkRequest& work, WorkVerdict& why) const {
  const auto found = regions_.find(work.remote.region);
  why = WorkVerdict::unknown;
  if (found == regions_.end()) return nullptr;
  const PeerRegion& region = found->second;
  const std::uint64_t begin =
      region.here != nullptr ? reinterpret_cast<std::uintptr_t>(region.here) : region.key.word;
  why = check_region(work, begin, region.key.bytes);
  if (why != WorkVerdict::done) return nullptr;
  if (region.mark->load(std::memory_order_acquire) == region.key.exposure) return &region;
  why = WorkVerdict::withdrawn;
  return nullptr;
}

Status ShmEndpoint::move_in_region(const WorkRequest& work) const {
  WorkVerdict why{};
  const PeerRegion* const region = reach(work, why);
  if (region == nullptr) return refusal_of(work, peer(), why, kOver);
  if (work.bytes == 0) return {};
  if (region->here == nullptr) return move_private(work, region->key.word + work.remote.word);
  copy(work, region->here + work.remote.word);
  return {};
}

Result<std::uint64_t*> ShmEndpoint::word_in_region(const WorkRequest& work) const {
  WorkVerdict why{};
  const PeerRegion* const region = reach(work, why);
  if (region == nullptr) return refusal_of(work, peer(), why, kOver);
  if (region->here == nullptr) {
    return refusal_of(work, peer(), Code::unavailable,
                      "the region is in private memory of another process, where only Weft's heap "
                      "(weft::allocate) can be swapped");
  }
  return reinterpret_cast<std::uint64_t*>(region->here + work.remote.word);
}

}  // namespace weft::shm
