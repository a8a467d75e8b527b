// One-sided work, and regions: all members expose them, and each path is told of those of the peer
// when it is first used.
#include "verbs/bond/one_sided.h"

#include <algorithm>

#include "verbs/bond/interface.h"

namespace weft::bond {

// A key of a bond is the keys of its members, one after the other. An endpoint finds that of the
// interface that it leads to.
Result<Region> BondInterface::expose(std::span<std::byte> memory) {
  std::vector<Interface*> members;
  if (memory_) members.push_back(memory_.get());
  for (const Member& member : networks_) members.push_back(member.interface.get());
  MemberRegions parts;
  std::string key;
  for (Interface* member : members) {
    Result<Region> part = member->expose(memory);
    if (!part.ok()) {
      for (const auto& [interface, number] : parts) interface->withdraw(number);
      return part.status();
    }
    parts.emplace_back(member, part->number);
    key += part->key;
  }
  const std::uint32_t number = new_region_number();
  exposed_.emplace(number, std::move(parts));
  return Region{number, std::move(key)};
}

void BondInterface::withdraw(std::uint32_t number) {
  const auto found = exposed_.find(number);
  if (found == exposed_.end()) return;
  for (const auto& [interface, part] : found->second) interface->withdraw(part);
  exposed_.erase(found);
}

OneSided::OneSided(BondEndpoint& endpoint) : endpoint_(endpoint), paths_(endpoint.paths()) {}

// A key that is not of the peer is found out at a live path, if there is one.
Status OneSided::import_region(std::uint32_t number, std::string_view key) {
  WEFT_RETURN_IF_ERROR(check_region_keys(key, endpoint_.peer()));
  const auto live = std::ranges::find_if(paths_, &Path::live);
  if (live != paths_.end()) {
    bring_regions(*live);
    WEFT_RETURN_IF_ERROR(live->endpoint->import_region_as(number, key));
    live->regions = number;
  }
  regions_.emplace(number, key);
  newest_region_ = number;
  return {};
}

void OneSided::drop_region(std::uint32_t number) {
  regions_.erase(number);
  for (const Path& path : paths_) path.endpoint->drop_region(number);
}

// A region that a path cannot import is unknown there, and work on it says so.
void OneSided::bring_regions(Path& path) const {
  if (path.regions == newest_region_) return;
  for (auto region = regions_.upper_bound(path.regions); region != regions_.end(); ++region)
    (void)path.endpoint->import_region_as(region->first, region->second);
  path.regions = newest_region_;
}

Endpoint* OneSided::over(int member) {
  for (Path& path : paths_) {
    if (path.peer_member != member || !path.live() || !path.endpoint->failure().ok()) continue;
    bring_regions(path);
    return path.endpoint;
  }
  return nullptr;
}

// Work that was posted at an endpoint that over() returned counts, too. A path that has just failed
// is given up at the next turn. A path whose peer has answered the fence is closed at both ends: the
// peer closes its end before it answers.
WorkState OneSided::state() const {
  WorkState all{.may_linger = false};
  for (const Path& path : paths_) {
    const WorkState of_path = path.endpoint->work_state();
    all.posted += of_path.posted;
    all.ended += of_path.ended;
    all.is_untold |= of_path.is_untold;
    all.may_linger |= path.lingers || (path.live() && of_path.may_linger);
  }
  return all;
}

// The path stays the same until the caller knows how all of its work ended; then the best path is
// chosen. After a failure of the endpoint, its first path completes the work with the failure.
Posted OneSided::post(const WorkRequest& work) {
  if (worked_on_ == nullptr || !worked_on_->endpoint->at_work()) {
    worked_on_ = endpoint_.failure().ok()
                     ? endpoint_.selector().choose(work.bytes, endpoint_.bond().now())
                     : &paths_.front();
  }
  if (worked_on_ == nullptr) return Posted::full;
  bring_regions(*worked_on_);
  return worked_on_->endpoint->post_work(work);
}

}  // namespace weft::bond
