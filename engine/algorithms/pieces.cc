// pieces: the choice, and gradients that travel to all ranks.
#include "engine/algorithms/pieces.h"

#include <cstring>
#include <utility>

#include "engine/context/context.h"
#include "engine/kernels/kernels.h"

namespace weft {
namespace {

class WholePieces : public Pieces {
 public:
  WholePieces(std::size_t count, DataType type, Slots slots)
      : Pieces(count, type), slots_(std::move(slots)) {}

  Status push(const void* gradient, std::span<const NeighborWeight> to) override {
    std::memcpy(slots_.own(), gradient, bytes_of(count_));
    is_pushed_ = true;
    if (to.empty()) return {};
    WEFT_ASSIGN(sending_, slots_.send(slots_.own(), to));
    return {};
  }
  bool is_out() override { return sending_.is_empty() || sending_.test(); }
  Status settle() override {
    return sending_.is_empty() ? Status() : std::exchange(sending_, Handle()).wait();
  }
  Status add_up(std::span<const NeighborWeight> /*to*/) override { return {}; }
  Result<int> take(std::byte* mean) override {
    const int own = is_pushed_ ? 1 : 0;
    WEFT_ASSIGN(const int others, slots_.take(mean, own));
    is_pushed_ = false;
    if (own + others == 0)
      std::memset(mean, 0, bytes_of(count_));
    else
      divide(type_, mean, count_, own + others);
    return own + others;
  }
  std::uint64_t bytes() const override { return slots_.bytes(); }
  Status end(Context& context) override { return slots_.end(context); }

 private:
  Slots slots_;
  Handle sending_;
};

}  // namespace

void divide(DataType type, void* to, std::size_t count, int divisor) {
  const Term term[] = {{to, 1.0}};
  combine(type, Reduction::weighted_sum, term, to, count, StoreKind::cached, divisor);
}

Result<std::unique_ptr<Pieces>> create_whole_pieces(Context& context, std::size_t count,
                                                    const Sending& how, const std::string& name) {
  WEFT_ASSIGN(Slots slots, Slots::create(context, count, how, name));
  return std::unique_ptr<Pieces>(std::make_unique<WholePieces>(count, how.type, std::move(slots)));
}

Result<std::unique_ptr<Pieces>> Pieces::create(Context& context, ExchangeTopology topology,
                                               std::size_t count, const Sending& how,
                                               const std::string& name) {
  return topology == ExchangeTopology::mesh ? create_shared_pieces(context, count, how, name)
                                            : create_whole_pieces(context, count, how, name);
}

}  // namespace weft
