// The twin of libcuda.so.1 in a test: loaded before Weft looks for the driver, as by a program that
// uses GPUs.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/cuda/twin.h"

namespace weft {

class Twin {
 public:
  static const Twin& get() {
    static const Twin twin;
    return twin;
  }

  decltype(&twin_run_at_once) run_at_once;
  decltype(&twin_run) run;
  decltype(&twin_fail) fail;
  decltype(&twin_lose_device) lose_device;
  decltype(&twin_initialized) initialized;
  decltype(&twin_queued) queued;
  decltype(&twin_hold) hold;
  decltype(&twin_release) release;
  decltype(&twin_capture) capture;
  decltype(&twin_read) read;
  decltype(&twin_write) write;
  decltype(&twin_reset) reset;

  // A stream of the GPU, as a program makes one.
  [[nodiscard]] void* stream(int device) const {
    const Current current(*this, device);
    void* made = nullptr;
    EXPECT_EQ(stream_create_(&made, 0), 0);
    return made;
  }
  // Queues a copy to memory of the GPU.
  void copy_in(int device, void* gpu, const void* host, std::size_t bytes, void* stream) const {
    const Current current(*this, device);
    EXPECT_EQ(copy_in_(reinterpret_cast<std::uintptr_t>(gpu), host, bytes, stream), 0);
  }

 private:
  class Current {
   public:
    Current(const Twin& twin, int device) : twin_(twin) {
      void* context = nullptr;
      EXPECT_EQ(twin.init_(0), 0);
      EXPECT_EQ(twin.retain_(&context, device), 0);
      EXPECT_EQ(twin.push_(context), 0);
    }
    ~Current() {
      void* context = nullptr;
      EXPECT_EQ(twin_.pop_(&context), 0);
    }

   private:
    const Twin& twin_;
  };

  Twin() {
    library_ = dlopen(WEFT_CUDA_TWIN, RTLD_NOW | RTLD_GLOBAL);
    EXPECT_NE(library_, nullptr) << dlerror();
    find("twin_run_at_once", run_at_once);
    find("twin_run", run);
    find("twin_fail", fail);
    find("twin_lose_device", lose_device);
    find("twin_initialized", initialized);
    find("twin_queued", queued);
    find("twin_hold", hold);
    find("twin_release", release);
    find("twin_capture", capture);
    find("twin_read", read);
    find("twin_write", write);
    find("twin_reset", reset);
    find_driver("cuInit", init_);
    find_driver("cuDevicePrimaryCtxRetain", retain_);
    find_driver("cuCtxPushCurrent", push_);
    find_driver("cuCtxPopCurrent", pop_);
    find_driver("cuStreamCreate", stream_create_);
    find_driver("cuMemcpyHtoDAsync", copy_in_);
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
  int (*init_)(unsigned) = nullptr;
  int (*retain_)(void**, int) = nullptr;
  int (*push_)(void*) = nullptr;
  int (*pop_)(void**) = nullptr;
  int (*stream_create_)(void**, unsigned) = nullptr;
  int (*copy_in_)(std::uint64_t, const void*, std::size_t, void*) = nullptr;
};

// A tensor of a GPU, or of the host for device -1. Its elements are read and written as a whole.
template <typename T>
class GpuArray {
 public:
  GpuArray(std::size_t count, int device) : count_(count), device_(device) {
    const std::size_t bytes = count * sizeof(T) + 1;
    data_ = device < 0 ? std::calloc(bytes, 1) : allocate(bytes, Device{device}).value();
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
      Twin::get().write(data_, values.data(), bytes);
    }
  }
  [[nodiscard]] std::vector<T> get() const {
    std::vector<T> values(count_);
    const std::size_t bytes = count_ * sizeof(T);
    if (bytes == 0) return values;
    if (device_ < 0) {
      std::memcpy(values.data(), data_, bytes);
    } else {
      Twin::get().read(data_, values.data(), bytes);
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
