// What each link carries if each edge carries one message. Internal to the module. Adding or
// removing an edge costs time in proportion to the links that it uses.
#pragma once

#include <vector>

#include "topology/rails/routes.h"

namespace weft {

class Traffic {
 public:
  // Keeps a reference. `bytes` is the size of a message.
  Traffic(const Routes& routes, double bytes);

  void add(const Route& route) { change(route, 1); }
  void remove(const Route& route) { change(route, -1); }

  // The time of an edge: that of the busiest link on its route, plus latency.
  [[nodiscard]] double us(const Route& route) const;
  // The time of an edge if its message were the only one.
  [[nodiscard]] double alone_us(const Route& route) const;
  [[nodiscard]] double messages(std::size_t link) const { return messages_[link]; }
  [[nodiscard]] double us(std::size_t link) const { return messages_[link] * us_each_[link]; }
  [[nodiscard]] double busiest_us() const;
  // The sum, over all links, of the fourth power of their time. Busy links count most. Unlike the
  // maximum, the sum also shows an improvement at a link that is not the busiest.
  [[nodiscard]] double strain() const { return strain_; }
  // See RailMap::between_switches.
  [[nodiscard]] std::vector<double> between_switches() const;

 private:
  void change(const Route& route, double times);

  const Routes& routes_;
  std::vector<double> us_each_;   // by link: time of one message
  std::vector<double> messages_;  // by link
  double strain_ = 0;
};

}  // namespace weft
