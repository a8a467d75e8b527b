// mail: messages of any rank to any other rank of a context. Messages between two ranks arrive
// whole and in order, each exactly once, over whatever rails lead there. A message may be longer
// than a slot: it then travels in pieces.
//
//   mail.send(3, message);                       // queued, and sent as far as there is room
//   mail.advance([](Rank from, auto message) {…});   // in each turn of the lane
//
// Mail has a channel of its own at every endpoint, so it does not stand in the way of operations.
// Two ranks may write to each other without having met: the first piece to a rank is preceded by a
// notice on the control channel, which makes that rank connect to us.
//
// Threads: a Mail belongs to the holder of the lane's token. The endpoints outlive it.
// Internal to the module; others include control.h.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "verbs/base/base.h"
#include "verbs/transport/transport.h"

namespace weft {

struct MailOptions {
  std::uint32_t job = 0;
  std::uint16_t context = 0;
  std::uint32_t channel = 1;
  std::size_t payload_bytes = 4032;  // of a piece
  // Longer messages are an error at both ends. A rank that sent more would let ours grow without a
  // bound.
  std::size_t most_bytes = std::size_t{16} << 20;
};

class Mail {
 public:
  using Message = std::span<const std::byte>;
  // Gets a message, which is valid until it returns. It may call send().
  using Reader = std::function<void(Rank from, Message message)>;

  // `connect` returns the endpoint to a rank, and connects it if need be.
  Mail(const MailOptions& options, std::function<Result<Endpoint*>(Rank)> connect)
      : options_(options), connect_(std::move(connect)) {}

  // Queues a message, which must not be empty. Returns an error if the rank cannot be connected, or
  // the message is too long.
  Status send(Rank to, Message message);
  // This rank may write to us. A rank to which we send may, too.
  void hear(Rank from, Endpoint& endpoint);
  // How many ranks may write to us.
  [[nodiscard]] std::size_t lines() const { return order_.size(); }

  // Sends and reads what can be sent and read now; never waits. Returns whether anything moved.
  bool advance(const Reader& read);
  // ok, or what is wrong with a message that arrived: `mismatch`, with its sender. Nothing more is
  // read then.
  [[nodiscard]] const Status& failure() const { return failure_; }
  // Whether nothing waits for room at a peer.
  [[nodiscard]] bool is_sent() const { return waiting_ == 0; }

  struct Counts {
    std::uint64_t messages_sent = 0, messages_read = 0;
    std::uint64_t bytes_sent = 0, bytes_read = 0;  // of messages, without headers
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  // What goes to one rank and comes from it.
  struct Line {
    Rank rank = kNoRank;
    Endpoint* endpoint = nullptr;
    bool has_knocked = false;
    std::deque<std::vector<std::byte>> waiting;  // the first one perhaps sent in part
    std::size_t sent = 0;                        // bytes of the first one
    std::uint32_t next_piece = 0;                // of the first one
    std::vector<std::byte> arriving;             // the pieces of the next message so far
    std::uint32_t pieces = 0;                    // of `arriving`
  };

  Line& line_to(Rank rank, Endpoint& endpoint);
  bool pump(Line& line);
  bool knock(Line& line);
  bool read_from(Line& line, const Reader& read);
  [[nodiscard]] Status check(const Line& line, const WireHeader& header) const;
  [[nodiscard]] WireHeader header() const;

  const MailOptions options_;
  const std::function<Result<Endpoint*>(Rank)> connect_;
  std::unordered_map<Rank, std::unique_ptr<Line>> lines_;
  std::vector<Line*> order_;  // of the lines, as they were made
  std::size_t waiting_ = 0;   // messages in all lines
  Status failure_;
  Counts counts_;
};

}  // namespace weft
