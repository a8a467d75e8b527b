// The marks of this process.
#include "verbs/shm/marks.h"

#include <unistd.h>

#include <mutex>
#include <new>
#include <vector>

#include "verbs/memory/memory.h"

namespace weft::shm {
namespace {

constexpr std::size_t kAtOnce = 64;

// A forked child does not use its copy, because its parent's peers look at the marks.
struct Marks {
  std::mutex mutex;
  std::vector<Mark*> free;
  std::uint64_t last_exposure = 0;
  pid_t process = getpid();
};

Marks& marks() {
  // Never destroyed: a static context may be the last that uses it.
  static Marks& all = *new Marks;
  return all;
}

Status make_more(std::vector<Mark*>& free) {
  WEFT_ASSIGN(void* memory, allocate(kAtOnce * sizeof(Mark)));
  for (std::size_t m = 0; m < kAtOnce; ++m)
    free.push_back(new (static_cast<std::byte*>(memory) + m * sizeof(Mark)) Mark{0});
  return {};
}

}  // namespace

Result<Exposed> set_mark() {
  Marks& all = marks();
  const std::lock_guard lock(all.mutex);
  if (all.process != getpid()) return forked_child_error("exposing a region");
  if (all.free.empty()) WEFT_RETURN_IF_ERROR(make_more(all.free));
  const Exposed exposed{all.free.back(), ++all.last_exposure};
  all.free.pop_back();
  exposed.mark->store(exposed.exposure, std::memory_order_release);
  return exposed;
}

void clear_mark(const Exposed& exposed) {
  Marks& all = marks();
  const std::lock_guard lock(all.mutex);
  if (all.process != getpid()) return;
  exposed.mark->store(0, std::memory_order_release);
  all.free.push_back(exposed.mark);
}

}  // namespace weft::shm
