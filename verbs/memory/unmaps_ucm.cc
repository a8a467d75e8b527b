// The unmapping calls of the whole process, seen through libucm, the memory hooks of UCX.
#include <dlfcn.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <ucm/api/ucm.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "verbs/memory/changes.h"

namespace weft {
namespace {

Status no_hooks(Code code, std::string_view why) {
  return Status(code,
                fmt::format("registrations of memory cannot be kept, because nothing tells when it "
                            "is unmapped: {}",
                            why));
}

// Runs in whichever thread unmaps, before it does, and after something was mapped. What is new can
// have no registration either: this also finds memory that went by a system call of its own.
void on_change(ucm_event_type_t type, ucm_event_t* event, void*) {
  if (type == UCM_EVENT_VM_UNMAPPED) {
    announce_change(event->vm_unmapped.address, event->vm_unmapped.size);
  } else if (type == UCM_EVENT_VM_MAPPED) {
    announce_change(event->vm_mapped.address, event->vm_mapped.size);
  }
}

// libucm takes its settings and some functions from libucs, which it does not load. libucs puts
// handlers on the fatal signals when it is loaded; the process's own come back.
void* load() {
  constexpr std::array kFatal{SIGILL, SIGSEGV, SIGBUS, SIGFPE};
  std::array<struct sigaction, kFatal.size()> before{};
  for (std::size_t i = 0; i < kFatal.size(); ++i) sigaction(kFatal[i], nullptr, &before[i]);
  const bool ready = dlopen("libucs.so.0", RTLD_NOW | RTLD_LOCAL) != nullptr;
  for (std::size_t i = 0; i < kFatal.size(); ++i) sigaction(kFatal[i], &before[i], nullptr);
  return ready ? dlopen("libucm.so.0", RTLD_NOW | RTLD_LOCAL) : nullptr;
}

// Trust, but look: the hooks are patches of the C library, and a tool that replaces its functions
// may go past them.
Status probe() {
  const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const page = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return system_error("mapping a page to try the memory hooks", errno);
  Watch watch;
  const auto start = reinterpret_cast<std::uintptr_t>(page);
  invariant(watch.begin(start, start + bytes).has_value(), "a new watch has room");
  (void)madvise(page, bytes, MADV_DONTNEED);
  const bool madvise_seen = !watch.take_changed().empty();
  munmap(page, bytes);
  const bool munmap_seen = !watch.take_changed().empty();
  if (madvise_seen && munmap_seen) return {};
  return no_hooks(Code::system,
                  madvise_seen ? "libucm does not see munmap" : "libucm does not see madvise");
}

Status start() {
  void* const library = load();
  if (library == nullptr) return no_hooks(Code::unavailable, dlerror());
  const auto set_handler =
      reinterpret_cast<decltype(&ucm_set_event_handler)>(dlsym(library, "ucm_set_event_handler"));
  if (set_handler == nullptr)
    return no_hooks(Code::unavailable, "libucm.so.0 has no ucm_set_event_handler");
  const ucs_status_t status =
      set_handler(UCM_EVENT_VM_UNMAPPED | UCM_EVENT_VM_MAPPED, 0, on_change, nullptr);
  if (status != UCS_OK) {
    return no_hooks(Code::unavailable,
                    fmt::format("libucm cannot hook the C library (UCS error {}; is UCX_MEM_EVENTS "
                                "off?)",
                                static_cast<int>(status)));
  }
  return probe();
}

}  // namespace

Status announce_unmaps() {
  static const Status once = start();
  return once;
}

}  // namespace weft
