// left: what the interfaces of this process have left in its heap, until it is reused. Internal to
// the module.
//
// Any thread may call. A forked child finds and keeps nothing, because its parent uses the memory. The
// list is never destroyed: a static context may be the last that uses it.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace weft::shm {

template <class Thing>
class Left {
 public:
  void add(Thing thing) {
    const std::lock_guard lock(mutex_);
    if (process_ == getpid()) things_.push_back(std::move(thing));
  }

  // One that `is_free` accepts. It is not in the list any more.
  template <class Predicate>
  [[nodiscard]] std::optional<Thing> take(Predicate is_free) {
    const std::lock_guard lock(mutex_);
    if (process_ != getpid()) return std::nullopt;
    const auto found = std::ranges::find_if(things_, is_free);
    if (found == things_.end()) return std::nullopt;
    std::optional<Thing> taken = std::move(*found);
    if (found != things_.end() - 1) *found = std::move(things_.back());
    things_.pop_back();
    return taken;
  }

  template <class Function>
  void for_each(Function function) {
    const std::lock_guard lock(mutex_);
    std::ranges::for_each(things_, function);
  }

  static Left& of_process() {
    static Left& all = *new Left;
    return all;
  }

 private:
  std::mutex mutex_;
  std::vector<Thing> things_;
  const pid_t process_ = getpid();
};

}  // namespace weft::shm
