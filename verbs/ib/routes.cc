// Routes: asked for beside the lane, kept, and asked for anew.
#include "verbs/ib/routes.h"

#include <algorithm>
#include <utility>

#include "verbs/ib/verbs_errors.h"

namespace weft::ib {
namespace {

// After a failed lookup the next one waits at least so long, and at least as long as the lookup
// took. The wait doubles with each further failure, at most so often.
constexpr std::int64_t kAgainNs = 100'000'000;
constexpr int kMostDoublings = 4;

}  // namespace

Routes::Routes(const Library& library, ibv_pd* domain, BackgroundCalls& background,
               std::string name, Attributes attributes, std::function<void()> told)
    : library_(library),
      domain_(domain),
      background_(background),
      name_(std::move(name)),
      attributes_(std::move(attributes)),
      told_(std::move(told)) {}

Result<ibv_ah*> Routes::find(const Way& way) {
  if (way.gid_index < 0)
    return Status(Code::unavailable, name_ + ": the address that a way began with is gone");
  Route& route = routes_[way];
  const bool lacks = route.handle == nullptr || route.doubtful;
  if (lacks && !route.asked && now_ns() >= route.again_ns) {
    route.asked = true;
    ask(way, route);
  }
  if (route.handle != nullptr || route.asked) return route.handle.get();
  return route.why;
}

// Neighbors that were never looked up come first. Those that were may be gone.
void Routes::ask(const Way& way, const Route& route) {
  const bool is_first = route.handle == nullptr && route.refusals == 0;
  background_.add(
      is_first ? BackgroundCalls::Need::may : BackgroundCalls::Need::again,
      [this, way, to = attributes_(way)]() mutable {
        const std::int64_t begin = now_ns();
        Answer answer{way, Owned<ibv_ah>(library_.create_ah(domain_, &to), {&library_}), {}, 0};
        answer.status =
            check_pointer(answer.handle.get(), name_ + ": a route to " + ip_of(way.peer));
        answer.took_ns = now_ns() - begin;
        {
          const std::scoped_lock lock(mutex_);
          answers_.push_back(std::move(answer));
        }
        has_answers_.store(true, std::memory_order_release);
        told_();
      });
}

void Routes::take_answers() {
  std::vector<Answer> answers;
  {
    const std::scoped_lock lock(mutex_);
    answers.swap(answers_);
    has_answers_.store(false, std::memory_order_relaxed);
  }
  for (Answer& answer : answers) {
    Route& route = routes_[answer.way];
    route.asked = false;
    route.why = answer.status;
    if (!answer.status.ok()) {
      const int doublings = std::min(route.refusals++, kMostDoublings);
      route.again_ns = now_ns() + (std::max(kAgainNs, answer.took_ns) << doublings);
      continue;
    }
    route.doubtful = false;
    route.refusals = 0;
    if (route.handle != nullptr) old_.push_back(std::move(route.handle));
    route.handle = std::move(answer.handle);
  }
}

void Routes::mistrust(const GidBytes& peer) {
  for (auto& [way, route] : routes_) {
    if (way.peer == peer) route.doubtful = true;
  }
}

}  // namespace weft::ib
