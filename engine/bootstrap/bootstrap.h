// bootstrap: how the ranks of a job find each other, and how they learn that one is gone.
//
// A Store is a rank's seat at the job's common table: ranks put small values under names, get what
// others put, meet at fences, and are told when a rank leaves or dies. It carries addresses and
// agreements, never tensors. Three implementations have one meaning. Two run the same `Board`: in
// process (`make_local_stores`, ranks as threads) and over TCP (`RendezvousServer`,
// `connect_store`). The third asks a PMIx server (`mpirun`, `srun`, `weft run`: `PmixServer`).
//
// Rules of the table:
//  - A key is written once. Putting the same bytes again is allowed, other bytes are an error, so
//    every rank gets the same answer for ever. Users prefix their keys ("shm/3/segment").
//  - A rank joins once. Its number is not given to anyone else after it left or died. When all ranks
//    have left, and none has died, they may all join anew and find an empty table: a program may
//    end Weft and start it again. Who comes before the last has left waits for it.
//  - Everything has a bound: key, value, all values together, waits in flight, strangers at the
//    door.
//
// Nobody joins over TCP without the job's key: each side proves by HMAC-SHA256 over both sides'
// fresh random numbers that it knows the key, which itself never crosses the wire. A PMIx server
// knows the processes that it started.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "verbs/base/base.h"

namespace weft {

inline constexpr std::size_t kMaxStoreKey = 256;           // bytes; names, not data
inline constexpr std::size_t kMaxStoreValue = 1 << 20;     // bytes; an address book of 10,000 ranks
inline constexpr std::size_t kMaxStoreTotal = 256U << 20;  // bytes that one job may put
inline constexpr std::size_t kMaxStoreWaits = 64;          // gets and fences in flight per rank

// Something happened to another rank.
struct StoreEvent {
  enum class Kind : std::uint8_t {
    left,  // said goodbye
    died,  // ended without it; the reason says how that was noticed
    lost,  // the rendezvous itself ended: nothing more will be heard of anybody (rank: kNoRank)
  };
  Kind kind;
  Rank rank;
  std::string reason;  // for a person
};

// One rank's connection to the job. Every function may be called by any thread at any time. Each
// wait ends at its deadline, at most one second later when the rendezvous itself is silent. Lives
// until its last shared_ptr; a store destroyed without goodbye() means to the others that this rank
// died.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  // Makes `bytes` known to all under `key`. Returns when everybody can get them.
  virtual Status put(std::string key, std::string bytes) = 0;
  // What was put under `key`; waits until somebody has. Not over PMIx, which finds a key by the
  // rank that put it: invalid_argument.
  [[nodiscard]] Result<std::string> get(const std::string& key, Deadline deadline) {
    return get_from(kNoRank, key, deadline);
  }
  // The same, knowing that rank `from` will put it: fails with peer_died or peer_left as soon as
  // that rank is gone, instead of at the deadline.
  [[nodiscard]] virtual Result<std::string> get_from(Rank from, const std::string& key,
                                                     Deadline deadline) = 0;
  // Waits until all ranks are in the fence. timed_out names the ranks that are missing; peer_died
  // and peer_left name one that will never come. A fence that failed is not left half done: this
  // rank is outside again and may call it anew.
  virtual Status fence(Deadline deadline) = 0;

  // Leaves the job: the others get a `left` event. Afterwards everything returns `closed`. The rank
  // that hosts the rendezvous waits here, at most until the deadline, for the others to leave too.
  // If some have not even come, it stays two seconds for them: they learn at once that it has left,
  // and not at their deadline that nobody answers.
  virtual Status goodbye(Deadline deadline) = 0;
  // This rank cannot take part in the job after all: its goodbye tells the others why (not over
  // PMIx).
  void set_failure(const Status& why) {
    const std::lock_guard lock(failure_mutex_);
    if (failure_.empty()) failure_ = why.text();
  }

  // Readable (poll, epoll) while next_event() has something. Owned by the store.
  [[nodiscard]] virtual int event_fd() const = 0;
  // The next event in the order in which they were learnt, or nothing. Does not wait.
  [[nodiscard]] virtual std::optional<StoreEvent> next_event() = 0;

  // Numbers the contexts that share this store, so that their keys differ: 0, 1, … in the order of
  // the calls, which is the same on all ranks because making a context is collective.
  [[nodiscard]] std::uint16_t next_context() { return contexts_.fetch_add(1); }

 protected:
  // What set_failure() was told first; empty: nothing.
  [[nodiscard]] std::string failure() const {
    const std::lock_guard lock(failure_mutex_);
    return failure_;
  }

 private:
  std::atomic<std::uint16_t> contexts_{0};
  mutable std::mutex failure_mutex_;
  std::string failure_;
};

// n stores that share one table; element r is for rank r, used by any thread.
[[nodiscard]] Result<std::vector<std::shared_ptr<Store>>> make_local_stores(int n);

struct RendezvousOptions {
  std::string bind_host = "127.0.0.1";  // nothing listens on more than it needs
  std::uint16_t port = 0;               // 0: any free port
  int size = 1;  // ranks of the job; also the bound on connections that joined
  std::string job_key;
  Rank host_rank = kNoRank;            // the rank whose process this is; kNoRank: no rank's
  std::int64_t handshake_ms = 10'000;  // a connection that has not joined by then is closed
};

// The table of one job behind a TCP port. Owns one thread, which sleeps while nothing arrives. Bad
// input costs the sender its connection and nobody else anything.
class RendezvousServer {
 public:
  [[nodiscard]] static Result<std::unique_ptr<RendezvousServer>> start(
      const RendezvousOptions& options);
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;
  ~RendezvousServer();  // closes all connections; the ranks see `lost`

  [[nodiscard]] const Address& address() const;  // with the port that was chosen
  // Somebody who watches the processes (`weft run`) has seen this rank end. Known before the
  // connection breaks when a child of the rank holds it open, and at all when it never joined.
  void declare_dead(Rank rank, std::string reason);
  // Waits until every rank that has joined has left or died; and until `latecomers`, if it comes
  // first, for those that have not joined yet.
  Status wait_until_empty(Deadline deadline, Deadline latecomers = Deadline::at_ns(0));

 private:
  class Loop;
  explicit RendezvousServer(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

struct ConnectOptions {
  Address address;
  Rank rank = 0;
  int size = 1;
  std::string job_key;
  std::int64_t put_deadline_ms = 60'000;  // put() has no deadline of its own
};

// Joins the job behind an address. Tries again until the deadline while nobody listens there yet; a
// refusal (wrong key: no_permission; wrong size, rank taken, other protocol version: mismatch) is
// final.
[[nodiscard]] Result<std::shared_ptr<Store>> connect_store(const ConnectOptions& options,
                                                           Deadline deadline);

// A PMIx server for a job whose processes are all on this machine. One per process: the library
// behind it holds one. Calls come from one thread.
class PmixServer {
 public:
  // `unavailable` where libpmix is missing.
  [[nodiscard]] static Result<std::unique_ptr<PmixServer>> start(int size);
  PmixServer() = default;
  PmixServer(const PmixServer&) = delete;
  PmixServer& operator=(const PmixServer&) = delete;
  virtual ~PmixServer() = default;

  // What a rank's process needs in its environment to find this server: names and values.
  [[nodiscard]] virtual Result<std::vector<std::pair<std::string, std::string>>> environment_of(
      Rank rank) = 0;
  // Somebody who watches the processes has seen this rank end.
  virtual void declare_dead(Rank rank, int exit_status, const std::string& reason) = 0;
};

// The store of the launcher that the configuration names: a seat at the rendezvous, where rank 0
// starts the server unless the launcher did; a PMIx server's; or a local one for a rank alone. What
// only the launcher knows (over PMIx: rank, size, ranks of this machine, the job's key) is written
// into `config`. Contexts share the store. A process has one at a time: over PMIx, who asks while it
// is open gets the same; after its goodbye comes the next, on all ranks alike.
[[nodiscard]] Result<std::shared_ptr<Store>> open_store(Config& config);

// 64 hexadecimal digits from the kernel's random source: a key for one job.
[[nodiscard]] Result<std::string> make_job_key();

}  // namespace weft
