// Finding the driver and its functions.
#include "verbs/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <array>
#include <atomic>
#include <mutex>

namespace weft::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

using Find = Answer (*)(const char* name, void** function, int version, std::uint64_t flags,
                        int* found);
using OldFind = Answer (*)(const char* name, void** function, int version, std::uint64_t flags);

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// cuGetProcAddress gives the newest form of a function that the version has. Its own form has
// changed with 12.0.
class Finder {
 public:
  explicit Finder(void* library)
      : find_(reinterpret_cast<Find>(dlsym(library, "cuGetProcAddress_v2"))),
        old_find_(reinterpret_cast<OldFind>(dlsym(library, "cuGetProcAddress"))) {}

  [[nodiscard]] bool is_usable() const { return find_ != nullptr || old_find_ != nullptr; }

  template <typename Pointer>
  Finder& find(const char* name, Pointer& function) {
    void* found = nullptr;
    int how = 0;
    const Answer answer = find_ != nullptr ? find_(name, &found, kLeastVersion, 0, &how)
                                           : old_find_(name, &found, kLeastVersion, 0);
    function = answer == kSuccess ? reinterpret_cast<Pointer>(found) : nullptr;
    if (function == nullptr && missing_.empty()) missing_ = name;
    return *this;
  }
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  Find find_;
  OldFind old_find_;
  std::string missing_;
};

Status unavailable(std::string text) {
  return Status(Code::unavailable, std::move(text));
}

Result<Driver> open(void* library) {
  Driver driver{};
  const auto version = reinterpret_cast<Answer (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
  if (version == nullptr || version(&driver.version) != kSuccess)
    return unavailable(fmt::format("{} has no cuDriverGetVersion", kLibrary));
  Finder finder(library);
  if (driver.version < kLeastVersion || !finder.is_usable()) {
    return unavailable(fmt::format("{} is of CUDA {}; Weft needs {} or newer", kLibrary,
                                   version_text(driver.version), version_text(kLeastVersion)));
  }
  finder.find("cuInit", driver.init)
      .find("cuGetErrorName", driver.error_name)
      .find("cuGetErrorString", driver.error_text)
      .find("cuDeviceGetCount", driver.device_count)
      .find("cuDeviceGet", driver.device_get)
      .find("cuDeviceGetName", driver.device_name)
      .find("cuDeviceGetPCIBusId", driver.device_address)
      .find("cuDeviceTotalMem", driver.device_bytes)
      .find("cuDeviceGetAttribute", driver.device_attribute)
      .find("cuDevicePrimaryCtxRetain", driver.primary_retain)
      .find("cuCtxPushCurrent", driver.context_push)
      .find("cuCtxPopCurrent", driver.context_pop)
      .find("cuPointerGetAttributes", driver.pointer_attributes)
      .find("cuMemAlloc", driver.allocate)
      .find("cuMemFree", driver.free)
      .find("cuMemHostRegister", driver.host_register)
      .find("cuMemHostUnregister", driver.host_unregister)
      .find("cuMemHostGetDevicePointer", driver.host_pointer)
      .find("cuMemcpyDtoHAsync", driver.copy_out)
      .find("cuMemcpyHtoDAsync", driver.copy_in)
      .find("cuMemcpyDtoDAsync", driver.copy_inside)
      .find("cuDeviceGetUuid", driver.device_uuid)
      .find("cuDeviceCanAccessPeer", driver.can_access_peer)
      .find("cuCtxEnablePeerAccess", driver.enable_peer_access)
      .find("cuIpcGetMemHandle", driver.ipc_handle)
      .find("cuMemGetHandleForAddressRange", driver.range_handle)
      .find("cuIpcOpenMemHandle", driver.ipc_open)
      .find("cuIpcCloseMemHandle", driver.ipc_close)
      .find("cuFlushGPUDirectRDMAWrites", driver.flush_rdma_writes)
      .find("cuStreamCreate", driver.stream_create)
      .find("cuStreamWaitEvent", driver.stream_wait_event)
      .find("cuStreamWaitValue32", driver.stream_wait_value)
      .find("cuStreamIsCapturing", driver.stream_is_capturing)
      .find("cuModuleLoadData", driver.module_load)
      .find("cuModuleGetFunction", driver.module_function)
      .find("cuLaunchKernel", driver.launch)
      .find("cuEventCreate", driver.event_create)
      .find("cuEventRecord", driver.event_record)
      .find("cuEventQuery", driver.event_query)
      .find("cuEventSynchronize", driver.event_wait);
  if (!finder.missing().empty()) {
    return unavailable(fmt::format("{} of CUDA {} lacks {} of CUDA {}", kLibrary,
                                   version_text(driver.version), finder.missing(),
                                   version_text(kLeastVersion)));
  }
  return driver;
}

// The table is made once, by whoever needs it first.
const Result<Driver>& opened(void* library) {
  static const Result<Driver> driver = open(library);
  return driver;
}

// How many libraries the process has loaded so far.
unsigned long long loaded_libraries() {
  unsigned long long count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        *static_cast<unsigned long long*>(to) = info->dlpi_adds;
        return 1;  // the first library tells
      },
      &count);
  return count;
}

}  // namespace

const Driver* loaded_driver() {
  static std::atomic<const Driver*> found{nullptr};
  static std::atomic<unsigned long long> looked_at{0};
  if (const Driver* driver = found.load(std::memory_order_acquire); driver != nullptr)
    return driver;
  const unsigned long long libraries = loaded_libraries();
  // It may have been found since the first line.
  if (looked_at.load(std::memory_order_acquire) == libraries)
    return found.load(std::memory_order_relaxed);
  // One thread looks; the others wait for what it finds.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (const Driver* driver = found.load(std::memory_order_acquire); driver != nullptr)
    return driver;
  if (looked_at.load(std::memory_order_relaxed) == libraries) return nullptr;
  if (void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD); library != nullptr) {
    const Result<Driver>& driver = opened(library);
    if (driver.ok()) found.store(&*driver, std::memory_order_release);
  }
  looked_at.store(libraries, std::memory_order_release);
  return found.load(std::memory_order_relaxed);
}

Result<const Driver*> load_driver() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return unavailable(fmt::format("no GPU can be used: {}", dlerror()));
  const Result<Driver>& driver = opened(library);
  if (!driver.ok()) return driver.status();
  static const Answer begun = driver->init(0);
  if (begun == kSuccess) return &*driver;
  return unavailable(
      std::string(status_of(*driver, begun, fmt::format("{}: cuInit", kLibrary)).text()));
}

Status status_of(const Driver& driver, Answer answer, const std::string& what) {
  if (answer == kSuccess) return {};
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.error_name(answer, &name) != kSuccess || name == nullptr) name = "an unknown error";
  if (driver.error_text(answer, &text) != kSuccess || text == nullptr) text = "";
  const Code code = answer == kOutOfMemory    ? Code::exhausted
                    : answer == kNotSupported ? Code::unavailable
                                              : Code::system;
  return Status(code, fmt::format("{}: {} ({})", what, name, text));
}

}  // namespace weft::cuda
