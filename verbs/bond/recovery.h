// Recovery: giving a path up, and finding out what it did not deliver. Our end says that it has
// given the path up (*fence*), and the peer how many notices it took there (*fenced*). The rest is
// posted again on other paths, so every notice arrives exactly once, whatever the dead path still
// delivers.
//
// Owner: a BondEndpoint, in whose lane everything here runs. Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "verbs/bond/notes.h"

namespace weft::bond {

class Recovery {
 public:
  explicit Recovery(BondEndpoint& endpoint) : endpoint_(endpoint) {}

  void give_up(Path& path, const Status& why, Loss loss = Loss::failed);
  // Gives a live path up if it is silent.
  void look_for_silence(Path& path, std::int64_t now);
  // Sends all fences again that were not answered, because their notes may have gone over a path
  // that has failed since.
  void ask_open_fences();
  // A note has come over the path `from`. `told`: what follows it.
  void hear(Path& from, const PathNote& note, std::span<const std::byte> told);

 private:
  void hear_fence(Path& path, const Path& from, std::span<const std::byte> told);
  void hear_count(Path& path, const PathNote& note, std::span<const std::byte> counts);
  [[nodiscard]] bool owes(const Path& path) const;

  BondEndpoint& endpoint_;
};

}  // namespace weft::bond
