// nccl: operations of the ranks of one machine by NVIDIA's NCCL, where each rank has a GPU of its own.
//
//   auto group = NcclGroup::make(peers, NcclUse::automatic);   // on all ranks; waits for nobody
//   auto turn = group->line_up(job, gpu);                      // for each operation, on all ranks
//   … all ranks combine turn->vote() by the maximum …          // an operation of the engine
//   turn->count(combined);
//   turn->way() == NcclTurn::Way::nccl ? turn->begin(x, y) : …
//
// Whether an operation can run so depends on all ranks: each needs its tensors on its GPU, and NCCL. So
// they vote before it. The first vote that all can win begins the making of the communicator, in a
// thread of its own, as it takes seconds; until it is there on all ranks, operations take another way.
// All ranks decide from the same combined vote, so they decide alike.
//
// An operation that asks for NCCL waits for the communicator instead. If a rank cannot, its vote says
// why, and all ranks refuse the operation with the same error.
//
// NcclUse::automatic measures: for each operation and size, the first ones run by NCCL, the next ones
// by Weft, and then the faster of both does, at the rank where it is slowest.
//
// Threads: any thread may call every function. Lifetime: turns share the group.
#pragma once

#include <weft/config.h>
#include <weft/types.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "verbs/base/base.h"
#include "verbs/cuda/cuda.h"

namespace weft {

namespace nccl {
class Communicator;
}
class NcclGroup;

// What ranks tell each other while the communicator is made: a table that each of them writes to.
struct NcclPeers {
  int index = 0, size = 1;  // this rank's, and how many there are
  std::function<Status(const std::string& key, std::string value)> put;
  // What a peer has put, or will.
  std::function<Result<std::string>(int index, const std::string& key, Deadline deadline)> get;
  std::int64_t deadline_ms = 60'000;
};

// One operation: an allreduce, or a broadcast from a rank of the group; of a hierarchical operation the
// mean inside the machine.
struct NcclJob {
  Collective collective = Collective::allreduce;
  ReduceOp op = ReduceOp::sum;
  DataType type = DataType::f32;
  std::size_t count = 0;
  int root = 0;
  bool is_asked = false;  // the caller names NCCL (AllreduceAlgorithm::nccl): no other way will do

  [[nodiscard]] std::size_t bytes() const { return count * size_of(type); }
  // Whether NCCL has it. The same on all ranks.
  [[nodiscard]] bool is_known() const;
  // Of everything that the ranks must have in common; NCCL does not compare it. Positive.
  [[nodiscard]] std::int64_t hash() const;
};

class NcclTurn {
 public:
  // Readiness, negated, or what refuses an operation that asks for NCCL; how long it takes by NCCL, and
  // by Weft, in nanoseconds; the job's hash, and that negated: if all ranks have the same, the two
  // maxima cancel out.
  using Vote = std::array<std::int64_t, 5>;
  enum class Way : std::uint8_t {
    undecided,
    weft,
    nccl,
    refused,  // the operation asks for NCCL, and all ranks know that it cannot be; status() says why
    failed,   // the same, and the other ranks may not know
  };

  ~NcclTurn();
  NcclTurn(const NcclTurn&) = delete;
  NcclTurn& operator=(const NcclTurn&) = delete;

  [[nodiscard]] const Vote& vote() const { return vote_; }
  // The maximum of all votes, element by element; or the error for which there is none.
  void count(const Result<Vote>& combined);
  // Decided when all turns before this one are, so that ranks begin them in one order.
  [[nodiscard]] Way way();
  // What begin() queues begins behind what the stream has now.
  Status follow(Stream stream);
  // If the way is nccl, once: queues the operation. Nothing waits on the host.
  Status begin(const void* x, void* y);
  // Whether that is over; status() has its error. An operation that is not over at its deadline is
  // given up, with all that the communicator has.
  [[nodiscard]] bool is_over();
  [[nodiscard]] const Status& status() const { return status_; }
  // Ends it, with an error. The GPU may go on with it for a moment.
  void give_up(const Status& why);
  // The operation has ended well, whichever way it took, with what else it needed after NCCL.
  void ended();

 private:
  friend class NcclGroup;
  NcclTurn(std::shared_ptr<NcclGroup> group, const NcclJob& job, const GpuMemory& gpu,
           std::function<void()> wake);
  void note_begun();

  const std::shared_ptr<NcclGroup> group_;
  const NcclJob job_;
  const GpuMemory gpu_;
  const std::function<void()> wake_;
  Vote vote_{};
  std::shared_ptr<nccl::Communicator> with_;  // once the way is nccl
  bool is_being_queued_ = false;
  std::unique_ptr<GpuMark> mark_;
  std::int64_t end_ns_ = 0, begun_ns_ = 0;
  Status status_;
  // The group's mutex is held.
  std::optional<Result<Vote>> combined_;
  Way way_ = Way::undecided;
  bool is_begun_ = false;
};

class NcclGroup : public std::enable_shared_from_this<NcclGroup> {
 public:
  static std::shared_ptr<NcclGroup> make(NcclPeers peers, NcclUse use);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  // The turn of an operation of all ranks. `gpu`: where this rank's memory is; absent: on the host,
  // or on more than one GPU. Null: this rank cannot, and the job does not ask for NCCL, so its vote is
  // no() and it knows the result. `wake` is called when something is over, by a thread that must not
  // call CUDA.
  static NcclTurn::Vote no(const NcclJob& job) { return {0, 0, 0, job.hash(), -job.hash()}; }
  std::shared_ptr<NcclTurn> line_up(const NcclJob& job, const std::optional<GpuMemory>& gpu,
                                    std::function<void()> wake);
  // Ends everything. Waits for the thread.
  void close();
  // For people.
  [[nodiscard]] std::string describe();

 private:
  friend class NcclTurn;
  enum class State : std::uint8_t { idle, starting, ready, given_up };
  // Why this rank cannot.
  enum class Obstacle : std::uint8_t { none, memory, other_gpu, given_up };
  // What was measured of operations of one kind and size.
  struct Times {
    int by_nccl = 0, by_weft = 0;           // how many were begun; the same on all ranks
    std::int64_t nccl_ns = 0, weft_ns = 0;  // the shortest; 0: unknown
  };
  using Kind = std::pair<Collective, int>;  // the logarithm of its bytes

  NcclGroup(NcclPeers peers, NcclUse use) : peers_(std::move(peers)), use_(use) {}
  static Kind kind_of(const NcclJob& job);
  void serve(const GpuMemory& gpu);  // the thread
  // The mutex is held in these.
  [[nodiscard]] Obstacle obstacle_of(const std::optional<GpuMemory>& gpu) const;
  void decide_all();
  NcclTurn::Way decide(NcclTurn& turn);
  NcclTurn::Way decide_asked(NcclTurn& turn);
  [[nodiscard]] Status refusal(std::int64_t vote) const;
  void start(const GpuMemory& gpu);
  void make_communicator(const GpuMemory& gpu);
  [[nodiscard]] Result<std::shared_ptr<nccl::Communicator>> agree(const GpuMemory& gpu);
  [[nodiscard]] Result<std::string> compare_all(Deadline deadline) const;
  [[nodiscard]] Result<std::string> get(int index, const std::string& key, Deadline deadline) const;
  void give_up(const Status& why);  // the mutex is held
  void forget(const NcclTurn& turn);

  const NcclPeers peers_;
  const NcclUse use_;
  std::atomic<bool> is_closing_{false};
  std::mutex mutex_;
  State state_ = State::idle;
  Status why_;             // it was given up
  bool all_know_ = false;  // and all ranks have, for the same reason
  std::shared_ptr<nccl::Communicator> communicator_;
  std::deque<NcclTurn*> line_;  // turns that are not over with deciding and beginning
  // Operations that NCCL has. Their GPU tells when they are over; the thread looks whether they are
  // queued yet, or late, or have failed.
  struct Watched {
    std::int64_t end_ns;
    std::function<void()> wake;
    bool is_being_queued;
  };
  std::map<const NcclTurn*, Watched> watched_;
  std::condition_variable changed_;
  std::map<Kind, Times> times_;
  std::uint64_t by_nccl_ = 0;
  Thread thread_;
};

// Operations of this process that NCCL has run.
[[nodiscard]] std::uint64_t nccl_operations();

// Whether this process could use NCCL. `unavailable`: why not.
[[nodiscard]] Status check_nccl();

}  // namespace weft
