// PortTrials: ports that do not reach each other. If names alone have paired two ports, both may
// work and still not reach each other. For paths that were never connected the rank with the
// smaller number then tries other ports. The first pair over which the peer answers takes the place
// of one that does not work. To the peer this is a path that comes back over other ports, by the
// same notes as any path that comes back. What either rank had posted on the path is fenced and
// posted again.
//
// Owner: a BondEndpoint, in whose lane everything here runs. Internal to the module.
#pragma once

#include <cstdint>
#include <vector>

#include "verbs/bond/path.h"

namespace weft::bond {

class BondEndpoint;

class PortTrials {
 public:
  explicit PortTrials(BondEndpoint& endpoint);

  // Begins, judges and ends trials, as long as a path was never connected.
  void look(std::int64_t now);
  // The peer has spoken on a connection that belongs to no path: follows it if it has moved a path.
  void hear(std::int64_t now);
  // Ends all trials: no more are needed, or the endpoint was replaced.
  void end();

 private:
  // A pair of ports that no path uses.
  struct Spare {
    Ports ports;
    Endpoint* trial = nullptr;     // the connection over them, while they are tried
    std::int64_t answered_ns = 0;  // for how long the trial was seen connected
  };
  enum class Trial : std::uint8_t { begun, no_place, impossible };

  void find_spares();
  bool end_round();
  bool begin_round();
  Trial begin_trial(Spare& spare);
  void judge_trial(Spare& spare, std::int64_t passed_ns, std::int64_t now);
  Endpoint* take_trial(Spare& spare);
  void end_trial(Spare& spare);
  void follow(std::int64_t now);
  [[nodiscard]] bool are_free(const Ports& ports) const;
  [[nodiscard]] Path* path_to_move(const Ports& ports) const;
  void move_path(Path& path, Spare& spare, Endpoint& endpoint, std::int64_t now);

  BondEndpoint& endpoint_;
  std::vector<Path>& paths_;
  const bool tries_;           // this rank tries ports, and the peer follows
  std::vector<Spare> spares_;  // while a path was never connected
  int round_ = 0;              // of trials; it lasts until round_until_ns_
  std::int64_t round_until_ns_ = 0;
  std::int64_t looked_ns_ = 0;  // when ports were looked at last
};

}  // namespace weft::bond
