// Rates of flows on links are max-min fair, however flows come and go.
#include "scheduler/simulate/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace weft::simulator {
namespace {

constexpr std::uint32_t kLinks = 40;
constexpr std::uint32_t kStrands = 200;

struct Network {
  // Long paths have so many links.
  Network(std::uint32_t most_links, double slack)
      : most(most_links), random(5), shares(Shares::make(make_table(random), most, slack)) {
    shares->reserve(kStrands);
  }
  std::vector<Link>& make_table(std::mt19937_64& from) {
    for (std::uint32_t link = 0; link < kLinks; ++link)
      table.push_back({.bytes_per_us = 100.0 + static_cast<double>(from() % 900)});
    return table;
  }

  // One strand goes, or one comes on two links or on as many as there can be.
  void change() {
    const auto strand = static_cast<std::uint32_t>(random() % kStrands);
    if (paths.erase(strand) > 0) return shares->remove(strand, 0, 0);
    Path path;
    path.count = random() % 3 == 0 ? most : 2;
    for (std::uint32_t i = 0; i < path.count; ++i) {
      const std::uint32_t each = kLinks / path.count;
      path.links[i] = i * each + static_cast<std::uint32_t>(random() % each);
    }
    paths[strand] = path;
    shares->add(strand, path, 0);
  }

  // No link carries more than it can, and each strand has a full one on which none gets more.
  void check(double tolerance) const {
    std::vector<double> sum(kLinks), highest(kLinks);
    for (const auto& [strand, path] : paths) {
      for (std::uint32_t i = 0; i < path.count; ++i) {
        sum[path.links[i]] += shares->rate(strand);
        highest[path.links[i]] = std::max(highest[path.links[i]], shares->rate(strand));
      }
    }
    for (std::uint32_t link = 0; link < kLinks; ++link)
      EXPECT_LE(sum[link], table[link].bytes_per_us * (1 + tolerance)) << "link " << link;
    for (const auto& [strand, path] : paths) {
      const bool is_held_up =
          std::any_of(path.links.begin(), path.links.begin() + path.count, [&](std::uint32_t link) {
            return sum[link] >= table[link].bytes_per_us * (1 - tolerance) &&
                   shares->rate(strand) >= highest[link] * (1 - tolerance);
          });
      EXPECT_TRUE(is_held_up) << "strand " << strand << " could get more";
    }
  }

  std::uint32_t most;
  std::mt19937_64 random;
  std::vector<Link> table;
  std::unique_ptr<Shares> shares;
  std::map<std::uint32_t, Path> paths;
};

void run(std::uint32_t most_links, double slack, double tolerance) {
  Network network(most_links, slack);
  std::vector<std::uint32_t> changed;
  for (int instant = 0; instant < 3000 && !testing::Test::HasFailure(); ++instant) {
    for (std::uint64_t n = 1 + network.random() % 3; n > 0; --n) network.change();
    network.shares->settle(changed);
    network.check(tolerance);
  }
}

TEST(Shares, AreMaxMinFair) {
  for (const std::uint32_t most_links : {2, 4, 6, 8, 12, 18}) run(most_links, 1e-12, 1e-9);
}

// What is let pass does not add up over many instants.
TEST(Shares, StayNearWithSlack) {
  for (const std::uint32_t most_links : {4, 8}) run(most_links, 1e-3, 1e-2);
}

}  // namespace
}  // namespace weft::simulator
