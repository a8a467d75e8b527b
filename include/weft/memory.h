// memory: tensors that the ranks of one machine read in place.
//
// A process has one shared heap: an anonymous file of sparse pages that peers map. Nothing has a name
// in the file system. The kernel frees everything when the last process that maps the file ends, also
// after a crash. Operations take any memory; memory of the heap saves a copy.
//
// Pages are reserved at allocation and given back at deallocation. So if the machine's memory is full,
// allocate() returns an error, and no later access faults. Every function is thread safe.
#pragma once

#include <weft/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace WEFT_PUBLIC weft {

// What the heap uses, and where its memory is. For tools.
struct HeapUsage {
  std::size_t allocated_bytes = 0;
  std::size_t huge_bytes = 0;  // bytes that the kernel agreed to back with huge pages
  std::string backing;         // "memfd", or the directory
};

// What kind of memory a pointer leads to. Operations take every kind.
enum class MemoryKind : std::uint8_t {
  host,     // any memory that CUDA does not know
  pinned,   // host memory that CUDA has pinned
  managed,  // moves between host and GPU as it is touched
  device,   // GPU memory: cudaMalloc, its pools, mapped virtual memory
};
struct MemoryPlace {
  MemoryKind kind = MemoryKind::host;
  int device = -1;  // by CUDA's number; -1: none
};
[[nodiscard]] MemoryPlace memory_place(const void* pointer);

// A GPU, by CUDA's number.
struct Device {
  int number = 0;
};
// GPU memory, as cuMemAlloc() gives it in the primary context. `unavailable`: there is no such
// GPU, or no driver, and the text says what is missing.
[[nodiscard]] Result<void*> allocate(std::size_t bytes, Device device);
// Frees it. nullptr is legal. invalid_argument: it is not GPU memory.
Status deallocate(void* pointer, Device device);

// At least `bytes` of zeroed shared memory; 0 bytes is legal. It is aligned to 64 bytes, from 4 KiB
// on to 4 KiB, and from 1 MiB on to 2 MiB.
[[nodiscard]] Result<void*> allocate(std::size_t bytes);
// Gives back what allocate() gave. nullptr is legal. Peers may keep a mapping; its pages are gone.
void deallocate(void* pointer);
[[nodiscard]] HeapUsage heap_usage();

// Memory of the shared heap that is given back with its owner. Movable, not copyable.
class Memory {
 public:
  Memory() = default;
  // `bytes` of zeroed memory, as allocate() gives it.
  [[nodiscard]] static Result<Memory> allocate(std::size_t bytes) {
    Result<void*> memory = weft::allocate(bytes);
    if (!memory.ok()) return memory.status();
    return Memory(*memory, bytes);
  }

  [[nodiscard]] void* data() const { return memory_.get(); }
  [[nodiscard]] std::size_t bytes() const { return memory_ ? bytes_ : 0; }
  // The memory as elements of T, of which it holds bytes() / sizeof(T).
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(memory_.get());
  }

 private:
  struct Deallocate {
    void operator()(void* memory) const { deallocate(memory); }
  };
  Memory(void* memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}

  std::unique_ptr<void, Deallocate> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace weft
