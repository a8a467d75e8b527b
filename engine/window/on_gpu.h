// on_gpu: tensors of a window's calls that are GPU memory. Internal to the module.
//
// Slots and the window's own tensor are host memory, which neighbors reach. A call copies what
// it reads from GPUs when its turn comes, and what it writes to them before it ends:
//
//   the tensor on the GPU ──fetch──► `fetched` ──publish──► `image`, which neighbors read
//                         ◄──store── `image`, after an update
//
// `fetched` is apart from `image`, so that no neighbor reads a half of what is being copied.
#pragma once

#include <weft/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "engine/gpu/gpu.h"

namespace weft::window {

// The host's memory for a window's own tensor.
struct OwnCopies {
  std::shared_ptr<HostCopy> image;
  std::shared_ptr<HostCopy> fetched;
};

// What one call copies. It begins behind a stream, and nothing waits on the host.
class Staging {
 public:
  Staging() = default;
  Staging(std::optional<Stream> stream, std::shared_ptr<GpuBell> bell)
      : stream_(stream), bell_(std::move(bell)) {}

  enum class Use : std::uint8_t { reads, writes, both };
  // What is copied to the host before the call begins.
  Status fetches(std::shared_ptr<HostCopy> copy) { return follow(std::move(copy), true); }
  // What is copied to a GPU before the call ends.
  void stores(std::shared_ptr<HostCopy> copy) { stores_.push_back(std::move(copy)); }
  // The memory that the host uses in the place of these parts, one after the other in it: the parts
  // themselves (null) if they are host memory.
  Result<std::byte*> place(std::vector<HostCopy::Part> parts, Use use);

  [[nodiscard]] bool is_empty() const { return fetches_.empty() && stores_.empty(); }
  [[nodiscard]] bool has_stores() const { return !stores_.empty(); }
  Status fetch();
  Status store();
  // Whether all that was begun has ended; status() has the first error.
  [[nodiscard]] bool is_over();
  [[nodiscard]] const Status& status() const { return status_; }
  // The error if they have not ended in time.
  [[nodiscard]] Status too_late() const;

 private:
  struct Fetch {
    std::shared_ptr<HostCopy> copy;
    std::shared_ptr<GpuQueue> queue;
    bool is_read = true;  // else it is waited for alone
  };
  Status follow(std::shared_ptr<HostCopy> copy, bool is_read);

  std::optional<Stream> stream_;
  std::shared_ptr<GpuBell> bell_;
  std::vector<Fetch> fetches_;
  std::vector<std::shared_ptr<HostCopy>> stores_;
  Status status_;
};

}  // namespace weft::window
