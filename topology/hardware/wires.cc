// What interfaces carry, and which of them share a wire.
#include <algorithm>

#include "topology/hardware/hardware.h"

namespace weft {
namespace {

// Hypervisors show such a link (one lane of the first generation) whatever there is.
constexpr double kEmulatedGbyte = 0.25;
constexpr double kMbitOfGbyte = 8e3;

// Of links of known rate on the way down; 0: none is known.
double slowest_link(const PciPlace& place) {
  double slowest = 0;
  const auto pass = [&slowest](double rate) {
    if (rate > kEmulatedGbyte) slowest = slowest == 0 ? rate : std::min(slowest, rate);
  };
  pass(place.gbyte_per_s);
  for (const PciBridge& bridge : place.bridges) pass(bridge.gbyte_per_s);
  return slowest;
}

// An interface of unknown rate does not stand for one of known rate.
bool can_stand_for(const Nic& other, const Nic& nic) {
  return other.mbit_per_s > 0 || nic.mbit_per_s <= 0;
}

// A part of a bonded interface whose rate that interface has, too.
bool is_counted_by_bond(const Nic& nic, const Machine& machine) {
  return !nic.bond.empty() && nic.netdev != nic.bond &&
         std::ranges::any_of(machine.nics, [&nic](const Nic& other) {
           return other.netdev == nic.bond && can_stand_for(other, nic);
         });
}

// Whether `other` is the card of which `nic` is a virtual function; where nobody tells which one
// that is, one below the same bridge.
bool is_card_of(const Nic& other, const Nic& nic) {
  if (other.is_virtual_function || !can_stand_for(other, nic)) return false;
  if (!nic.physical_function.empty()) return other.place.address == nic.physical_function;
  return !nic.place.bridges.empty() && other.place.host_bridge == nic.place.host_bridge &&
         other.place.bridges == nic.place.bridges;
}

// A virtual function whose wire another interface has, too: its card, or an earlier function of it.
bool is_counted_by_card(const Nic& nic, const Machine& machine) {
  if (!nic.is_virtual_function) return false;
  for (const Nic& other : machine.nics) {
    if (is_card_of(other, nic)) return true;
  }
  for (const Nic& other : machine.nics) {
    if (&other == &nic) return false;
    if (can_stand_for(other, nic) && !nic.physical_function.empty() &&
        other.physical_function == nic.physical_function && other.port == nic.port)
      return true;
  }
  return false;
}

}  // namespace

int carried_mbit_per_s(const Nic& nic) {
  const double pci = slowest_link(nic.place) * kMbitOfGbyte;
  return pci > 0 && pci < nic.mbit_per_s ? static_cast<int>(pci) : nic.mbit_per_s;
}

bool is_counted_elsewhere(const Nic& nic, const Machine& machine) {
  return is_counted_by_card(nic, machine) || is_counted_by_bond(nic, machine);
}

}  // namespace weft
