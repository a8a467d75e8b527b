// table: the strategies there are. A new one is a file with its class, its make function here, and its
// row in table.cc.
//
// Internal to the module.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "engine/strategies/method.h"

namespace weft {

// The options that a strategy has beside the name and the rate.
enum StrategyHas : std::uint32_t {
  kHasMomentum = 1,
  kHasSection = 2,
  kHasPeers = 4,
  kHasSeed = 8,
  kHasCompression = 16,
  kHasOuter = 32,  // outer_rate, outer_momentum
  kHasColayers = 64,
  kHasStaleness = 128,
  kHasProportion = 256,
  kHasTopology = 512,
};

using MakeStrategy = std::unique_ptr<StrategyMethod>(StrategySetup setup);

struct StrategyRow {
  std::string_view name;
  std::uint32_t has = 0;   // StrategyHas
  bool runs_free = false;  // ranks may take different numbers of steps
  MakeStrategy* make = nullptr;
};

[[nodiscard]] std::span<const StrategyRow> strategy_table();

MakeStrategy make_parameter_server, make_sharded_server;             // servers.cc
MakeStrategy make_allreduce, make_ring;                              // all.cc
MakeStrategy make_hierarchical;                                      // neighbors.cc
MakeStrategy make_dpsgd, make_dpsgd_awc, make_dmsgd, make_qg_dmsgd;  // neighbors.cc
MakeStrategy make_ad_psgd;                                           // ad_psgd.cc
MakeStrategy make_sgp;                                               // sgp.cc
MakeStrategy make_local_sgd, make_diloco, make_noloco;               // sections.cc
MakeStrategy make_prague, make_prague_random, make_prague_static;    // prague.cc
MakeStrategy make_canary, make_canary_bulk, make_canary_bounded,
    make_canary_asynchronous;  // canary.cc

}  // namespace weft
