// abi: how NCCL calls a network plugin, in its versions 6 to 12. NCCL looks up a symbol
// ncclNetPlugin_vN, newest first, and takes the table of functions there. Layouts and values are
// those of NCCL's public headers (src/include/plugin/net); the declarations are our own.
//
//   version   what is new
//   7         connect, accept: a handle for networks that GPUs drive; this plugin has none
//   8         regMr: a size of 64 bits
//   9         isend, irecv: sizes of 64 bits; virtual devices
//   10        init: a profiler; connect: a traffic class
//   11        a context for each communicator; finalize
//   12        more devices in a virtual one; numbers of rails and planes
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::nccl::abi {

enum Result : int {
  success = 0,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
};

enum LogLevel : int { log_warning = 2, log_info = 3 };
inline constexpr unsigned long kLogNet = 16;
using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);
using Profiler = Result (*)(void** event, int type, void* parent, std::int64_t plugin, void* data);

inline constexpr int kHostPointers = 1, kCudaPointers = 2, kDmaBufPointers = 4;
inline constexpr std::size_t kHandleBytes = 128;
inline constexpr int kMostRequests = 32;  // multi-receives under way on a connection
inline constexpr int kNoId = -1;          // of a rail or plane

template <int kMost>
struct VirtualDevice {
  int count = 0;
  int devices[kMost] = {};
};
struct TrafficClass {
  int value = -1;
};

struct PropertiesV6 {
  char* name = nullptr;
  char* pci_path = nullptr;
  std::uint64_t guid = 0;
  int pointers = kHostPointers;
  int mbit_per_s = 0;
  int port = 1;
  float latency_us = 0;
  int most_connections = 0;
  int most_receives = 0;  // in one call of irecv
};
struct PropertiesV7 : PropertiesV6 {
  int device_type = 0;  // the host drives the network
  int device_version = 0;
};
struct PropertiesV8 {
  char* name = nullptr;
  char* pci_path = nullptr;
  std::uint64_t guid = 0;
  int pointers = kHostPointers;
  int registers_for_all = 0;  // whether memory is registered for all connections
  int mbit_per_s = 0;
  int port = 1;
  float latency_us = 0;
  int most_connections = 0;
  int most_receives = 0;
  int device_type = 0;
  int device_version = 0;
};
struct PropertiesV9 {
  char* name = nullptr;
  char* pci_path = nullptr;
  std::uint64_t guid = 0;
  int pointers = kHostPointers;
  int registers_for_all = 0;
  int forces_flush = 0;
  int mbit_per_s = 0;
  int port = 1;
  float latency_us = 0;
  int most_connections = 0;
  int most_receives = 0;
  int device_type = 0;
  int device_version = 0;
  VirtualDevice<4> parts;
  std::size_t most_bytes = 0;
  std::size_t most_collective_bytes = 0;
};
using PropertiesV10 = PropertiesV9;
struct PropertiesV11 : PropertiesV9 {
  int most_requests_in_one = 1;
};
struct PropertiesV12 {
  char* name = nullptr;
  char* pci_path = nullptr;
  std::uint64_t guid = 0;
  int pointers = kHostPointers;
  int registers_for_all = 0;
  int forces_flush = 0;
  int mbit_per_s = 0;
  int port = 1;
  float latency_us = 0;
  int most_connections = 0;
  int most_receives = 0;
  int device_type = 0;
  int device_version = 0;
  VirtualDevice<8> parts;
  std::size_t most_bytes = 0;
  std::size_t most_collective_bytes = 0;
  int most_requests_in_one = 1;
  std::int16_t rail = kNoId;
  std::int16_t plane = kNoId;
};
static_assert(sizeof(PropertiesV6) == 48 && sizeof(PropertiesV7) == 56);
static_assert(sizeof(PropertiesV8) == 64 && sizeof(PropertiesV9) == 104);
static_assert(sizeof(PropertiesV11) == 112 && sizeof(PropertiesV12) == 128);

// What versions 6 to 12 have in common, from regMrDmaBuf on; `Size`: of a message.
using RegisterDmaBuf = Result (*)(void* connection, void* data, std::size_t bytes, int type,
                                  std::uint64_t offset, int descriptor, void** registration);
using Deregister = Result (*)(void* connection, void* registration);
using Flush = Result (*)(void* connection, int count, void** data, int* bytes, void** registrations,
                         void** request);
using Test = Result (*)(void* request, int* is_done, int* bytes);
using Close = Result (*)(void* connection);

// What follows `accept` in every table. `Bytes`: a size in register_memory; `Send` and `Receive` differ
// in their sizes and in what they are given for a profiler. NCCL reads as much of the end as its version
// has: make_virtual from 9 on, the last two from 11 on.
template <typename Bytes, typename Send, typename Receive>
struct Calls {
  Result (*register_memory)(void* connection, void* data, Bytes bytes, int type,
                            void** registration);
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  Send send;
  Receive receive;
  Flush flush;
  Test test;
  Close close_send, close_receive, close_listener;
  void *device_memory, *consumed, *make_virtual;
  Result (*finalize)(void* context);
  Result (*set_attributes)(void* context, void* attributes);
};

template <typename Size>
using Send = Result (*)(void* connection, void* data, Size bytes, int tag, void* registration,
                        void** request);
template <typename Size>
using Receive = Result (*)(void* connection, int count, void** data, Size* bytes, int* tags,
                           void** registrations, void** request);
using SendV10 = Result (*)(void* connection, void* data, std::size_t bytes, int tag,
                           void* registration, void* event, void** request);
using ReceiveV10 = Result (*)(void* connection, int count, void** data, std::size_t* bytes,
                              int* tags, void** registrations, void** events, void** request);
using AcceptV7 = Result (*)(void* listener, void** connection, void** device_handle);

struct TableV6 {
  const char* name;
  Result (*init)(Logger);
  Result (*devices)(int* count);
  Result (*properties)(int device, PropertiesV6*);
  Result (*listen)(int device, void* handle, void** listener);
  Result (*connect)(int device, void* handle, void** connection);
  Result (*accept)(void* listener, void** connection);
  Calls<int, Send<int>, Receive<int>> calls;
};

template <typename Properties, typename Bytes, typename Size>
struct TableV7To9 {
  const char* name;
  Result (*init)(Logger);
  Result (*devices)(int* count);
  Result (*properties)(int device, Properties*);
  Result (*listen)(int device, void* handle, void** listener);
  Result (*connect)(int device, void* handle, void** connection, void** device_handle);
  AcceptV7 accept;
  Calls<Bytes, Send<Size>, Receive<Size>> calls;
};
using TableV7 = TableV7To9<PropertiesV7, int, int>;
using TableV8 = TableV7To9<PropertiesV8, std::size_t, int>;
using TableV9 = TableV7To9<PropertiesV9, std::size_t, std::size_t>;

struct TableV10 {
  const char* name;
  Result (*init)(Logger, Profiler);
  Result (*devices)(int* count);
  Result (*properties)(int device, PropertiesV10*);
  Result (*listen)(int device, void* handle, void** listener);
  Result (*connect)(int device, TrafficClass*, void* handle, void** connection,
                    void** device_handle);
  AcceptV7 accept;
  Calls<std::size_t, SendV10, ReceiveV10> calls;
};

template <typename Properties>
struct TableWithContext {
  const char* name;
  Result (*init)(void** context, std::uint64_t communicator, TrafficClass*, Logger, Profiler);
  Result (*devices)(int* count);
  Result (*properties)(int device, Properties*);
  Result (*listen)(void* context, int device, void* handle, void** listener);
  Result (*connect)(void* context, int device, void* handle, void** connection,
                    void** device_handle);
  AcceptV7 accept;
  Calls<std::size_t, SendV10, ReceiveV10> calls;
};
using TableV11 = TableWithContext<PropertiesV11>;
using TableV12 = TableWithContext<PropertiesV12>;
static_assert(sizeof(TableV12) == 22 * sizeof(void*), "a row of pointers");

}  // namespace weft::nccl::abi
