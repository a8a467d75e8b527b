// ProcessWatcher: one thread per process that sleeps until another process of this machine ends.
// Private to membership.
//
// shared() starts it for the first user and hands the same one to the others; the last user's
// pointer stops the thread and closes everything. It must not be that thread's own pointer, so no
// callback owns one. A pidfd names a process for good, other than its number, which the kernel
// gives out again.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "engine/bootstrap/bootstrap.h"

namespace weft {

class ProcessWatcher {
 public:
  using WatchId = std::uint64_t;
  static constexpr WatchId kNoWatch = 0;

  [[nodiscard]] static Result<std::shared_ptr<ProcessWatcher>> shared();
  ProcessWatcher(const ProcessWatcher&) = delete;
  ProcessWatcher& operator=(const ProcessWatcher&) = delete;
  ~ProcessWatcher();

  // Calls `on_exit` once, on the watcher's thread, when the process ends, be it a zombie already.
  // peer_died: there is no such process (any more), and on_exit will not be called.
  [[nodiscard]] Result<WatchId> watch(pid_t pid, std::function<void()> on_exit);
  // Ends a watch, if it has not ended. An on_exit that is running goes on; no other call follows.
  void forget(WatchId id);
  // The same, and waits until on_exit is not running, unless that very on_exit is the caller. The
  // caller holds no lock that on_exit takes.
  void unwatch(WatchId id);

 private:
  struct Watch {
    Fd process;
    std::function<void()> on_exit;
  };

  ProcessWatcher(Fd epoll, Fd stop) : epoll_(std::move(epoll)), stop_(std::move(stop)) {}
  static Result<std::shared_ptr<ProcessWatcher>> start();
  [[nodiscard]] Status add_to_epoll(const Fd& fd, WatchId id);
  Watch take(std::unordered_map<WatchId, Watch>::iterator watch);
  void run();
  void report(WatchId id);

  const Fd epoll_;
  const Fd stop_;  // eventfd; readable: the thread shall return
  std::mutex mutex_;
  std::condition_variable reported_;
  std::unordered_map<WatchId, Watch> watches_;
  WatchId last_id_ = kNoWatch;
  WatchId reporting_ = kNoWatch;  // whose on_exit is running
  Thread thread_;
};

}  // namespace weft
