// bundle_layers: the smallest bound on the elements of a colayer with which a greedy bundling needs no more
// colayers than there are; then the largest colayers are cut until there are as many.
#include <fmt/core.h>
#include <weft/gradient_exchange.h>

#include <algorithm>
#include <numeric>

namespace weft {
namespace {

using Layers = std::span<const LayerSize>;

// Where each colayer begins, if none has more elements than `most` but a single layer that is larger.
std::vector<std::size_t> bundle(Layers layers, std::size_t most, bool by_kind) {
  std::vector<std::size_t> begins{0};
  std::size_t elements = layers[0].count;
  for (std::size_t layer = 1; layer < layers.size(); ++layer) {
    const bool is_other = by_kind && layers[layer].kind != layers[layer - 1].kind;
    elements += layers[layer].count;
    if (!is_other && elements <= most) continue;
    begins.push_back(layer);
    elements = layers[layer].count;
  }
  return begins;
}

// Cuts the largest colayer of several layers where its halves are most alike.
void cut_largest(Layers layers, std::vector<std::size_t>& begins) {
  const auto elements = [&](std::size_t from, std::size_t to) {
    std::size_t sum = 0;
    for (std::size_t layer = from; layer < to; ++layer) sum += layers[layer].count;
    return sum;
  };
  std::size_t largest = 0, cut = 0;
  bool found = false;
  for (std::size_t each = 0; each < begins.size(); ++each) {
    const std::size_t from = begins[each];
    const std::size_t to = each + 1 < begins.size() ? begins[each + 1] : layers.size();
    const std::size_t all = elements(from, to);
    if (to - from < 2 || (found && all <= largest)) continue;
    found = true;
    largest = all;
    cut = from + 1;
    for (std::size_t first = layers[from].count; cut + 1 < to; ++cut) {
      first += layers[cut].count;
      if (2 * first > all) break;
    }
  }
  begins.insert(std::ranges::upper_bound(begins, cut), cut);
}

}  // namespace

Result<std::vector<int>> bundle_layers(std::span<const LayerSize> layers, int colayers) {
  const auto count = static_cast<std::size_t>(std::max(colayers, 0));
  if (count < 1 || count > layers.size()) {
    return Status(Code::invalid_argument,
                  fmt::format("bundle_layers: {} colayers of {} layers", colayers, layers.size()));
  }
  std::size_t low = 0, high = 0;
  for (const LayerSize& layer : layers) {
    low = std::max(low, layer.count);
    high += layer.count;
  }
  const bool by_kind = bundle(layers, high, true).size() <= count;
  while (low < high) {
    const std::size_t middle = std::midpoint(low, high);
    if (bundle(layers, middle, by_kind).size() <= count)
      high = middle;
    else
      low = middle + 1;
  }
  std::vector<std::size_t> begins = bundle(layers, low, by_kind);
  while (begins.size() < count) cut_largest(layers, begins);
  std::vector<int> colayer_of(layers.size());
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const auto after = std::ranges::upper_bound(begins, layer);
    colayer_of[layer] = static_cast<int>(after - begins.begin()) - 1;
  }
  return colayer_of;
}

}  // namespace weft
