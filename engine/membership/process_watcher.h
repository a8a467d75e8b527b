// ProcessWatcher: a thread that sleeps until a watched process of this machine ends. Each process
// has at most one watcher. Private to membership.
//
// shared() starts the watcher for the first user and returns the same one to all others. When the
// last pointer to it is destroyed, the thread stops and everything is closed. The watcher thread
// itself must not destroy the last pointer, so no callback owns one. The watcher uses pidfds
// because a pidfd always means the same process, while the kernel reuses process numbers.
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

  // Calls `on_exit` once, on the watcher's thread, when the process ends. A zombie counts as ended.
  // peer_died means that there is no such process, or no more; on_exit is then not called.
  [[nodiscard]] Result<WatchId> watch(pid_t pid, std::function<void()> on_exit);
  // The same for the process of descriptor `life`: its pidfd, or a connection that hangs up when
  // the process ends.
  [[nodiscard]] Result<WatchId> watch(Fd life, std::function<void()> on_exit);
  // Ends a watch. An on_exit that is running continues, but none begins later.
  void forget(WatchId id);
  // Ends a watch, and waits until its on_exit is not running, unless that on_exit is the caller.
  // The caller must not hold a lock that on_exit takes.
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
  const Fd stop_;  // eventfd; when it is readable the thread returns
  std::mutex mutex_;
  std::condition_variable reported_;
  std::unordered_map<WatchId, Watch> watches_;
  WatchId last_id_ = kNoWatch;
  WatchId reporting_ = kNoWatch;  // the watch whose on_exit is running
  Thread thread_;
};

}  // namespace weft
