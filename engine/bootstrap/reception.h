// Reception: the rendezvous server's side of the protocol, as bytes in and bytes out for each
// connection. A rank that proves that it knows the job's key is admitted, and its requests go to
// the Board. Every other connection is refused with a reason. Reception makes no system calls
// except for random numbers, so tests can give it any input.
//
// The stages of a connection are stranger -> joined -> closing, or stranger -> closing. The input
// of a closing connection is thrown away. The server's loop owns the sockets, and its thread makes
// all calls here. It closes a connection when the output is sent and the other side has had time to
// read it.
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

  // Begins a connection that was accepted from the address `from`, with a challenge.
  Status open(ConnectionId id, std::string from);
  void received(ConnectionId id, std::string_view bytes);
  // The connection has ended. If it belonged to a rank that had not said goodbye, the rank has died
  // with this reason.
  void ended(ConnectionId id, const std::string& reason);
  void declare_dead(Rank rank, const std::string& reason);

  [[nodiscard]] Stage stage(ConnectionId id) const { return sessions_.at(id).stage; }
  // The bytes to be sent. The caller removes those that it has sent.
  [[nodiscard]] std::string& output(ConnectionId id) { return sessions_.at(id).output; }
  // Whether too many replies are unread by the other side. The caller then closes the connection.
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
    wire::Nonce nonce{};  // the server's
    wire::FrameReader reader{wire::kMaxStrangerBody};
    std::optional<wire::Sealer> sealer = {};  // once the rank has joined
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
  std::unordered_map<Rank, ConnectionId> seats_;  // the connections of the ranks that are present
  std::set<ConnectionId> touched_;
};

}  // namespace weft
