// open_windows: the windows of a context as Python holds them. The array of a window is kept until
// the window has ended: by win_free, or with its context.
//
// Threads: any thread, with or without the GIL, except where a member says otherwise.
#pragma once

#include <weft/weft.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/python/core/keep.h"

namespace weft::python {

// A window, and what Python needs to know of it.
struct OpenWindow {
  Window window;
  SharedKept array;   // as the program gave it
  SharedKept memory;  // what owns the array's memory
  std::weak_ptr<Context> context;
  Rank rank = kNoRank;
  bool has_no_thread = false;
  std::int64_t deadline_ns = 0;
  // The work that was started last, if it may be under way. The works of a window end in the order
  // of their calls, so if this one is done, all are. The GIL guards it.
  std::optional<Handle> last;
};
using SharedWindow = std::shared_ptr<OpenWindow>;

class OpenWindows {
 public:
  void add(SharedWindow window) {
    const std::lock_guard lock(mutex_);
    std::swap(windows_[window->window.name()], window);
  }  // the lock is given back first, because an array's end may wait for the GIL
  // Null if there is none of that name.
  [[nodiscard]] SharedWindow find(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto found = windows_.find(name);
    return found == windows_.end() ? nullptr : found->second;
  }
  [[nodiscard]] std::vector<SharedWindow> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<SharedWindow> all;
    for (const auto& [name, window] : windows_) all.push_back(window);
    return all;
  }
  // Forgets a window that has ended, unless another one has taken its name since.
  void forget(const SharedWindow& window) {
    const std::lock_guard lock(mutex_);
    const auto found = windows_.find(window->window.name());
    if (found != windows_.end() && found->second == window) windows_.erase(found);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, SharedWindow, std::less<>> windows_;
};

}  // namespace weft::python
