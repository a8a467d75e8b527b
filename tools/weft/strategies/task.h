// task: what the ranks learn. Shared by the ranks, which are threads; nothing changes after it is made,
// but the batches of a rank.
#pragma once

#include <weft/status.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "verbs/base/base.h"

namespace weft {

class Task {
 public:
  virtual ~Task() = default;
  [[nodiscard]] virtual std::size_t size() const = 0;  // floats of the model
  [[nodiscard]] virtual double rate() const = 0;       // that suits it
  virtual void first_model(std::span<float> model) const = 0;
  // The slope of a rank's loss at the model, in its step number `step`.
  virtual void slope(Rank rank, std::uint64_t step, std::span<const float> model,
                     std::span<float> slope) const = 0;
  // Over all that there is to learn from; nothing if the task has none.
  [[nodiscard]] virtual std::optional<double> loss(std::span<const float> model) const = 0;
  // The share of unseen examples that the model gets right.
  [[nodiscard]] virtual std::optional<double> accuracy(std::span<const float> model) const = 0;
};

// The slope of a parabola, whose lowest point differs from rank to rank. Costs nothing.
[[nodiscard]] std::unique_ptr<Task> make_parabola(std::size_t size);

// Handwritten digits, as examples/data/digits.csv has them: a row of 64 pixels from 0 to 16 and a label.
// The model is a network with one hidden layer. Every fifth image, by chance, is held out; each rank
// learns from its share of the others, in batches of 16.
[[nodiscard]] Result<std::unique_ptr<Task>> read_digits(const std::string& path, int ranks);

}  // namespace weft
