// The thread, and the pools of events.
#include "verbs/cuda/watcher.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace weft::cuda {
namespace {

constexpr unsigned kWithoutTiming = 2;  // of an event

// Events that nobody uses, by context. Never destroyed: an event may end after the end of main().
struct Events {
  std::mutex mutex;
  std::map<void*, std::vector<void*>> free;
};
Events& events() {
  static auto* const events = new Events;
  return *events;
}

struct Watched {
  std::shared_ptr<const Recorded> event;
  std::shared_ptr<Waker> waker;
};
struct Timed {
  std::int64_t end_ns;
  std::weak_ptr<void> still;
  std::function<void()> call;
};

class Watcher {
 public:
  // Never destroyed, as events may be watched until the process ends; but its thread ends before.
  static Watcher& get() {
    static auto* const watcher = new Watcher;
    static const struct AtExit {
      ~AtExit() { watcher->end(); }
    } at_exit;
    return *watcher;
  }

  void end() {
    if (is_forked_child()) return;  // it has no such thread
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
      changed_.notify_one();
    }
    thread_.join();
  }

  Status add(Watched watched) {
    const std::lock_guard lock(mutex_);
    WEFT_RETURN_IF_ERROR(begin());
    new_.push_back(std::move(watched));
    return {};
  }
  Status add(Timed timed) {
    const std::lock_guard lock(mutex_);
    WEFT_RETURN_IF_ERROR(begin());
    timed_.push_back(std::move(timed));
    return {};
  }

 private:
  // The mutex is held.
  Status begin() {
    changed_.notify_one();
    if (is_running_ || is_ending_) return {};
    WEFT_ASSIGN(thread_, start_thread("weft-gpu", [this] { run(); }));
    is_running_ = true;
    return {};
  }

  void run() {
    (void)prctl(PR_SET_TIMERSLACK, 1);
    std::vector<Watched> watched;
    std::int64_t last_news_ns = now_ns();
    while (true) {
      std::vector<std::function<void()>> late;
      {
        std::unique_lock lock(mutex_);
        if (is_ending_) return;
        if (!new_.empty()) last_news_ns = now_ns();
        std::ranges::move(std::exchange(new_, {}), std::back_inserter(watched));
        late = take_late();
        if (watched.empty() && timed_.empty() && late.empty()) {
          // Whoever comes next need not start a thread, if it comes soon.
          constexpr auto kLinger = std::chrono::seconds(1);
          const bool is_needed = changed_.wait_for(
              lock, kLinger, [this] { return is_ending_ || !new_.empty() || !timed_.empty(); });
          if (!is_needed) {
            is_running_ = false;
            return;
          }
          continue;
        }
        if (watched.empty() && late.empty()) {
          changed_.wait_for(lock, std::chrono::milliseconds(100),
                            [this] { return is_ending_ || !new_.empty(); });
          continue;
        }
      }
      for (const auto& call : late) call();
      const std::size_t before = watched.size();
      std::erase_if(watched, [](Watched& each) {
        if (each.event->look() == kNotReady) return false;
        each.event.reset();
        each.waker->ring();
        return true;
      });
      if (watched.size() != before) last_news_ns = now_ns();
      nap(now_ns() - last_news_ns);
    }
  }

  // The longer nothing happens, the longer the next look may wait.
  static void nap(std::int64_t quiet_ns) {
    constexpr std::int64_t kAwakeNs = 50'000, kLongestNs = 200'000;
    if (quiet_ns < kAwakeNs) return std::this_thread::yield();
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(std::clamp(quiet_ns / 8, std::int64_t{10'000}, kLongestNs)));
  }

  // The mutex is held.
  std::vector<std::function<void()>> take_late() {
    std::vector<std::function<void()>> late;
    const std::int64_t now = now_ns();
    std::erase_if(timed_, [&](Timed& each) {
      if (each.still.expired()) return true;
      if (each.end_ns > now) return false;
      late.push_back(std::move(each.call));
      return true;
    });
    return late;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Watched> new_;
  std::vector<Timed> timed_;
  bool is_running_ = false;
  bool is_ending_ = false;
  Thread thread_;
};

}  // namespace

Result<std::shared_ptr<Recorded>> Recorded::in(const Driver& driver, void* context, void* stream,
                                               const std::string& what) {
  const Current current(driver, context);
  WEFT_RETURN_IF_ERROR(status_of(driver, current.answer(), what));
  void* event = nullptr;
  {
    const std::lock_guard lock(events().mutex);
    std::vector<void*>& free = events().free[context];
    if (!free.empty()) {
      event = free.back();
      free.pop_back();
    }
  }
  if (event == nullptr)
    WEFT_RETURN_IF_ERROR(status_of(driver, driver.event_create(&event, kWithoutTiming), what));
  auto made = std::make_shared<Recorded>(driver, context, event);
  WEFT_RETURN_IF_ERROR(status_of(driver, driver.event_record(event, stream), what));
  return made;
}

Status Recorded::reserve(const Driver& driver, void* context, std::size_t count,
                         const std::string& what) {
  const Current current(driver, context);
  WEFT_RETURN_IF_ERROR(status_of(driver, current.answer(), what));
  std::size_t missing = 0;
  {
    const std::lock_guard lock(events().mutex);
    const std::size_t has = events().free[context].size();
    missing = count > has ? count - has : 0;
  }
  // Without the lock: the driver may let this wait, and others need the events that there are.
  for (; missing > 0; --missing) {
    void* event = nullptr;
    WEFT_RETURN_IF_ERROR(status_of(driver, driver.event_create(&event, kWithoutTiming), what));
    const std::lock_guard lock(events().mutex);
    events().free[context].push_back(event);
  }
  return {};
}

Recorded::~Recorded() {
  const std::lock_guard lock(events().mutex);
  events().free[context_].push_back(event_);
}

Answer Recorded::look() const {
  const Current current(driver_, context_);
  return current.answer() == kSuccess ? driver_.event_query(event_) : current.answer();
}

void Recorded::wait() const {
  const Current current(driver_, context_);
  if (current.answer() == kSuccess) (void)driver_.event_wait(event_);
}

Status watch(std::shared_ptr<const Recorded> event, std::shared_ptr<Waker> waker) {
  return Watcher::get().add(Watched{std::move(event), std::move(waker)});
}

Status watch_until(std::int64_t end_ns, std::weak_ptr<void> still, std::function<void()> call) {
  return Watcher::get().add(Timed{end_ns, std::move(still), std::move(call)});
}

}  // namespace weft::cuda
