// strategies: ways to train one model together, by name.
#include <weft/strategies.h>

#include <span>
#include <string>
#include <vector>

#include "bindings/c/algorithms.h"
#include "bindings/c/arrays.h"

namespace weft::c {

template <>
struct Of<weft_strategy> {
  using Object = Kept<Strategy>;
  static constexpr Kind kKind = Kind::strategy;
  static constexpr const char* kName = "weft_strategy";
};

}  // namespace weft::c

namespace {

using namespace weft::c;
using weft::Compression;
using weft::DataType;
using weft::Status;
using weft::Strategy;
using weft::StrategyOptions;

template <typename Shown, typename Use>
weft_code on(const char* function, Shown* strategy, Use&& use) {
  return use_algorithm(function, strategy, "strategy", true, std::forward<Use>(use));
}

Status convert(const weft_strategy_options* given, StrategyOptions& to) {
  if (given == nullptr) return {};
  weft_strategy_options from{};
  WEFT_RETURN_IF_ERROR(read_struct(given, "options", from));
  WEFT_RETURN_IF_ERROR(check_compression("options->compression", from.compression));
  to.name = name_or(from.name, to.name);
  if (from.rate != 0) to.rate = from.rate;
  if (from.section != 0) to.section = from.section;
  if (from.peers != 0) to.peers = from.peers;
  if (from.colayers != 0) to.colayers = from.colayers;
  if (from.seed != 0) to.seed = from.seed;
  to.stream = stream_of(from.stream);
  to.compression = static_cast<Compression>(from.compression);
  if (from.topology != nullptr) {
    WEFT_ASSIGN(to.topology, weft::exchange_topology(from.topology));
  }
  WEFT_RETURN_IF_ERROR(read_flagged("momentum", from.has_momentum, from.momentum, to.momentum));
  WEFT_RETURN_IF_ERROR(
      read_flagged("outer_rate", from.has_outer_rate, from.outer_rate, to.outer_rate));
  WEFT_RETURN_IF_ERROR(read_flagged("outer_momentum", from.has_outer_momentum, from.outer_momentum,
                                    to.outer_momentum));
  WEFT_RETURN_IF_ERROR(read_flagged("staleness", from.has_staleness, from.staleness, to.staleness));
  return read_flagged("proportion", from.has_proportion, from.proportion, to.proportion);
}

}  // namespace

weft_code weft_strategy_names(const char** names, size_t capacity, size_t* count) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(count, "count"));
    // Never destroyed: threads of the host may still read while the process exits.
    static const auto& all = *new std::vector<std::string>(weft::strategy_names());
    return give_array(std::span(all), "names", names, capacity, count);
  });
}

weft_code weft_strategy_create(weft_context* context, const char* name, void* model, size_t count,
                               weft_data_type type, const weft_strategy_options* options,
                               weft_strategy** strategy) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(strategy, "strategy"));
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_RETURN_IF_ERROR(check_not_null(name, "name"));
    WEFT_RETURN_IF_ERROR(check_type(type));
    StrategyOptions how;
    WEFT_RETURN_IF_ERROR(convert(options, how));
    WEFT_ASSIGN(Strategy made, Strategy::create(*object->context, name,
                                                {model, count, static_cast<DataType>(type)}, how));
    give(std::make_shared<Kept<Strategy>>(object, std::move(made)), strategy);
    return {};
  });
}
weft_code weft_strategy_free(weft_strategy* strategy) {
  return call(__func__, [&] { return release(strategy, "strategy"); });
}
weft_code weft_strategy_begin(weft_strategy* strategy) {
  return on(__func__, strategy, [](Strategy& it) { return it.begin(); });
}
weft_code weft_strategy_step(weft_strategy* strategy, const void* gradient, size_t count,
                             weft_data_type type) {
  return on(__func__, strategy, [&](Strategy& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_type(type));
    return it.step({gradient, count, static_cast<DataType>(type)});
  });
}
weft_code weft_strategy_set_rate(weft_strategy* strategy, double rate) {
  return on(__func__, strategy, [&](Strategy& it) { return it.set_rate(rate); });
}
weft_code weft_strategy_name(const weft_strategy* strategy, const char** name) {
  return on(__func__, strategy, [&](const Strategy& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(name, "name"));
    *name = it.name().data();  // a string literal of the table, which ends with a null character
    return {};
  });
}
weft_code weft_strategy_runs_free(const weft_strategy* strategy, int32_t* is_free) {
  return on(__func__, strategy, [&](const Strategy& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(is_free, "is_free"));
    *is_free = it.runs_free() ? 1 : 0;
    return {};
  });
}
weft_code weft_strategy_get_counts(const weft_strategy* strategy, weft_strategy_counts* counts) {
  return on(__func__, strategy, [&](const Strategy& it) -> Status {
    const weft::StrategyCounts now = it.counts();
    const weft_strategy_counts known{sizeof(known), now.steps, now.bytes, now.dropped};
    return write_struct(known, "counts", counts);
  });
}
weft_code weft_strategy_end(weft_strategy* strategy) {
  return on(__func__, strategy, [](Strategy& it) { return it.end(); });
}
