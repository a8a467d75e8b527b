// slot_writer: our end of an edge to an out-neighbor. It writes messages into our slot there: puts,
// and running sums of what was accumulated. README.md has the protocol.
//
// Compressed data are encoded here, if that makes them smaller. A base that goes on from a compressed sum
// begins with what that one has lost.
//
// One message at a time: begin with put() or accumulate(), then advance() until it is over.
//
// Threads: the holder of the lane's token. Lifetime: until the chain's work has ended.
#pragma once

#include <array>
#include <bitset>

#include "engine/compress/compress.h"
#include "engine/one_sided/one_sided.h"
#include "engine/window/layout.h"
#include "engine/window/tensor.h"

namespace weft::window {

class SlotWriter {
 public:
  // Messages of at least so many bytes go over the rail with the least to do, so messages of several windows take
  // all rails. Smaller ones stay on the path that has work under way.
  static constexpr std::size_t kLeastForRail = std::size_t{16} << 10;

  // `there`: the neighbor's part of the window, whose shape is `theirs`; we are its in-neighbor
  // number `index`. `ack`: the word in our memory by which it says what it has read.
  SlotWriter(const Place& there, const Shape& theirs, std::size_t index, const TensorShape& tensor,
             const std::uint64_t* ack);

  // What a message says beside its data.
  struct Message {
    double scale = 1.0;
    double p = 0.0;
    int signal = -1;
    Compression compression = Compression::none;
    std::int64_t patience_ns = 0;
  };
  // x and the message's parts stay as they are until the message is over.
  [[nodiscard]] Status put(const void* x, const Message& message);
  [[nodiscard]] Status accumulate(const void* x, const Message& message);
  // Raises a signal after what the caller adds to the chain before; for raw writes.
  void raise(Chain& chain, int signal);

  bool advance();
  void give_up(const Status& why);
  [[nodiscard]] bool is_over() const { return step_ == Step::idle; }
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] const Place& there() const { return there_; }
  // How often messages were repeated over another path.
  [[nodiscard]] int repeats() const { return repeats_; }

 private:
  // A message is written as one chain, or, if it is large (Spread) and there are several rails, in three
  // steps: begin, the data over all rails, and the rest.
  enum class Step : std::uint8_t { idle, reads_back, opens, spreads, writes };

  [[nodiscard]] std::size_t control(std::uint32_t buffer) const {
    return theirs_.control(index_, buffer);
  }
  [[nodiscard]] Status choose_buffer();
  [[nodiscard]] bool is_free(std::uint32_t buffer) const;
  [[nodiscard]] bool is_being_read(std::uint32_t buffer) const;
  void write_mapped();
  void add_to_sum(bool replaces);
  void begin_base();
  [[nodiscard]] Status make_room(const Message& message);
  [[nodiscard]] std::span<float> sum() const;  // of f32
  void write();
  void send(const void* data);
  [[nodiscard]] Encoded last_encoded() const;
  void open();
  void write_all();
  void close();
  [[nodiscard]] bool spread();
  void go_on();

  const Place there_;
  const Shape theirs_;
  const std::size_t index_;
  const TensorShape tensor_;
  const std::uint64_t* const ack_;

  std::uint64_t number_ = 0;  // of the last message
  std::uint64_t base_ = 0;
  std::uint32_t last_ = kNoBuffer;    // buffer of the last message
  std::uint32_t buffer_ = kNoBuffer;  // of the message under way
  std::uint32_t before_ = kNoBuffer;  // of the message before the last
  std::bitset<kBuffers> suspects_;    // late bytes of a failed path may still arrive there
  Header header_;                     // of the last message
  Tensor sum_;                        // of what was accumulated since the base began
  bool is_sum_known_ = true;          // else the sum is what the last message says

  Step step_ = Step::idle;
  const void* x_ = nullptr;
  Message message_;
  std::array<std::uint64_t, kWindowSignals> raised_{};
  const void* data_ = nullptr;  // of the message under way
  std::size_t bytes_ = 0;
  Encoder encoder_;
  Tensor encoded_;  // the data of the last message, if they are compressed
  Chain chain_;
  Spread spread_;
  std::uint64_t seen_ = 0;   // what a read behind `begin` brings
  Status given_up_;          // why the message was given up
  bool is_suspect_ = false;  // the message under way was repeated
  int repeats_ = 0;
  Status status_;
};

}  // namespace weft::window
