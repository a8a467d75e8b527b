// ProcessWatcher by pidfd_open(2) and epoll(7).
#include "engine/membership/process_watcher.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

namespace weft {
namespace {

constexpr int kEventsPerWait = 16;

// Calls the kernel directly, because the header of glibc 2.36 does not declare pidfd_open() for
// C++.
Fd open_process(pid_t pid) {
  return Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
}

// The error for a failed pidfd_open().
Status cannot_watch(pid_t pid, int error) {
  const std::string what = "watch process " + std::to_string(pid);
  switch (error) {
    case ESRCH:
      return Status(Code::peer_died, what + ": it has ended");
    case EINVAL:
      return Status(Code::invalid_argument, what + ": this is no number of a process");
    case ENOSYS:
      return Status(Code::unavailable, what + ": the kernel has no pidfd_open");
    default:
      return system_error(what, error);
  }
}

}  // namespace

Result<std::shared_ptr<ProcessWatcher>> ProcessWatcher::shared() {
  // Never destroyed, because a static context may be the last one that uses them.
  static auto& mutex = *new std::mutex;
  static auto& current = *new std::weak_ptr<ProcessWatcher>;
  const std::lock_guard lock(mutex);
  if (std::shared_ptr<ProcessWatcher> watcher = current.lock()) return watcher;
  WEFT_ASSIGN(std::shared_ptr<ProcessWatcher> watcher, start());
  current = watcher;
  return watcher;
}

Result<std::shared_ptr<ProcessWatcher>> ProcessWatcher::start() {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return system_error("watch processes: epoll_create1", errno);
  Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return system_error("watch processes: eventfd", errno);
  std::shared_ptr<ProcessWatcher> watcher(new ProcessWatcher(std::move(epoll), std::move(stop)));
  WEFT_RETURN_IF_ERROR(watcher->add_to_epoll(watcher->stop_, kNoWatch));
  WEFT_ASSIGN(watcher->thread_, start_thread("weft-watch", [raw = watcher.get()] { raw->run(); }));
  return watcher;
}

ProcessWatcher::~ProcessWatcher() {
  if (!thread_.joinable()) return;  // the thread could not be started
  invariant(!thread_.is_current(), "a callback must not own the watcher");
  invariant(::eventfd_write(stop_.get(), 1) == 0, "an empty eventfd takes a one");
  thread_.join();
}

Status ProcessWatcher::add_to_epoll(const Fd& fd, WatchId id) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) == 0) return {};
  return system_error("watch processes: epoll_ctl", errno);
}

Result<ProcessWatcher::WatchId> ProcessWatcher::watch(pid_t pid, std::function<void()> on_exit) {
  Fd process = open_process(pid);  // the kernel makes it close on exec
  if (!process.valid()) return cannot_watch(pid, errno);
  return watch(std::move(process), std::move(on_exit));
}

Result<ProcessWatcher::WatchId> ProcessWatcher::watch(Fd process, std::function<void()> on_exit) {
  // The thread looks for an event's watch under this lock, so it finds the watch of every event.
  const std::lock_guard lock(mutex_);
  const WatchId id = ++last_id_;
  WEFT_RETURN_IF_ERROR(add_to_epoll(process, id));
  watches_.emplace(id, Watch{std::move(process), std::move(on_exit)});
  return id;
}

// Removes a watch. The descriptor is removed from the epoll set explicitly, because closing it
// would not remove it while a forked child still has a copy.
ProcessWatcher::Watch ProcessWatcher::take(std::unordered_map<WatchId, Watch>::iterator watch) {
  Watch taken = std::move(watch->second);
  watches_.erase(watch);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, taken.process.get(), nullptr);
  return taken;
}

void ProcessWatcher::forget(WatchId id) {
  Watch forgotten;  // declared before the lock, so that its closure is destroyed without it
  const std::lock_guard lock(mutex_);
  if (const auto found = watches_.find(id); found != watches_.end()) forgotten = take(found);
}

void ProcessWatcher::unwatch(WatchId id) {
  forget(id);
  std::unique_lock lock(mutex_);
  if (thread_.is_current()) return;  // the caller is the running callback
  reported_.wait(lock, [&] { return reporting_ != id; });
}

void ProcessWatcher::run() {
  for (;;) {
    std::array<epoll_event, kEventsPerWait> events;
    const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerWait, -1);
    invariant(count >= 0 || errno == EINTR,
              "epoll_wait on our own descriptors fails only by EINTR");
    for (int i = 0; i < count; ++i) {
      const WatchId id = events[static_cast<std::size_t>(i)].data.u64;
      if (id == kNoWatch) return;  // stop_
      report(id);
    }
  }
}

void ProcessWatcher::report(WatchId id) {
  Watch watch;
  {
    const std::lock_guard lock(mutex_);
    const auto found = watches_.find(id);
    if (found == watches_.end()) return;  // unwatched since epoll_wait returned
    watch = take(found);
    reporting_ = id;
  }
  watch.on_exit();
  {
    const std::lock_guard lock(mutex_);
    reporting_ = kNoWatch;
  }
  reported_.notify_all();
}

}  // namespace weft
