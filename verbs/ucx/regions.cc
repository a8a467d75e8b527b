// Regions that we expose.
#include <algorithm>

#include "verbs/ucx/interface.h"

namespace weft::ucx {
namespace {

// How long withdraw() waits for data that UCX moves to or from the region. The peer has ended its
// work, so there are only data of paths that have failed.
constexpr std::int64_t kLastDataMs = 1000;

}  // namespace

// Nothing is registered: our lane does the work of peers.
Result<Region> UcxInterface::expose(std::span<std::byte> memory) {
  if (closed_) return Status(Code::closed, name_ + ": exposing a region: the interface is closed");
  RegionKey key;
  key.way = RegionWay::ucx;
  key.owner = nonce_;
  key.word = reinterpret_cast<std::uintptr_t>(memory.data());
  key.bytes = memory.size();
  key.number = new_region_number();
  exposed_.emplace(key.number, memory);
  return Region{key.number, encode(key)};
}

const std::span<std::byte>* UcxInterface::exposed(std::uint64_t number) const {
  const auto found = exposed_.find(number);
  return found == exposed_.end() ? nullptr : &found->second;
}

// A path that goes on writing into the region is ended: its memory is not ours to wait for.
void UcxInterface::withdraw(std::uint32_t number) {
  const auto found = exposed_.find(number);
  if (found == exposed_.end()) return;
  const std::span<std::byte> memory = found->second;
  exposed_.erase(found);
  if (process_ != getpid() || worker_ == nullptr) return;
  const auto is_still = [&] {
    return std::ranges::none_of(
               known_, [&](const auto& known) { return known.second->target().moves(memory); }) &&
           std::ranges::none_of(replaced_,
                                [&](const auto& old) { return old->target().moves(memory); });
  };
  if (is_still() || drain(is_still, Deadline::after_ms(kLastDataMs))) return;
  for (auto& [nonce, endpoint] : known_) {
    if (!endpoint->target().moves(memory)) continue;
    endpoint->abandon(Status(Code::unavailable,
                             name_ + ": a region was withdrawn while the peer worked on it",
                             endpoint->peer()));
  }
}

}  // namespace weft::ucx
