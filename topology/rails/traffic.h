// Internal to the module: what each link carries when each edge carries one message; edges come and
// go at the cost of their own links.
#pragma once

#include <vector>

#include "topology/rails/routes.h"

namespace weft {

class Traffic {
 public:
  // Keeps a reference. `bytes`: of a message.
  Traffic(const Routes& routes, double bytes);

  void add(const Route& route) { change(route, 1); }
  void remove(const Route& route) { change(route, -1); }

  // The busiest link on the way, and the latency.
  [[nodiscard]] double us(const Route& route) const;
  // The same, if the message were the only one.
  [[nodiscard]] double alone_us(const Route& route) const;
  [[nodiscard]] double messages(std::size_t link) const { return messages_[link]; }
  [[nodiscard]] double us(std::size_t link) const { return messages_[link] * us_each_[link]; }
  [[nodiscard]] double busiest_us() const;
  // The sum over all links of the fourth power of their time: the busy ones count most, but it
  // tells of an improvement anywhere, which their maximum does not.
  [[nodiscard]] double strain() const { return strain_; }
  // As RailMap has it.
  [[nodiscard]] std::vector<double> between_switches() const;

 private:
  void change(const Route& route, double times);

  const Routes& routes_;
  std::vector<double> us_each_;   // by link: of one message
  std::vector<double> messages_;  // by link
  double strain_ = 0;
};

}  // namespace weft
