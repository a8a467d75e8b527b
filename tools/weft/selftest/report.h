// What `weft selftest` prints: a line for each check and a summary, or one JSON object a line.
#pragma once

#include "tools/weft/selftest/check.h"

namespace weft {

class SelftestReport {
 public:
  explicit SelftestReport(bool json) : json_(json) {}

  // Called before the first check of a target. For a target that is left out nothing follows.
  void target(const SelftestTarget& target);
  void result(const SelftestTarget& target, const CheckResult& result);
  // After the last one.
  void summary() const;

  // Something was checked, and nothing failed.
  [[nodiscard]] bool good() const { return ok_ > 0 && failed_.empty(); }

 private:
  bool json_;
  int ok_ = 0;
  int skipped_ = 0;
  double seconds_ = 0;
  std::vector<std::string> failed_;  // names
};

}  // namespace weft
