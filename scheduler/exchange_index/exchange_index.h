// exchange_index: which gradients have been exchanged, and whether a worker may go on (Canary, section 5.2,
// "Gradient Exchange Index", and 5.3). A pure state machine; each worker has its own copy.
//
// A model is cut into colayers, bundles of layers whose gradients travel together. For each iteration and
// each colayer the index has a bitmap: bit j is set if the gradient of worker j has been exchanged. A
// worker that still computes sends an empty piece, so its bit is not set. The sum of a colayer is
// divided by the number of set bits.
//
//   iteration 8   colayer 0: 1101   colayer 1: 1111     worker 2 has not sent colayer 0
//   iteration 9   colayer 0: 0001   colayer 1: 0000     worker 0 is the fastest; staleness of the others: 1
//
// Pieces carry what their sender knows, and merge() adds it. So when all workers have exchanged with each
// other, directly or through others, their copies are equal.
//
// Rules, by what a worker that has ended its iteration may do:
//
//   bulk          (BSP)  waits until all bits of the iteration are set
//   bounded       (SSP)  waits while it is `staleness` iterations ahead of the slowest worker
//   asynchronous  (ASP)  goes on
//   canary               goes on; but if the fastest worker is more than `staleness` iterations ahead, and
//                        less than `proportion` of its own colayers are out, it drops its gradients
//                        and takes the parameters of the fastest worker
//
// A worker that left is waited for no more. What it has sent counts.
//
// Bounds: the index has `rows` iterations, the newest ones. Older pieces are refused: they would be added to
// what is long applied. Memory is taken by make(); nothing is allocated later. A call that is an error
// changes nothing.
#pragma once

#include <weft/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct ExchangeOptions {
  int workers = 1;    // ranks 0…workers-1
  int colayers = 10;  // of the model; with s and p below, the paper's
  ExchangeRule rule = ExchangeRule::canary;
  int staleness = 18;  // iterations: of `bounded` and `canary`; the paper's s
  int proportion = 6;  // colayers: of `canary`; the paper's p
  int rows = 64;       // iterations that are kept; more than staleness
};

class ExchangeIndex {
 public:
  // invalid_argument, which names the option: no workers or colayers, a staleness below 0, or of 0 where
  // it is the bound, a proportion that is not 0…colayers, rows that do not exceed the staleness.
  [[nodiscard]] static Result<ExchangeIndex> make(const ExchangeOptions& options);

  // The worker has begun this iteration; iterations begin with 0, and a worker may skip some.
  Status begin(Rank worker, std::int64_t iteration);
  // The worker's gradient of the colayer has been exchanged. unavailable: the iteration is older than the
  // rows; the piece has to be dropped.
  Status add(Rank worker, int colayer, std::int64_t iteration);
  // The worker has left.
  Status leave(Rank worker);
  [[nodiscard]] bool has_left(Rank worker) const;

  // Workers whose gradients the sum of the colayer has: its divisor.
  [[nodiscard]] int contributors(int colayer, std::int64_t iteration) const;
  // Whether the sum has the worker's gradient.
  [[nodiscard]] bool has(Rank worker, int colayer, std::int64_t iteration) const;
  // Whether no living worker's gradient is missing in any colayer.
  [[nodiscard]] bool is_complete(std::int64_t iteration) const;

  // The newest iteration that a worker has begun; -1: nobody has begun one.
  [[nodiscard]] std::int64_t newest() const;
  [[nodiscard]] std::int64_t iteration_of(Rank worker) const;
  // How many iterations the fastest worker is ahead.
  [[nodiscard]] std::int64_t staleness_of(Rank worker) const {
    return newest() - iteration_of(worker);
  }
  // Colayers of the worker's iteration whose gradients it has sent.
  [[nodiscard]] int proportion_of(Rank worker) const;

  struct Verdict {
    enum class What : std::uint8_t {
      go_on,
      wait,  // until an event or a merge() changes it
      drop,  // the gradients of this iteration; and take the parameters of rank `from`
    } what = What::go_on;
    Rank from = kNoRank;
  };
  // What the worker may do that has ended its iteration.
  [[nodiscard]] Verdict verdict(Rank worker) const;

  // What this copy knows, as words to be sent.
  void write(std::vector<std::uint64_t>& to) const;
  // Adds what another copy knows. mismatch, which names what differs: it is of other workers, colayers or
  // rows, or cut short.
  Status merge(std::span<const std::uint64_t> from);

  friend bool operator==(const ExchangeIndex& a, const ExchangeIndex& b) {
    return a.begun_ == b.begun_ && a.left_ == b.left_ && a.bits_ == b.bits_;
  }

 private:
  explicit ExchangeIndex(const ExchangeOptions& options);
  [[nodiscard]] Status check_worker(Rank worker) const;
  [[nodiscard]] bool is_kept(std::int64_t iteration) const;
  // Rows from the newest iteration on are forgotten so far that this one has a place.
  void advance(std::int64_t iteration);
  // The bitmap of a colayer; the iteration is kept.
  [[nodiscard]] std::span<std::uint64_t> bitmap(int colayer, std::int64_t iteration);
  [[nodiscard]] std::span<const std::uint64_t> bitmap(int colayer, std::int64_t iteration) const;
  [[nodiscard]] std::size_t row_words() const;

  ExchangeOptions options_;
  std::size_t words_;                // of a bitmap
  std::vector<std::int64_t> begun_;  // by worker; -1: none
  std::vector<std::uint64_t> left_;  // a bitmap
  std::vector<std::uint64_t> bits_;  // [iteration % rows][colayer][word]
  std::int64_t top_ = -1;            // the newest iteration that has a row
};

}  // namespace weft
