// What the fake of libcuda.so.1 remembers: GPUs, memory, streams, events, and what a test has told it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace weft::fake {

inline constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3;
inline constexpr int kInvalidContext = 201, kAlreadyRegistered = 712, kNotRegistered = 713;
inline constexpr int kInvalidHandle = 400, kNotFound = 500, kNotSupported = 801, kNotReady = 600,
                     kLost = 719;
inline constexpr std::size_t kDeviceBytes = std::size_t{1} << 30;

// A piece of work of a stream. It runs when `may_run` says so.
struct Work {
  std::function<bool()> may_run;
  std::function<void()> run;
};
struct Stream {
  int device = 0;
  std::deque<Work> works;
  bool is_held = false;
  bool is_capturing = false;
};
struct Event {
  bool is_over = true;
};
struct Context {
  int device = 0;
};
// A file that other processes can map, too.
struct Allocation {
  std::size_t bytes = 0;
  int device = 0;
  int file = -1;
  std::uint64_t number = 0;  // no other has it
  bool is_of_peer = false;   // mapped by its handle
  bool is_of_pool = false;   // it has no handle
};
// What a handle says.
struct Handle {
  int process, file, device;
  std::size_t bytes;
};

// What this library differs in from the others that are made of the same sources (kind.cc).
struct Kind {
  int devices, version;
  const char* hidden;  // a function that the library lacks
  const char* fails;   // a function that always fails
};
extern const Kind kKind;

struct State {
  std::recursive_mutex mutex;
  int devices = kKind.devices;
  int version = kKind.version;
  bool is_begun = false, is_lost = false, runs_at_once = true;
  std::string hidden = kKind.hidden;
  struct Failure {
    int answer = 0, count = 0;
  };
  std::map<std::string, Failure> failures = {{kKind.fails, {kNotSupported, 1'000'000}}};
  std::map<std::uintptr_t, Allocation> memory;
  std::map<std::uintptr_t, std::size_t> pinned;
  std::vector<std::unique_ptr<Context>> contexts;
  std::map<void*, std::unique_ptr<Stream>> streams;
  // The last record of each event, by its handle, which no later event has.
  std::map<void*, std::shared_ptr<Event>> events;
  std::deque<char> event_handles;
  bool is_running = false;
  std::uint64_t allocations = 0;
  int flushes = 0;                     // of what network interfaces wrote
  std::map<int, int> flushes_for_all;  // by device: those after which all devices see it
  bool gives_pool_memory = false;
  void* next_memory = nullptr;  // where memory is allocated next; null: anywhere
};
inline State& state() {
  static auto* const state = new State;
  return *state;
}
inline thread_local std::vector<Context*> current;

}  // namespace weft::fake
