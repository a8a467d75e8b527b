// driver: the functions of libcuda.so.1, with declarations of our own. Internal to the module.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "verbs/base/base.h"

namespace weft::cuda {

// As the driver's documentation has them.
using Answer = int;
using Pointer = std::uint64_t;
inline constexpr Answer kSuccess = 0;
inline constexpr Answer kOutOfMemory = 2;
inline constexpr Answer kNotInitialized = 3;
inline constexpr Answer kDeinitialized = 4;
inline constexpr Answer kNotReady = 600;
inline constexpr Answer kPeerAccessIsOn = 704;
inline constexpr Answer kAlreadyRegistered = 712;
inline constexpr Answer kNotSupported = 801;

// Names a GPU on all processes of a machine.
using DeviceId = std::array<std::byte, 16>;
// Names an allocation to other processes.
struct IpcHandle {
  std::array<std::byte, 64> bytes{};
};

// The driver must be of this version or newer: 11.8.
inline constexpr int kLeastVersion = 11'080;

struct Driver {
  int version = 0;  // 13000: 13.0

  Answer (*init)(unsigned flags);
  Answer (*error_name)(Answer answer, const char** name);
  Answer (*error_text)(Answer answer, const char** text);

  Answer (*device_count)(int* count);
  Answer (*device_get)(int* device, int number);
  Answer (*device_name)(char* name, int bytes, int device);
  Answer (*device_address)(char* address, int bytes, int device);
  Answer (*device_bytes)(std::size_t* bytes, int device);
  Answer (*device_attribute)(int* value, int attribute, int device);
  Answer (*primary_retain)(void** context, int device);

  Answer (*context_push)(void* context);
  Answer (*context_pop)(void** context);

  Answer (*pointer_attributes)(unsigned count, int* attributes, void** values, Pointer pointer);
  Answer (*allocate)(Pointer* pointer, std::size_t bytes);
  Answer (*free)(Pointer pointer);
  Answer (*host_register)(void* memory, std::size_t bytes, unsigned flags);
  Answer (*host_unregister)(void* memory);
  Answer (*host_pointer)(Pointer* pointer, void* memory, unsigned flags);
  Answer (*copy_out)(void* host, Pointer gpu, std::size_t bytes, void* stream);
  Answer (*copy_in)(Pointer gpu, const void* host, std::size_t bytes, void* stream);
  Answer (*copy_inside)(Pointer to, Pointer from, std::size_t bytes, void* stream);

  Answer (*device_uuid)(DeviceId* id, int device);
  Answer (*can_access_peer)(int* can, int device, int peer);
  Answer (*enable_peer_access)(void* peer_context, unsigned flags);
  Answer (*ipc_handle)(IpcHandle* handle, Pointer memory);
  Answer (*ipc_open)(Pointer* memory, IpcHandle handle, unsigned flags);
  Answer (*ipc_close)(Pointer memory);
  Answer (*range_handle)(void* handle, Pointer memory, std::size_t bytes, int kind,
                         unsigned long long flags);

  Answer (*flush_rdma_writes)(int target, int scope);

  Answer (*stream_create)(void** stream, unsigned flags);
  Answer (*stream_wait_event)(void* stream, void* event, unsigned flags);
  Answer (*stream_wait_value)(void* stream, Pointer word, std::uint32_t value, unsigned flags);
  Answer (*stream_is_capturing)(void* stream, int* status);
  Answer (*module_load)(void** module, const void* image);
  Answer (*module_function)(void** function, void* module, const char* name);
  Answer (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void* stream, void** arguments, void** extra);
  Answer (*event_create)(void** event, unsigned flags);
  Answer (*event_record)(void* event, void* stream);
  Answer (*event_query)(void* event);
  Answer (*event_wait)(void* event);
};

// The driver, if the process has loaded it and it can be used; else nullptr. Neither loads nor
// initializes it: a library that only has it loaded has no GPU memory, and every function
// answers so. Costs some ten nanoseconds while nothing new was loaded.
[[nodiscard]] const Driver* loaded_driver();
// Loads and initializes it. `unavailable` says which library or function is missing, and since when it exists.
[[nodiscard]] Result<const Driver*> load_driver();

// The NUMA node of the device with this PCI address, as the kernel says; -1: unknown.
[[nodiscard]] int numa_node_of(const std::string& address, const std::string& sys = "/sys");
// The PCI address of a device, as the kernel writes it; empty: unknown.
[[nodiscard]] std::string address_of(const Driver& driver, int device);

// What the device does with what network interfaces write to its memory: whether what it, or any device,
// begins later sees it, by itself or after cuFlushGPUDirectRDMAWrites().
struct RdmaWrites {
  bool keep_order = false, keep_order_for_all = false, can_be_flushed = false;
};
[[nodiscard]] RdmaWrites rdma_writes_of(const Driver& driver, int device);

// "what: CUDA_ERROR_INVALID_VALUE (invalid argument)", ok for kSuccess.
[[nodiscard]] Status status_of(const Driver& driver, Answer answer, const std::string& what);

// Makes a context current for this thread, and the one before again in the end.
class Current {
 public:
  Current(const Driver& driver, void* context) : driver_(driver) {
    answer_ = driver.context_push(context);
  }
  ~Current() {
    void* popped = nullptr;
    if (answer_ == kSuccess) (void)driver_.context_pop(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  [[nodiscard]] Answer answer() const { return answer_; }

 private:
  const Driver& driver_;
  Answer answer_;
};

}  // namespace weft::cuda
