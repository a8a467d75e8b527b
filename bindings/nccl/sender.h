// sender: the sending end of a connection. A message goes by one-sided writes straight to where the
// receiver wants it, large ones over all rails at once.
//
// If a path fails in the middle of a message, the message is written again over another path, but
// only when nothing of it can arrive over the old one any more and the board says that the receiver
// does not have it: after that the memory may be in use for something else.
#pragma once

#include <array>
#include <deque>
#include <unordered_map>

#include "bindings/nccl/link.h"
#include "bindings/nccl/receiver.h"
#include "bindings/nccl/request.h"
#include "engine/one_sided/one_sided.h"

namespace weft::nccl {

class Sender {
 public:
  // `board_key`: the region of the receiver's board.
  [[nodiscard]] static Result<std::unique_ptr<Sender>> make(std::unique_ptr<Link> link,
                                                            std::string_view board_key);
  [[nodiscard]] Link& link() { return *link_; }
  // Host memory is registered when it is sent; that of a GPU now, until remove().
  [[nodiscard]] Result<Registration*> add(Registration memory);
  void remove(Registration* registration);
  // Null: the receiver has not made room yet.
  [[nodiscard]] Result<Request*> send(const void* data, std::size_t bytes, int tag);

 private:
  class Message final : public Request {
   public:
    Link& link() override { return sender->link(); }
    Result<bool> test(int* sizes) override;

    Sender* sender = nullptr;
    bool is_free = true;
    one_sided::Place there, board;
    std::span<std::byte> data;
    std::uint64_t word = 0;
    std::size_t word_place = 0;

    void begin();

   private:
    enum class Step : std::uint8_t { spreads, writes, waits, asks, over };
    void advance();
    void write_all();
    void write_word();
    void ended(const Status& status);

    Step step_ = Step::over;
    one_sided::Chain chain_;
    one_sided::Spread spread_;
    std::int64_t deadline_ns_ = 0;  // of waiting for the end of a path
    std::uint64_t found_ = 0;
    Status status_;
  };
  struct Room {
    RoomWord word;
    std::uint32_t taken = 0;  // bits, by part
  };

  explicit Sender(std::unique_ptr<Link> link) : link_(std::move(link)) {}
  // Takes in the receiver's notices.
  Status listen();
  Status take(std::span<const std::byte> notice);
  [[nodiscard]] one_sided::Place place(std::uint32_t region, std::size_t offset,
                                       std::size_t bytes) const;

  // As many as rooms have tags. They go after the link, whose work ends in them.
  std::array<Message, kMostRooms / 2 * kMostTags> messages_;
  std::size_t next_ = 0;
  std::unique_ptr<Link> link_;
  std::uint32_t board_ = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> regions_;  // as the receiver names them
  std::deque<Room> rooms_;
};

}  // namespace weft::nccl
