// method: what every strategy is made of. A strategy is a class in a file of its own, and a row in
// table.h.
//
// Lifetime: made on each rank, then open(), which is collective; at last end(), collective as well.
// Threads: one at a time. Internal to the module.
#pragma once

#include <weft/graph/schedule.h>
#include <weft/memory.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>

#include "engine/kernels/kernels.h"
#include "engine/strategies/strategies.h"

namespace weft {

struct StrategySetup {
  Context& context;
  std::string_view name;    // of the table, which is static
  Output model;             // in memory of the host
  StrategyOptions options;  // checked
};

class StrategyMethod {
 public:
  explicit StrategyMethod(StrategySetup setup);
  virtual ~StrategyMethod() = default;
  StrategyMethod(const StrategyMethod&) = delete;
  StrategyMethod& operator=(const StrategyMethod&) = delete;

  // Takes memory, and makes what is collective.
  virtual Status open() { return {}; }
  virtual Status begin() { return {}; }
  // `gradient` has the shape of the model. counts().steps is the number of steps before this one.
  virtual Status step(const void* gradient) = 0;
  virtual Status end() { return {}; }

  [[nodiscard]] const StrategySetup& setup() const { return setup_; }
  [[nodiscard]] StrategyCounts& counts() { return counts_; }
  Status open_all();  // what all methods have, then open()
  void set_rate(double rate) { setup_.options.rate = rate; }

  [[nodiscard]] Context& context() const { return setup_.context; }

 protected:
  [[nodiscard]] const StrategyOptions& options() const { return setup_.options; }
  [[nodiscard]] double rate() const { return setup_.options.rate; }
  [[nodiscard]] void* model() const { return setup_.model.data; }
  [[nodiscard]] std::size_t bytes() const;  // of the model
  // Memory of the shape of the model, as what operations take.
  [[nodiscard]] Input input(const void* data) const { return {data, setup_.model.count, type()}; }
  [[nodiscard]] Output output(void* data) const { return {data, setup_.model.count, type()}; }
  [[nodiscard]] DataType type() const { return setup_.model.type; }
  // Zeroes, of the shape of the model.
  [[nodiscard]] Result<Memory> vector() const { return Memory::allocate(bytes()); }
  // The same for a window, which other ranks may use when the strategy has gone.
  [[nodiscard]] Result<std::shared_ptr<Memory>> shared_vector() const;
  // to := the sum of the terms, each with its weight.
  void set(void* to, std::initializer_list<Term> terms) const;
  void copy(void* to, const void* from) const;

  // A step of SGD: x := x - rate g, or with momentum m := momentum m + g, x := x - rate m.
  void descend(void* x, const void* gradient) { descend(x, gradient, 0, setup_.model.count); }
  // The same for some elements of x; `gradient` has those alone.
  void descend(void* x, const void* gradient, std::size_t first, std::size_t count);
  [[nodiscard]] const std::optional<Schedule>& schedule() const { return schedule_; }  // of `peers`
  [[nodiscard]] void* momentum() const { return momentum_.data(); }                    // m

  // y := the mean of x over all ranks, compressed as the options say.
  Status average_all(const void* x, void* y,
                     AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic);
  // y := the weighted sum of x over the neighbors in this step: those of the context's graph, or with
  // `peers` those of schedule().
  Status average_neighbors(const void* x, void* y);
  Result<Handle> average_neighbors_start(const void* x, void* y);
  // Of tensors that travel whole, one for each receiver.
  void count_sent(std::size_t tensors);
  // Of an allreduce among so many ranks.
  void count_reduced(std::size_t ranks);

 private:
  StrategySetup setup_;
  StrategyCounts counts_;
  Memory momentum_;
  std::optional<Schedule> schedule_;
};

}  // namespace weft
