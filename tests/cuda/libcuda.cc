// The twin of libcuda.so.1 (twin.h). One lock guards everything; host functions run without it.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/cuda/kernels.h"
#include "tests/cuda/state.h"
#include "tests/cuda/twin.h"

namespace {

using namespace weft::twin;
using weft::Kernel;
using weft::kernels;

using Lock = std::unique_lock<std::recursive_mutex>;

// What a call answers before it does anything.
int begin(const char* function, bool needs_init = true) {
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
Stream* stream_of(void* handle) {
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
const Allocation* allocation_of(std::uintptr_t address, std::size_t bytes,
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

// Opens all memory of GPUs while a kernel runs.
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

// Runs what can run in all streams. The lock is given up while a host function runs.
int run(Lock& lock) {
  State& all = state();
  if (all.is_running) return 0;
  all.is_running = true;
  int done = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [handle, stream] : all.streams) {
      if (stream->is_held || stream->works.empty() || all.is_lost) continue;
      if (stream->works.front().may_run && !stream->works.front().may_run()) continue;
      const Work work = std::move(stream->works.front());
      stream->works.pop_front();
      if (work.run) work.run();
      if (work.host) {
        lock.unlock();
        work.host();
        lock.lock();
      }
      ++done;
      moved = true;
      break;  // streams may have changed
    }
  }
  all.is_running = false;
  return done;
}

int queue(Lock& lock, void* handle, Work work) {
  Stream* const stream = stream_of(handle);
  if (stream == nullptr) return kInvalidHandle;
  stream->works.push_back(std::move(work));
  if (state().runs_at_once) run(lock);
  return kSuccess;
}

int cuInit(unsigned) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuInit", false); answer != kSuccess) return answer;
  state().is_begun = true;
  return state().devices == 0 ? 100 : kSuccess;
}

int cuGetErrorName(int answer, const char** name) {
  static thread_local char text[32];
  const std::map<int, const char*> names = {{kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
                                            {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
                                            {100, "CUDA_ERROR_NO_DEVICE"},
                                            {kLost, "CUDA_ERROR_LAUNCH_FAILED"}};
  const auto found = names.find(answer);
  if (found == names.end()) (void)std::snprintf(text, sizeof text, "CUDA_ERROR_%d", answer);
  *name = found == names.end() ? text : found->second;
  return kSuccess;
}
int cuGetErrorString(int answer, const char** text) {
  *text = answer == kLost ? "unspecified launch failure" : "as the twin was told";
  return kSuccess;
}

int cuDeviceGetCount(int* count) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuDeviceGetCount"); answer != kSuccess) return answer;
  *count = state().devices;
  return kSuccess;
}
int cuDeviceGet(int* device, int number) {
  *device = number;
  return kSuccess;
}
int cuDeviceGetName(char* name, int bytes, int device) {
  (void)std::snprintf(name, static_cast<std::size_t>(bytes), "Twin %d", device);
  return kSuccess;
}
int cuDeviceGetPCIBusId(char* address, int bytes, int device) {
  (void)std::snprintf(address, static_cast<std::size_t>(bytes), "0000:%02X:00.0", 0xa0 + device);
  return kSuccess;
}
int cuDeviceTotalMem(std::size_t* bytes, int) {
  *bytes = kDeviceBytes;
  return kSuccess;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 9 : attribute == 124 ? 1 : 0;
  return kSuccess;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuDevicePrimaryCtxRetain"); answer != kSuccess) return answer;
  auto& contexts = state().contexts;
  for (const auto& each : contexts) {
    if (each->device == device) {
      *context = each.get();
      return kSuccess;
    }
  }
  contexts.push_back(std::make_unique<Context>(Context{device}));
  *context = contexts.back().get();
  return kSuccess;
}
int cuCtxPushCurrent(void* context) {
  const Lock lock(state().mutex);
  if (state().is_lost) return kLost;
  for (const auto& each : state().contexts) {
    if (each.get() != context) continue;
    current.push_back(each.get());
    return kSuccess;
  }
  return kInvalidContext;
}
int cuCtxPopCurrent(void** context) {
  if (current.empty()) return kInvalidContext;
  *context = current.back();
  current.pop_back();
  return kSuccess;
}

int cuPointerGetAttributes(unsigned count, int* attributes, void** values, std::uint64_t pointer) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuPointerGetAttributes"); answer != kSuccess) return answer;
  const Allocation* const found = allocation_of(pointer, 1);
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
  void* const memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return kOutOfMemory;
  *pointer = reinterpret_cast<std::uintptr_t>(memory);
  state().memory[*pointer] = {size, current.back()->device};
  return kSuccess;
}
int cuMemFree(std::uint64_t pointer) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuMemFree"); answer != kSuccess) return answer;
  const auto found = state().memory.find(pointer);
  if (found == state().memory.end()) return kInvalidValue;
  (void)munmap(reinterpret_cast<void*>(found->first), found->second.bytes);
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

int cuMemcpyDtoHAsync(void* host, std::uint64_t gpu, std::size_t bytes, void* stream) {
  Lock lock(state().mutex);
  if (const int answer = begin("cuMemcpyDtoHAsync"); answer != kSuccess) return answer;
  if (allocation_of(gpu, bytes) == nullptr) return kInvalidValue;
  return queue(
      lock, stream,
      {nullptr,
       [=] { touch(gpu, [&] { std::memcpy(host, reinterpret_cast<void*>(gpu), bytes); }); },
       nullptr});
}
int cuMemcpyHtoDAsync(std::uint64_t gpu, const void* host, std::size_t bytes, void* stream) {
  Lock lock(state().mutex);
  if (const int answer = begin("cuMemcpyHtoDAsync"); answer != kSuccess) return answer;
  if (allocation_of(gpu, bytes) == nullptr) return kInvalidValue;
  return queue(
      lock, stream,
      {nullptr,
       [=] { touch(gpu, [&] { std::memcpy(reinterpret_cast<void*>(gpu), host, bytes); }); },
       nullptr});
}

int cuMemcpyDtoDAsync(std::uint64_t to, std::uint64_t from, std::size_t bytes, void* stream) {
  Lock lock(state().mutex);
  if (const int answer = begin("cuMemcpyDtoDAsync"); answer != kSuccess) return answer;
  if (allocation_of(to, bytes) == nullptr || allocation_of(from, bytes) == nullptr)
    return kInvalidValue;
  return queue(lock, stream,
               {nullptr,
                [=] {
                  touch_all([&] {
                    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
                  });
                },
                nullptr});
}

int cuStreamCreate(void** stream, unsigned) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuStreamCreate"); answer != kSuccess) return answer;
  if (current.empty()) return kInvalidContext;
  auto made = std::make_unique<Stream>();
  made->device = current.back()->device;
  *stream = made.get();
  state().streams[*stream] = std::move(made);
  return kSuccess;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  Lock lock(state().mutex);
  if (const int answer = begin("cuStreamWaitEvent"); answer != kSuccess) return answer;
  const auto found = state().events.find(event);
  if (found == state().events.end()) return kInvalidHandle;
  return queue(lock, stream, {[of = found->second] { return of->is_over; }, nullptr, nullptr});
}
int cuStreamWaitValue32(void* stream, std::uint64_t word, std::uint32_t value, unsigned) {
  Lock lock(state().mutex);
  if (const int answer = begin("cuStreamWaitValue32"); answer != kSuccess) return answer;
  auto* const at = reinterpret_cast<std::atomic<std::uint32_t>*>(word);
  return queue(
      lock, stream,
      {[=] { return static_cast<std::int32_t>(at->load() - value) >= 0; }, nullptr, nullptr});
}
int cuStreamIsCapturing(void* stream, int* status) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuStreamIsCapturing"); answer != kSuccess) return answer;
  const Stream* const found = stream_of(stream);
  if (found == nullptr) return kInvalidHandle;
  *status = found->is_capturing ? 1 : 0;
  return kSuccess;
}
int cuLaunchHostFunc(void* stream, void (*call)(void*), void* argument) {
  Lock lock(state().mutex);
  if (const int answer = begin("cuLaunchHostFunc"); answer != kSuccess) return answer;
  return queue(lock, stream, {nullptr, nullptr, [=] { call(argument); }});
}

int cuModuleLoadData(void** module, const void* image) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuModuleLoadData"); answer != kSuccess) return answer;
  if (current.empty()) return kInvalidContext;
  *module = const_cast<void*>(image);
  return kSuccess;
}
int cuModuleGetFunction(void** function, void*, const char* name) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuModuleGetFunction"); answer != kSuccess) return answer;
  const auto found = kernels().find(name);
  if (found == kernels().end()) return kNotFound;
  *function = const_cast<Kernel*>(&found->second);
  return kSuccess;
}
// Whether a kernel of this GPU may touch the memory: its own, or pinned. Else a GPU is lost.
bool may_touch(const void* pointer, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  if (allocation_of(begin, bytes) != nullptr) return true;
  // Registrations may lie side by side.
  const auto& pinned = state().pinned;
  for (std::uintptr_t at = begin; at < begin + bytes;) {
    auto next = pinned.upper_bound(at);
    if (next == pinned.begin()) return false;
    --next;
    if (at >= next->first + next->second) return false;
    at = next->first + next->second;
  }
  return true;
}
void check_combine(const Kernel& kernel, const void* given) {
  if (kernel.argument_bytes != sizeof(weft::gpu::CombineArguments)) return;
  weft::gpu::CombineArguments arguments;
  std::memcpy(&arguments, given, sizeof arguments);
  bool is_well = may_touch(arguments.destination, arguments.count);
  for (std::uint32_t term = 0; term < arguments.terms; ++term)
    is_well = is_well && may_touch(arguments.data[term], arguments.count);
  if (!is_well) state().is_lost = true;
}
int cuLaunchKernel(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   unsigned, void* stream, void** arguments, void**) {
  Lock lock(state().mutex);
  if (const int answer = begin("cuLaunchKernel"); answer != kSuccess) return answer;
  const Kernel& kernel = *static_cast<const Kernel*>(function);
  const auto* const given = static_cast<const std::byte*>(arguments[0]);
  const std::vector<std::byte> copy(given, given + kernel.argument_bytes);
  return queue(lock, stream,
               {nullptr,
                [=] {
                  check_combine(kernel, copy.data());
                  if (!state().is_lost) touch_all([&] { kernel.run(copy.data()); });
                },
                nullptr});
}

int cuEventCreate(void** event, unsigned) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuEventCreate"); answer != kSuccess) return answer;
  auto made = std::make_shared<Event>();
  *event = made.get();
  state().events[*event] = std::move(made);
  return kSuccess;
}
int cuEventRecord(void* event, void* stream) {
  Lock lock(state().mutex);
  if (const int answer = begin("cuEventRecord"); answer != kSuccess) return answer;
  const auto found = state().events.find(event);
  if (found == state().events.end()) return kInvalidHandle;
  found->second->is_over = false;
  return queue(lock, stream, {nullptr, [of = found->second] { of->is_over = true; }, nullptr});
}
int cuEventQuery(void* event) {
  Lock lock(state().mutex);
  if (const int answer = begin("cuEventQuery"); answer != kSuccess) return answer;
  if (state().runs_at_once) run(lock);  // a word for which a stream waits may have changed
  const auto found = state().events.find(event);
  if (found == state().events.end()) return kInvalidHandle;
  return found->second->is_over ? kSuccess : kNotReady;
}
int cuEventSynchronize(void* event) {
  Lock lock(state().mutex);
  run(lock);
  return state().events.contains(event) ? kSuccess : kInvalidHandle;
}
int cuEventDestroy(void* event) {
  const Lock lock(state().mutex);
  return state().events.erase(event) != 0 ? kSuccess : kInvalidHandle;
}

const std::map<std::string, void*>& functions() {
#define WEFT_TWIN(name) \
  { #name, reinterpret_cast < void*>(&name) }
  static const std::map<std::string, void*> all = {WEFT_TWIN(cuInit),
                                                   WEFT_TWIN(cuGetErrorName),
                                                   WEFT_TWIN(cuGetErrorString),
                                                   WEFT_TWIN(cuDeviceGetCount),
                                                   WEFT_TWIN(cuDeviceGet),
                                                   WEFT_TWIN(cuDeviceGetName),
                                                   WEFT_TWIN(cuDeviceGetPCIBusId),
                                                   WEFT_TWIN(cuDeviceTotalMem),
                                                   WEFT_TWIN(cuDeviceGetAttribute),
                                                   WEFT_TWIN(cuDevicePrimaryCtxRetain),
                                                   WEFT_TWIN(cuCtxPushCurrent),
                                                   WEFT_TWIN(cuCtxPopCurrent),
                                                   WEFT_TWIN(cuPointerGetAttributes),
                                                   WEFT_TWIN(cuMemAlloc),
                                                   WEFT_TWIN(cuMemFree),
                                                   WEFT_TWIN(cuMemHostRegister),
                                                   WEFT_TWIN(cuMemHostUnregister),
                                                   WEFT_TWIN(cuMemHostGetDevicePointer),
                                                   WEFT_TWIN(cuMemcpyDtoHAsync),
                                                   WEFT_TWIN(cuMemcpyHtoDAsync),
                                                   WEFT_TWIN(cuMemcpyDtoDAsync),
                                                   WEFT_TWIN(cuStreamCreate),
                                                   WEFT_TWIN(cuStreamWaitEvent),
                                                   WEFT_TWIN(cuStreamWaitValue32),
                                                   WEFT_TWIN(cuStreamIsCapturing),
                                                   WEFT_TWIN(cuLaunchHostFunc),
                                                   WEFT_TWIN(cuModuleLoadData),
                                                   WEFT_TWIN(cuModuleGetFunction),
                                                   WEFT_TWIN(cuLaunchKernel),
                                                   WEFT_TWIN(cuEventCreate),
                                                   WEFT_TWIN(cuEventRecord),
                                                   WEFT_TWIN(cuEventQuery),
                                                   WEFT_TWIN(cuEventSynchronize),
                                                   WEFT_TWIN(cuEventDestroy)};
#undef WEFT_TWIN
  return all;
}

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = state().version;
  return kSuccess;
}

int cuGetProcAddress_v2(const char* name, void** function, int, std::uint64_t, int*) {
  const auto found = functions().find(name);
  if (found == functions().end() || state().hidden == name) return kNotFound;
  *function = found->second;
  return kSuccess;
}

void twin_run_at_once(int at_once) {
  Lock lock(state().mutex);
  state().runs_at_once = at_once != 0;
  if (at_once != 0) run(lock);
}
int twin_run() {
  Lock lock(state().mutex);
  return run(lock);
}
void twin_fail(const char* function, int answer, int count) {
  const Lock lock(state().mutex);
  state().failures[function] = {answer, count};
}
void twin_lose_device() {
  const Lock lock(state().mutex);
  state().is_lost = true;
}
int twin_initialized() {
  const Lock lock(state().mutex);
  return state().is_begun ? 1 : 0;
}
int twin_queued() {
  const Lock lock(state().mutex);
  int count = 0;
  for (const auto& [handle, stream] : state().streams)
    count += static_cast<int>(stream->works.size());
  return count;
}
void twin_hold(void* stream) {
  const Lock lock(state().mutex);
  if (Stream* found = stream_of(stream)) found->is_held = true;
}
void twin_release(void* stream) {
  Lock lock(state().mutex);
  if (Stream* found = stream_of(stream)) found->is_held = false;
  if (state().runs_at_once) run(lock);
}
void twin_capture(void* stream, int is_capturing) {
  const Lock lock(state().mutex);
  if (Stream* found = stream_of(stream)) found->is_capturing = is_capturing != 0;
}
void twin_read(const void* gpu, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  const Lock lock(state().mutex);
  touch(reinterpret_cast<std::uintptr_t>(gpu), [&] { std::memcpy(to, gpu, bytes); });
}
void twin_write(void* gpu, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const Lock lock(state().mutex);
  touch(reinterpret_cast<std::uintptr_t>(gpu), [&] { std::memcpy(gpu, from, bytes); });
}
void twin_reset() {
  Lock lock(state().mutex);
  State& all = state();
  all.is_lost = false;
  all.runs_at_once = true;
  all.failures.clear();
  for (auto& [handle, stream] : all.streams) stream->is_held = stream->is_capturing = false;
  run(lock);
}
}
