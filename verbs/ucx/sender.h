// Sender: what an endpoint sends to the peer: notices, pieces, and the batches in which small messages
// leave together. A small notice costs one copy: into the batch that takes everything posted to a
// peer in one turn.
//
// Owner: a UcxEndpoint, in whose lane everything here runs; an object lives as long as its endpoint.
// Internal to the module.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "verbs/ucx/layout.h"
#include "verbs/ucx/objects.h"

namespace weft::ucx {

class UcxInterface;

// How many batches an endpoint may have: those that UCX is sending, and the one being filled. When
// UCX is sending all of them, posts answer full. This many hold what a socket does not take at
// once.
inline constexpr std::size_t kBatches = 8;

class Sender {
 public:
  explicit Sender(UcxEndpoint& endpoint);

  Posted post(std::uint32_t channel, const WireHeader& header, std::span<const std::byte> payload,
              Payload how);
  [[nodiscard]] std::uint64_t posted(std::uint32_t channel) const {
    return outgoing_[channel].posted;
  }
  [[nodiscard]] std::uint64_t released(std::uint32_t channel) const;
  [[nodiscard]] std::uint64_t locally_completed(std::uint32_t channel);
  // What the peer says of what has come there. False: it breaks the protocol.
  [[nodiscard]] bool take_credit(const Message& message);

  // Adds a message to the batch, but leaves out its header. Returns the place for that header;
  // nullptr if there is no room until UCX has sent earlier batches.
  [[nodiscard]] std::byte* append(std::size_t header_bytes, std::span<const std::byte> payload);
  // Adds small one-sided work, or the answer to it, to the batch. Returns false if the data are
  // large or there is no room: the message then has to leave alone.
  [[nodiscard]] bool join_batch(const void* header, std::size_t header_bytes,
                                std::span<const std::byte> data);
  // Sends what the batch holds, and our releases with it.
  void flush();
  void send_batch();
  // Gives UCX the batches that have waited until both ends had greeted.
  void give_batches();
  // Gives all pieces and batches to UCX, however much it holds.
  void hand_over_all();
  // Whether UCX reads nothing of ours any more.
  [[nodiscard]] bool is_over();
  // Gives back what belongs to the interface.
  void give_back();

 private:
  // A notice that travels in a message of its own. Its payload is copied when UCX gets it, because
  // UCX lets go of what it has begun to send only by closing the connection.
  struct Piece {
    NoticeMessage message;
    std::span<const std::byte> data;  // the caller's
    Lines copy;                       // from the interface's pool
    Pending pending;                  // UCX reads the message and the copy
  };
  static constexpr std::uint64_t kNoBatch = ~std::uint64_t{0};
  // What a slot sent last. It is small, because a stream of notices uses the slots one after
  // another.
  struct Sent {
    std::uint64_t batch = 0;       // the number of its batch; kNoBatch: it was `piece`
    std::unique_ptr<Piece> piece;  // kept for the slot's next piece
  };
  struct Outgoing {
    std::uint64_t posted = 0;
    std::uint64_t released = 0;
    std::uint64_t arrived = 0;  // how many the peer says have come
    std::uint64_t locally_completed = 0;
    std::unique_ptr<Sent[]> sent;  // one per slot; made at the channel's first use
  };

  // The slot for the channel's next notice; nullptr for full.
  [[nodiscard]] Sent* next_slot(Outgoing& out);
  Posted post_alone(std::uint32_t channel, const WireHeader& header,
                    std::span<const std::byte> payload);
  // The batch being filled; nullptr if there is none.
  [[nodiscard]] Batch* filling() const;
  // Gives waiting pieces to UCX until it holds `most` of this endpoint's pieces.
  void hand_over_pieces(std::size_t most);
  // Gives back the buffers of pieces and the batches that UCX has sent.
  void collect_pieces();
  void collect_batches();
  void flush_later();

  UcxEndpoint& endpoint_;
  UcxInterface& interface_;
  std::vector<Outgoing> outgoing_;
  // The batches that UCX still reads, and the one being filled, which has the number `batches_`.
  // Batch number n is at place n modulo kBatches.
  std::array<std::unique_ptr<Batch>, kBatches> batch_;
  std::uint64_t batches_ = 0;
  std::uint64_t batches_given_ = 0;  // to UCX
  std::uint64_t batches_sent_ = 0;   // UCX does not read the batches before this number any more
  bool filled_ = false;              // listed for the interface's next flush
  std::deque<Piece*> pieces_;        // not given to UCX yet, oldest first
  std::vector<Piece*> held_pieces_;  // given to UCX, which still reads them
};

}  // namespace weft::ucx
