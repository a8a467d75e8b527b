// mixing: see the header.
#include "scheduler/partial/mixing.h"

#include <fmt/format.h>
#include <weft/graph/mixing.h>
#include <weft/macros.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>
#include <vector>

#include "scheduler/partial/generator.h"
#include "scheduler/partial/static_schedule.h"

namespace weft {
namespace {

// A square matrix by rows, at first that of no change.
class Matrix {
 public:
  explicit Matrix(int n) : n_(static_cast<std::size_t>(n)), values_(n_ * n_) {
    for (std::size_t i = 0; i < n_; ++i) row(i)[i] = 1;
  }
  // F^G times this.
  void average(std::span<const Rank> group) {
    std::vector<double> mean(n_);
    for (const Rank rank : group) {
      const std::span<double> from = row(static_cast<std::size_t>(rank));
      for (std::size_t j = 0; j < n_; ++j) mean[j] += from[j];
    }
    for (double& value : mean) value /= static_cast<double>(group.size());
    for (const Rank rank : group)
      std::ranges::copy(mean, row(static_cast<std::size_t>(rank)).begin());
  }
  [[nodiscard]] std::span<double> row(std::size_t i) {
    return std::span(values_).subspan(i * n_, n_);
  }

 private:
  std::size_t n_;
  std::vector<double> values_;
};

// Sums over rounds.
struct Sums {
  double diagonal = 0;  // of W'W
  double machines = 0;  // of the elements of W'W inside machines, with the diagonal
  double groups = 0;
  double memberships = 0;

  void count(std::span<const Rank> group) {
    if (group.size() < 2) return;
    ++groups;
    memberships += static_cast<double>(group.size());
  }
  // The trace of W'W is the sum of all squares in W. The sum over the elements of a machine's block is
  // the square of W times the vector that is 1 on this machine.
  void add(Matrix& w, MachineShape shape) {
    const auto [machines_, locals] = shape;
    for (int i = 0; i < machines_ * locals; ++i) {
      const std::span<const double> row = w.row(static_cast<std::size_t>(i));
      diagonal += std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
      for (int m = 0; m < machines_; ++m) {
        const auto begin = row.begin() + std::ptrdiff_t{m} * locals;
        const double sum = std::accumulate(begin, begin + locals, 0.0);
        machines += sum * sum;
      }
    }
  }
};

// The rounds of a generator whose workers are all equally fast.
class Rounds {
 public:
  Rounds(GroupGenerator generator, std::uint64_t seed)
      : generator_(std::move(generator)), draws_(seed), order_(generator_.living()) {
    std::iota(order_.begin(), order_.end(), 0);
  }

  // All workers ask, and take part in groups until each has its answer. Calls visit(members) for each
  // group that ends, in their order.
  template <typename Visit>
  Status play(Visit visit) {
    draws_.shuffle(std::span(order_));
    for (const Rank rank : order_) {
      WEFT_RETURN_IF_ERROR(generator_.request(rank));
      keep_assignments();
    }
    for (std::size_t waiting = order_.size(); waiting > 0;) {
      invariant(!running_.empty(), "the group with the lowest number runs");
      const Running group = std::move(running_.front());
      running_.pop_front();
      visit(std::span(group.members));
      waiting -= group.answers;
      for (const Rank rank : group.members) {
        WEFT_RETURN_IF_ERROR(generator_.done(rank, group.number));
        keep_assignments();
      }
    }
    return {};
  }

 private:
  struct Running {
    std::uint64_t number = 0;
    std::vector<Rank> members;
    std::size_t answers = 0;  // requests that it answers
  };

  void keep_assignments() {
    for (const GroupAssignment& each : generator_.assignments()) {
      if (running_.empty() || running_.back().number != each.group)
        running_.push_back({each.group, {each.members.begin(), each.members.end()}});
      running_.back().answers += each.answers ? 1 : 0;
    }
  }

  GroupGenerator generator_;
  Draws draws_;
  std::vector<Rank> order_;
  std::deque<Running> running_;  // in the order in which they began
};

Result<GroupMixing> finish(const Sums& sums, GroupMixing mixing, const std::vector<double>& mean) {
  WEFT_ASSIGN(const Graph graph, Graph::from_matrix(mixing.mean.size(), mean, mixing.mean.name()));
  // E[W'W] is symmetric without negative eigenvalues, so its singular values are its eigenvalues.
  mixing.rho = sigma2(graph);
  mixing.mean = graph;
  mixing.groups = sums.groups / mixing.rounds;
  mixing.members = sums.groups == 0 ? 0 : sums.memberships / sums.groups;
  return mixing;
}

// In each iteration no worker is in two groups: W is symmetric and W'W = W.
Result<GroupMixing> static_mixing(MachineShape shape, GroupMixing mixing) {
  const int n = mixing.mean.size();
  mixing.rounds = static_cast<int>(kStaticPeriod);
  std::vector<double> mean(static_cast<std::size_t>(n) * static_cast<std::size_t>(n));
  Sums sums;
  for (std::uint64_t iteration = 0; iteration < kStaticPeriod; ++iteration) {
    for (Rank rank = 0; rank < n; ++rank) {
      WEFT_ASSIGN(const std::vector<Rank> group, static_group(iteration, shape, rank));
      if (group.front() == rank) sums.count(group);
      const auto begin = mean.begin() + std::ptrdiff_t{rank} * n;
      for (const Rank other : group)
        begin[other] += 1 / static_cast<double>(group.size() * kStaticPeriod);
    }
  }
  return finish(sums, std::move(mixing), mean);
}

Result<GroupMixing> sampled_mixing(const GroupLaw& law, MachineShape shape, std::uint64_t seed,
                                   GroupMixing mixing) {
  const int n = mixing.mean.size();
  // Random groups know no machines: all elements beside the diagonal are alike.
  if (law.kind == GroupLaw::Kind::random) shape = {1, n};
  const auto [machines, locals] = shape;
  GroupOptions options{.size = n, .law = law, .seed = seed};
  for (Rank rank = 0; rank < n; ++rank) options.machine.push_back(rank / locals);
  WEFT_ASSIGN(GroupGenerator generator, GroupGenerator::open(std::move(options)));
  Rounds rounds(std::move(generator), seed + 1);
  mixing.rounds = kSampledRounds;
  mixing.is_exact = false;
  Sums sums;
  for (int round = 0; round < kSampledRounds; ++round) {
    Matrix w(n);
    WEFT_RETURN_IF_ERROR(rounds.play([&](std::span<const Rank> group) {
      sums.count(group);
      w.average(group);
    }));
    sums.add(w, shape);
  }
  // The elements of a kind are alike. All n^2 sum to n, because W is doubly stochastic.
  const double per_rank = 1.0 / kSampledRounds / n;
  const double diagonal = sums.diagonal * per_rank;
  const double row_of_machine = sums.machines * per_rank;
  const double inside = locals > 1 ? (row_of_machine - diagonal) / (locals - 1) : 0;
  const double outside = machines > 1 ? (1 - row_of_machine) / (n - locals) : 0;
  std::vector<double> mean;
  for (Rank i = 0; i < n; ++i) {
    for (Rank j = 0; j < n; ++j)
      mean.push_back(i == j ? diagonal : i / locals == j / locals ? inside : outside);
  }
  return finish(sums, std::move(mixing), mean);
}

}  // namespace

Result<GroupMixing> group_mixing(const GroupLaw& law, MachineShape shape, std::uint64_t seed) {
  WEFT_RETURN_IF_ERROR(check(law));
  const auto [machines, locals] = shape;
  if (machines < 1 || locals < 1 || locals > kMostMixedRanks / machines) {
    return Status(Code::invalid_argument,
                  fmt::format("groups on {} machines x {} ranks: rho is known for 1 to {} ranks",
                              machines, locals, kMostMixedRanks));
  }
  const int n = machines * locals;
  const std::vector<double> ones(static_cast<std::size_t>(n), 1);
  WEFT_ASSIGN(const Graph none, Graph::from_edges(n, {}, ones, name(law)));
  GroupMixing mixing{.mean = none};
  if (law.kind == GroupLaw::Kind::scheduled) return static_mixing(shape, std::move(mixing));
  return sampled_mixing(law, shape, seed, std::move(mixing));
}

}  // namespace weft
