// Mixing figures. sigma2 comes from Lanczos on A'A, A = P W P: power iteration with a memory. Plain
// power iteration needs about 1/(gap between the two largest values) products, some 10^5 for a ring
// of 1,000; Lanczos needs the square root of that, and is exact once it has seen every dimension.
#include <fmt/format.h>
#include <weft/graph/mixing.h>
#include <weft/macros.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace weft {
namespace {

using Vector = std::vector<double>;
// The steps of one period; a graph is a period of one.
using Product = std::vector<Graph>;

double dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void add_scaled(Vector& y, double factor, const Vector& x) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += factor * x[i];
}

void scale(Vector& x, double factor) {
  for (double& value : x) value *= factor;
}

void remove_mean(Vector& x) {
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  for (double& value : x) value -= mean;
}

// y_i = w_ii x_i + the sum over the edges of i in `direction`: W x over in_edges, W' x over
// out_edges.
Vector apply(const Graph& graph, std::span<const Peer> (Graph::*direction)(Rank) const,
             const Vector& x) {
  Vector y(x.size());
  for (Rank i = 0; i < graph.size(); ++i) {
    const auto row = static_cast<std::size_t>(i);
    y[row] = graph.self_weight(i) * x[row];
    for (const Peer& peer : (graph.*direction)(i)) {
      y[row] += peer.weight * x[static_cast<std::size_t>(peer.rank)];
    }
  }
  return y;
}

// A'A x for A = P W P; x has mean 0.
Vector apply_normal(const Product& steps, Vector x) {
  for (auto step = steps.begin(); step != steps.end(); ++step)
    x = apply(*step, &Graph::in_edges, x);
  remove_mean(x);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    x = apply(*step, &Graph::out_edges, x);
  }
  remove_mean(x);
  return x;
}

// Fixed for all platforms: raw mt19937_64 output (its seed 1 is arbitrary), in -1…1, mean removed.
Vector start_vector(int n) {
  std::mt19937_64 engine(1);
  Vector x;
  for (int i = 0; i < n; ++i) x.push_back(static_cast<double>(engine() >> 11) * 0x1p-52 - 1);
  remove_mean(x);
  return x;
}

// A symmetric tridiagonal matrix.
struct Tridiagonal {
  Vector diagonal;
  Vector off;  // one shorter once complete
};

// Sturm's count: no eigenvalue lies above x exactly if no pivot of (matrix - x I) is positive.
bool any_eigenvalue_above(const Tridiagonal& matrix, double x) {
  double pivot = 1;
  for (std::size_t i = 0; i < matrix.diagonal.size(); ++i) {
    const double below = i == 0 ? 0 : matrix.off[i - 1] * matrix.off[i - 1] / pivot;
    pivot = matrix.diagonal[i] - x - below;
    if (pivot > 0) return true;
    if (pivot == 0)
      pivot = -1e-300;  // a hair to the left, as usual, so that the division is defined
  }
  return false;
}

double largest_eigenvalue(const Tridiagonal& matrix) {
  double high = 0;
  for (const double value : matrix.diagonal) high = std::max(high, value);
  const double widest =
      matrix.off.empty() ? 0 : *std::max_element(matrix.off.begin(), matrix.off.end());
  high += 2 * widest;  // Gershgorin
  double low = 0;
  constexpr int kBisections = 100;  // beyond the last bit of a double
  for (int i = 0; i < kBisections; ++i) {
    const double middle = 0.5 * (low + high);
    (any_eigenvalue_above(matrix, middle) ? low : high) = middle;
  }
  return high;
}

double sigma2_of(const Product& steps, int n) {
  const int most_steps = std::min(n - 1, kMostLanczosSteps);
  constexpr int kCheckEvery = 10;
  constexpr double kSettled = 1e-13;
  // The Krylov space is complete when less than this is left of values that are at most about 1.
  constexpr double kBreakdown = 1e-14;
  Vector v = start_vector(n);
  std::vector<Vector> basis;
  Tridiagonal matrix;
  double found = 0;
  for (int step = 1; step <= most_steps; ++step) {
    scale(v, 1 / std::sqrt(dot(v, v)));
    basis.push_back(v);
    v = apply_normal(steps, v);
    matrix.diagonal.push_back(dot(v, basis.back()));
    // Against all of the basis, twice: otherwise rounding brings back directions already found.
    for (int pass = 0; pass < 2; ++pass) {
      for (const Vector& b : basis) add_scaled(v, -dot(v, b), b);
    }
    const double rest = std::sqrt(dot(v, v));
    const bool is_last = step == most_steps || rest < kBreakdown;
    if (is_last || step % kCheckEvery == 0) {
      const double before = std::exchange(found, largest_eigenvalue(matrix));
      if (is_last || found - before < kSettled * found) break;
    }
    matrix.off.push_back(rest);
  }
  return std::sqrt(found);
}

double disagreement(Vector z) {
  remove_mean(z);
  return std::sqrt(dot(z, z));
}

// `step_of(k)` is the graph of round k.
template <typename StepOf>
std::optional<int> rounds_to(double distance, int n, StepOf step_of) {
  Vector x = start_vector(n);
  Vector mass(x.size(), 1);
  const double goal = distance * disagreement(x);
  for (int round = 0; round <= kMostMixingRounds; ++round) {
    Vector z(x.size());
    std::transform(x.begin(), x.end(), mass.begin(), z.begin(), std::divides<>());
    if (disagreement(std::move(z)) <= goal) return round;
    const Graph& graph = step_of(round);
    x = apply(graph, &Graph::in_edges, x);
    mass = apply(graph, &Graph::in_edges, mass);
  }
  return std::nullopt;
}

Result<Product> period_of(const Schedule& schedule) {
  if (schedule.period() > kMostMixingPeriod) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: a period of {} steps is too long for mixing figures (most: {})",
                              schedule.name(), schedule.period(), kMostMixingPeriod));
  }
  Product steps;
  for (std::uint64_t step = 0; step < schedule.period(); ++step) {
    WEFT_ASSIGN(Graph graph, step_graph(schedule, step));
    steps.push_back(graph);
  }
  return steps;
}

Mixing mixing_of(const Product& steps, double distance) {
  const int n = steps.front().size();
  const double sigma = sigma2_of(steps, n);
  const auto step_of = [&steps](int round) -> const Graph& {
    return steps[static_cast<std::size_t>(round) % steps.size()];
  };
  return {sigma, 1 - sigma, rounds_to(distance, n, step_of)};
}

}  // namespace

double sigma2(const Graph& graph) {
  return sigma2_of({graph}, graph.size());
}

Result<double> sigma2(const Schedule& schedule) {
  WEFT_ASSIGN(const Product steps, period_of(schedule));
  return sigma2_of(steps, schedule.size());
}

Mixing mixing(const Graph& graph, double distance) {
  return mixing_of({graph}, distance);
}

Result<Mixing> mixing(const Schedule& schedule, double distance) {
  WEFT_ASSIGN(const Product steps, period_of(schedule));
  return mixing_of(steps, distance);
}

}  // namespace weft
