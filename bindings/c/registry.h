// registry: which handles of the C API are valid, and what they stand for.
//
// A handle is a number in the clothes of a pointer. The numbers count up and are never used twice,
// so a handle that was freed, or garbage, is found to be invalid without looking at any memory.
//
// One table for the process, guarded by one mutex, which is never held while an object is used or
// destroyed. The table is never destroyed: threads of the host may still call while the process
// exits. fork() takes the mutex, so that a child finds the table whole. What else of the C API may
// be changed by several threads is guarded by the same mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

namespace weft::c {

enum class Kind : std::uint8_t {
  context,
  handle,
  graph,
  schedule,
  config,
  store,
  window,
  named,
  prepared,
  feedback,
  push_sum,
  dpsgd,
  ad_psgd,
  partial_allreduce,
  bounded_staleness,
  gradient_exchange,
  strategy
};

struct Found {
  bool is_known = false;         // false: no handle of this kind has this value
  std::shared_ptr<void> object;  // null: it was closed
};

// Makes a handle for an object.
[[nodiscard]] void* register_object(Kind kind, std::shared_ptr<void> object);
// The object of a handle, which lives at least as long as the answer.
[[nodiscard]] Found find_object(Kind kind, const void* handle);
// Takes the object away; from now on the handle is one of a closed object.
[[nodiscard]] Found close_object(Kind kind, const void* handle);
// Takes the object away; from now on the handle is invalid.
[[nodiscard]] Found remove_object(Kind kind, const void* handle);

// Memory that weft_allocate() has given out. Whoever gives it back must have it noted:
// forget_memory() returns false for any other.
void note_memory(const void* memory);
[[nodiscard]] bool forget_memory(const void* memory);

// Locks the mutex, for a look at an object or a change of it that takes microseconds at most.
[[nodiscard]] std::unique_lock<std::mutex> lock_objects();

}  // namespace weft::c
