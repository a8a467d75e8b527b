// The rank's end of a rendezvous connection: joining, and the thread that keeps the connection.
#pragma once

#include <atomic>

#include "engine/bootstrap/store_client.h"
#include "engine/bootstrap/wire.h"

namespace weft {

// A connection on which the rank has been welcomed.
struct Joined {
  Fd socket;
  wire::FrameReader reader;  // with what has arrived behind the welcome
  Rank host_rank;
};

// Owns one thread that sends and receives; it sleeps in poll(2) while nothing happens. Callers
// leave their frames in a buffer and never touch the socket, so a caller's deadline cannot cut a
// frame in two.
class TcpStore final : public StoreClient {
 public:
  [[nodiscard]] static Result<std::shared_ptr<TcpStore>> open(const ConnectOptions& options,
                                                              Joined joined);
  ~TcpStore() override;

  // This process holds the server too; goodbye() then waits for the other ranks.
  void host(std::unique_ptr<RendezvousServer> server) { server_ = std::move(server); }
  Status goodbye(Deadline deadline) override;

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
  Joined joined_;                             // the thread's
  Fd wake_;
  std::mutex outgoing_mutex_;
  std::string
      outgoing_;  // frames that callers left; bounded by their number, each waits for its reply
  std::string sending_;  // the thread's: taken from outgoing_
  std::atomic<bool> stop_{false};
  Thread thread_;
};

// Connects, proves and is welcomed, trying again until the deadline while nobody is there.
[[nodiscard]] Result<Joined> join_rendezvous(const ConnectOptions& options, Deadline deadline);

}  // namespace weft
