// bootstrap: how the ranks of a job find each other, and how they learn that a rank is gone.
//
// A Store gives a rank access to the job's common table. Ranks put small values under keys, get
// what others put, meet at fences, and get an event when a rank leaves or dies. The table carries
// addresses and agreements, never tensors. There are three implementations with the same meaning.
// Two run the same `Board`: in process (`make_local_stores`, ranks as threads) and over TCP
// (`RendezvousServer`, `connect_store`). The third uses a PMIx server (`mpirun`, `srun`, or `weft
// run` with `PmixServer`).
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

#include <weft/store.h>

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

struct RendezvousOptions {
  std::string bind_host = "127.0.0.1";  // by default, other machines cannot connect
  std::uint16_t port = 0;               // 0: any free port
  int size = 1;  // ranks of the job; also the most connections that have joined
  std::string job_key;
  Rank host_rank = kNoRank;            // the rank whose process holds the server; kNoRank: none
  std::int64_t handshake_ms = 10'000;  // a connection that has not joined by then is closed
};

// The table of one job behind a TCP port. Owns one thread, which sleeps while nothing arrives.
// After bad input, only the sender's connection is closed.
class RendezvousServer {
 public:
  [[nodiscard]] static Result<std::unique_ptr<RendezvousServer>> start(
      const RendezvousOptions& options);
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;
  ~RendezvousServer();  // closes all connections; the ranks see `lost`

  [[nodiscard]] const Address& address() const;  // with the port that was chosen
  // Reports that the process of this rank has ended, as seen by a launcher that watches the
  // processes (`weft run`). The server would not notice it by itself if the rank never joined, or
  // while a child of the rank holds the connection open.
  void declare_dead(Rank rank, std::string reason);
  // Waits until every rank that has joined has left or died, at most until `deadline`. Before that,
  // waits at most until `latecomers` for ranks that have not joined yet.
  Status wait_until_empty(Deadline deadline, Deadline latecomers = Deadline::at_ns(0));

 private:
  class Loop;
  explicit RendezvousServer(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

// For other connections whose two sides share a key: 32 bytes by which one shows that it knows the key
// (HMAC-SHA256). So that they are of no use later or for the other side, `text` names the side and
// contains fresh random numbers of both.
[[nodiscard]] std::string key_proof(std::string_view key, std::string_view text);
// In a time that does not depend on where the two differ.
[[nodiscard]] bool same_proof(std::string_view a, std::string_view b);

struct ConnectOptions {
  Address address;
  Rank rank = 0;
  int size = 1;
  std::string job_key;
  std::int64_t put_deadline_ms = 60'000;  // put() has no deadline of its own
  // Whether the rank may take the place of one that is gone. It waits while that one seems to be there.
  bool may_return = false;
};

// Joins the job behind an address. While no server listens there, tries again until the deadline. A
// refusal is final: no_permission for a wrong key; mismatch for a wrong size, a rank that has
// joined already, or another protocol version.
[[nodiscard]] Result<std::shared_ptr<Store>> connect_store(const ConnectOptions& options,
                                                           Deadline deadline);

// A PMIx server for a job whose processes are all on this machine. A process can have only one,
// because the PMIx library holds one. For one thread.
class PmixServer {
 public:
  // `unavailable` where libpmix is missing.
  [[nodiscard]] static Result<std::unique_ptr<PmixServer>> start(int size);
  PmixServer() = default;
  PmixServer(const PmixServer&) = delete;
  PmixServer& operator=(const PmixServer&) = delete;
  virtual ~PmixServer() = default;

  // The names and values that a rank's process needs in its environment to find this server.
  [[nodiscard]] virtual Result<std::vector<std::pair<std::string, std::string>>> environment_of(
      Rank rank) = 0;
  // Reports that the process of this rank has ended.
  virtual void declare_dead(Rank rank, int exit_status, const std::string& reason) = 0;
};

}  // namespace weft
