// The rows, in the order in which tools print them: servers, all ranks, neighbors, pairs, sections, groups, pieces.
#include "engine/strategies/table.h"

#include <array>

namespace weft {
namespace {

constexpr std::uint32_t kNeighbors = kHasMomentum | kHasPeers | kHasCompression;
constexpr std::uint32_t kPieces = kHasMomentum | kHasColayers | kHasTopology | kHasCompression;

constexpr std::array kTable{
    StrategyRow{"parameter_server", kHasMomentum, false, make_parameter_server},
    StrategyRow{"sharded_server", kHasMomentum, false, make_sharded_server},
    StrategyRow{"allreduce", kHasMomentum | kHasCompression, false, make_allreduce},
    StrategyRow{"ring", kHasMomentum, false, make_ring},
    StrategyRow{"hierarchical", kHasMomentum, false, make_hierarchical},
    StrategyRow{"dpsgd", kNeighbors, false, make_dpsgd},
    StrategyRow{"dpsgd:awc", kNeighbors, false, make_dpsgd_awc},
    StrategyRow{"dmsgd", kNeighbors, false, make_dmsgd},
    StrategyRow{"qg_dmsgd", kNeighbors, false, make_qg_dmsgd},
    StrategyRow{"ad_psgd", kHasSeed, true, make_ad_psgd},
    StrategyRow{"sgp", kHasMomentum | kHasPeers, false, make_sgp},
    StrategyRow{"local_sgd", kHasMomentum | kHasSection | kHasCompression, false, make_local_sgd},
    StrategyRow{"diloco", kHasMomentum | kHasSection | kHasCompression | kHasOuter, false,
                make_diloco},
    StrategyRow{"noloco", kHasMomentum | kHasSection | kHasSeed | kHasOuter, false, make_noloco},
    StrategyRow{"prague", kHasMomentum | kHasSection | kHasSeed, true, make_prague},
    StrategyRow{"prague:random", kHasMomentum | kHasSection | kHasSeed, true, make_prague_random},
    StrategyRow{"prague:static", kHasMomentum | kHasSection, false, make_prague_static},
    StrategyRow{"canary", kPieces | kHasStaleness | kHasProportion, true, make_canary},
    StrategyRow{"canary:bulk", kPieces, false, make_canary_bulk},
    StrategyRow{"canary:bounded", kPieces | kHasStaleness, false, make_canary_bounded},
    StrategyRow{"canary:asynchronous", kPieces, true, make_canary_asynchronous},
};

}  // namespace

std::span<const StrategyRow> strategy_table() {
  return kTable;
}

}  // namespace weft
