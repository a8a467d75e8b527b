// shared_index: an exchange index of which each rank has a copy. A copy goes to all other ranks by one-sided
// puts, so its sender waits for nobody, and is merged into theirs.
//
// A window's tensor of f64 has the words of the index in halves, because updates are of floating types and
// numbers below 2^32 are exact.
//
// Threads: one at a time. Lifetime: until end() or the end of the context. Internal to the module.
#pragma once

#include <weft/context.h>
#include <weft/memory.h>
#include <weft/window.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/exchange_index/exchange_index.h"

namespace weft {

class SharedIndex {
 public:
  // On the context's graph, in which all ranks are neighbors. Collective.
  static Result<SharedIndex> create(Context& context, const ExchangeOptions& options,
                                    const std::string& name);

  [[nodiscard]] ExchangeIndex& index() { return index_; }
  [[nodiscard]] const ExchangeIndex& index() const { return index_; }
  // Sends this copy to all that are there, and wakes those that wait.
  Status publish();
  // Merges what has arrived.
  Status refresh();
  // Merges until late() is kNoRank. timed_out: "rank 2 has not " and `what`; late() is that rank.
  Status wait(const std::function<Rank()>& late, std::string_view what);

  // All others that are there, with weight 1.
  [[nodiscard]] std::vector<NeighborWeight> others() const;
  // ok for the error that a rank is gone, which the index then knows.
  Status pass_gone(const Status& status);

  Status end() { return context_->win_free(window_.name()); }

 private:
  SharedIndex(Context& context, ExchangeIndex index, std::string title);
  Status send(int signal);
  [[nodiscard]] double* halves() const { return static_cast<double*>(window_.tensor().data); }

  Context* context_;
  ExchangeIndex index_;
  std::string title_;
  std::vector<std::uint64_t> words_;
  Memory arrived_;  // a copy of another rank
  Window window_;
  std::uint64_t merged_ = 0;  // the signal before the last merge
};

}  // namespace weft
