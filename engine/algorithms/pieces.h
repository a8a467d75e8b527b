// pieces: the gradients of one colayer, from this rank to all others and from them to it. A piece is added
// to its sender's slot at each receiver (or replaces it), and lies there until it is taken.
//
//   tensor of the window:  gradient | one element for each rank, of which the sender's is 1
//
// So the sum of the slots also says of whom there is a piece.
//
// Threads: one at a time. Lifetime: until end() or the end of the context. Internal to the module.
#pragma once

#include <weft/context.h>
#include <weft/memory.h>
#include <weft/window.h>

#include <cstddef>
#include <span>
#include <string>

namespace weft {

class Pieces {
 public:
  // On the context's graph, in which all ranks are neighbors. Collective.
  static Result<Pieces> create(Context& context, std::size_t count, DataType type,
                               const std::string& name);

  [[nodiscard]] std::size_t count() const { return count_; }
  // The gradient begins to travel. `replaces`: pieces that the receivers have not taken are lost.
  Status push(const void* gradient, std::span<const NeighborWeight> to, bool replaces);
  // Whether push() was called since the last take().
  [[nodiscard]] bool is_pushed() const { return is_pushed_; }
  // Whether the receivers have what was pushed, or the push has failed; true if nothing was.
  [[nodiscard]] bool is_out() { return sending_.is_empty() || sending_.test(); }
  // Waits for that. After an error too, nothing is under way.
  Status settle();

  struct Taken {
    int contributors = 0;
    void* sum = nullptr;  // until the next call
  };
  // Takes what has come, and this rank's own piece. After settle().
  Result<Taken> take();

  Status end(Context& context) { return context.win_free(window_.name()); }

 private:
  Pieces(std::size_t count, DataType type, Rank self, int ranks);
  [[nodiscard]] std::byte* marks(void* tensor) const;

  std::size_t count_;
  DataType type_;
  Rank self_;
  std::size_t ranks_;
  Memory sum_;
  Window window_;
  Handle sending_;
  bool is_pushed_ = false;
};

}  // namespace weft
