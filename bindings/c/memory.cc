// memory: the shared heap. What the C API has given out is noted, so that giving back anything else
// is an error and not a breach of the heap's invariants.
#include <weft/c/memory.h>
#include <weft/memory.h>

#include <memory>

#include "bindings/c/call.h"
#include "bindings/c/registry.h"
#include "bindings/c/structs.h"

namespace {

using namespace weft::c;
using weft::Status;

}  // namespace

weft_code weft_allocate(size_t bytes, void** memory) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(memory, "memory"));
    *memory = nullptr;
    WEFT_ASSIGN(void* const made, weft::allocate(bytes));
    std::unique_ptr<void, void (*)(void*)> owner(made, weft::deallocate);
    note_memory(made);
    *memory = owner.release();
    return {};
  });
}

weft_code weft_deallocate(void* memory) {
  return call(__func__, [&]() -> Status {
    if (memory == nullptr) return {};
    if (!forget_memory(memory))
      return argument_error("memory", "was not given by weft_allocate, or was given back before");
    weft::deallocate(memory);
    return {};
  });
}

weft_code weft_memory_place(const void* memory, weft_memory_kind* kind, int32_t* device) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(kind, "kind"));
    WEFT_RETURN_IF_ERROR(check_not_null(device, "device"));
    const weft::MemoryPlace place = weft::memory_place(memory);
    *kind = static_cast<weft_memory_kind>(place.kind);
    *device = place.device;
    return {};
  });
}

weft_code weft_allocate_on_device(size_t bytes, int32_t device, void** memory) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(memory, "memory"));
    *memory = nullptr;
    WEFT_ASSIGN(*memory, weft::allocate(bytes, weft::Device{device}));
    return {};
  });
}

weft_code weft_deallocate_on_device(void* memory, int32_t device) {
  return call(__func__, [&] { return weft::deallocate(memory, weft::Device{device}); });
}

weft_code weft_get_heap_usage(weft_heap_usage* usage) {
  return call(__func__, [&]() -> Status {
    const weft::HeapUsage found = weft::heap_usage();
    weft_heap_usage shown{};
    shown.allocated_bytes = found.allocated_bytes;
    shown.huge_bytes = found.huge_bytes;
    return write_struct(shown, "usage", usage);
  });
}
