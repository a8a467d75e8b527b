// fork: the kernel itself empties the page of the mark in a child (MADV_WIPEONFORK), whichever system
// call made the child. On a kernel that cannot (before 4.14) a handler of fork() does.
#include "verbs/base/fork.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <string>

namespace weft {
namespace {

unsigned char* new_mark() {
  static unsigned char fallback = 0;
  const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool is_wiped = page != MAP_FAILED && madvise(page, bytes, MADV_WIPEONFORK) == 0;
  if (is_wiped) return static_cast<unsigned char*>(page);
  if (page != MAP_FAILED) munmap(page, bytes);
  pthread_atfork(nullptr, nullptr, [] { fallback = 0; });
  return &fallback;
}

}  // namespace

std::atomic<const volatile unsigned char*> process_mark{nullptr};

void mark_process() {
  static std::once_flag once;
  std::call_once(once, [] {
    unsigned char* mark = new_mark();
    *mark = 1;
    process_mark.store(mark, std::memory_order_release);
  });
}

Status forked_child_error(std::string_view what) {
  return Status(Code::unavailable,
                std::string(what) +
                    ": this process was forked from one that uses Weft, and may not use it; exec a "
                    "program, or fork before the first context is made");
}

}  // namespace weft
