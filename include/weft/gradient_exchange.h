// gradient_exchange: gradients that travel in pieces while the next ones are computed, and workers that need
// not wait for each other (Zhou et al. 2021, Canary).
//
//   std::vector<std::size_t> colayers = …;           // elements of each; bundle_layers() chooses layers
//   auto exchange = weft::GradientExchange::create(context, weft::out(x, n), colayers, {.rate = 0.05});
//   for (…) {
//     exchange->begin();
//     for (int each = 0; each < 4; ++each) {         // backward
//       compute_gradient_of(each, slope);
//       exchange->push(each, weft::in(slope, colayers[each]));  // travels from here on
//     }
//     exchange->end_iteration(weft::out(mean, n));   // x := x - rate mean
//   }
//   exchange->end();
//
// A *colayer* is a bundle of layers whose gradients travel together. The model x is the colayers, one after
// the other. push() sends a piece, the gradient of a colayer, to all ranks, which take no part. A rank that
// still computes has sent nothing; that is its *empty piece*, and nobody waits for it unless the rule
// says so. end_iteration() gives for each colayer
//
//   mean := (the pieces of this iteration and of others that have come since the last one) / contributors
//
// where the contributors are the ranks of which there is a piece. Of a rank that is ahead there may be
// several pieces, which are added. So no gradient is lost, but where a rank drops some.
//
// Rules, by what end_iteration() waits for:
//
//   bulk          until the pieces of all ranks are there; the mean is that of all of them
//   bounded       while this rank is `staleness` iterations ahead of the slowest
//   asynchronous  for nothing
//   canary        for nothing; but if the fastest rank is more than `staleness` iterations ahead when less than
//                 `proportion` colayers are pushed, the rest of the gradients is dropped, and x becomes
//                 the model of the fastest rank
//
// Each rank knows of all others which pieces are out, by an exchange index (Canary, 5.2) that travels
// beside them.
//
// Topologies, by how pieces travel (Canary, 4.4):
//
//   all_to_all  each piece goes to all n-1 others, and each rank takes its mean of what has come. A rank that dies or
//               leaves is waited for no more, and the others go on. What it has sent counts.
//   mesh        each rank owns a share of each colayer, one of n. A rank sends each owner its share of a piece. The owner
//               adds up in end_iteration() what has come since the last one, divides by the contributors, and sends
//               this mean to all. So an iteration takes less than 2 models instead of n-1, and all ranks take the
//               same means, each once. A gradient is in the others' models after one more end_iteration() of its
//               owners, but at once under `bulk`. If a rank dies or leaves, nobody has its shares: later calls of all
//               are errors that name it.
//
// create() and end() are collective. Ranks that call create() with different arguments all have a `mismatch`
// which says what differs; if one rank's are wrong, all have the error. The model and the context must outlive
// the object. create() sets the context's graph to the fully connected one; other windows may exist only
// if it is that already. Models are of floating types. A model, gradients and means on a GPU are copied to the host
// and back, where the means are computed (docs/gpu.md).
//
// Memory: about 5 models for each other rank, since pieces wait at their receivers; in a mesh about 12 models in all.
//
// Threads: one at a time may use an object. Every wait ends within Config::deadline_ms with an error that
// names the rank which is late; the call may be repeated after timed_out. After another error that is none of
// the arguments later calls return it.
#pragma once

#include <weft/status.h>
#include <weft/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace WEFT_PUBLIC weft {

class Context;

struct LayerSize {
  std::size_t count = 0;  // elements of its gradient
  int kind = 0;           // what it is, for example convolution or fully connected
};

// The colayer of each layer (Canary, 4.3.2). The layers are given as backward reaches them, and a colayer has
// layers that follow each other. If there are enough colayers, layers of different kinds share none. The
// largest colayer is as small as can be, and none is empty. invalid_argument: less than one colayer, or
// more than layers.
[[nodiscard]] Result<std::vector<int>> bundle_layers(std::span<const LayerSize> layers,
                                                     int colayers);

enum class ExchangeTopology : std::uint8_t { all_to_all, mesh };
[[nodiscard]] std::string_view name(ExchangeTopology topology);
// Accepts what name() returns.
[[nodiscard]] Result<ExchangeTopology> exchange_topology(std::string_view name);

struct GradientExchangeOptions {
  std::string name = "gradient_exchange";  // of the windows; begins their names
  ExchangeRule rule = ExchangeRule::canary;
  int staleness = 18;  // iterations: of `bounded` and `canary`; the paper's s
  // Colayers, of `canary`; the paper's p. Absent: six of ten.
  std::optional<int> proportion{};
  // x := x - rate mean at the end of an iteration. Absent: the caller changes x, by update().
  std::optional<double> rate{};
  ExchangeTopology topology = ExchangeTopology::all_to_all;
  // How pieces and means of f32 travel, if that makes them smaller; not low_rank. What this loses is added to later ones.
  Compression compression = Compression::none;
  // For memory of a GPU: calls begin behind the work in it, and what they write is there when they return. Absent:
  // the default stream.
  std::optional<Stream> stream{};
};

// How an iteration ended.
struct EndedIteration {
  std::int64_t number = 0;
  bool is_dropped = false;     // its gradients, but those that were out
  Rank pulled_from = kNoRank;  // whose model x is now
  // Of each colayer: the ranks whose pieces the mean has; in a mesh the owners whose means it has.
  std::vector<int> contributors;
};

struct GradientExchangeCounts {
  std::uint64_t iterations = 0;  // that have ended
  std::uint64_t dropped = 0;     // iterations whose gradients were dropped
  std::uint64_t pulls = 0;       // of the model of the fastest
  std::uint64_t bytes = 0;  // of pieces and means that were sent, and of models that were pulled
};

class GradientExchange {
 public:
  // `colayers`: the elements of each; their sum is the model's count. invalid_argument names what is
  // out of range.
  static Result<GradientExchange> create(Context& context, const Output& model,
                                         std::span<const std::size_t> colayers,
                                         const GradientExchangeOptions& options = {});
  ~GradientExchange();
  GradientExchange(GradientExchange&&) noexcept;
  GradientExchange& operator=(GradientExchange&&) noexcept;

  // An iteration begins, before its gradients are computed.
  Status begin();
  // The gradient of a colayer, once in an iteration. It is copied, so the caller may overwrite it. Under
  // `bulk` the call waits until all ranks have begun this iteration.
  Status push(int colayer, const Input& gradient);
  // mean := the means of all colayers, one after the other; zeros if no rank contributed, and for a dropped
  // iteration. Under `bulk` every colayer must have been pushed.
  Result<EndedIteration> end_iteration(const Output& mean);
  // Runs `change`, which may write x. Ranks that pull the model have the new x from then on. `change` must
  // not use this object.
  Status update(const std::function<void()>& change);

  // The iteration that has begun last; -1: none. One that follows a pull has the number of the fastest.
  [[nodiscard]] std::int64_t iteration() const;
  // How many iterations the fastest rank is ahead, as far as is known here.
  [[nodiscard]] Result<std::int64_t> staleness();
  // What is known here of all ranks: their iterations, and which pieces are out. Equal on all ranks when what they
  // have told has arrived.
  [[nodiscard]] Result<std::vector<std::uint64_t>> index();
  [[nodiscard]] GradientExchangeCounts counts() const;

  // Frees the windows. Collective.
  Status end();

 private:
  class State;
  explicit GradientExchange(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
