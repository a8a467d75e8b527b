// The processor's part of the picture: memory above, below it caches with the cores that share them.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "tools/weft/topo/picture.h"
#include "topology/svg/svg.h"

namespace weft {
namespace {

constexpr double kCell = 15;  // a core, with the gap to the next
constexpr double kPad = 6;
constexpr double kLabel = 15;
// Small enough to be seen at a glance; the number stands beside them.
constexpr int kMostCores = 512;

// The largest cache that cores of one node share; null: none does.
const CacheLevel* shared_cache(const Machine& machine) {
  const CacheLevel* shared = nullptr;
  for (const CacheLevel& cache : machine.caches) {
    if (cache.cores_each > 1) shared = &cache;
  }
  return shared;
}

// Of each core, or of few: "each core: L1 48 KiB, L2 2 MiB".
std::string own_caches(const Machine& machine) {
  std::string text;
  for (const CacheLevel& cache : machine.caches) {
    if (cache.cores_each > 1) continue;
    text += fmt::format("{}L{} {}", text.empty() ? "each core: " : ", ", cache.level,
                        amount_text(cache.bytes));
  }
  return text;
}

Drawn draw_cores(int count, double most_width) {
  const int across = std::clamp(static_cast<int>(most_width / kCell), 1, std::max(count, 1));
  const int rows = (count + across - 1) / across;
  Drawn cores{across * kCell, rows * kCell};
  for (int i = 0; i < count; ++i) {
    const svg::Box box{i % across * kCell, i / across * kCell, kCell - 3, kCell - 3};
    cores.elements += svg::rect(box, "class=\"core\" rx=\"2\"");
  }
  return cores;
}

Drawn draw_cache(std::string_view label, int cores) {
  // Twice as wide as high, in a number across that people count with.
  const auto across = std::bit_ceil(static_cast<unsigned>(std::ceil(std::sqrt(cores * 1.5))));
  const double wide = std::clamp(across * kCell, 4 * kCell, kNodeWidth - 6 * kPad);
  const Drawn inner = draw_cores(cores, wide);
  const double width =
      std::max(inner.width - 3, static_cast<double>(label.size()) * 6.2) + 2 * kPad;
  Drawn cache{width, inner.height - 3 + kLabel + 2 * kPad};
  cache.elements = svg::rect({0, 0, cache.width, cache.height}, "class=\"cache\" rx=\"4\"") +
                   svg::text(kPad, kLabel, "class=\"small\"", label) +
                   placed(inner, kPad, kLabel + kPad);
  return cache;
}

// From left to right, in rows.
Drawn flowed(const std::vector<Drawn>& parts, double width) {
  Drawn all{width, 0};
  double x = 0, y = 0;
  for (const Drawn& part : parts) {
    if (x > 0 && x + part.width > width) {
      x = 0;
      y = all.height + kPad;
    }
    all.elements += placed(part, x, y);
    x += part.width + kPad;
    all.height = std::max(all.height, y + part.height);
  }
  return all;
}

std::vector<Drawn> caches_of(const Machine& machine, int cores) {
  const CacheLevel* shared = shared_cache(machine);
  const int each = shared != nullptr ? std::min(shared->cores_each, cores) : cores;
  const std::string label = shared != nullptr
                                ? fmt::format("L{} {}", shared->level, amount_text(shared->bytes))
                                : "cores";
  std::vector<Drawn> caches;
  for (int left = std::min(cores, kMostCores); left > 0; left -= each)
    caches.push_back(draw_cache(label, std::min(each, left)));
  return caches;
}

}  // namespace

Drawn draw_node(const Machine& machine, const NumaNode& node) {
  const double inner = kNodeWidth - 2 * kPad;
  const std::string memory = node.bytes != 0 ? amount_text(node.bytes) : "memory unknown";
  const std::string cores = node.cores > 0 ? fmt::format("{} cores", node.cores) : "cores unknown";
  const std::string own = own_caches(machine);
  Drawn drawn{kNodeWidth, 0};
  drawn.elements =
      svg::rect({0, 0, inner + 2 * kPad, 26}, "class=\"memory\" rx=\"4\"") +
      svg::text(kPad + 3, 17.5, "class=\"name\"", fmt::format("NUMA node {}", node.index)) +
      svg::text(kNodeWidth - kPad - 3, 17.5, "text-anchor=\"end\"",
                fmt::format("{}, {}", memory, cores));
  const Drawn caches = flowed(caches_of(machine, node.cores), kNodeWidth);
  drawn.elements += placed(caches, 0, 26 + kPad);
  drawn.height = 26 + (caches.height > 0 ? caches.height + kPad : 0);
  if (own.empty() || node.cores == 0) return drawn;
  drawn.elements += svg::text(2, drawn.height + 15, "class=\"small\"", own);
  drawn.height += 19;
  return drawn;
}

}  // namespace weft
