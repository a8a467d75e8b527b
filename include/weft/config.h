// config: everything that a user may set, as one struct with a default for each field.
//
// `Config::from_environment()` reads the process's environment once; nothing else in Weft does. A
// program may as well fill a Config by hand. docs/configuration.md lists the variables.
//
// A value that is not understood is an error, so that a typing mistake is noticed at once. A WEFT_*
// name that does not exist may be a typing mistake, too, or a setting of another version of Weft in
// the same process or job. So the library only warns. The `weft` commands refuse it.
//
// Values; thread safe as far as nobody calls setenv(3) at the same time.
#pragma once

#include <weft/log.h>
#include <weft/status.h>
#include <weft/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace WEFT_PUBLIC weft {

enum class Launcher : std::uint8_t {
  automatic,  // whichever the environment shows (launcher.cc has the rule)
  weft,       // `weft run`, or rank, size and rendezvous set by hand
  pmix,       // a PMIx server: mpirun, srun --mpi=pmix, weft run
  torchrun,   // torchrun's variables
  alone,      // nobody: a job of one rank
};
enum class ProgressMode : std::uint8_t {
  thread,  // a thread of each lane moves the bytes; a waiting caller takes over the first lane's work
  waiter,  // no thread: a context's bytes move only while a caller waits for it or tests
};
enum class HugePageUse : std::uint8_t { automatic, off };
enum class PrivatePath : std::uint8_t {
  automatic,  // for each message what costs less
  cma,        // process_vm_readv, or an error
  staging,    // through a bounded area of shared memory
};
enum class GpuReduce : std::uint8_t {
  automatic,  // gpu, where Weft has kernels for the GPU; else host
  host,       // by the cores of the rank
  gpu,        // large tensors by the GPU that has the result, if it can read the operands
};
enum class NcclUse : std::uint8_t {
  automatic,  // where it was measured to be faster
  on,         // wherever it can, if all ranks of the machine say so
  off,
};
// Which transports a rank opens.
struct Transports {
  bool automatic = true;  // memory; networks too where the job may span machines
  bool shm = true;
  bool ib = false;
  bool ucx = false;
  [[nodiscard]] bool networks() const { return ib || ucx; }
  friend bool operator==(const Transports&, const Transports&) = default;
};
// What the death of a rank means to the others (docs/reliability.md).
enum class OnDeath : std::uint8_t {
  fail,  // the context has failed: every operation of it is an error from then on
  skip,  // operations go on without the rank, unless their call needs all (Request::needs_all)
};
// Which data ranks check for damage (docs/bits.md).
enum class Digests : std::uint8_t {
  off,
  pieces,   // each piece of a message, by the rank that takes it
  results,  // results that ranks have in common, by comparing
  all,      // both
};
// Which of its network interfaces a rank uses as long as they carry well.
enum class RailChoice : std::uint8_t {
  automatic,  // near where one is nearer to a rank of the machine than another; else all
  near,       // those near its GPU or its cores, divided evenly among the ranks of the machine
  all,
};
enum class ServedBy : std::uint8_t {
  rank0,     // the rendezvous server lives in rank 0's process
  launcher,  // whoever started the ranks (`weft run`) holds it
};

// What a WEFT_* name that does not exist leads to.
enum class UnknownNames : std::uint8_t {
  warn,    // one warning for each in the log; the rest is read
  refuse,  // an error
};

struct Config {
  // Who am I?
  Launcher launcher = Launcher::automatic;  // who started this process; once read: who did
  std::string launcher_reason;              // the signs of it, when read from an environment
  Rank rank = 0;
  int size = 1;               // ranks in the job
  Rank local_rank = kNoRank;  // among the ranks of this machine; kNoRank: not told
  int local_size = 0;         // ranks on this machine; 0: not told
  int local_cores = 0;  // cores that those share; 0: not told (a launcher that binds ranks tells)
  std::string host;     // identity of this machine; empty: the kernel's host name and boot id

  // How do ranks find each other?
  std::string rendezvous;  // "host:port"; empty: only a job of one rank
  ServedBy served_by = ServedBy::rank0;
  std::string job_key;  // secret shared by the job's ranks; required with a rendezvous

  // Which ways do they take?
  Transports transports;
  // Network interfaces and RDMA devices ("mlx5_0", "mlx5_0:2" for its second port), by name;
  // empty: all that are usable.
  std::string interfaces;
  RailChoice rails = RailChoice::automatic;
  static constexpr int kUsualGpu = -2;
  int gpu = kUsualGpu;  // that the rank works with; -1: none; kUsualGpu: that of its local rank
  GpuReduce gpu_reduce = GpuReduce::automatic;  // who reduces tensors in GPU memory
  // Whether ranks of a machine read each other's GPU memory directly (CUDA IPC).
  bool gpu_ipc = true;
  // Whether RDMA ports read and write GPU memory directly (GPUDirect RDMA).
  bool gpu_rdma = true;
  // Whether NCCL runs operations inside a machine, where each rank has a GPU of its own.
  NcclUse nccl = NcclUse::automatic;
  std::string hardware;   // file that corrects what was found out about this machine; empty: none
  int ib_gid_index = -1;  // of the RDMA ports' own addresses; -1: by score and reachability
  int ib_queue_pairs = 2;
  int ib_mtu = 0;  // 0: the smaller of both ports'
  int ib_traffic_class = 0;
  int ib_service_level = 0;
  int ib_udp_source_port = 0;          // 0: the driver's choice
  int ib_timeout = 18;                 // 4.096 us x 2^this until a lost packet is sent again …
  int ib_retries = 7;                  // … so often
  int ib_rnr_timer = 12;               // what a receiver without room asks for, as verbs number it
  int ib_receive_depth = 8192;         // messages of all peers that wait for progress
  bool memory_hooks = false;           // patch the C library to keep registrations of any memory
  std::string ucx_transports = "tcp";  // what UCX may use on them, as UCX names it
  std::string ucx_ports;               // TCP ports for UCX, "20000-20999"; empty: any
  std::int64_t path_silence_ms =
      500;  // a rail that carries nothing for so long is asked, then left

  // How do they wait?
  std::int64_t deadline_ms = 60'000;               // bound of every wait that is given none
  std::string deadline_name = "WEFT_DEADLINE_MS";  // what the user has set it by, for messages
  OnDeath on_death = OnDeath::fail;
  ProgressMode progress = ProgressMode::thread;
  std::int64_t spin_ns = -1;   // spin this long before yielding; -1: by ranks per core
  std::int64_t yield_us = -1;  // then yield this long before sleeping; -1: by ranks per core

  // How many threads work on a large operation?
  static constexpr int kMostLanes = 64;
  int lanes = 0;  // each has interfaces of its own; 0: by the cores and the interfaces of the rank

  // Which ways do operations take? `weft tune` finds what is fast here (docs/operators.md).
  std::string profile;  // file of `weft tune` with values for what is not set; empty: none
  std::string allreduce = "auto";  // algorithm by size: "direct:16384,ring"; auto: by rule
  int piece_bytes = 0;             // of messages to other machines; 0: as an interface takes them
  std::int64_t fusion_bytes =
      -1;  // NamedOptions::fusion_bytes, where that is negative; -1: by rule

  // How much memory do they use?
  int channels = 8;            // operations in flight per context
  int slots = 8;               // eager slots per channel and in-neighbor
  int rail_slots = 16;         // the same per rail of a network; a power of two
  int eager_bytes = 16 << 10;  // largest message copied to a slot; larger ones are read in place
  std::int64_t heap_mib = 0;   // address space for weft::allocate; 0: as much as physical memory
  std::string shm_dir;         // directory for segments; empty: anonymous memory files
  HugePageUse huge_pages = HugePageUse::automatic;
  PrivatePath private_memory = PrivatePath::automatic;

  // What is checked and told?
  Bits bits = Bits::automatic;     // which bits sums have
  Digests digests = Digests::off;  // what is checked for damage
  bool topo_check = true;          // both ends of an edge must agree before data moves
  std::string record;              // file of calls, one per rank, for `weft replay`; empty: off
  std::string trace;               // timeline file, one per rank; empty: off
  std::string metrics;             // file of metrics, one per rank, written every 10 s; empty: off
  std::string flight;              // file of the latest operations, written at an error; empty: off
  std::string
      live;  // folder of the socket for `weft flight --live`; "auto": a usual one; empty: off
  LogLevel log = LogLevel::warning;

  // Of the profile, once it is read: what it was measured on, and a checksum that ranks compare.
  std::string profile_topology;
  std::uint64_t profile_checksum = 0;

  // The environment of this process, read and checked as a whole.
  [[nodiscard]] static Result<Config> from_environment(UnknownNames unknown = UnknownNames::warn);
  // The same from "NAME=value" entries. Beside WEFT_ those of other launchers count: PMIX_, and
  // torchrun's.
  [[nodiscard]] static Result<Config> from_entries(const std::vector<std::string>& entries,
                                                   UnknownNames unknown = UnknownNames::warn);

  // Sets the field of one variable ("WEFT_DEADLINE_MS"). invalid_argument: there is no such variable,
  // or the value is none that it accepts; the text says what it accepts.
  Status set(std::string_view name, std::string_view value);
  // The value of one variable, as set() takes it.
  [[nodiscard]] Result<std::string> get(std::string_view name) const;

  // Do the fields agree with each other? from_environment() has asked; whoever fills a Config by
  // hand gets the same answer from open_store().
  [[nodiscard]] Status check() const;

  // Who started this process and how that was found: one line for logs and tools.
  [[nodiscard]] std::string launch() const;
};

}  // namespace weft
