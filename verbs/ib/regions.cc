// Regions: those that we expose, each as one registration, and those of the peer by their keys.
#include "verbs/ib/interface.h"

namespace weft::ib {

Result<Region> IbInterface::expose(std::span<std::byte> memory) {
  if (closed_) return Status(Code::closed, name_ + ": exposing a region: the interface is closed");
  WEFT_ASSIGN(std::shared_ptr<const ExposedMemory> exposed,
              is_host(memory.data()) ? device_->expose(memory) : memory_->expose(memory));
  RegionKey key;
  key.way = RegionWay::ib;
  key.owner = nonce();
  key.word = reinterpret_cast<std::uintptr_t>(memory.data());
  key.bytes = memory.size();
  key.number = new_region_number();
  key.access = exposed->region == nullptr ? 0 : exposed->region->rkey;
  exposed_.emplace(key.number, ExposedRegion{memory, std::move(exposed)});
  return Region{key.number, encode(key)};
}

std::optional<std::uint32_t> IbInterface::exposed_key(std::span<const std::byte> memory) const {
  for (const auto& [number, region] : exposed_) {
    const std::span<const std::byte> all = region.memory;
    const bool has =
        all.data() <= memory.data() && memory.data() + memory.size() <= all.data() + all.size();
    if (has && region.share->region != nullptr) return region.share->region->lkey;
  }
  return std::nullopt;
}

Status OneSided::import_region(std::uint32_t number, std::string_view keys) {
  WEFT_ASSIGN(const RegionKey key,
              find_region_key(keys, RegionWay::ib, endpoint_.nonce(), endpoint_.peer()));
  regions_.emplace(number, key);
  return {};
}

}  // namespace weft::ib
