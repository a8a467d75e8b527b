// The fake of libcuda.so.1 in a test, or the driver of a GPU (tools/gpu-test): loaded before Weft looks
// for the driver, as by a program that uses GPUs.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <weft/memory.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/cuda/fake.h"

namespace weft {

class FakeDriver {
 public:
  static const FakeDriver& get() {
    static const FakeDriver fake;
    return fake;
  }

  decltype(&fake_run_at_once) run_at_once = nullptr;
  decltype(&fake_run) run = nullptr;
  decltype(&fake_run_some) run_some = nullptr;
  decltype(&fake_fail) fail = nullptr;
  decltype(&fake_lose_device) lose_device = nullptr;
  decltype(&fake_initialized) initialized = nullptr;
  decltype(&fake_queued) queued = nullptr;
  decltype(&fake_flushes) flushes = nullptr;
  decltype(&fake_flushes_for_all) flushes_for_all = nullptr;
  decltype(&fake_hold) hold = nullptr;
  decltype(&fake_release) release = nullptr;
  decltype(&fake_capture) capture = nullptr;
  decltype(&fake_give_pool_memory) give_pool_memory = nullptr;
  decltype(&fake_allocate_at) allocate_at = nullptr;

  // False: it is a driver, and a test that tells the fake what to do cannot run.
  [[nodiscard]] bool is_fake() const { return run != nullptr; }
  [[nodiscard]] int devices() const { return devices_; }
  // Reads and writes GPU memory, behind all that is queued there.
  void read(const void* gpu, void* to, std::size_t bytes) const {
    if (is_fake()) return read_(gpu, to, bytes);
    const Current current(*this, 0);
    EXPECT_EQ(synchronize_(), 0);
    EXPECT_EQ(copy_from_(to, reinterpret_cast<std::uintptr_t>(gpu), bytes), 0);
  }
  void write(void* gpu, const void* from, std::size_t bytes) const {
    if (is_fake()) return write_(gpu, from, bytes);
    const Current current(*this, 0);
    EXPECT_EQ(copy_to_(reinterpret_cast<std::uintptr_t>(gpu), from, bytes), 0);
    EXPECT_EQ(synchronize_(), 0);
  }
  void reset() const {
    if (is_fake()) reset_();
  }

  // A stream of the GPU, as a program makes one.
  [[nodiscard]] void* stream(int device) const {
    const Current current(*this, device % devices_);
    void* made = nullptr;
    EXPECT_EQ(stream_create_(&made, 0), 0);
    return made;
  }
  // Queues a copy to memory of the GPU.
  void copy_in(int device, void* gpu, const void* host, std::size_t bytes, void* stream) const {
    const Current current(*this, device % devices_);
    EXPECT_EQ(copy_in_(reinterpret_cast<std::uintptr_t>(gpu), host, bytes, stream), 0);
  }
  // Queues a copy from memory of the GPU.
  void copy_out(int device, void* host, const void* gpu, std::size_t bytes, void* stream) const {
    const Current current(*this, device % devices_);
    EXPECT_EQ(copy_out_(host, reinterpret_cast<std::uintptr_t>(gpu), bytes, stream), 0);
  }
  // A descriptor of the dma-buf of this memory; the driver's answer.
  int export_dma_buf(const void* gpu, std::size_t bytes, int* descriptor) const {
    constexpr int kDmaBuf = 1;
    const Current current(*this, 0);
    return export_(descriptor, reinterpret_cast<std::uintptr_t>(gpu), bytes, kDmaBuf, 0);
  }
  // Waits for what is queued; the fake runs it when its stream is not held.
  void synchronize(int device, void* stream) const {
    if (is_fake()) return;
    const Current current(*this, device % devices_);
    EXPECT_EQ(stream_synchronize_(stream), 0);
  }

 private:
  class Current {
   public:
    Current(const FakeDriver& fake, int device) : fake_(fake) {
      void* context = nullptr;
      EXPECT_EQ(fake.init_(0), 0);
      EXPECT_EQ(fake.retain_(&context, device), 0);
      EXPECT_EQ(fake.push_(context), 0);
    }
    ~Current() {
      void* context = nullptr;
      EXPECT_EQ(fake_.pop_(&context), 0);
    }

   private:
    const FakeDriver& fake_;
  };

  FakeDriver() {
    library_ = dlopen(WEFT_CUDA_FAKE, RTLD_NOW | RTLD_GLOBAL);
    EXPECT_NE(library_, nullptr) << dlerror();
    if (dlsym(library_, "fake_run") != nullptr) {
      find("fake_run_at_once", run_at_once);
      find("fake_run", run);
      find("fake_run_some", run_some);
      find("fake_fail", fail);
      find("fake_lose_device", lose_device);
      find("fake_initialized", initialized);
      find("fake_queued", queued);
      find("fake_flushes", flushes);
      find("fake_flushes_for_all", flushes_for_all);
      find("fake_hold", hold);
      find("fake_release", release);
      find("fake_capture", capture);
      find("fake_give_pool_memory", give_pool_memory);
      find("fake_allocate_at", allocate_at);
      find("fake_read", read_);
      find("fake_write", write_);
      find("fake_reset", reset_);
    } else {
      find_driver("cuMemcpyDtoH", copy_from_);
      find_driver("cuMemcpyHtoD", copy_to_);
      find_driver("cuCtxSynchronize", synchronize_);
      find_driver("cuStreamSynchronize", stream_synchronize_);
      int (*count)(int*) = nullptr;
      find_driver("cuInit", init_);
      find_driver("cuDeviceGetCount", count);
      EXPECT_EQ(init_(0), 0);
      EXPECT_EQ(count(&devices_), 0);
    }
    find_driver("cuInit", init_);
    find_driver("cuDevicePrimaryCtxRetain", retain_);
    find_driver("cuCtxPushCurrent", push_);
    find_driver("cuCtxPopCurrent", pop_);
    find_driver("cuStreamCreate", stream_create_);
    find_driver("cuMemGetHandleForAddressRange", export_);
    find_driver("cuMemcpyHtoDAsync", copy_in_);
    find_driver("cuMemcpyDtoHAsync", copy_out_);
  }
  template <typename Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    EXPECT_NE(function, nullptr) << name;
  }
  template <typename Function>
  void find_driver(const char* name, Function& function) {
    int (*get)(const char*, void**, int, std::uint64_t, int*) = nullptr;
    find("cuGetProcAddress_v2", get);
    void* found = nullptr;
    EXPECT_EQ(get(name, &found, 12'000, 0, nullptr), 0) << name;
    function = reinterpret_cast<Function>(found);
  }

  void* library_ = nullptr;
  int devices_ = 2;  // of the fake
  decltype(&fake_read) read_ = nullptr;
  decltype(&fake_write) write_ = nullptr;
  decltype(&fake_reset) reset_ = nullptr;
  int (*copy_from_)(void*, std::uint64_t, std::size_t) = nullptr;
  int (*copy_to_)(std::uint64_t, const void*, std::size_t) = nullptr;
  int (*synchronize_)() = nullptr;
  int (*stream_synchronize_)(void*) = nullptr;
  int (*copy_out_)(void*, std::uint64_t, std::size_t, void*) = nullptr;
  int (*init_)(unsigned) = nullptr;
  int (*retain_)(void**, int) = nullptr;
  int (*push_)(void*) = nullptr;
  int (*pop_)(void**) = nullptr;
  int (*export_)(void*, std::uint64_t, std::size_t, int, unsigned long long) = nullptr;
  int (*stream_create_)(void**, unsigned) = nullptr;
  int (*copy_in_)(std::uint64_t, const void*, std::size_t, void*) = nullptr;
};

// A tensor of a GPU, modulo how many there are, or of the host for device -1. Its elements are read and written as a whole.
template <typename T>
class GpuArray {
 public:
  GpuArray(std::size_t count, int device)
      : count_(count), device_(device < 0 ? device : device % FakeDriver::get().devices()) {
    const std::size_t bytes = count * sizeof(T) + 1;
    data_ = device_ < 0 ? std::calloc(bytes, 1) : allocate(bytes, Device{device_}).value();
  }
  ~GpuArray() {
    if (device_ < 0) {
      std::free(data_);
    } else {
      (void)deallocate(data_, Device{device_});
    }
  }
  GpuArray(const GpuArray&) = delete;
  GpuArray& operator=(const GpuArray&) = delete;

  void set(const std::vector<T>& values) {
    const std::size_t bytes = values.size() * sizeof(T);
    if (bytes == 0) return;
    if (device_ < 0) {
      std::memcpy(data_, values.data(), bytes);
    } else {
      FakeDriver::get().write(data_, values.data(), bytes);
    }
  }
  [[nodiscard]] std::vector<T> get() const {
    std::vector<T> values(count_);
    const std::size_t bytes = count_ * sizeof(T);
    if (bytes == 0) return values;
    if (device_ < 0) {
      std::memcpy(values.data(), data_, bytes);
    } else {
      FakeDriver::get().read(data_, values.data(), bytes);
    }
    return values;
  }
  [[nodiscard]] T* data() const { return static_cast<T*>(data_); }

 private:
  std::size_t count_;
  int device_;
  void* data_;
};

}  // namespace weft
