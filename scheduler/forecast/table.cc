// The rows, in the order of the engine's table.
#include "scheduler/forecast/table.h"

#include <array>

namespace weft {
namespace {

constexpr int kSection = 10;  // of what takes local steps
constexpr std::uint32_t kForecastNeighbors = kForecastPeers | kForecastCompression;
constexpr std::uint32_t kForecastPieces = kForecastTopology | kForecastCompression;

constexpr std::array kForecasts{
    ForecastRow{"parameter_server", 0, 1, forecast_parameter_server},
    ForecastRow{"sharded_server", 0, 1, forecast_sharded_server},
    ForecastRow{"allreduce", kForecastCompression, 1, forecast_allreduce},
    ForecastRow{"ring", 0, 1, forecast_ring},
    ForecastRow{"hierarchical", 0, 1, forecast_hierarchical},
    ForecastRow{"dpsgd", kForecastNeighbors, 1, forecast_dpsgd},
    ForecastRow{"dpsgd:awc", kForecastNeighbors, 1, forecast_dpsgd_awc},
    ForecastRow{"dmsgd", kForecastNeighbors, 1, forecast_dmsgd},
    ForecastRow{"qg_dmsgd", kForecastNeighbors, 1, forecast_dpsgd},
    ForecastRow{"ad_psgd", 0, 1, forecast_ad_psgd},
    ForecastRow{"sgp", kForecastPeers | kForecastOnePeer, 1, forecast_dpsgd_awc},
    ForecastRow{"local_sgd", kForecastSection | kForecastCompression, kSection, forecast_allreduce},
    ForecastRow{"diloco", kForecastSection | kForecastCompression, kSection, forecast_allreduce},
    ForecastRow{"noloco", kForecastSection, kSection, forecast_noloco},
    ForecastRow{"prague:static", kForecastSection, 1, forecast_prague_static},
    ForecastRow{"prague", kForecastSection | kForecastGroupSize, 1, forecast_prague},
    ForecastRow{"prague:random", kForecastSection | kForecastGroupSize, 1, forecast_prague_random},
    ForecastRow{"canary", kForecastPieces, 1, forecast_canary},
    ForecastRow{"canary:bulk", kForecastPieces, 1, forecast_canary_bulk},
    ForecastRow{"canary:bounded", kForecastPieces, 1, forecast_canary_bounded},
    ForecastRow{"canary:asynchronous", kForecastPieces, 1, forecast_canary_asynchronous},
};

}  // namespace

std::span<const ForecastRow> forecast_table() {
  return kForecasts;
}

}  // namespace weft
