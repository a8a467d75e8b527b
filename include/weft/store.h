// store: how the ranks of a job find each other, and how they learn that a rank is gone.
//
// A Store gives a rank access to the job's common table. Ranks put small values under keys, get
// what others put, meet at fences, and get an event when a rank leaves or dies. The table carries
// addresses and agreements, never tensors. open_store() opens the store of the launcher (a rendezvous
// over TCP, or a PMIx server). make_local_stores() makes those of ranks that are threads.
//
// Rules of the table:
//  - A key is written once. Putting the same bytes again is allowed, other bytes are an error. So
//    every rank gets the same value at any time. Users prefix their keys ("shm/3/segment").
//  - A rank joins once. After it has left or died, its number is given again only to a process that
//    asks to come back (OnDeath::skip), as its next incarnation. Not over PMIx.
//  - If all ranks have left, and none has died, they may all join anew and find an empty table. So
//    a program may end Weft and start it again. A rank that comes back before the last one has left
//    waits for that.
//  - Everything has a bound: the key, the value, all values together, the waits in flight, and the
//    connections that have not joined.
//
// Nobody joins over TCP without the job's key. Each side proves by HMAC-SHA256, over fresh random
// numbers of both sides, that it knows the key. The key itself is never sent. A PMIx server knows
// the processes that it started.
#pragma once

#include <weft/config.h>
#include <weft/deadline.h>
#include <weft/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace WEFT_PUBLIC weft {

inline constexpr std::size_t kMaxStoreKey = 256;           // bytes; names, not data
inline constexpr std::size_t kMaxStoreValue = 1 << 20;     // bytes; an address book of 10,000 ranks
inline constexpr std::size_t kMaxStoreTotal = 256U << 20;  // bytes that one job may put
inline constexpr std::size_t kMaxStoreWaits = 64;          // gets and fences in flight per rank

// Something happened to another rank.
struct StoreEvent {
  enum class Kind : std::uint8_t {
    left,      // the rank said goodbye
    died,      // the rank ended without goodbye; the reason says how that was noticed
    lost,      // the rendezvous itself ended, so no event follows (rank: kNoRank)
    returned,  // a process has the number of a rank that was gone
  };
  Kind kind;
  Rank rank;
  std::string reason;   // for a person
  int incarnation = 0;  // of the rank: how often its number had been given before
};

// One rank's connection to the job. Every function may be called by any thread at any time. Each
// wait ends at its deadline, or at most one second later if the rendezvous does not answer. If a
// store is destroyed without goodbye(), the other ranks take this rank for dead.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // How often this rank's number had been given before. Not 0: the rank has come back to a job that
  // goes on without it.
  [[nodiscard]] virtual int incarnation() const { return 0; }

  // Stores `bytes` under `key`. Returns when all ranks can get them.
  virtual Status put(std::string key, std::string bytes) = 0;
  // Takes back what was put under `key`: nobody gets it any more, and it may be put anew. A rank takes back only what
  // it has put itself. Does nothing over PMIx.
  virtual Status take_back(const std::string& key) {
    (void)key;
    return {};
  }
  // The value that was put under `key`; waits until a rank has put it. Over PMIx this is
  // invalid_argument, because PMIx finds a key only by the rank that put it.
  [[nodiscard]] Result<std::string> get(const std::string& key, Deadline deadline) {
    return get_from(kNoRank, key, deadline);
  }
  // get() for a key that rank `from` will put. Fails with peer_died or peer_left as soon as that
  // rank is gone, instead of at the deadline.
  [[nodiscard]] virtual Result<std::string> get_from(Rank from, const std::string& key,
                                                     Deadline deadline) = 0;
  // Waits until all ranks are in the fence. timed_out names the ranks that are missing; peer_died
  // and peer_left name a rank that will never come. After a failed fence this rank is no longer in
  // it, and may call fence() again.
  virtual Status fence(Deadline deadline) = 0;

  // Leaves the job: the other ranks get a `left` event. Afterwards every function returns `closed`.
  // The rank that hosts the rendezvous waits here, at most until the deadline, for the others to
  // leave too. If some have not joined yet, it waits two seconds for them: they then learn at once
  // that this rank has left, instead of waiting until their deadline for an answer.
  virtual Status goodbye(Deadline deadline) = 0;
  // Notes why this rank cannot take part in the job. Its goodbye gives the reason to the others
  // (not over PMIx).
  void set_failure(const Status& why) {
    const std::lock_guard lock(failure_mutex_);
    if (failure_.empty()) failure_ = why.text();
  }

  // Readable (poll, epoll) while next_event() has something. Owned by the store.
  [[nodiscard]] virtual int event_fd() const = 0;
  // The next event, in the order in which the events were received; nothing if there is none. Does
  // not wait.
  [[nodiscard]] virtual std::optional<StoreEvent> next_event() = 0;

  // Numbers the contexts that share this store, so that their keys differ: 0, 1, … in the order of
  // the calls, which is the same on all ranks because making a context is collective.
  [[nodiscard]] std::uint16_t next_context() { return contexts_.fetch_add(1); }

 protected:
  // The text of the first set_failure(); empty: there was none.
  [[nodiscard]] std::string failure() const {
    const std::lock_guard lock(failure_mutex_);
    return failure_;
  }

 private:
  std::atomic<std::uint16_t> contexts_{0};
  mutable std::mutex failure_mutex_;
  std::string failure_;
};

// n stores that share one table. Element r is for rank r. Any thread may use them.
[[nodiscard]] Result<std::vector<std::shared_ptr<Store>>> make_local_stores(int n);

// Opens the store of the launcher that the configuration names: at a rendezvous, where rank 0
// starts the server unless the launcher did; at a PMIx server; or a local one, if the rank is
// alone. Values that only the launcher knows are written into `config` (over PMIx: the rank, the
// size, the ranks of this machine and the job's key). Contexts share the store. Over PMIx, a
// process has one store at a time: a further call returns the same store until its goodbye, and
// then a new one. All ranks must do this alike.
[[nodiscard]] Result<std::shared_ptr<Store>> open_store(Config& config);

// 64 hexadecimal digits from the kernel's random source: a key for one job.
[[nodiscard]] Result<std::string> make_job_key();

}  // namespace weft
