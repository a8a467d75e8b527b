// flows: what is being carried at the moment, and which ends next. Internal to the module.
//
// A flow takes one path or several at once. Its pieces go wherever there is room, so all parts of a
// flow end together, and its rate is the sum of their rates.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "scheduler/simulate/agenda.h"
#include "scheduler/simulate/shares.h"

namespace weft::simulator {

class Flows {
 public:
  // What a flow belongs to: a message, or a rank that reads memory.
  struct Owner {
    std::uint32_t number = 0;
    bool is_reader = false;
  };
  struct Ended {
    Owner owner;
    std::uint32_t link = 0;  // the link that limited the flow last
  };

  // At most `paths` paths a flow. `most_on_path`, `slack`: see Shares.
  Flows(std::vector<Link>& table, std::size_t paths, std::size_t most_on_path, double slack)
      : shares_(Shares::make(table, most_on_path, slack)), paths_(paths) {}

  void start(Owner owner, double bytes, std::span<const Path> paths, double now);
  // Brings rates up to date. Call it after everything that starts and ends at one instant.
  void settle(double now);
  [[nodiscard]] double crowding(const Path& path) const { return shares_->crowding(path); }
  [[nodiscard]] bool empty() const { return agenda_.empty(); }
  [[nodiscard]] double next_end() const { return agenda_.time(); }
  Ended end_next(double now);

 private:
  struct Flow {
    Owner owner;
    double remaining = 0;
    double rate = 0;
    double since_us = 0;  // since when it has this rate
    std::uint32_t paths = 0;
  };
  struct Part {
    double rate = 0;
    double carried = 0;
  };

  [[nodiscard]] std::uint32_t take_number();
  void advance(std::uint32_t number, double now);

  std::unique_ptr<Shares> shares_;
  Agenda agenda_;
  std::size_t paths_;
  std::size_t strands_ = 0;  // number of strands for which there is room
  std::vector<Flow> flows_;
  std::vector<Part> parts_;  // those of flow f begin at f * paths_
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> changed_;
};

}  // namespace weft::simulator
