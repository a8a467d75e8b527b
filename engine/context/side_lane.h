// side_lane: a lane of a context beside the first one, which callers drive. A side lane runs parts
// of large operations. It has what a lane needs to run alone: an interface with connections of its
// own, control notices on these, its own look-out for deaths and deadlines, and a thread. So no
// lock is taken between lanes while data flow. Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "engine/context/control.h"
#include "engine/context/failures.h"
#include "engine/context/first_failure.h"
#include "engine/context/peers.h"
#include "engine/job/job.h"
#include "engine/lane/lane.h"

namespace weft {

// What the lanes of a context have in common. All of it outlives them.
struct LaneSurroundings {
  const Config& config;
  const RankMap& rank_map;
  Control::Identity identity;
  // The machines of all ranks are known, so that the selection is only read.
  RailSelection& rails;
  Membership& membership;
  FirstFailure& first_failure;
  Lane& home;
};

// Threads: post() of the lane, wake() and close() may be called by any thread, the other functions
// need a Lane::Hold.
class SideLane {
 public:
  // `addresses` has the addresses of the peers' lanes of the same number.
  SideLane(const LaneSurroundings& around, AddressBook addresses, const LaneOptions& options,
           std::unique_ptr<Interface> interface, TraceRing& trace);

  // Tells the peers the address of this lane, and starts its thread.
  [[nodiscard]] Status start();
  // Ends what runs with `closed`, and the thread.
  void close();

  [[nodiscard]] Lane& lane() { return lane_; }
  [[nodiscard]] const Peers& peers() const { return peers_; }

 private:
  Status connect(BoundCall& part);

  const LaneSurroundings around_;
  Lane lane_;
  Peers peers_;
  Control control_;
  Failures failures_;
};

}  // namespace weft
