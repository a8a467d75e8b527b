// slot_reader: the owner's end of an edge from an in-neighbor. It reads the slot that the neighbor
// writes, without asking the neighbor, and says what the slot's value is: a sum of up to three
// terms. README.md has the protocol.
//
//   value = carry + the newest message - what was taken
//
// A reader copies a message and then looks whether its writer has begun to overwrite it meanwhile.
// So a value is of one message, wholly.
//
// Threads: the holder of the window's mutex.
#pragma once

#include <weft/deadline.h>

#include <vector>

#include "engine/window/layout.h"
#include "engine/window/tensor.h"

namespace weft::window {

class SlotReader {
 public:
  // `part` is our part of the window, whose shape is `ours`; the writer is in-neighbor `index`.
  SlotReader(Rank from, std::byte* part, const Shape& ours, std::size_t index,
             const TensorShape& tensor)
      : from_(from), part_(part), ours_(ours), index_(index), tensor_(tensor) {}

  // The value before the first message.
  [[nodiscard]] Status fill(const void* x);
  // Takes in the newest message. timed_out if its writer overwrites it faster than it can be read.
  [[nodiscard]] Status visit(const Deadline& deadline);
  // Appends the terms of weight * value, as visit() found it.
  void add_terms(double weight, std::vector<Term>& terms) const;
  [[nodiscard]] double p() const;
  // The value is 0 from now on, until more comes.
  void reset();
  // The value is scale * incoming() from now on, until the neighbor puts.
  [[nodiscard]] Status make_incoming() { return incoming_.make(tensor_); }
  [[nodiscard]] std::byte* incoming() const { return incoming_.data(); }
  void take_incoming(double scale, double p);

  // How many puts and gets have landed since clear_versions().
  [[nodiscard]] std::uint64_t versions();
  void clear_versions();

  // The base that the neighbor should be told of; nullptr: it knows, or does not want to.
  [[nodiscard]] const std::uint64_t* base_to_tell();
  [[nodiscard]] Rank from() const { return from_; }
  [[nodiscard]] std::size_t index() const { return index_; }

 private:
  // A message that was copied or taken; number 0: none.
  struct Copy {
    std::uint64_t number = 0;
    double scale = 1.0;
    double p = 0.0;
    Tensor data;
  };

  [[nodiscard]] Control& control(std::uint32_t buffer) const;
  [[nodiscard]] std::uint32_t newest() const;
  [[nodiscard]] bool read_header(std::uint32_t buffer, std::uint64_t number, Header& header) const;
  [[nodiscard]] Result<bool> read(std::uint32_t buffer, std::uint64_t number, const Header& header);
  void say_reading(std::uint32_t buffer_plus_1);
  [[nodiscard]] Result<bool> try_visit();
  [[nodiscard]] Result<bool> go_on_from(const Header& header);
  void drop();
  [[nodiscard]] bool is_newest_taken() const { return taken_.number == newest_; }

  const Rank from_;
  std::byte* const part_;
  const Shape ours_;
  const std::size_t index_;
  const TensorShape tensor_;

  std::uint64_t base_ = 0;    // of the messages that carry_ and taken_ belong to
  std::uint64_t newest_ = 0;  // the message that the value is of
  Copy copy_;                 // that message, unless it was taken
  Copy taken_;
  bool has_carry_ = false;
  double carry_scale_ = 1.0;
  double carry_p_ = 0.0;
  Tensor carry_;
  Tensor incoming_;
  std::vector<std::byte> encoded_;  // a message that is compressed
  bool wants_word_ = false;         // the neighbor wants to know what was read
  std::uint64_t told_ = 0;          // the base that it was told of last
  std::uint64_t told_at_ = 0;       // the newest message at that time
  std::uint64_t puts_ = 0;          // of the neighbor, as the newest header said
  std::uint64_t puts_read_ = 0;     // up to the message that the value is of
  std::uint64_t puts_seen_ = 0;
  std::uint64_t gets_ = 0;
};

}  // namespace weft::window
