// Errands: a list and a thread.
#include "verbs/ib/errands.h"

#include <algorithm>
#include <utility>

namespace weft::ib {

Errands::~Errands() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  thread_.join();
}

void Errands::add(Need need, std::function<void()> errand) {
  {
    const std::scoped_lock lock(mutex_);
    const auto place = need == Need::again
                           ? waiting_.end()
                           : std::ranges::find(waiting_, Need::again, &Errand::need);
    waiting_.insert(place, {need, std::move(errand)});
    if (std::exchange(works_, true)) return;
  }
  start();
}

// The thread before found nothing more to do, and has ended or is about to.
void Errands::start() {
  thread_.join();
  Result<Thread> started = start_thread("weft-errands", [this] { work(); });
  if (started.ok()) {
    thread_ = *std::move(started);
  } else {
    work();  // here, then
  }
}

void Errands::work() {
  std::unique_lock lock(mutex_);
  while (!waiting_.empty()) {
    Errand errand = std::move(waiting_.front());
    waiting_.pop_front();
    if (ends_ && errand.need != Need::must) continue;
    lock.unlock();
    errand.run();
    errand = {};  // destroys what it holds before the lock is taken
    lock.lock();
  }
  works_ = false;
}

}  // namespace weft::ib
