// The fake of libcuda.so.1 (fake.h). One lock guards everything.
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/fake.h"
#include "tests/cuda/kernels.h"
#include "tests/cuda/memory_calls.h"
#include "tests/cuda/work.h"

namespace {

using namespace weft::fake;
using weft::Kernel;
using weft::kernels;

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
  *text = answer == kLost ? "unspecified launch failure" : "as the fake was told";
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
  (void)std::snprintf(name, static_cast<std::size_t>(bytes), "FakeDriver %d", device);
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
  // Its major version; that the host can flush what network interfaces wrote; that it exports dma-bufs.
  *value = attribute == 75 ? 9 : attribute == 117 || attribute == 124 ? 1 : 0;
  return kSuccess;
}
int cuFlushGPUDirectRDMAWrites(int target, int scope) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuFlushGPUDirectRDMAWrites"); answer != kSuccess) return answer;
  if (target != 0 || current.empty()) return kInvalidValue;
  ++state().flushes;
  if (scope == 200) ++state().flushes_for_all[current.back()->device];
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

// Whether host memory begins in one registration and ends in another, or in none. A driver copies
// garbage then.
bool crosses_registrations(const void* host, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(host);
  const auto& pinned = state().pinned;
  auto next = pinned.upper_bound(begin);
  if (next == pinned.begin()) return false;
  --next;
  const std::uintptr_t end = next->first + next->second;
  return begin < end && begin + bytes > end;
}

int cuMemcpyDtoHAsync(void* host, std::uint64_t gpu, std::size_t bytes, void* stream) {
  Lock lock(state().mutex);
  if (const int answer = begin("cuMemcpyDtoHAsync"); answer != kSuccess) return answer;
  if (allocation_of(gpu, bytes) == nullptr || crosses_registrations(host, bytes))
    return kInvalidValue;
  return queue(stream, {nullptr, [=] {
                          touch(gpu,
                                [&] { std::memcpy(host, reinterpret_cast<void*>(gpu), bytes); });
                        }});
}
int cuMemcpyHtoDAsync(std::uint64_t gpu, const void* host, std::size_t bytes, void* stream) {
  Lock lock(state().mutex);
  if (const int answer = begin("cuMemcpyHtoDAsync"); answer != kSuccess) return answer;
  if (allocation_of(gpu, bytes) == nullptr || crosses_registrations(host, bytes))
    return kInvalidValue;
  return queue(stream, {nullptr, [=] {
                          touch(gpu,
                                [&] { std::memcpy(reinterpret_cast<void*>(gpu), host, bytes); });
                        }});
}

int cuMemcpyDtoDAsync(std::uint64_t to, std::uint64_t from, std::size_t bytes, void* stream) {
  Lock lock(state().mutex);
  if (const int answer = begin("cuMemcpyDtoDAsync"); answer != kSuccess) return answer;
  if (allocation_of(to, bytes) == nullptr || allocation_of(from, bytes) == nullptr)
    return kInvalidValue;
  return queue(stream, {nullptr, [=] {
                          touch_all([&] {
                            std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from),
                                         bytes);
                          });
                        }});
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
  return queue(stream, {[of = found->second] { return of->is_over; }, nullptr});
}
int cuStreamWaitValue32(void* stream, std::uint64_t word, std::uint32_t value, unsigned) {
  Lock lock(state().mutex);
  if (const int answer = begin("cuStreamWaitValue32"); answer != kSuccess) return answer;
  auto* const at = reinterpret_cast<std::atomic<std::uint32_t>*>(word);
  return queue(stream,
               {[=] { return static_cast<std::int32_t>(at->load() - value) >= 0; }, nullptr});
}
int cuStreamIsCapturing(void* stream, int* status) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuStreamIsCapturing"); answer != kSuccess) return answer;
  const Stream* const found = stream_of(stream);
  if (found == nullptr) return kInvalidHandle;
  *status = found->is_capturing ? 1 : 0;
  return kSuccess;
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
  return queue(stream, {nullptr, [=] {
                          check_combine(kernel, copy.data());
                          if (!state().is_lost) touch_all([&] { kernel.run(copy.data()); });
                        }});
}

int cuEventCreate(void** event, unsigned) {
  const Lock lock(state().mutex);
  if (const int answer = begin("cuEventCreate"); answer != kSuccess) return answer;
  *event = &state().event_handles.emplace_back();
  state().events[*event] = std::make_shared<Event>();
  return kSuccess;
}
int cuEventRecord(void* event, void* stream) {
  Lock lock(state().mutex);
  if (const int answer = begin("cuEventRecord"); answer != kSuccess) return answer;
  const auto found = state().events.find(event);
  if (found == state().events.end()) return kInvalidHandle;
  found->second = std::make_shared<Event>(Event{false});  // who waits for the last one goes on
  return queue(stream, {nullptr, [of = found->second] { of->is_over = true; }});
}
int cuEventQuery(void* event) {
  Lock lock(state().mutex);
  if (const int answer = begin("cuEventQuery"); answer != kSuccess) return answer;
  if (state().runs_at_once) run();  // a word for which a stream waits may have changed
  const auto found = state().events.find(event);
  if (found == state().events.end()) return kInvalidHandle;
  return found->second->is_over ? kSuccess : kNotReady;
}
// Another thread may be running what is queued.
int cuEventSynchronize(void* event) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  Lock lock(state().mutex);
  const auto found = state().events.find(event);
  if (found == state().events.end()) return kInvalidHandle;
  const std::shared_ptr<Event> of = found->second;
  while (!of->is_over && !state().is_lost && std::chrono::steady_clock::now() < end) {
    run();
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  return kSuccess;
}

const std::map<std::string, void*>& functions() {
#define WEFT_FAKE(name) \
  { #name, reinterpret_cast < void*>(&name) }
  static const std::map<std::string, void*> all = {WEFT_FAKE(cuInit),
                                                   WEFT_FAKE(cuGetErrorName),
                                                   WEFT_FAKE(cuGetErrorString),
                                                   WEFT_FAKE(cuDeviceGetCount),
                                                   WEFT_FAKE(cuDeviceGet),
                                                   WEFT_FAKE(cuDeviceGetName),
                                                   WEFT_FAKE(cuDeviceGetPCIBusId),
                                                   WEFT_FAKE(cuDeviceTotalMem),
                                                   WEFT_FAKE(cuDeviceGetAttribute),
                                                   WEFT_FAKE(cuFlushGPUDirectRDMAWrites),
                                                   WEFT_FAKE(cuDevicePrimaryCtxRetain),
                                                   WEFT_FAKE(cuCtxPushCurrent),
                                                   WEFT_FAKE(cuCtxPopCurrent),
                                                   WEFT_FAKE(cuPointerGetAttributes),
                                                   WEFT_FAKE(cuMemAlloc),
                                                   WEFT_FAKE(cuMemFree),
                                                   WEFT_FAKE(cuMemHostRegister),
                                                   WEFT_FAKE(cuMemHostUnregister),
                                                   WEFT_FAKE(cuMemHostGetDevicePointer),
                                                   WEFT_FAKE(cuMemcpyDtoHAsync),
                                                   WEFT_FAKE(cuMemcpyHtoDAsync),
                                                   WEFT_FAKE(cuMemcpyDtoDAsync),
                                                   WEFT_FAKE(cuDeviceGetUuid),
                                                   WEFT_FAKE(cuDeviceCanAccessPeer),
                                                   WEFT_FAKE(cuCtxEnablePeerAccess),
                                                   WEFT_FAKE(cuIpcGetMemHandle),
                                                   WEFT_FAKE(cuIpcOpenMemHandle),
                                                   WEFT_FAKE(cuIpcCloseMemHandle),
                                                   WEFT_FAKE(cuMemGetHandleForAddressRange),
                                                   WEFT_FAKE(cuStreamCreate),
                                                   WEFT_FAKE(cuStreamWaitEvent),
                                                   WEFT_FAKE(cuStreamWaitValue32),
                                                   WEFT_FAKE(cuStreamIsCapturing),
                                                   WEFT_FAKE(cuModuleLoadData),
                                                   WEFT_FAKE(cuModuleGetFunction),
                                                   WEFT_FAKE(cuLaunchKernel),
                                                   WEFT_FAKE(cuEventCreate),
                                                   WEFT_FAKE(cuEventRecord),
                                                   WEFT_FAKE(cuEventQuery),
                                                   WEFT_FAKE(cuEventSynchronize)};
#undef WEFT_FAKE
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

void fake_run_at_once(int at_once) {
  Lock lock(state().mutex);
  state().runs_at_once = at_once != 0;
  if (at_once != 0) run();
}
int fake_run() {
  Lock lock(state().mutex);
  return run();
}
int fake_run_some(int most) {
  const Lock lock(state().mutex);
  return run(most);
}
void fake_fail(const char* function, int answer, int count) {
  const Lock lock(state().mutex);
  state().failures[function] = {answer, count};
}
void fake_lose_device() {
  const Lock lock(state().mutex);
  state().is_lost = true;
}
int fake_initialized() {
  const Lock lock(state().mutex);
  return state().is_begun ? 1 : 0;
}
int fake_flushes() {
  const Lock lock(state().mutex);
  return state().flushes;
}
int fake_flushes_for_all(int device) {
  const Lock lock(state().mutex);
  return state().flushes_for_all[device];
}
int fake_queued() {
  const Lock lock(state().mutex);
  int count = 0;
  for (const auto& [handle, stream] : state().streams)
    count += static_cast<int>(stream->works.size());
  return count;
}
void fake_hold(void* stream) {
  const Lock lock(state().mutex);
  if (Stream* found = stream_of(stream)) found->is_held = true;
}
void fake_release(void* stream) {
  Lock lock(state().mutex);
  if (Stream* found = stream_of(stream)) found->is_held = false;
  if (state().runs_at_once) run();
}
void fake_give_pool_memory(int gives) {
  const Lock lock(state().mutex);
  state().gives_pool_memory = gives != 0;
}
void fake_allocate_at(void* address) {
  const Lock lock(state().mutex);
  state().next_memory = address;
}
void fake_capture(void* stream, int is_capturing) {
  const Lock lock(state().mutex);
  if (Stream* found = stream_of(stream)) found->is_capturing = is_capturing != 0;
}
int fake_queue(void* stream, int (*may_run)(void*), void (*run)(void*), void* data) {
  const Lock lock(state().mutex);
  return queue(stream, {[=] { return may_run(data) != 0; }, [=] { run(data); }});
}
void fake_read(const void* gpu, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  const Lock lock(state().mutex);
  touch(reinterpret_cast<std::uintptr_t>(gpu), [&] { std::memcpy(to, gpu, bytes); });
}
void fake_write(void* gpu, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const Lock lock(state().mutex);
  touch(reinterpret_cast<std::uintptr_t>(gpu), [&] { std::memcpy(gpu, from, bytes); });
}
void fake_reset() {
  Lock lock(state().mutex);
  State& all = state();
  all.is_lost = false;
  all.runs_at_once = true;
  all.gives_pool_memory = false;
  all.next_memory = nullptr;
  all.failures.clear();
  for (auto& [handle, stream] : all.streams) stream->is_held = stream->is_capturing = false;
  run();
}
}
