// pieces: the gradients of one colayer, from this rank to all others and from them to it. They lie at their
// receivers until they are taken.
//
//   all_to_all   each rank sends its gradient to all others, and each adds up what has come
//
//   mesh         each rank owns a share of the colayer, one of n. A rank sends each owner its share. The owner adds up
//                what has come, and sends the mean to all:
//
//     rank 0  a0 a1 a2 ─► a0  b0  c0 ─ mean ─► all
//     rank 1  b0 b1 b2 ─► a1  b1  c1 ─ mean ─► all
//     rank 2  c0 c1 c2 ─► a2  b2  c2 ─ mean ─► all
//
// Calls of an iteration, in this order: push(), unless there is no gradient; settle(); add_up(); take().
//
// Threads: one at a time. Lifetime: until end() or the end of the context. Internal to the module.
#pragma once

#include <weft/context.h>
#include <weft/gradient_exchange.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/algorithms/slots.h"

namespace weft {

class Pieces {
 public:
  // On the context's graph, in which all ranks are neighbors. Collective.
  static Result<std::unique_ptr<Pieces>> create(Context& context, ExchangeTopology topology,
                                                std::size_t count, const Sending& how,
                                                const std::string& name);
  virtual ~Pieces() = default;
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  [[nodiscard]] std::size_t count() const { return count_; }
  // The gradient begins to travel to these ranks; of a mesh, its shares. It is copied.
  virtual Status push(const void* gradient, std::span<const NeighborWeight> to) = 0;
  // Whether there is a gradient of this rank that was not added up.
  [[nodiscard]] bool is_pushed() const { return is_pushed_; }
  // Whether the receivers have what was sent, or that has failed; true if nothing was.
  [[nodiscard]] virtual bool is_out() = 0;
  // Waits for that. After an error too, nothing is under way.
  virtual Status settle() = 0;
  // A mesh: this rank's share of what has come becomes a mean, which begins to travel to these ranks.
  virtual Status add_up(std::span<const NeighborWeight> to) = 0;
  // mean := the mean of what has come. Returns how many ranks it is of, or of a mesh, of how many owners the means have
  // come. What has not come is 0.
  virtual Result<int> take(std::byte* mean) = 0;
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;  // that were sent

  virtual Status end(Context& context) = 0;

 protected:
  Pieces(std::size_t count, DataType type) : count_(count), type_(type) {}
  [[nodiscard]] std::size_t bytes_of(std::size_t count) const { return count * size_of(type_); }

  const std::size_t count_;
  const DataType type_;
  bool is_pushed_ = false;
};

// to := to / divisor.
void divide(DataType type, void* to, std::size_t count, int divisor);

Result<std::unique_ptr<Pieces>> create_whole_pieces(Context& context, std::size_t count,
                                                    const Sending& how, const std::string& name);
Result<std::unique_ptr<Pieces>> create_shared_pieces(Context& context, std::size_t count,
                                                     const Sending& how, const std::string& name);

}  // namespace weft
