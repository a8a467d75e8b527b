// fabric: see the header.
#include "scheduler/forecast/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace weft {
namespace {

constexpr double kBytesPerUsOfGbit = 125;
constexpr double kBytesPerUsOfGbyte = 1000;

// Messages of the longest chain.
double messages_of(AverageWay way, std::size_t members, std::size_t machines) {
  if (machines < 2) return 0;
  switch (way) {
    case AverageWay::by_machine:
      return 2.0 * static_cast<double>(std::bit_width(machines - 1));
    case AverageWay::direct:
      return 2;
    case AverageWay::ring:
      return 2.0 * static_cast<double>(members - 1);
  }
  return 0;
}

}  // namespace

Fabric::Fabric(int ranks, int per_machine, TrainingNetwork network)
    : ranks_(ranks),
      per_machine_(per_machine),
      network_(network),
      interface_bytes_per_us_(network.gbit_per_s * kBytesPerUsOfGbit),
      memory_bytes_per_us_(network.memory_gbyte_per_s * kBytesPerUsOfGbyte),
      interfaces_(static_cast<std::size_t>(machines())),
      memories_(static_cast<std::size_t>(ranks)) {}

// A direction is busy without a gap from now until its end, so the two together are, too.
double Fabric::book(Link& link, double& until, double now, double us) {
  until = std::max(until, now) + us;
  const double known_until = std::max(link.until, now);
  link.booked += std::max(0.0, until - known_until);
  link.until = std::max(known_until, until);
  return until;
}

double Fabric::carry_out(double now, int machine, double bytes) {
  Link& link = interfaces_[static_cast<std::size_t>(machine)];
  return book(link, link.out_until, now, bytes / interface_bytes_per_us_);
}

double Fabric::carry_in(double now, int machine, double bytes) {
  Link& link = interfaces_[static_cast<std::size_t>(machine)];
  return book(link, link.in_until, now, bytes / interface_bytes_per_us_);
}

double Fabric::read(double now, Rank rank, double bytes) {
  Link& link = memories_[static_cast<std::size_t>(rank)];
  return book(link, link.in_until, now, bytes / memory_bytes_per_us_);
}

double Fabric::send(double now, Rank from, Rank to, double bytes) {
  sent_ += bytes;
  const int source = machine_of(from), destination = machine_of(to);
  if (source == destination) return read(now, to, bytes);
  return latency_us() + std::max(carry_out(now, source, bytes), carry_in(now, destination, bytes));
}

double Fabric::send_all(double now, Rank from, double bytes) {
  const double here = per_machine_ - 1;
  const double elsewhere = ranks_ - per_machine_;
  sent_ += bytes * (here + elsewhere);
  const int source = machine_of(from);
  double end = now;
  for (Rank rank = source * per_machine_; rank < (source + 1) * per_machine_; ++rank)
    if (rank != from) end = std::max(end, read(now, rank, bytes));
  if (machines() < 2) return end;
  end = std::max(end, carry_out(now, source, bytes * elsewhere));
  for (int machine = 0; machine < machines(); ++machine)
    if (machine != source) end = std::max(end, carry_in(now, machine, bytes * per_machine_));
  return end + latency_us();
}

double Fabric::average(double now, std::span<const Rank> members, double bytes, AverageWay way) {
  sent_ += 2 * bytes * static_cast<double>(members.size() - 1);
  double end = now;
  std::size_t machines = 0;
  for (std::size_t first = 0, next = 0; first < members.size(); first = next, ++machines) {
    while (next < members.size() && machine_of(members[next]) == machine_of(members[first])) ++next;
  }
  for (std::size_t first = 0, next = 0; first < members.size(); first = next) {
    while (next < members.size() && machine_of(members[next]) == machine_of(members[first])) ++next;
    const auto all = static_cast<double>(members.size());
    const auto here = static_cast<double>(next - first);
    const auto parts = static_cast<double>(machines);
    const double over = way == AverageWay::by_machine ? 2 * bytes * (parts - 1) / parts
                        : way == AverageWay::direct   ? 2 * bytes * here * (all - here) / all
                                                      : 2 * bytes * (all - 1) / all;
    if (machines > 1) {
      const int machine = machine_of(members[first]);
      end = std::max({end, carry_out(now, machine, over), carry_in(now, machine, over)});
    }
    const double shared = way == AverageWay::ring     ? (all - 1) / all
                          : way == AverageWay::direct ? (here - 1) / all
                                                      : (here - 1) / here;
    for (const Rank member : members.subspan(first, here > 1 ? next - first : 0))
      end = std::max(end, read(now, member, 2 * bytes * shared));
  }
  return end + latency_us() * messages_of(way, members.size(), machines);
}

std::vector<double> Fabric::busy_us(double now) const {
  std::vector<double> busy;
  for (const Link& link : machines() > 1 ? interfaces_ : memories_)
    busy.push_back(link.booked - std::max(0.0, link.until - now));
  return busy;
}

std::string Fabric::link_name(std::size_t link) const {
  return fmt::format("{}{}", machines() > 1 ? "node" : "rank ", link) +
         (machines() > 1 ? "" : " reads");
}

}  // namespace weft
