// tables: what NCCL looks up, for each version of its interface.
#include <array>
#include <vector>

#include "bindings/nccl/abi.h"
#include "bindings/nccl/network.h"
#include "bindings/nccl/plugin.h"
#include "bindings/nccl/request.h"

namespace weft::nccl {
namespace {

using abi::Result;

// What all versions tell of a device.
template <typename Properties>
Result properties(int number, Properties* into) {
  const Device* const device = device_of(number);
  if (device == nullptr) return abi::invalid_argument;
  *into = {};
  // NCCL reads these; the const is cast away for its declaration.
  into->name = const_cast<char*>(device->name.c_str());
  into->pci_path = device->pci_path.empty() ? nullptr : const_cast<char*>(device->pci_path.c_str());
  into->guid = device->guid;
  into->mbit_per_s = device->mbit_per_s > 0 ? device->mbit_per_s : 10'000;
  into->port = device->port;
  into->pointers = device->pointers;
  into->most_connections = kMostConnections;
  into->most_receives = static_cast<int>(kMostTags);
  if constexpr (requires { into->parts; }) {
    into->parts.count = 1;
    into->parts.devices[0] = number;
    into->most_bytes = into->most_collective_bytes = kMostBytes;
  }
  return abi::success;
}

Result connect_7(int device, void* handle, void** connection, void** device_handle) {
  if (device_handle != nullptr) *device_handle = nullptr;
  return connect(device, handle, connection);
}
Result accept_7(void* listener, void** connection, void** device_handle) {
  if (device_handle != nullptr) *device_handle = nullptr;
  return accept(listener, connection);
}
Result register_6(void* connection, void* data, int bytes, int type, void** registration) {
  return register_memory(connection, data, static_cast<std::size_t>(bytes), type, registration);
}
Result send_6(void* connection, void* data, int bytes, int tag, void*, void** request) {
  return send(connection, data, static_cast<std::size_t>(bytes), tag, request);
}
Result receive_6(void* connection, int count, void** data, int* bytes, int* tags,
                 void** registrations, void** request) {
  std::array<std::size_t, kMostTags> sizes{};
  for (int k = 0; k < count && k < static_cast<int>(kMostTags); ++k)
    sizes[static_cast<std::size_t>(k)] = static_cast<std::size_t>(bytes[k]);
  return receive(connection, count, data, sizes.data(), tags, registrations, request);
}
Result send_9(void* connection, void* data, std::size_t bytes, int tag, void*, void** request) {
  return send(connection, data, bytes, tag, request);
}
Result receive_9(void* connection, int count, void** data, std::size_t* bytes, int* tags,
                 void** registrations, void** request) {
  return receive(connection, count, data, bytes, tags, registrations, request);
}
Result init_10(abi::Logger logger, abi::Profiler) {
  return init(logger);
}
Result connect_10(int device, abi::TrafficClass*, void* handle, void** connection,
                  void** device_handle) {
  return connect_7(device, handle, connection, device_handle);
}
Result send_10(void* connection, void* data, std::size_t bytes, int tag, void*, void*,
               void** request) {
  return send(connection, data, bytes, tag, request);
}
Result receive_10(void* connection, int count, void** data, std::size_t* bytes, int* tags,
                  void** registrations, void**, void** request) {
  return receive(connection, count, data, bytes, tags, registrations, request);
}

// A communicator has nothing of its own here. NCCL wants a pointer.
Result init_11(void** context, std::uint64_t, abi::TrafficClass*, abi::Logger logger,
               abi::Profiler) {
  static char none;
  *context = &none;
  return init(logger);
}
Result listen_11(void*, int device, void* handle, void** listener) {
  return listen(device, handle, listener);
}
Result connect_11(void*, int device, void* handle, void** connection, void** device_handle) {
  return connect_7(device, handle, connection, device_handle);
}
Result finalize(void*) {
  return abi::success;
}
Result set_attributes(void*, void*) {
  return abi::success;
}

// What all tables have behind `accept`.
template <typename Calls, typename Register, typename Send, typename Receive>
constexpr Calls calls(Register register_bytes, Send send_bytes, Receive receive_bytes) {
  return {.register_memory = register_bytes,
          .register_dma_buf = register_dma_buf,
          .deregister = deregister,
          .send = send_bytes,
          .receive = receive_bytes,
          .flush = flush,
          .test = test,
          .close_send = close_connection,
          .close_receive = close_connection,
          .close_listener = close_listener,
          .device_memory = nullptr,
          .consumed = nullptr,
          .make_virtual = nullptr,
          .finalize = finalize,
          .set_attributes = set_attributes};
}

template <typename Table, typename Properties, typename Register, typename Send, typename Receive>
constexpr Table table_7(Register register_bytes, Send send_bytes, Receive receive_bytes) {
  return {kName,         init,
          count_devices, properties<Properties>,
          listen,        connect_7,
          accept_7,      calls<decltype(Table::calls)>(register_bytes, send_bytes, receive_bytes)};
}

template <typename Table, typename Properties>
constexpr Table table_11() {
  return {kName,         init_11,
          count_devices, properties<Properties>,
          listen_11,     connect_11,
          accept_7,      calls<decltype(Table::calls)>(register_memory, send_10, receive_10)};
}

}  // namespace

#define WEFT_SHOWN extern "C" __attribute__((visibility("default"))) const

WEFT_SHOWN abi::TableV6 ncclNetPlugin_v6 = {
    kName,         init,
    count_devices, properties<abi::PropertiesV6>,
    listen,        connect,
    accept,        calls<decltype(abi::TableV6::calls)>(register_6, send_6, receive_6)};
WEFT_SHOWN abi::TableV7 ncclNetPlugin_v7 =
    table_7<abi::TableV7, abi::PropertiesV7>(register_6, send_6, receive_6);
WEFT_SHOWN abi::TableV8 ncclNetPlugin_v8 =
    table_7<abi::TableV8, abi::PropertiesV8>(register_memory, send_6, receive_6);
WEFT_SHOWN abi::TableV9 ncclNetPlugin_v9 =
    table_7<abi::TableV9, abi::PropertiesV9>(register_memory, send_9, receive_9);
WEFT_SHOWN abi::TableV10 ncclNetPlugin_v10 = {
    kName,         init_10,
    count_devices, properties<abi::PropertiesV10>,
    listen,        connect_10,
    accept_7,      calls<decltype(abi::TableV10::calls)>(register_memory, send_10, receive_10)};
WEFT_SHOWN abi::TableV11 ncclNetPlugin_v11 = table_11<abi::TableV11, abi::PropertiesV11>();
WEFT_SHOWN abi::TableV12 ncclNetPlugin_v12 = table_11<abi::TableV12, abi::PropertiesV12>();

#undef WEFT_SHOWN

}  // namespace weft::nccl
