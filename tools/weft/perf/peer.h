// PeerJob: a job of another library's ranks (bench/peers), kept at hand to be measured in turn with
// ours. Its ranks sleep between requests. Owned and used by rank 0 alone; ends with the object.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "engine/bootstrap/bootstrap.h"
#include "tools/limits/limits.h"

namespace weft {

class PeerJob {
 public:
  struct Options {
    // "openmpi"; "openmpi-huge": with malloc on huge pages; "openmpi-create": windows are made by
    // MPI_Win_create on memory of malloc, and not by MPI_Win_allocate.
    std::string name;
    std::string graph;
    int ranks = 1;
    std::size_t most_bytes = 0;
    bool binds = true;  // its rank r to core r modulo their number, like ours
  };
  static Result<std::unique_ptr<PeerJob>> start(const Options& options);
  PeerJob(const PeerJob&) = delete;
  PeerJob& operator=(const PeerJob&) = delete;
  ~PeerJob();

  struct Answer {
    double p50_us = 0;
    double cpu_s_per_gib = 0;
  };
  // One trial; waits at most a minute and a half for the answer.
  Result<Answer> measure(std::string_view operation, std::size_t bytes, const Trial& trial);

 private:
  PeerJob(pid_t process, Fd requests, Fd answers)
      : process_(process), requests_(std::move(requests)), answers_(std::move(answers)) {}
  Result<std::string> read_line(Deadline deadline);

  pid_t process_;
  Fd requests_;
  Fd answers_;
  std::string partial_;
};

}  // namespace weft
