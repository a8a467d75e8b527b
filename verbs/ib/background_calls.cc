// The list of background calls, and their thread.
#include "verbs/ib/background_calls.h"

#include <algorithm>
#include <utility>

namespace weft::ib {

BackgroundCalls::~BackgroundCalls() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  thread_.join();
}

void BackgroundCalls::add(Need need, std::function<void()> call) {
  {
    const std::scoped_lock lock(mutex_);
    const auto place = need == Need::again ? waiting_.end()
                                           : std::ranges::find(waiting_, Need::again, &Call::need);
    waiting_.insert(place, {need, std::move(call)});
    if (std::exchange(works_, true)) return;
  }
  start();
}

// The thread before found nothing more to do, and has ended or is about to.
void BackgroundCalls::start() {
  thread_.join();
  Result<Thread> started = start_thread("weft-background", [this] { work(); });
  if (started.ok()) {
    thread_ = *std::move(started);
  } else {
    work();  // here, then
  }
}

void BackgroundCalls::work() {
  std::unique_lock lock(mutex_);
  while (!waiting_.empty()) {
    Call call = std::move(waiting_.front());
    waiting_.pop_front();
    if (ends_ && call.need != Need::must) continue;
    lock.unlock();
    call.run();
    call = {};  // destroys what it holds before the lock is taken
    lock.lock();
  }
  works_ = false;
}

}  // namespace weft::ib
