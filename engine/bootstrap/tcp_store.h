// tcp_store: the rank's end of a rendezvous connection: joining, and the thread that serves the
// connection.
#pragma once

#include <atomic>

#include "engine/bootstrap/store_client.h"
#include "engine/bootstrap/wire.h"

namespace weft {

// A connection on which the rank has joined.
struct Joined {
  Fd socket;
  wire::FrameReader reader;  // may hold frames that arrived behind the welcome
  wire::Sealer sealer;
  Rank host_rank = kNoRank;
  int incarnation = 0;
};

// Owns one thread that sends and receives. It sleeps in poll(2) while nothing happens. Callers put
// their frames into a buffer and never touch the socket, so a caller that reaches its deadline
// leaves no half frame on the connection.
class TcpStore final : public StoreClient {
 public:
  [[nodiscard]] static Result<std::shared_ptr<TcpStore>> open(const ConnectOptions& options,
                                                              Joined joined);
  ~TcpStore() override;

  // Gives the store the server that this process holds. goodbye() then waits for the other ranks.
  void host(std::unique_ptr<RendezvousServer> server) { server_ = std::move(server); }
  Status goodbye(Deadline deadline) override;
  [[nodiscard]] int incarnation() const override { return joined_.incarnation; }

 private:
  TcpStore(const ConnectOptions& options, Joined joined, Fd event_fd, Fd wake);
  Status send(const BoardRequest& request, Deadline deadline) override;

  void run();
  Status turn();
  Status read();
  Status write();
  Status take_frame(const wire::Frame& frame);
  void lose(const Status& why);

  const std::string server_name_;
  std::unique_ptr<RendezvousServer> server_;  // outlives the connection to it
  Joined joined_;  // the thread's alone, but for the sealer and the incarnation
  Fd wake_;
  std::mutex outgoing_mutex_;  // guards outgoing_ and the sealer
  // Frames of callers. Bounded by the number of callers, because each waits for its reply.
  std::string outgoing_;
  std::string sending_;  // taken from outgoing_; used by the thread only
  std::atomic<bool> stop_{false};
  Thread thread_;
};

// Connects to the server, exchanges proofs and joins. While no server is there, tries again until
// the deadline.
[[nodiscard]] Result<Joined> join_rendezvous(const ConnectOptions& options, Deadline deadline);

}  // namespace weft
