// The fake's calls on memory. GPU memory is a file, which another process maps by its handle.
#include "tests/cuda/memory_calls.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

#include "tests/cuda/work.h"

namespace weft::fake {

int cuPointerGetAttributes(unsigned count, int* attributes, void** values, std::uint64_t pointer) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuPointerGetAttributes"); answer != kSuccess) return answer;
  std::uintptr_t begin_of = 0;
  const Allocation* const found = allocation_of(pointer, 1, &begin_of);
  const auto& pinned = state().pinned;
  auto next = pinned.upper_bound(pointer);
  const bool is_pinned =
      next != pinned.begin() && pointer < std::prev(next)->first + std::prev(next)->second;
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case 1: {  // context
        void* context = nullptr;
        for (const auto& each : state().contexts)
          if (found != nullptr && each->device == found->device) context = each.get();
        *static_cast<void**>(values[i]) = context;
        break;
      }
      case 2:  // kind of memory
        *static_cast<unsigned*>(values[i]) = found != nullptr ? 2 : is_pinned ? 1 : 0;
        break;
      case 8:  // managed
        *static_cast<bool*>(values[i]) = false;
        break;
      case 9:  // device
        *static_cast<int*>(values[i]) = found != nullptr ? found->device : is_pinned ? 0 : -2;
        break;
      case 7:  // number of the allocation
        if (found == nullptr) return kInvalidValue;
        *static_cast<std::uint64_t*>(values[i]) = found->number;
        break;
      case 11:  // its beginning
        if (found == nullptr) return kInvalidValue;
        *static_cast<std::uint64_t*>(values[i]) = begin_of;
        break;
      case 13:  // whether it has a handle
        *static_cast<unsigned*>(values[i]) = found != nullptr && !found->is_of_pool ? 1 : 0;
        break;
      default:
        return kInvalidValue;
    }
  }
  return kSuccess;
}

int cuMemAlloc(std::uint64_t* pointer, std::size_t bytes) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuMemAlloc"); answer != kSuccess) return answer;
  if (current.empty()) return kInvalidContext;
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t size = (bytes + page - 1) / page * page;
  if (bytes == 0) return kInvalidValue;
  if (size > kDeviceBytes) return kOutOfMemory;
  const int file = memfd_create("GPU memory", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) return kOutOfMemory;
  void* const place = std::exchange(state().next_memory, nullptr);
  void* const memory =
      mmap(place, size, PROT_NONE, MAP_SHARED | (place == nullptr ? 0 : MAP_FIXED), file, 0);
  if (memory == MAP_FAILED) return kOutOfMemory;
  *pointer = reinterpret_cast<std::uintptr_t>(memory);
  state().memory[*pointer] = {size,  current.back()->device,   file, ++state().allocations,
                              false, state().gives_pool_memory};
  return kSuccess;
}
int cuMemFree(std::uint64_t pointer) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuMemFree"); answer != kSuccess) return answer;
  const auto found = state().memory.find(pointer);
  if (found == state().memory.end() || found->second.is_of_peer) return kInvalidValue;
  (void)munmap(reinterpret_cast<void*>(found->first), found->second.bytes);
  (void)close(found->second.file);
  state().memory.erase(found);
  return kSuccess;
}
int cuMemHostRegister(void* memory, std::size_t bytes, unsigned) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuMemHostRegister"); answer != kSuccess) return answer;
  if (current.empty()) return kInvalidContext;
  const bool is_new =
      state().pinned.emplace(reinterpret_cast<std::uintptr_t>(memory), bytes).second;
  return is_new ? kSuccess : kAlreadyRegistered;
}
int cuMemHostUnregister(void* memory) {
  const Lock lock(state().mutex);
  if (current.empty()) return kInvalidContext;
  return state().pinned.erase(reinterpret_cast<std::uintptr_t>(memory)) != 0 ? kSuccess
                                                                             : kNotRegistered;
}
int cuMemHostGetDevicePointer(std::uint64_t* pointer, void* memory, unsigned) {
  if (current.empty()) return kInvalidContext;
  *pointer = reinterpret_cast<std::uintptr_t>(memory);
  return kSuccess;
}

int cuDeviceGetUuid(char* id, int device) {
  std::memset(id, 0, 16);
  id[0] = static_cast<char>(1 + device);
  return kSuccess;
}
int cuDeviceCanAccessPeer(int* can, int, int) {
  const Lock lock(state().mutex);
  *can = begin("cuDeviceCanAccessPeer") == kSuccess ? 1 : 0;
  return kSuccess;
}
int cuCtxEnablePeerAccess(void*, unsigned) {
  const Lock lock(state().mutex);
  return begin("cuCtxEnablePeerAccess");
}
int cuIpcGetMemHandle(IpcBytes* handle, std::uint64_t pointer) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuIpcGetMemHandle"); answer != kSuccess) return answer;
  const Allocation* const found = allocation_of(pointer, 1);
  if (found == nullptr || found->is_of_peer || found->is_of_pool) return kInvalidValue;
  const Handle made{getpid(), found->file, found->device, found->bytes};
  *handle = {};
  std::memcpy(handle, &made, sizeof made);
  return kSuccess;
}
// As the driver, a process does not open what is its own.
int cuIpcOpenMemHandle(std::uint64_t* pointer, IpcBytes handle, unsigned) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuIpcOpenMemHandle"); answer != kSuccess) return answer;
  if (current.empty()) return kInvalidContext;
  Handle of;
  std::memcpy(&of, &handle, sizeof of);
  if (of.process == getpid()) return kInvalidContext;
  const std::string path = "/proc/" + std::to_string(of.process) + "/fd/" + std::to_string(of.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return kInvalidHandle;
  void* const memory = mmap(nullptr, of.bytes, PROT_NONE, MAP_SHARED, file, 0);
  (void)close(file);
  if (memory == MAP_FAILED) return kOutOfMemory;
  *pointer = reinterpret_cast<std::uintptr_t>(memory);
  state().memory[*pointer] = {of.bytes, of.device, -1, ++state().allocations, true, false};
  return kSuccess;
}
int cuIpcCloseMemHandle(std::uint64_t pointer) {
  const Lock lock(state().mutex);
  const auto found = state().memory.find(pointer);
  if (found == state().memory.end() || !found->second.is_of_peer) return kInvalidValue;
  (void)munmap(reinterpret_cast<void*>(found->first), found->second.bytes);
  state().memory.erase(found);
  return kSuccess;
}

// The file stands for a dma-buf, which begins where the file's position is.
int cuMemGetHandleForAddressRange(void* handle, std::uint64_t pointer, std::size_t bytes, int,
                                  unsigned long long) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuMemGetHandleForAddressRange"); answer != kSuccess) return answer;
  std::uintptr_t begin_of = 0;
  const Allocation* const found = allocation_of(pointer, bytes, &begin_of);
  if (found == nullptr || found->file < 0) return kInvalidValue;
  const std::string path = "/proc/self/fd/" + std::to_string(found->file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0 || lseek(file, static_cast<off_t>(pointer - begin_of), SEEK_SET) < 0)
    return kOutOfMemory;
  *static_cast<int*>(handle) = file;
  return kSuccess;
}

}  // namespace weft::fake
