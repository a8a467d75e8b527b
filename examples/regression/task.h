// task: the samples of a rank, and how near the ranks are to the solution. The loss of a model x is
// |A x - b|^2 / 2m over all m samples. Rank i of n sees only its own samples. Its own loss f_i is n
// times its part of that sum, so that the mean of all f_i is the loss.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/context/context.h"
#include "examples/regression/samples.h"

namespace regression {

struct Task {
  Samples mine;
  double scale = 0;              // f_i is scale/2 * |A_i x - b_i|^2
  std::vector<double> solution;  // for all samples, in closed form; only for comparison
};

// The part of rank `rank` of `ranks` of the file. An error if there are not enough samples for all.
weft::Result<Task> read_task(const std::string& path, int rank, int ranks);

// The largest distances of any rank, relative to the length of the solution.
struct Distances {
  double solution = 0;   // between a rank's model and the solution
  double consensus = 0;  // between a rank's model and the mean of all models
};
// Collective.
weft::Result<Distances> measure(weft::Context& context, const Task& task, Model mine);

// Measures after every tenth part of the iterations; rank 0 prints a line for each, below the
// title.
class Progress {
 public:
  Progress(weft::Context& context, const Task& task, const std::string& title,
           std::size_t iterations);
  [[nodiscard]] std::size_t iterations() const { return iterations_; }
  // Every rank calls this after every iteration. The first iteration is number 1.
  weft::Status after(std::size_t iteration, Model mine);
  // The distances as last measured.
  [[nodiscard]] const Distances& distances() const { return distances_; }

 private:
  weft::Context& context_;
  const Task& task_;
  std::size_t iterations_;
  Distances distances_;
};

// "the distance … is 1.0e-03; expected at most 1.0e-06" unless value <= most; NaN is too large.
weft::Status expect_at_most(const std::string& what, double value, double most);

}  // namespace regression
