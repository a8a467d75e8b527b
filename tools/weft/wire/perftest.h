// perftest (linux-rdma's ib_write_bw and its sisters) as the peer of `weft perf wire`: the same
// ports, size, depth and packets, each run a pair of processes that ends with it.
#pragma once

#include <string>
#include <vector>

#include "tools/weft/common/child.h"
#include "tools/weft/wire/laps.h"

namespace weft {

struct PerftestFigure {
  double average_mib = 0;  // per second; bandwidth only
  double typical_us = 0;   // its median; latency only
};

// "ib_write_bw", …: which of them measures such a task.
[[nodiscard]] std::string perftest_program(const WireTask& task);
// Its whole command line at one side. `host` is empty at the side that listens.
[[nodiscard]] std::vector<std::string> perftest_command(const WireTask& task, const WirePath& path,
                                                        int port, const std::string& host);
// What it printed. `mismatch`: no figures, or "inf" and "nan": it measures the processor's clock
// first, which fails at times on a busy machine.
[[nodiscard]] Result<PerftestFigure> perftest_figure(const std::string& printed, bool is_latency);
// ok, or that the package is missing.
Status perftest_is_here(const WireTask& task);

// The side that listens. Ends with the object.
class PerftestServer {
 public:
  // Returns once it listens, at a port that was free. `mismatch`: it does not; another try may do.
  static Result<PerftestServer> start(const WireTask& task, const WirePath& path);
  PerftestServer(PerftestServer&& other) noexcept
      : child_(std::exchange(other.child_, Child{})), port_(other.port_) {}
  PerftestServer& operator=(PerftestServer&&) = delete;
  ~PerftestServer();

  [[nodiscard]] int port() const { return port_; }
  // Waits a while for it to end by itself.
  void finish();

 private:
  PerftestServer(Child child, int port) : child_(std::move(child)), port_(port) {}
  Status await_listening();

  Child child_;
  int port_;
};

// The side that measures. `mismatch`: it failed, did not end in time, or has no figures; another
// try may do.
Result<PerftestFigure> run_perftest(const WireTask& task, const WirePath& path, int port,
                                    const std::string& host, Deadline deadline);

}  // namespace weft
