// The C API: memory that the ranks of one machine read in place. Operations take any memory; this
// one saves a copy.
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
