// gradient_exchange: gradients that travel in pieces, and the bundling of layers.
#include <weft/gradient_exchange.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bindings/c/algorithms.h"
#include "bindings/c/arrays.h"

namespace weft::c {

// An exchange, and the contributors of the iteration that has ended last.
struct Exchanging {
  GradientExchange exchange;
  std::vector<int> contributors{};
};

template <>
struct Of<weft_gradient_exchange> {
  using Object = Kept<Exchanging>;
  static constexpr Kind kKind = Kind::gradient_exchange;
  static constexpr const char* kName = "weft_gradient_exchange";
};

}  // namespace weft::c

namespace {

using namespace weft::c;
using weft::DataType;
using weft::EndedIteration;
using weft::GradientExchange;
using weft::GradientExchangeOptions;
using weft::LayerSize;
using weft::Status;

template <typename Shown, typename Use>
weft_code on(const char* function, Shown* exchange, Use&& use) {
  return use_algorithm(function, exchange, "exchange", true, std::forward<Use>(use));
}

Status convert(const weft_gradient_exchange_options* given, GradientExchangeOptions& to) {
  if (given == nullptr) return {};
  weft_gradient_exchange_options from{};
  WEFT_RETURN_IF_ERROR(read_struct(given, "options", from));
  to.name = name_or(from.name, to.name);
  WEFT_ASSIGN(to.rule, weft::exchange_rule(name_or(from.rule, "canary")));
  WEFT_ASSIGN(to.topology, weft::exchange_topology(name_or(from.topology, "all_to_all")));
  WEFT_RETURN_IF_ERROR(check_compression("options->compression", from.compression));
  to.compression = static_cast<weft::Compression>(from.compression);
  to.stream = stream_of(from.stream);
  if (from.rate != 0) to.rate = from.rate;
  std::optional<std::int32_t> staleness;
  WEFT_RETURN_IF_ERROR(read_flagged("staleness", from.has_staleness, from.staleness, staleness));
  to.staleness = staleness.value_or(to.staleness);
  return read_flagged("proportion", from.has_proportion, from.proportion, to.proportion);
}

}  // namespace

weft_code weft_bundle_layers(const size_t* counts, const int32_t* kinds, size_t layers,
                             int32_t colayers, int32_t* colayer_of) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(colayer_of, "colayer_of"));
    WEFT_RETURN_IF_ERROR(check_not_null(counts, "counts"));
    std::vector<LayerSize> sizes(layers);
    for (std::size_t layer = 0; layer < layers; ++layer)
      sizes[layer] = {counts[layer], kinds == nullptr ? 0 : kinds[layer]};
    WEFT_ASSIGN(const std::vector<int> found, weft::bundle_layers(sizes, colayers));
    std::ranges::copy(found, colayer_of);
    return {};
  });
}

weft_code weft_gradient_exchange_create(weft_context* context, void* model, size_t count,
                                        weft_data_type type, const size_t* colayers,
                                        size_t colayer_count,
                                        const weft_gradient_exchange_options* options,
                                        weft_gradient_exchange** exchange) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(exchange, "exchange"));
    WEFT_ASSIGN(const auto object, object_of(context, "context"));
    WEFT_RETURN_IF_ERROR(check_type(type));
    if (colayer_count != 0) WEFT_RETURN_IF_ERROR(check_not_null(colayers, "colayers"));
    GradientExchangeOptions how;
    WEFT_RETURN_IF_ERROR(convert(options, how));
    WEFT_ASSIGN(
        GradientExchange made,
        GradientExchange::create(*object->context, {model, count, static_cast<DataType>(type)},
                                 {colayers, colayer_count}, how));
    give(std::make_shared<Kept<Exchanging>>(object, Exchanging{std::move(made)}), exchange);
    return {};
  });
}
weft_code weft_gradient_exchange_free(weft_gradient_exchange* exchange) {
  return call(__func__, [&] { return release(exchange, "exchange"); });
}
weft_code weft_gradient_exchange_begin(weft_gradient_exchange* exchange) {
  return on(__func__, exchange, [](Exchanging& it) { return it.exchange.begin(); });
}
weft_code weft_gradient_exchange_push(weft_gradient_exchange* exchange, int32_t colayer,
                                      const void* gradient, size_t count, weft_data_type type) {
  return on(__func__, exchange, [&](Exchanging& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_type(type));
    return it.exchange.push(colayer, {gradient, count, static_cast<DataType>(type)});
  });
}
weft_code weft_gradient_exchange_end_iteration(weft_gradient_exchange* exchange, void* mean,
                                               size_t count, weft_data_type type,
                                               weft_ended_iteration* ended) {
  return on(__func__, exchange, [&](Exchanging& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_type(type));
    weft_ended_iteration known{};
    // Before the iteration ends, as a wrong struct must not hide how it did.
    if (ended != nullptr) WEFT_RETURN_IF_ERROR(write_struct(known, "ended", ended));
    WEFT_ASSIGN(EndedIteration now,
                it.exchange.end_iteration({mean, count, static_cast<DataType>(type)}));
    it.contributors = std::move(now.contributors);
    if (ended == nullptr) return {};
    known = {sizeof(known), now.number, now.is_dropped ? 1 : 0, now.pulled_from};
    return write_struct(known, "ended", ended);
  });
}
weft_code weft_gradient_exchange_contributors(const weft_gradient_exchange* exchange,
                                              int32_t* contributors, size_t room, size_t* count) {
  return on(__func__, exchange, [&](const Exchanging& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(count, "count"));
    return give_array(std::span(it.contributors), "contributors", contributors, room, count);
  });
}
weft_code weft_gradient_exchange_update(weft_gradient_exchange* exchange,
                                        void (*change)(void* argument), void* argument) {
  return on(__func__, exchange, [&](Exchanging& it) -> Status {
    if (change == nullptr) return argument_error("change", "is NULL");
    return it.exchange.update([&] { change(argument); });
  });
}
weft_code weft_gradient_exchange_iteration(const weft_gradient_exchange* exchange,
                                           int64_t* iteration) {
  return on(__func__, exchange, [&](const Exchanging& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(iteration, "iteration"));
    *iteration = it.exchange.iteration();
    return {};
  });
}
weft_code weft_gradient_exchange_staleness(weft_gradient_exchange* exchange, int64_t* staleness) {
  return on(__func__, exchange, [&](Exchanging& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(staleness, "staleness"));
    WEFT_ASSIGN(*staleness, it.exchange.staleness());
    return {};
  });
}
weft_code weft_gradient_exchange_index(weft_gradient_exchange* exchange, uint64_t* words,
                                       size_t room, size_t* count) {
  return on(__func__, exchange, [&](Exchanging& it) -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(count, "count"));
    WEFT_ASSIGN(const std::vector<std::uint64_t> found, it.exchange.index());
    return give_array(std::span(found), "words", words, room, count);
  });
}
weft_code weft_gradient_exchange_get_counts(const weft_gradient_exchange* exchange,
                                            weft_gradient_exchange_counts* counts) {
  return on(__func__, exchange, [&](const Exchanging& it) -> Status {
    const weft::GradientExchangeCounts now = it.exchange.counts();
    const weft_gradient_exchange_counts known{sizeof(known), now.iterations, now.dropped, now.pulls,
                                              now.bytes};
    return write_struct(known, "counts", counts);
  });
}
weft_code weft_gradient_exchange_end(weft_gradient_exchange* exchange) {
  return on(__func__, exchange, [](Exchanging& it) { return it.exchange.end(); });
}
