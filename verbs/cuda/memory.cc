// Which memory is a GPU's, and GPU memory of our own.
#include "verbs/memory/memory.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <mutex>

#include "verbs/cuda/contexts.h"
#include "verbs/cuda/cuda.h"
#include "verbs/cuda/driver.h"

namespace weft {
namespace {

using cuda::Driver;

// Attributes of a pointer, by the driver's numbers.
constexpr int kContext = 1, kMemoryType = 2, kIsManaged = 8, kDevice = 9;
constexpr unsigned kHostType = 1, kDeviceType = 2;

struct Facts {
  void* context = nullptr;
  unsigned type = 0;  // 0: the driver does not know the pointer
  bool is_managed = false;
  int device = -1;
};

// An unknown pointer is no error of the driver's.
Result<Facts> facts_of(const Driver& driver, const void* pointer) {
  Facts facts;
  std::array<int, 4> attributes = {kContext, kMemoryType, kIsManaged, kDevice};
  std::array<void*, 4> values = {&facts.context, &facts.type, &facts.is_managed, &facts.device};
  const auto address = reinterpret_cast<cuda::Pointer>(pointer);
  const cuda::Answer answer =
      driver.pointer_attributes(attributes.size(), attributes.data(), values.data(), address);
  // Then nobody has GPU memory, or any more.
  if (answer == cuda::kNotInitialized || answer == cuda::kDeinitialized) return Facts{};
  WEFT_RETURN_IF_ERROR(
      cuda::status_of(driver, answer, fmt::format("ask whether {} is GPU memory", pointer)));
  return facts;
}

}  // namespace

namespace cuda {

// A primary context stays retained: the process may go on using memory in it.
Result<void*> primary_context(const Driver& driver, int number) {
  static std::mutex mutex;
  static std::map<int, void*> contexts;
  const std::lock_guard lock(mutex);
  if (const auto found = contexts.find(number); found != contexts.end()) return found->second;
  int count = 0, device = 0;
  const std::string what = fmt::format("GPU {}", number);
  WEFT_RETURN_IF_ERROR(status_of(driver, driver.device_count(&count), what));
  if (number < 0 || number >= count)
    return Status(Code::invalid_argument, fmt::format("{}: there are {}", what, count));
  WEFT_RETURN_IF_ERROR(status_of(driver, driver.device_get(&device, number), what));
  void* context = nullptr;
  WEFT_RETURN_IF_ERROR(status_of(driver, driver.primary_retain(&context, device), what));
  contexts.emplace(number, context);
  return context;
}

}  // namespace cuda

bool is_cuda_loaded() {
  return cuda::loaded_driver() != nullptr;
}

// Memory that was mapped by the driver's virtual memory functions, as by PyTorch's expandable
// segments, belongs to no context: the primary one of its GPU is used then.
Result<std::optional<GpuMemory>> find_gpu_memory(const void* pointer) {
  if (pointer == nullptr || heap_offset(pointer, 1) != kNotInHeap)
    return std::optional<GpuMemory>();
  const Driver* driver = cuda::loaded_driver();
  if (driver == nullptr) return std::optional<GpuMemory>();
  WEFT_ASSIGN(const Facts facts, facts_of(*driver, pointer));
  if (facts.type != kDeviceType || facts.is_managed) return std::optional<GpuMemory>();
  GpuMemory memory{facts.device, facts.context};
  if (memory.context == nullptr) {
    const Result<void*> primary = cuda::primary_context(*driver, facts.device);
    if (!primary.ok()) return primary.status();
    memory.context = *primary;
  }
  return std::optional<GpuMemory>(memory);
}

std::optional<GpuMemory> gpu_memory(const void* pointer) {
  const Result<std::optional<GpuMemory>> found = find_gpu_memory(pointer);
  return found.ok() ? *found : std::nullopt;
}

MemoryPlace memory_place(const void* pointer) {
  if (heap_offset(pointer, 1) != kNotInHeap) return {};
  const Driver* driver = cuda::loaded_driver();
  if (driver == nullptr || pointer == nullptr) return {};
  const Result<Facts> asked = facts_of(*driver, pointer);
  if (!asked.ok()) return {};
  const Facts& facts = *asked;
  if (facts.is_managed) return {MemoryKind::managed, facts.device};
  if (facts.type == kDeviceType) return {MemoryKind::device, facts.device};
  if (facts.type == kHostType) return {MemoryKind::pinned, facts.device};
  return {};
}

Result<void*> allocate(std::size_t bytes, Device device) {
  WEFT_ASSIGN(const Driver* driver, cuda::load_driver());
  WEFT_ASSIGN(void* context, cuda::primary_context(*driver, device.number));
  const std::string what = fmt::format("allocate {} bytes of GPU {}", bytes, device.number);
  const cuda::Current current(*driver, context);
  WEFT_RETURN_IF_ERROR(cuda::status_of(*driver, current.answer(), what));
  cuda::Pointer pointer = 0;
  WEFT_RETURN_IF_ERROR(
      cuda::status_of(*driver, driver->allocate(&pointer, bytes == 0 ? 1 : bytes), what));
  return reinterpret_cast<void*>(pointer);
}

Status deallocate(void* pointer, Device) {
  if (pointer == nullptr) return {};
  const Driver* driver = cuda::loaded_driver();
  const std::optional<GpuMemory> memory = gpu_memory(pointer);
  if (driver == nullptr || !memory) {
    return Status(Code::invalid_argument, fmt::format("{} is no GPU memory", pointer));
  }
  const std::string what = fmt::format("free {} of GPU {}", pointer, memory->device);
  const cuda::Current current(*driver, memory->context);
  WEFT_RETURN_IF_ERROR(cuda::status_of(*driver, current.answer(), what));
  return cuda::status_of(*driver, driver->free(reinterpret_cast<cuda::Pointer>(pointer)), what);
}

}  // namespace weft
