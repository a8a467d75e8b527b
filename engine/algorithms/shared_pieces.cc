// Pieces of a mesh: shares of gradients go to their owners, and means come back. Shares are equally long; behind
// the end of the colayer they have zeros. An owner's slots are of its own share, so means wait in slots of a second
// window, in which each owner has a slot at every rank.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/algorithms/pieces.h"
#include "engine/context/context.h"
#include "engine/kernels/kernels.h"

namespace weft {
namespace {

class SharedPieces : public Pieces {
 public:
  SharedPieces(std::size_t count, DataType type, Rank self, std::size_t share, Slots gradients,
               Slots means)
      : Pieces(count, type),
        self_(self),
        share_(share),
        gradients_(std::move(gradients)),
        means_(std::move(means)) {}

  Status open() {
    WEFT_ASSIGN(own_, Memory::allocate(bytes_of(share_)));
    return {};
  }

  Status push(const void* gradient, std::span<const NeighborWeight> to) override {
    std::memcpy(share_of(0), gradient, bytes_of(count_));
    const auto all = static_cast<Rank>(gradients_.others().size() + 1);
    std::memset(share_of(0) + bytes_of(count_), 0,
                static_cast<std::size_t>(share_of(all) - share_of(0)) - bytes_of(count_));
    std::memcpy(gradients_.own(), share_of(self_), bytes_of(share_));
    is_pushed_ = true;
    for (const NeighborWeight& each : to) {
      if (!has_share(each.rank)) continue;
      WEFT_ASSIGN(Handle handle, gradients_.send(share_of(each.rank), {&each, 1}));
      sending_.push_back(std::move(handle));
    }
    return {};
  }
  bool is_out() override {
    return std::ranges::all_of(sending_, [](Handle& each) { return each.test(); });
  }
  Status settle() override {
    Status first;
    for (Handle& each : sending_) {
      const Status status = each.wait();
      if (first.ok()) first = status;
    }
    sending_.clear();
    return first;
  }

  // What this rank has not taken yet of its own means is kept, as the others' slots keep it.
  Status add_up(std::span<const NeighborWeight> to) override {
    if (!has_share(self_)) {
      is_pushed_ = false;
      return {};
    }
    const int own = std::exchange(is_pushed_, false) ? 1 : 0;
    WEFT_ASSIGN(const int others, gradients_.take(means_.own(), own));
    if (own + others == 0) return {};
    divide(type_, means_.own(), share_, own + others);
    const Term terms[] = {{means_.own(), 1.0}, {own_.data(), 1.0}};
    combine(type_, Reduction::weighted_sum, std::span(terms).first(has_own_ ? 2 : 1), own_.data(),
            share_);
    has_own_ = true;
    if (to.empty()) return {};
    WEFT_ASSIGN(Handle handle, means_.send(means_.own(), to));
    sending_.push_back(std::move(handle));
    return {};
  }
  Result<int> take(std::byte* mean) override {
    int owners = has_own_ ? 1 : 0;
    if (has_own_)
      std::memcpy(share_of(self_), own_.data(), bytes_of(share_));
    else
      std::memset(share_of(self_), 0, bytes_of(share_));
    has_own_ = false;
    for (const Rank rank : means_.others()) {
      if (!has_share(rank)) continue;
      WEFT_ASSIGN(const int messages, means_.take_from(rank, share_of(rank)));
      if (messages == 0) std::memset(share_of(rank), 0, bytes_of(share_));
      owners += messages;
    }
    std::memcpy(mean, share_of(0), bytes_of(count_));
    return owners;
  }
  std::uint64_t bytes() const override { return gradients_.bytes() + means_.bytes(); }
  Status end(Context& context) override {
    WEFT_RETURN_IF_ERROR(settle());
    WEFT_RETURN_IF_ERROR(means_.end(context));
    return gradients_.end(context);
  }

 private:
  [[nodiscard]] bool has_share(Rank rank) const {
    return static_cast<std::size_t>(rank) * share_ < count_;
  }
  // Of the gradient that travels, and then of the mean. The memory is that of a window, as others read it.
  [[nodiscard]] std::byte* share_of(Rank rank) const {
    return gradients_.own() + bytes_of(static_cast<std::size_t>(rank + 1) * share_);
  }

  const Rank self_;
  const std::size_t share_;  // elements
  Slots gradients_, means_;
  Memory own_;  // the means of this rank's share that it has not taken
  bool has_own_ = false;
  std::vector<Handle> sending_;
};

}  // namespace

Result<std::unique_ptr<Pieces>> create_shared_pieces(Context& context, std::size_t count,
                                                     const Sending& how, const std::string& name) {
  const auto ranks = static_cast<std::size_t>(context.size());
  const std::size_t share = (count + ranks - 1) / ranks;
  WEFT_ASSIGN(Slots gradients, Slots::create(context, share, how, name, ranks * share));
  WEFT_ASSIGN(Slots means, Slots::create(context, share, how, name + ".mean"));
  auto made = std::make_unique<SharedPieces>(count, how.type, context.rank(), share,
                                             std::move(gradients), std::move(means));
  WEFT_RETURN_IF_ERROR(made->open());
  return std::unique_ptr<Pieces>(std::move(made));
}

}  // namespace weft
