// slots: a window to whose slots this rank adds gradients, and which knows how many messages each slot has. A
// message carries p = 1, which no compression changes, so p of a slot is their number.
//
// Threads: one at a time. Lifetime: until end() or the end of the context. Internal to the module.
#pragma once

#include <weft/context.h>
#include <weft/window.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weft {

// How what a colayer has travels.
struct Sending {
  DataType type = DataType::f32;
  Compression compression = Compression::none;
  bool replaces = false;  // a message replaces the one before, which its receivers have taken
};

class Slots {
 public:
  // On the context's graph, in which all ranks are neighbors. `count`: the elements of a slot. Collective.
  static Result<Slots> create(Context& context, std::size_t count, const Sending& how,
                              const std::string& name, std::size_t more = 0);

  // The tensor of the window, which belongs to the caller. Behind it lie `more` elements.
  [[nodiscard]] std::byte* own() const { return static_cast<std::byte*>(window_.tensor().data); }
  // Adds `count` elements of this memory to this rank's slots at these ranks. They must not change until the handle
  // is done.
  Result<Handle> send(void* data, std::span<const NeighborWeight> to);
  // sum := own_weight * own() + the slots of all other ranks, which are 0 then. Returns how many of them had a
  // message.
  Result<int> take(void* sum, double own_weight);
  // The same with the slot of one rank.
  Result<int> take_from(Rank rank, void* sum);
  [[nodiscard]] std::span<const Rank> others() const { return window_.in_neighbors(); }
  // Of all messages so far.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  Status end(Context& context) { return context.win_free(window_.name()); }

 private:
  Result<int> take(std::span<const NeighborWeight> sources, void* sum, double own_weight);

  Sending how_;
  Window window_;
  std::shared_ptr<WindowObject> object_;  // the same one
  std::vector<double> p_;                 // by in-neighbor
  std::uint64_t bytes_ = 0;
};

}  // namespace weft
