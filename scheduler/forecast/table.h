// table: the strategies that can be forecast. Internal to the module.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "scheduler/forecast/training.h"

namespace weft {

// The options that a strategy has beside those that all have.
enum ForecastHas : std::uint32_t {
  kForecastSection = 1,
  kForecastPeers = 2,
  kForecastOnePeer = 4,  // peers: 1 if absent; else the graph
  kForecastGroupSize = 8,
  kForecastCompression = 16,
  kForecastTopology = 32,
};

using MakeTrainingModel = std::unique_ptr<TrainingModel>(Training& training);

struct ForecastRow {
  std::string_view name;
  std::uint32_t has = 0;  // ForecastHas
  int section = 1;        // if absent
  MakeTrainingModel* make = nullptr;
};

[[nodiscard]] std::span<const ForecastRow> forecast_table();

MakeTrainingModel forecast_parameter_server, forecast_hierarchical;            // servers.cc
MakeTrainingModel forecast_sharded_server, forecast_allreduce, forecast_ring;  // together.cc
MakeTrainingModel forecast_noloco, forecast_prague_static;                     // together.cc
MakeTrainingModel forecast_dpsgd, forecast_dpsgd_awc, forecast_dmsgd;          // neighbors.cc
MakeTrainingModel forecast_ad_psgd;                                            // neighbors.cc
MakeTrainingModel forecast_canary, forecast_canary_bulk;                       // canary.cc
MakeTrainingModel forecast_canary_bounded, forecast_canary_asynchronous;       // canary.cc
MakeTrainingModel forecast_prague, forecast_prague_random;                     // groups.cc

}  // namespace weft
