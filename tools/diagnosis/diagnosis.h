// diagnosis: what is wrong with hosts and the networks between them.
//
//   read_facts() ──► HostFacts ── look_at() ──────────────► findings of one host
//                      └─ JSON ── compare(several hosts) ──► findings between hosts
//
// Facts are read in one place and travel as JSON: by a job's store, by ssh, or as files. A check is a pure
// function of facts. It changes nothing; a finding says the command that would.
//
// Values and free functions; any thread may call.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/diagnosis/facts.h"

namespace weft {

enum class Severity : std::uint8_t {
  hint,     // nothing is wrong; something could be better
  warning,  // costs some of the rate, or fails sometimes
  severe,   // costs much of the rate, or something cannot work
};
[[nodiscard]] std::string_view name(Severity severity);

// What an interface carries, as it is and once the finding is mended. Of an absent one, 0.
struct RateChange {
  std::string host, nic;
  double gbit_now = 0, gbit_mended = 0;
};

struct Finding {
  Severity severity = Severity::warning;
  std::string check;               // "pci-link"
  std::vector<std::string> hosts;  // on which it was seen
  std::string what, seen, mend;
  std::vector<RateChange> rates{};  // from which its cost follows; empty: no cost can be told
};

// The names of all checks.
[[nodiscard]] std::vector<std::string_view> check_names();

[[nodiscard]] std::vector<Finding> look_at(const HostFacts& facts);
// What only several hosts show.
[[nodiscard]] std::vector<Finding> compare(std::span<const HostFacts> hosts);
// Both, the worst first; what is the same on several hosts is one finding.
[[nodiscard]] std::vector<Finding> diagnose(std::span<const HostFacts> hosts);

// What an interface carries, by its own rate and by PCI. 0: unknown, or nothing.
[[nodiscard]] double carried_gbit_per_s(const NicFacts& nic);
// The interfaces over which ranks of this host send to other hosts: RDMA ports where there are any.
[[nodiscard]] std::vector<const NicFacts*> carriers(const HostFacts& facts);

}  // namespace weft
