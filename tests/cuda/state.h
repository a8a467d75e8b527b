// What the twin of libcuda.so.1 remembers: GPUs, memory, streams, events, and what a test has told it.
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

namespace weft::twin {

inline constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3;
inline constexpr int kInvalidContext = 201, kAlreadyRegistered = 712, kNotRegistered = 713;
inline constexpr int kInvalidHandle = 400, kNotFound = 500, kNotReady = 600, kLost = 719;
inline constexpr std::size_t kDeviceBytes = std::size_t{1} << 30;

// A piece of work of a stream. It runs when `may_run` says so.
struct Work {
  std::function<bool()> may_run;
  std::function<void()> run;
  std::function<void()> host;  // runs without the lock
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
struct Allocation {
  std::size_t bytes = 0;
  int device = 0;
};

struct State {
  std::recursive_mutex mutex;
  int devices = TWIN_DEVICES;
  int version = TWIN_VERSION;
  bool is_begun = false, is_lost = false, runs_at_once = true;
  std::string hidden = TWIN_HIDDEN;
  struct Failure {
    int answer = 0, count = 0;
  };
  std::map<std::string, Failure> failures;
  std::map<std::uintptr_t, Allocation> memory;
  std::map<std::uintptr_t, std::size_t> pinned;
  std::vector<std::unique_ptr<Context>> contexts;
  std::map<void*, std::unique_ptr<Stream>> streams;
  std::map<void*, std::shared_ptr<Event>> events;
  bool is_running = false;
};
inline State& state() {
  static auto* const state = new State;
  return *state;
}
inline thread_local std::vector<Context*> current;

}  // namespace weft::twin
