// What `weft doctor` says: lines for people, JSON for programs. Internal to the command.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/weft/doctor/collect.h"
#include "tools/weft/doctor/cost.h"

namespace weft {

struct DoctorReport {
  Collected found;
  std::vector<Finding> findings;
  std::vector<std::optional<Cost>> costs;  // of each finding
};

[[nodiscard]] DoctorReport report_on(Collected found);
// 0: nothing or hints; 1: warnings, or a host without facts; 2: severe.
[[nodiscard]] int exit_status(const DoctorReport& report);
[[nodiscard]] std::string doctor_text(const DoctorReport& report);
[[nodiscard]] std::string doctor_json(const DoctorReport& report);

}  // namespace weft
