// fused_set: the memory of several tensors that run as one operation. What is large enough is read
// where it is, and its result is written to where it belongs. The rest is packed: copied into a
// buffer before the operation, and from a buffer after it.
//
//   tensors:   a (8 KiB, shared heap)   b (100 bytes)   c (4 KiB + 8 bytes, shared heap)
//   set:       [ a ][ b, 28 zeros ][ c ][ 8 bytes of c, 56 zeros ]
//   runs:      where a is; the buffer; where c is; the buffer
//
// A tensor in private memory is packed, as peers could not read it there.
// Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/execute/execute.h"
#include "engine/named/buffers.h"

namespace weft::named {

// A tensor of a set.
struct FusedTensor {
  std::size_t offset = 0;  // in the set: a multiple of kFuseAlignment
  std::size_t bytes = 0;
  const void* input = nullptr;  // null: zeros
  void* output = nullptr;       // null: nobody wants the result
};

// A value, from the beginning of the operation to its end.
class FusedSet {
 public:
  enum class Kind : std::uint8_t {
    packed,      // nothing is read where it is
    in_place,    // tensors in the shared heap are
    overwriting  // packed, and the result takes the input's place
  };

  FusedSet() = default;
  // Lays out a set of so many bytes.
  [[nodiscard]] static Result<FusedSet> make(Kind kind, std::vector<FusedTensor> tensors,
                                             std::size_t bytes, Buffers& buffers);

  // What is packed, in a buffer of the set's size.
  [[nodiscard]] std::byte* input_buffer() const { return in_.data; }
  [[nodiscard]] std::byte* output_buffer() const { return is_one_buffer() ? in_.data : out_.data; }
  // Where the operand is. Null: all of it is in the buffer. Tensors that lie one behind the other are one run.
  [[nodiscard]] Runs input() const { return runs_of(input_runs_); }
  [[nodiscard]] Runs output() const {
    return runs_of(is_one_buffer() ? input_runs_ : output_runs_);
  }

  void pack() const;
  void unpack() const;
  void give_back(Buffers& buffers) const;

 private:
  // A tensor, and how many of its first bytes are used where they are.
  struct Member : FusedTensor {
    std::size_t read = 0;
    std::size_t written = 0;
  };

  [[nodiscard]] static Runs runs_of(const std::vector<Run>& runs) {
    if (runs.empty()) return {};
    return runs.size() == 1 ? Runs(runs.front().data) : Runs(runs);
  }
  [[nodiscard]] bool is_one_buffer() const { return out_.data == nullptr; }
  void place(Member& member);
  static void add(std::vector<Run>& runs, std::byte* data, std::size_t bytes);

  std::vector<Member> members_;
  Buffers::Buffer in_, out_;  // no out_: results take the place of inputs
  std::vector<Run> input_runs_, output_runs_;
};

}  // namespace weft::named
