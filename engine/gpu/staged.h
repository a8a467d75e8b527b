// staged: memory that the host computes with, wherever it is. What is on a GPU has a pinned block in its place.
//
//   WEFT_ASSIGN(Staged model, Staged::make(x, bytes, patience_ms));
//   model.fetch(stream);        // the block has what x has behind the stream
//   compute(model.data());      // x itself if it is host memory
//   model.store(stream);        // and back
//
// Both wait for the copy: timed_out after the patience, and the next call is an error as long as that copy is
// under way. Threads: one at a time. Lifetime: the block stays until its copies are done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "engine/gpu/host_copy.h"

namespace weft {

class Staged {
 public:
  Staged() = default;
  // exhausted: memory cannot be pinned.
  static Result<Staged> make(const void* memory, std::size_t bytes, std::int64_t patience_ms);

  [[nodiscard]] bool is_on_gpu() const { return copy_ != nullptr; }
  [[nodiscard]] std::byte* data() const { return is_on_gpu() ? copy_->data() : memory_; }
  // Behind what the stream has now; absent: the default stream. They do nothing for host memory.
  Status fetch(const std::optional<Stream>& stream = {});
  Status store(const std::optional<Stream>& stream = {});

 private:
  Status wait();

  std::byte* memory_ = nullptr;
  std::int64_t patience_ms_ = 0;
  std::shared_ptr<HostCopy> copy_;  // null: host memory
};

}  // namespace weft
