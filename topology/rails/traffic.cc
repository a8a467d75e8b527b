// Sums over links, kept up to date.
#include "topology/rails/traffic.h"

#include <algorithm>

namespace weft {
namespace {

double fourth_power(double x) {
  return x * x * x * x;
}

}  // namespace

Traffic::Traffic(const Routes& routes, double bytes)
    : routes_(routes), messages_(routes.links().size(), 0) {
  constexpr double kBitsPerUs = 1e3;  // of a Gbit/s
  for (std::size_t link = 0; link < messages_.size(); ++link) {
    const double rate = routes.links().gbit_per_s(link);
    us_each_.push_back(rate == 0 ? 0 : bytes * 8 / (rate * kBitsPerUs));
  }
}

void Traffic::change(const Route& route, double times) {
  routes_.visit_links(route, [&](std::size_t link, double share) {
    strain_ -= fourth_power(us(link));
    messages_[link] += times * share;
    strain_ += fourth_power(us(link));
  });
}

double Traffic::us(const Route& route) const {
  double busiest = 0;
  routes_.visit_links(route,
                      [&](std::size_t link, double) { busiest = std::max(busiest, us(link)); });
  return busiest + routes_.latency_us(route);
}

double Traffic::alone_us(const Route& route) const {
  double busiest = 0;
  routes_.visit_links(route, [&](std::size_t link, double share) {
    busiest = std::max(busiest, share * us_each_[link]);
  });
  return busiest + routes_.latency_us(route);
}

double Traffic::busiest_us() const {
  double busiest = 0;
  for (std::size_t link = 0; link < messages_.size(); ++link) busiest = std::max(busiest, us(link));
  return busiest;
}

std::vector<double> Traffic::between_switches() const {
  std::vector<double> between;
  const Links& links = routes_.links();
  const std::vector<Rail>& rails = routes_.cluster().rails;
  for (int rail = 0; rail < static_cast<int>(rails.size()); ++rail) {
    const int depth = rails[static_cast<std::size_t>(rail)].depth();
    between.resize(std::max(between.size(), static_cast<std::size_t>(depth)));
    for (int level = 0; level < depth; ++level) {
      for (int number = 0; number < links.switches(rail, level); ++number)
        between[static_cast<std::size_t>(level)] += messages_[links.up(rail, level, number)];
    }
  }
  return between;
}

}  // namespace weft
