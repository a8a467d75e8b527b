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

// Called in the thread that unmaps memory, before it does; and in a thread that has mapped memory,
// after it did. New memory cannot be registered already. So announcing it, too, finds the earlier
// memory at this address if that was unmapped by a direct system call, which no hook sees.
void on_change(ucm_event_type_t type, ucm_event_t* event, void*) {
  if (type == UCM_EVENT_VM_UNMAPPED) {
    announce_change(event->vm_unmapped.address, event->vm_unmapped.size);
  } else if (type == UCM_EVENT_VM_MAPPED) {
    announce_change(event->vm_mapped.address, event->vm_mapped.size);
  }
}

// libucm takes its settings and some functions from libucs, which it does not load. Loading libucs
// installs handlers for the fatal signals; afterwards the process's own are restored.
void* load() {
  constexpr std::array kFatal{SIGILL, SIGSEGV, SIGBUS, SIGFPE};
  std::array<struct sigaction, kFatal.size()> before{};
  for (std::size_t i = 0; i < kFatal.size(); ++i) sigaction(kFatal[i], nullptr, &before[i]);
  const bool ready = dlopen("libucs.so.0", RTLD_NOW | RTLD_LOCAL) != nullptr;
  for (std::size_t i = 0; i < kFatal.size(); ++i) sigaction(kFatal[i], &before[i], nullptr);
  return ready ? dlopen("libucm.so.0", RTLD_NOW | RTLD_LOCAL) : nullptr;
}

// Checks that the hooks see munmap and madvise. The hooks are patches of the C library, and a tool
// that replaces its functions may bypass them.
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
