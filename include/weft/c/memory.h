// The C API: memory that the ranks of one machine read in place. Operations take any memory; this
// memory saves a copy.
#pragma once

#include <weft/c/base.h>

#ifdef __cplusplus
extern "C" {
#endif

// Allocates at least `bytes` of zeroed shared memory; 0 bytes is legal. It is aligned to 64 bytes,
// from 4 KiB on to 4 KiB, and from 1 MiB on to 2 MiB. Full memory is WEFT_EXHAUSTED.
WEFT_C_API weft_code weft_allocate(size_t bytes, void** memory);
// Gives back what weft_allocate() gave. NULL is legal; any other memory is WEFT_INVALID_ARGUMENT.
// No operation may still use the memory.
WEFT_C_API weft_code weft_deallocate(void* memory);

// What kind of memory a pointer leads to. Operations take every kind.
enum {
  WEFT_HOST_MEMORY = 0,     // any memory that CUDA does not know
  WEFT_PINNED_MEMORY = 1,   // host memory that CUDA has pinned
  WEFT_MANAGED_MEMORY = 2,  // moves between host and GPU as it is touched
  WEFT_DEVICE_MEMORY = 3,   // GPU memory
};
typedef int32_t weft_memory_kind;
// *device is the number of the GPU by CUDA; -1: none.
WEFT_C_API weft_code weft_memory_place(const void* memory, weft_memory_kind* kind, int32_t* device);

// Allocates GPU memory, as cuMemAlloc() gives it in the primary context. WEFT_UNAVAILABLE:
// there is no such GPU or no driver; WEFT_EXHAUSTED: it has no more memory.
WEFT_C_API weft_code weft_allocate_on_device(size_t bytes, int32_t device, void** memory);
// Gives it back. NULL is legal; any other memory is WEFT_INVALID_ARGUMENT.
WEFT_C_API weft_code weft_deallocate_on_device(void* memory, int32_t device);

// What this process has allocated.
typedef struct weft_heap_usage {
  size_t size;  // sizeof(weft_heap_usage), set by the caller
  uint64_t allocated_bytes;
  uint64_t huge_bytes;  // bytes that the kernel agreed to back with huge pages
} weft_heap_usage;
WEFT_C_API weft_code weft_get_heap_usage(weft_heap_usage* usage);

#ifdef __cplusplus
}
#endif
