// local_sgd, diloco, noloco: ranks take the steps of a section alone, and then exchange.
#include <numeric>
#include <random>

#include "engine/strategies/table.h"

namespace weft {
namespace {

class Sections : public StrategyMethod {
 public:
  using StrategyMethod::StrategyMethod;

  Status step(const void* gradient) override {
    descend(model(), gradient);
    if (++taken_ < options().section.value_or(10)) return {};
    taken_ = 0;
    return exchange();
  }
  // The last section may be shorter.
  Status end() override { return taken_ == 0 ? Status() : exchange(); }

 protected:
  virtual Status exchange() = 0;

 private:
  int taken_ = 0;  // steps of this section
};

class LocalSgd : public Sections {
 public:
  using Sections::Sections;

 protected:
  Status exchange() override { return average_all(model(), model()); }
};

// A section begins at `start_`, and what it has changed is a step of the outer optimizer.
class OuterStep : public Sections {
 public:
  using Sections::Sections;

  Status open() override {
    WEFT_ASSIGN(start_, vector());
    WEFT_ASSIGN(change_, vector());
    WEFT_ASSIGN(outer_momentum_, vector());
    copy(start_.data(), model());
    return {};
  }

 protected:
  Memory start_;
  Memory change_;
  Memory outer_momentum_;
};

// DiLoCo (Douillard et al. 2023). With s the start, x the model after the section, b and R of the
// outer step:
//   d := mean(s - x),   m := b m + d,   s := s - R (d + b m),   x := s
class DiLoCo : public OuterStep {
 public:
  using OuterStep::OuterStep;

 protected:
  Status exchange() override {
    const double b = options().outer_momentum.value_or(0.9);
    const double outer_rate = options().outer_rate.value_or(0.7);
    void *s = start_.data(), *d = change_.data(), *m = outer_momentum_.data();
    set(d, {{s, 1.0}, {model(), -1.0}});
    WEFT_RETURN_IF_ERROR(average_all(d, d));
    set(m, {{m, b}, {d, 1.0}});
    set(s, {{s, 1.0}, {d, -outer_rate}, {m, -outer_rate * b}});
    copy(model(), s);
    return {};
  }
};

// NoLoCo (Kolehmainen et al. 2025) with gamma = 1, for which the two tensors of a pair travel as one. With
// the mean over the pair:
//   m := b m + mean(s + R (x - s)) - s,   s := s + m,   x := s
class NoLoCo : public OuterStep {
 public:
  using OuterStep::OuterStep;

 protected:
  Status exchange() override {
    const double b = options().outer_momentum.value_or(0.5);
    const double outer_rate = options().outer_rate.value_or(0.7);
    void *s = start_.data(), *u = change_.data(), *m = outer_momentum_.data();
    set(u, {{s, 1.0 - outer_rate}, {model(), outer_rate}});
    const Rank peer = next_peer();
    if (peer != kNoRank) {
      count_sent(1);
      WEFT_RETURN_IF_ERROR(context().pair_average(input(u), output(u), peer));
    }
    set(m, {{m, b}, {u, 1.0}, {s, -1.0}});
    set(s, {{s, 1.0}, {m, 1.0}});
    copy(model(), s);
    return {};
  }

 private:
  // All ranks shuffle alike: first with second, third with fourth, and so on. Of an odd number the
  // last is alone.
  Rank next_peer() {
    std::vector<Rank> order(static_cast<std::size_t>(context().size()));
    std::iota(order.begin(), order.end(), 0);
    std::mt19937_64 random(options().seed.value_or(1) + 0x9e3779b97f4a7c15U * ++exchanges_);
    for (std::size_t left = order.size(); left > 1; --left) {
      std::swap(order[left - 1], order[random() % left]);
    }
    std::size_t place = 0;
    while (order[place] != context().rank()) ++place;
    const std::size_t other = place ^ 1U;
    return other < order.size() ? order[other] : kNoRank;
  }

  std::uint64_t exchanges_ = 0;
};

}  // namespace

std::unique_ptr<StrategyMethod> make_local_sgd(StrategySetup setup) {
  return std::make_unique<LocalSgd>(std::move(setup));
}
std::unique_ptr<StrategyMethod> make_diloco(StrategySetup setup) {
  return std::make_unique<DiLoCo>(std::move(setup));
}
std::unique_ptr<StrategyMethod> make_noloco(StrategySetup setup) {
  return std::make_unique<NoLoCo>(std::move(setup));
}

}  // namespace weft
