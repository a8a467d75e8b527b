// reference: what each strategy computes, for all ranks at once and in plain loops.
#pragma once

#include <weft/graph/schedule.h>
#include <weft/strategies.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

inline constexpr double kRate = 0.2;

using Tensor = std::vector<double>;
using Tensors = std::vector<Tensor>;  // by rank

// The model of all ranks at first, and the gradient of a rank: that of a parabola of its own.
[[nodiscard]] Tensor first_model(std::size_t count);
[[nodiscard]] Tensor slope_at(Rank rank, const double* x, std::size_t count);

class Reference {
 public:
  Reference(std::string name, StrategyOptions options, int ranks, std::size_t count);

  void step();
  void end();  // the last exchange of a section
  [[nodiscard]] const Tensor& model(Rank rank) const {
    return models_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] Tensor mean() const;

 private:
  void descend(Tensors& to);        // with the slopes at the models
  void descend_together();          // by the mean of the slopes
  void combine(Tensors& of) const;  // over the neighbors of this step
  void push();                      // a step of push-sum
  void exchange();                  // at the end of a section
  void average_groups();

  std::string name_;
  StrategyOptions options_;
  std::size_t ranks_;
  std::uint64_t steps_ = 0;
  Tensors models_, slopes_, momenta_, starts_, outer_, sums_;
  std::vector<double> weights_;
};

}  // namespace weft
