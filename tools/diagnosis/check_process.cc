// Limits and memory of processes.
#include <fmt/format.h>

#include <algorithm>

#include "tools/diagnosis/check.h"

namespace weft::diagnosis {
namespace {

constexpr std::int64_t kMib = std::int64_t{1} << 20, kGib = std::int64_t{1} << 30;

bool has_rdma(const HostFacts& facts) {
  return std::ranges::any_of(facts.nics, [](const NicFacts& nic) { return !nic.rdma.empty(); });
}

}  // namespace

// What RDMA registers is locked: at least the receive queues and pools of a rank, and each tensor.
void check_memlock(const HostFacts& facts, Report& report) {
  constexpr std::int64_t kFewPools = kGib;
  if (facts.locked_bytes < 0 || facts.can_lock || !has_rdma(facts)) return;
  report.add(
      facts.locked_bytes < kFewPools ? Severity::severe : Severity::warning, {facts.host},
      fmt::format("a process may lock {} of memory, and what RDMA sends is locked",
                  size_text(facts.locked_bytes)),
      fmt::format("/proc/self/limits: Max locked memory {}", facts.locked_bytes),
      "ulimit -l unlimited; for good `* - memlock unlimited` in "
      "/etc/security/limits.d/rdma.conf, LimitMEMLOCK=infinity in the service that starts jobs "
      "(slurmd, sshd), --ulimit memlock=-1 of docker run");
}

void check_limits(const HostFacts& facts, Report& report) {
  constexpr std::int64_t kFewFiles = 4096, kFewProcesses = 1024;
  if (facts.files >= 0 && facts.files < kFewFiles) {
    report.add(
        Severity::warning, {facts.host},
        fmt::format("a process may open {} files; a rank has several for each peer", facts.files),
        fmt::format("/proc/self/limits: Max open files, hard limit {}", facts.files),
        "`* hard nofile 1048576` in /etc/security/limits.d/rdma.conf, LimitNOFILE=1048576 in the "
        "service that starts jobs, --ulimit nofile=1048576 of docker run");
  }
  if (facts.processes >= 0 && facts.processes < kFewProcesses) {
    report.add(Severity::warning, {facts.host},
               fmt::format("this user may have {} threads on the host", facts.processes),
               fmt::format("/proc/self/limits: Max processes {}", facts.processes),
               "ulimit -u 65536; for good `* - nproc 65536` in /etc/security/limits.d/rdma.conf");
  }
  if (facts.address_bytes >= 0) {
    report.add(
        Severity::warning, {facts.host},
        fmt::format("a process has {} of address space; Weft's heap and CUDA reserve more than "
                    "they use",
                    size_text(facts.address_bytes)),
        fmt::format("/proc/self/limits: Max address space {}", facts.address_bytes),
        "ulimit -v unlimited");
  }
}

// Weft's own segments are memory files, which need no /dev/shm.
void check_shm(const HostFacts& facts, Report& report) {
  const char* const kMend =
      "mount -o remount,size=50% /dev/shm; in containers --shm-size=16g or --ipc=host (docker), an "
      "emptyDir with medium: Memory at /dev/shm (Kubernetes)";
  if (facts.shm_bytes >= 0 && facts.shm_bytes < kGib) {
    report.add(
        Severity::warning, {facts.host},
        fmt::format("/dev/shm has {}: Weft does without, but NCCL, UCX, MPI and PyTorch's data "
                    "loaders do not",
                    size_text(facts.shm_bytes)),
        fmt::format("/dev/shm holds {} bytes", facts.shm_bytes), kMend);
    return;
  }
  constexpr int kFull = 20;  // less than a twentieth is free
  if (facts.shm_free >= 0 && facts.shm_free < facts.shm_bytes / kFull) {
    report.add(
        Severity::warning, {facts.host}, "/dev/shm is full",
        fmt::format("{} of {} are free", size_text(facts.shm_free), size_text(facts.shm_bytes)),
        "ls -lS /dev/shm shows what ended jobs have left; remove it");
  }
}

// Weft collapses its pages itself (Linux 6.1), so "never" costs nothing there.
void check_huge_pages(const HostFacts& facts, Report& report) {
  if (facts.huge_shared == "deny") {
    report.add(Severity::warning, {facts.host}, "the kernel refuses huge pages for shared memory",
               "/sys/kernel/mm/transparent_hugepage/shmem_enabled is deny",
               "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled");
  }
  const std::int64_t unused = facts.huge_pages_free * facts.huge_page_bytes;
  if (facts.memory_bytes > 0 && unused > facts.memory_bytes / 2) {
    report.add(Severity::warning, {facts.host},
               fmt::format("{} of {} are reserved for hugetlbfs and unused; programs get the rest",
                           size_text(unused), size_text(facts.memory_bytes)),
               fmt::format("/proc/meminfo: HugePages_Free {}", facts.huge_pages_free),
               "sysctl -w vm.nr_hugepages=0");
  }
}

// A thread that polls uses up its time and is then stopped until the next period, with its peers.
void check_cpu_quota(const HostFacts& facts, Report& report) {
  const auto cpus = static_cast<double>(facts.cpus.size());
  constexpr double kHalf = 0.5;
  if (facts.cpu_quota <= 0 || cpus == 0 || facts.cpu_quota >= cpus - kHalf) return;
  report.add(
      facts.throttled > 0 ? Severity::severe : Severity::warning, {facts.host},
      fmt::format("processes here get the time of {:.1f} cores, but may run on {}", facts.cpu_quota,
                  facts.cpus.size()),
      fmt::format("the control group's cpu.max{}",
                  facts.throttled > 0 ? fmt::format("; it stopped them {} times", facts.throttled)
                                      : std::string()),
      "bind to cores instead of a quota: --cpuset-cpus of docker run, the static CPU manager and "
      "whole cores in Kubernetes, --cpu-bind of srun");
}

}  // namespace weft::diagnosis
