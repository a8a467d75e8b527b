// OneSided: one-sided work over the paths of a bonded endpoint, and the regions of the peer. Order
// holds on one path only, so the work stays on one path while any of it is under way. If that path
// fails, the work under way completes with the failure. Work that is posted after poll() has
// returned this completion takes another path.
//
// Owner: a BondEndpoint, in whose lane everything here runs. Internal to the module.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/bond/path.h"

namespace weft::bond {

class BondEndpoint;

class OneSided {
 public:
  explicit OneSided(BondEndpoint& endpoint);

  // As in transport/remote_memory.h and transport/paths.h.
  Posted post(const WorkRequest& work);
  [[nodiscard]] WorkState state() const;
  Status import_region(std::uint32_t number, std::string_view key);
  void drop_region(std::uint32_t number);
  [[nodiscard]] Endpoint* over(int member);

  // The path has a new connection.
  void begin_anew(const Path& path) {
    if (worked_on_ == &path) worked_on_ = nullptr;
  }

 private:
  // Lets the path's endpoint know all regions that were imported.
  void bring_regions(Path& path) const;

  BondEndpoint& endpoint_;
  std::vector<Path>& paths_;
  Path* worked_on_ = nullptr;                     // the path that took work last
  std::map<std::uint32_t, std::string> regions_;  // keys of the peer's regions, by number
  std::uint32_t newest_region_ = 0;               // the last number that was imported
};

}  // namespace weft::bond
