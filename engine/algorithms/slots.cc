// slots: see the header.
#include "engine/algorithms/slots.h"

#include <algorithm>
#include <utility>

#include "engine/algorithms/own_window.h"
#include "engine/compress/compress.h"
#include "engine/context/context.h"
#include "engine/kernels/kernels.h"
#include "engine/window/window.h"

namespace weft {

Result<Slots> Slots::create(Context& context, std::size_t count, const Sending& how,
                            const std::string& name, std::size_t more) {
  Slots made;
  made.how_ = how;
  WEFT_ASSIGN(made.window_, own_window(context, count, how.type, name, more));
  made.object_ = WindowObject::of(context, name);
  WEFT_RETURN_IF_ERROR(made.window_.set_associated_p(true));
  made.p_.resize(made.others().size());
  return made;
}

// What is compressed is added also where it could replace the message before: what a sum has lost is added to
// the next one.
Result<Handle> Slots::send(void* data, std::span<const NeighborWeight> to) {
  const Output& own = window_.tensor();
  const Output x{data, own.count, own.type};
  const WindowPut how{.destinations = to, .compression = how_.compression};
  const bool is_compressed = how_.compression != Compression::none;
  const std::size_t plain = own.count * size_of(own.type);
  bytes_ += to.size() *
            (is_compressed ? std::min(plain, encoded_bytes(how_.compression, own.count)) : plain);
  return how_.replaces && !is_compressed ? window_.put_start(x, how)
                                         : window_.accumulate_start(x, how);
}

Result<int> Slots::take(void* sum, double own_weight) {
  std::vector<NeighborWeight> sources;
  for (const Rank rank : others()) sources.push_back({rank, 1.0});
  return take(sources, sum, own_weight);
}

Result<int> Slots::take_from(Rank rank, void* sum) {
  const NeighborWeight source[] = {{rank, 1.0}};
  return take(source, sum, 0.0);
}

Result<int> Slots::take(std::span<const NeighborWeight> sources, void* sum, double own_weight) {
  const Output& own = window_.tensor();
  WEFT_RETURN_IF_ERROR(object_->update({.self_weight = own_weight,
                                        .sources = sources,
                                        .reset = true,
                                        .clone = {sum, own.count, own.type}},
                                       p_));
  int senders = 0;
  for (std::size_t in = 0; in < p_.size(); ++in) {
    const bool is_source = std::ranges::any_of(
        sources, [&](const NeighborWeight& each) { return each.rank == others()[in]; });
    senders += is_source && p_[in] != 0.0 ? 1 : 0;
  }
  return senders;
}

}  // namespace weft
