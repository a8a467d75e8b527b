// strategies: how ranks train one model together. Each strategy has the same calls, so a program
// changes it by a name.
//
//   auto strategy = weft::Strategy::create(context, "qg_dmsgd", weft::out(x, n), {.rate = 0.05});
//   for (…) {
//     strategy->begin();                       // what can travel beside the computation starts
//     compute_gradient(x, slope);              // at the model, which must not change meanwhile
//     strategy->step(weft::in(slope, n));      // x is where the next gradient is computed
//   }
//   strategy->end();
//
// docs/strategies.md has the formula of each. x is the model, g its gradient, r the rate, w the
// weights of the graph:
//
//   parameter_server   x := x - r mean(g), at rank 0, which all others send to and get x from
//   sharded_server     each rank does so with a share of x (BytePS)
//   allreduce, ring    each rank does so with all of x
//   hierarchical       x_i := sum_j w_ij (x_j - r g_j), over machines
//   dpsgd              the same over ranks (D-PSGD: adapt, then combine)
//   dpsgd:awc          x_i := sum_j w_ij x_j - r g_i, whose sum travels beside the computation
//   dmsgd              dpsgd whose momentum is averaged as well (DmSGD)
//   qg_dmsgd           dpsgd with the momentum of the averages (QG-DmSGD)
//   ad_psgd            x_i - r g_i, and an average with a random neighbor, which does not wait
//   sgp                push-sum over the exponential graph, to one or two peers a step
//   local_sgd          steps without the others; after each section the mean of all
//   diloco             local_sgd whose mean is a gradient for a Nesterov step
//   noloco             diloco in random pairs
//   prague             x_i - r g_i, then the mean of a group, which does not wait for slow ranks
//   prague:random      the same with random groups
//   prague:static      x_i - r g_i, then the mean of a group that each rank computes alone
//   canary             x_i - r mean(the gradients that have come); who is too late drops its own and takes the
//                      model of the fastest
//   canary:bulk, canary:bounded, canary:asynchronous     who waits: all for all, who is ahead, nobody
//
// create() and end() are collective. The model of rank 0 becomes that of all ranks. Ranks that call
// create() with different names, options, sizes or types have a `mismatch` which says what differs;
// if one rank's arguments are wrong, all have the error. The model and the context must outlive the
// object. All ranks take the same number of steps, unless runs_free().
//
// Between step() and begin() the caller may change the model as well, by an optimizer of its own, if the
// strategy is local_sgd, diloco or noloco: the change is part of the section.
//
// An object may be destroyed without end(), for example after an error. What other ranks may still use, the
// context keeps.
//
// Models are of floating types. A model and gradients on a GPU, on some ranks or on all, are copied to the host
// and back in each step, where the step is computed (docs/gpu.md).
//
// Threads: one at a time may use an object. Every wait ends within Config::deadline_ms. After an
// error of step() later calls return the same error.
#pragma once

#include <weft/gradient_exchange.h>
#include <weft/status.h>
#include <weft/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace WEFT_PUBLIC weft {

class Context;

// An option that is set and that the strategy does not have is invalid_argument.
struct StrategyOptions {
  // Begins the names of windows, so each strategy that is in use at the same time has its own.
  std::string name = "strategy";
  double rate = 0.1;  // r
  // 0 to below 1. A step of SGD is m := momentum m + g, x := x - r m. dmsgd, qg_dmsgd: 0.9 if absent; others
  // have no momentum then. diloco, noloco: of the steps of a section. Not of ad_psgd.
  std::optional<double> momentum{};
  // Steps between two exchanges. local_sgd, diloco, noloco: 10 if absent. prague: 1.
  std::optional<int> section{};
  // sgp: 1 or 2 receivers a step; 1 if absent. dpsgd, dmsgd, qg_dmsgd: a one-peer or two-peer exponential
  // graph, which changes at each step; absent: the context's graph.
  std::optional<int> peers{};
  // Of random choices. ad_psgd, noloco, prague, prague:random: 1 if absent.
  std::optional<std::uint64_t> seed{};
  // How gradients and models travel. allreduce, dpsgd, dpsgd:awc, dmsgd, qg_dmsgd, local_sgd, diloco, canary and its
  // settings.
  Compression compression = Compression::none;
  // Of the step that follows a section. diloco: 0.7 and 0.9 if absent; noloco: 0.7 and 0.5.
  std::optional<double> outer_rate{};
  std::optional<double> outer_momentum{};
  // canary and its settings: parts of the model that travel one by one; 10 if absent.
  std::optional<int> colayers{};
  // canary, canary:bounded: iterations, 18 if absent. canary: colayers, six of ten if absent
  // (GradientExchangeOptions).
  std::optional<int> staleness{};
  std::optional<int> proportion{};
  // canary and its settings: how the pieces travel; all_to_all if absent (weft/gradient_exchange.h).
  std::optional<ExchangeTopology> topology{};
  // Owns the memory of the model, which is kept as long as it is needed. Without it the destructor of dpsgd:awc
  // waits, in an iteration, for the sum that travels.
  std::shared_ptr<const void> owner{};
  // For a model on a GPU: calls begin behind the work in it, and what they write is there when they return. Absent:
  // the default stream.
  std::optional<Stream> stream{};
};

struct StrategyCounts {
  std::uint64_t steps = 0;
  // Bytes of tensors that this rank has sent, or has moved from and to a peer that takes no part (ad_psgd).
  // The sum over ranks is the traffic of the job.
  std::uint64_t bytes = 0;
  std::uint64_t dropped = 0;  // gradients that are in no model
};

// "parameter_server", "sharded_server", …
[[nodiscard]] std::vector<std::string> strategy_names();

class Strategy {
 public:
  // An unknown name is invalid_argument, with the names there are.
  static Result<Strategy> create(Context& context, std::string_view name, const Output& model,
                                 const StrategyOptions& options = {});
  ~Strategy();
  Strategy(Strategy&&) noexcept;
  Strategy& operator=(Strategy&&) noexcept;

  // An iteration begins, before its gradient is computed. If it is not called, step() calls it.
  Status begin();
  // Ends the iteration. The gradient has the size and type of the model.
  Status step(const Input& gradient);
  // The rate of the steps from here on; all ranks give the same.
  Status set_rate(double rate);

  [[nodiscard]] std::string_view name() const;
  // Whether ranks may take different numbers of steps.
  [[nodiscard]] bool runs_free() const;
  [[nodiscard]] StrategyCounts counts() const;

  // Takes what is under way, and frees what the strategy has made. The model stays. Collective.
  Status end();

 private:
  class State;
  explicit Strategy(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
