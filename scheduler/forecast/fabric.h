// fabric: the links between ranks, and what exchanges load onto them. Internal to the module.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scheduler/forecast/forecast.h"

namespace weft {

// How an average or the like travels. Bytes are those of the tensor, over n ranks on m machines.
enum class AverageWay : std::uint8_t {
  by_machine,  // 2 (m-1)/m over each machine's interface, in a tree
  direct,      // every rank sends each other one its share, and gets the means of the shares
  ring,        // 2 (n-1)/n from each rank to the next
};

// A link carries its exchanges in the order in which they begin. All calls have times that do not decrease.
class Fabric {
 public:
  Fabric(int ranks, int per_machine, TrainingNetwork network);

  // From one rank to another. Returns when it has arrived.
  double send(double now, Rank from, Rank to, double bytes);
  // From one rank to all others. Returns when all have it.
  double send_all(double now, Rank from, double bytes);
  // A mean over the members, who are ascending. Returns when all have it.
  double average(double now, std::span<const Rank> members, double bytes, AverageWay way);

  [[nodiscard]] int machine_of(Rank rank) const { return rank / per_machine_; }
  [[nodiscard]] int machines() const { return machine_of(ranks_ - 1) + 1; }
  [[nodiscard]] double latency_us() const { return network_.latency_us; }
  [[nodiscard]] double sent() const { return sent_; }  // bytes, by all ranks

  // For how long each link has been busy until now.
  [[nodiscard]] std::vector<double> busy_us(double now) const;
  // "node3", "rank 3 reads".
  [[nodiscard]] std::string link_name(std::size_t link) const;

 private:
  // The two directions of an interface; or what a rank reads from its machine's memory.
  struct Link {
    double out_until = 0, in_until = 0;
    double until = 0;   // the later one
    double booked = 0;  // time in which one of them is busy, up to `until`
  };

  // Returns when the link has carried them.
  double carry_out(double now, int machine, double bytes);
  double carry_in(double now, int machine, double bytes);
  double read(double now, Rank rank, double bytes);
  static double book(Link& link, double& until, double now, double us);

  int ranks_, per_machine_;
  TrainingNetwork network_;
  double interface_bytes_per_us_, memory_bytes_per_us_;
  std::vector<Link> interfaces_;  // by machine
  std::vector<Link> memories_;    // by rank
  double sent_ = 0;
};

}  // namespace weft
