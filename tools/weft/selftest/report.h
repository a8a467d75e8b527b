// What `weft selftest` tells: a line per check, and how it went in all; or JSON objects, one a
// line.
#pragma once

#include "tools/weft/selftest/check.h"

namespace weft {

class SelftestReport {
 public:
  explicit SelftestReport(bool json) : json_(json) {}

  // Before the target's first check; the whole story of one that is left out.
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
