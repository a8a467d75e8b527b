// What the calls of the fake have in common: their answers, memory that is touched, and queues that
// run.
#pragma once

#include <sys/mman.h>

#include <mutex>
#include <string>
#include <utility>

#include "tests/cuda/state.h"

namespace weft::fake {

using Lock = std::unique_lock<std::recursive_mutex>;

// What a call answers before it does anything.
inline int begin(const char* function, bool needs_init = true) {
  State& all = state();
  if (all.is_lost) return kLost;
  const auto found = all.failures.find(function);
  if (found != all.failures.end() && found->second.count > 0) {
    --found->second.count;
    return found->second.answer;
  }
  return needs_init && !all.is_begun ? kNotInitialized : kSuccess;
}

// Streams 0, 1 and 2 are the default ones of a context; here they are one of a device.
inline Stream* stream_of(void* handle) {
  State& all = state();
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number <= 2) {
    if (current.empty()) return nullptr;
    auto& stream = all.streams[current.back()];
    if (stream == nullptr) stream = std::make_unique<Stream>();
    return stream.get();
  }
  const auto found = all.streams.find(handle);
  return found == all.streams.end() ? nullptr : found->second.get();
}

// The allocation that has all of these bytes.
inline const Allocation* allocation_of(std::uintptr_t address, std::size_t bytes,
                                       std::uintptr_t* begin = nullptr) {
  const auto& memory = state().memory;
  auto next = memory.upper_bound(address);
  if (next == memory.begin()) return nullptr;
  --next;
  if (address + bytes > next->first + next->second.bytes) return nullptr;
  if (begin != nullptr) *begin = next->first;
  return &next->second;
}

// Opens the memory for this process while it is copied.
template <typename Copy>
void touch(std::uintptr_t address, const Copy& copy) {
  std::uintptr_t begin = 0;
  const Allocation* found = allocation_of(address, 0, &begin);
  if (found == nullptr) return;
  void* const base = reinterpret_cast<void*>(begin);
  (void)mprotect(base, found->bytes, PROT_READ | PROT_WRITE);
  copy();
  (void)mprotect(base, found->bytes, PROT_NONE);
}

// Opens all GPU memory while a kernel runs.
template <typename Run>
void touch_all(const Run& run) {
  const auto set = [](int access) {
    for (const auto& [begin, allocation] : state().memory)
      (void)mprotect(reinterpret_cast<void*>(begin), allocation.bytes, access);
  };
  set(PROT_READ | PROT_WRITE);
  run();
  set(PROT_NONE);
}

// Runs what can run in all streams, at most so many pieces of work.
inline int run(int most = 1'000'000) {
  State& all = state();
  if (all.is_running) return 0;
  all.is_running = true;
  int done = 0;
  for (bool moved = true; moved && done < most;) {
    moved = false;
    for (auto& [handle, stream] : all.streams) {
      if (stream->is_held || stream->works.empty() || all.is_lost) continue;
      if (stream->works.front().may_run && !stream->works.front().may_run()) continue;
      const Work work = std::move(stream->works.front());
      stream->works.pop_front();
      if (work.run) work.run();
      ++done;
      moved = true;
      break;  // streams may have changed
    }
  }
  all.is_running = false;
  return done;
}

inline int queue(void* handle, Work work) {
  Stream* const stream = stream_of(handle);
  if (stream == nullptr) return kInvalidHandle;
  stream->works.push_back(std::move(work));
  if (state().runs_at_once) run();
  return kSuccess;
}

}  // namespace weft::fake
