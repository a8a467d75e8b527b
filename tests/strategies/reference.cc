#include "tests/strategies/reference.h"

#include <weft/graph.h>

#include <utility>

#include "scheduler/partial/partial.h"

namespace weft {
namespace {

Tensor mean_of(const Tensors& all) {
  Tensor mean(all.front().size());
  for (const Tensor& each : all)
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += each[i] / static_cast<double>(all.size());
  return mean;
}

// y := a x + b y
void blend(Tensor& y, double a, const Tensor& x, double b) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = a * x[i] + b * y[i];
}

// x_i := sum_j w_ij x_j; in the rows are the receivers.
void mix(Tensors& of, const std::vector<std::vector<double>>& weights) {
  Tensors next(of.size(), Tensor(of.front().size()));
  for (std::size_t i = 0; i < of.size(); ++i)
    for (std::size_t j = 0; j < of.size(); ++j) blend(next[i], weights[i][j], of[j], 1);
  of = std::move(next);
}

}  // namespace

Tensor first_model(std::size_t count) {
  Tensor x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = 0.01 * static_cast<double>(i % 17);
  return x;
}

Tensor slope_at(Rank rank, const double* x, std::size_t count) {
  Tensor slope(count);
  for (std::size_t i = 0; i < count; ++i)
    slope[i] = (0.3 + 0.1 * rank) * (x[i] - rank - 0.001 * static_cast<double>(i));
  return slope;
}

Reference::Reference(std::string name, StrategyOptions options, int ranks, std::size_t count)
    : name_(std::move(name)),
      options_(options),
      ranks_(static_cast<std::size_t>(ranks)),
      models_(ranks_, first_model(count)),
      slopes_(ranks_, Tensor(count)),
      momenta_(slopes_),
      starts_(models_),
      outer_(slopes_),
      sums_(models_),
      weights_(ranks_, 1.0) {
  if (name_ == "dmsgd" || name_ == "qg_dmsgd") options_.momentum = options_.momentum.value_or(0.9);
}

Tensor Reference::mean() const {
  return mean_of(models_);
}

void Reference::descend(Tensors& to) {
  for (std::size_t r = 0; r < ranks_; ++r) {
    blend(momenta_[r], 1, slopes_[r], options_.momentum.value_or(0));
    blend(to[r], -kRate, momenta_[r], 1);
  }
}

void Reference::descend_together() {
  slopes_.assign(ranks_, mean_of(slopes_));
  descend(models_);
}

void Reference::combine(Tensors& of) const {
  std::vector<std::vector<double>> weights(ranks_, std::vector<double>(ranks_));
  for (std::size_t r = 0; r < ranks_; ++r) {
    const auto n = static_cast<int>(ranks_), rank = static_cast<int>(r);
    if (options_.peers) {
      const Schedule schedule =
          *options_.peers == 1 ? *one_peer_exponential(n) : *two_peer_exponential(n);
      const LocalView view = schedule.local_view(steps_, rank);
      weights[r][r] = view.self_weight;
      for (const Peer& peer : view.in)
        weights[r][static_cast<std::size_t>(peer.rank)] = peer.weight;
    } else {
      const LocalView view = exponential_graph(n)->local_view(rank);
      const double share = 1.0 / static_cast<double>(view.in.size() + 1);
      weights[r][r] = share;
      for (const Peer& peer : view.in) weights[r][static_cast<std::size_t>(peer.rank)] = share;
    }
  }
  mix(of, weights);
}

void Reference::push() {
  const auto n = static_cast<int>(ranks_);
  const Schedule schedule =
      options_.peers.value_or(1) == 1 ? *one_peer_exponential(n) : *two_peer_exponential(n);
  Tensors sums(ranks_, Tensor(models_[0].size()));
  std::vector<double> weights(ranks_);
  for (std::size_t r = 0; r < ranks_; ++r) {
    const LocalView view = schedule.local_view(steps_, static_cast<Rank>(r));
    blend(sums[r], view.self_weight, sums_[r], 1);
    weights[r] += view.self_weight * weights_[r];
    for (const Peer& peer : view.out) {
      const auto to = static_cast<std::size_t>(peer.rank);
      blend(sums[to], peer.weight, sums_[r], 1);
      weights[to] += peer.weight * weights_[r];
    }
  }
  sums_ = std::move(sums);
  weights_ = std::move(weights);
}

void Reference::exchange() {
  if (name_ == "local_sgd") {
    models_.assign(ranks_, mean());
    return;
  }
  const double rate = options_.outer_rate.value_or(0.7);
  const double keep = options_.outer_momentum.value_or(name_ == "diloco" ? 0.9 : 0.5);
  Tensors change = starts_;
  for (std::size_t r = 0; r < ranks_; ++r) blend(change[r], -1, models_[r], 1);
  if (name_ == "diloco") {
    for (std::size_t r = 0; r < ranks_; ++r) {
      const Tensor gradient = mean_of(change);
      blend(outer_[r], 1, gradient, keep);
      blend(starts_[r], -rate, gradient, 1);
      blend(starts_[r], -rate * keep, outer_[r], 1);
    }
  } else {  // noloco, of two ranks or one
    const Tensor gradient = mean_of(change), middle = mean_of(starts_);
    for (std::size_t r = 0; r < ranks_; ++r) {
      blend(outer_[r], -rate, gradient, keep);
      blend(outer_[r], 1, middle, 1);
      blend(outer_[r], -1, starts_[r], 1);
      blend(starts_[r], 1, outer_[r], 1);
    }
  }
  models_ = starts_;
}

void Reference::average_groups() {
  const auto section = static_cast<std::uint64_t>(options_.section.value_or(1));
  if ((steps_ + 1) % section != 0) return;
  const Tensors before = models_;
  for (std::size_t r = 0; r < ranks_; ++r) {
    Tensors members;
    const std::vector<Rank> group =
        *static_group(steps_ / section, {1, static_cast<int>(ranks_)}, static_cast<Rank>(r));
    for (const Rank each : group) members.push_back(before[static_cast<std::size_t>(each)]);
    models_[r] = mean_of(members);
  }
}

void Reference::step() {
  for (std::size_t r = 0; r < ranks_; ++r)
    slopes_[r] = slope_at(static_cast<Rank>(r), models_[r].data(), models_[r].size());
  const auto section = static_cast<std::uint64_t>(options_.section.value_or(10));
  if (name_ == "parameter_server" || name_ == "sharded_server" || name_ == "allreduce" ||
      name_ == "ring" || name_.starts_with("canary")) {
    descend_together();
  } else if (name_ == "hierarchical") {  // all ranks on one machine
    descend(models_);
    models_.assign(ranks_, mean());
  } else if (name_ == "dpsgd") {
    descend(models_);
    combine(models_);
  } else if (name_ == "dpsgd:awc") {
    combine(models_);
    descend(models_);
  } else if (name_ == "dmsgd") {
    descend(models_);
    combine(models_);
    combine(momenta_);
  } else if (name_ == "qg_dmsgd") {
    const double b = *options_.momentum;
    Tensors next = models_;
    for (std::size_t r = 0; r < ranks_; ++r) {
      blend(next[r], -kRate, slopes_[r], 1);
      blend(next[r], -kRate * b, momenta_[r], 1);
    }
    combine(next);
    for (std::size_t r = 0; r < ranks_; ++r) {
      blend(momenta_[r], (1 - b) / kRate, models_[r], b);
      blend(momenta_[r], -(1 - b) / kRate, next[r], 1);
    }
    models_ = next;
  } else if (name_ == "sgp") {
    push();
    descend(sums_);
    for (std::size_t r = 0; r < ranks_; ++r) blend(models_[r], 1 / weights_[r], sums_[r], 0);
  } else if (name_ == "prague:static") {
    descend(models_);
    average_groups();
  } else {
    descend(models_);
    if ((steps_ + 1) % section == 0) exchange();
  }
  ++steps_;
}

void Reference::end() {
  const bool has_sections = name_ == "local_sgd" || name_ == "diloco" || name_ == "noloco";
  if (has_sections && steps_ % static_cast<std::uint64_t>(options_.section.value_or(10)) != 0)
    exchange();
}

}  // namespace weft
