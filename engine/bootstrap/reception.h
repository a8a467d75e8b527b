// Reception: what the rendezvous server says on each connection. Bytes come in and bytes go out; it
// admits those who prove that they belong to the job, hands their requests to the Board and refuses
// everybody else with a reason. No system call but fresh nonces, so tests feed it whatever they
// like.
//
// A connection passes through: stranger -> joined -> closing, or stranger -> closing. While closing
// its input is thrown away; the owner of the sockets (the server's loop, whose thread calls
// everything here) closes it once its output is sent and the other side has had time to read it.
#pragma once

#include <set>
#include <unordered_map>

#include "engine/bootstrap/board.h"
#include "engine/bootstrap/wire.h"

namespace weft {

using ConnectionId = std::uint64_t;

class Reception : private Board::Outbox {
 public:
  enum class Stage : std::uint8_t { stranger, joined, closing };

  explicit Reception(const RendezvousOptions& options);

  // A connection was accepted from the address `from`: greets it with a challenge.
  Status open(ConnectionId id, std::string from);
  void received(ConnectionId id, std::string_view bytes);
  // The connection is no more; if it was a rank's that did not say goodbye, the rank died of
  // `reason`.
  void ended(ConnectionId id, const std::string& reason);
  void declare_dead(Rank rank, const std::string& reason);

  [[nodiscard]] Stage stage(ConnectionId id) const { return sessions_.at(id).stage; }
  // What waits to be sent; the caller removes what it has sent.
  [[nodiscard]] std::string& output(ConnectionId id) { return sessions_.at(id).output; }
  // The other side does not read what it asks for: the caller closes the connection and says so.
  [[nodiscard]] bool is_overrun(ConnectionId id) const;
  // Connections whose output or stage has changed since the last call.
  [[nodiscard]] std::set<ConnectionId> take_touched() { return std::exchange(touched_, {}); }
  [[nodiscard]] int present() const { return board_.present(); }
  [[nodiscard]] int expected() const { return board_.expected(); }

 private:
  struct Session {
    Stage stage = Stage::stranger;
    Rank rank = kNoRank;
    std::string from;
    wire::Nonce nonce{};  // ours
    wire::FrameReader reader{wire::kMaxStrangerBody};
    std::string output;
  };

  void take_frame(ConnectionId id, Session& session, const wire::Frame& frame);
  void greet(ConnectionId id, Session& session, const wire::Frame& frame);
  [[nodiscard]] Result<wire::Welcome> admit(const Session& session, const wire::Hello& hello);
  void refuse(ConnectionId id, Session& session, const Status& why);
  void send(ConnectionId id, Session& session, std::string_view bytes);

  void reply(Rank to, const Reply& reply) override;
  void event(Rank to, const StoreEvent& event) override;
  void send_to(Rank to, std::string_view bytes);

  const RendezvousOptions options_;
  Board board_;
  std::unordered_map<ConnectionId, Session> sessions_;
  std::unordered_map<Rank, ConnectionId> seats_;  // of the ranks that are present
  std::set<ConnectionId> touched_;
};

}  // namespace weft
