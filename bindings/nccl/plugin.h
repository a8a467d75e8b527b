// plugin: the functions behind the tables of all versions. Each answers with NCCL's codes, and tells
// NCCL's log why.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bindings/nccl/abi.h"

namespace weft::nccl {

struct Device;

inline constexpr const char* kName = "Weft";
inline constexpr int kMostConnections = 65'536;

// The first call opens the network; later ones find it open.
[[nodiscard]] abi::Result init(abi::Logger logger);
[[nodiscard]] abi::Result count_devices(int* count);
// Null, and the reason is told, if there is no such device.
[[nodiscard]] const Device* device_of(int number);
[[nodiscard]] abi::Result listen(int device, void* handle, void** listener);
[[nodiscard]] abi::Result connect(int device, void* handle, void** connection);
[[nodiscard]] abi::Result accept(void* listener, void** connection);
[[nodiscard]] abi::Result register_memory(void* connection, void* data, std::size_t bytes, int type,
                                          void** registration);
[[nodiscard]] abi::Result register_dma_buf(void* connection, void* data, std::size_t bytes,
                                           int type, std::uint64_t offset, int descriptor,
                                           void** registration);
[[nodiscard]] abi::Result deregister(void* connection, void* registration);
[[nodiscard]] abi::Result send(void* connection, void* data, std::size_t bytes, int tag,
                               void** request);
[[nodiscard]] abi::Result receive(void* connection, int count, void** data,
                                  const std::size_t* bytes, const int* tags, void** registrations,
                                  void** request);
[[nodiscard]] abi::Result flush(void* connection, int count, void** data, int* bytes,
                                void** registrations, void** request);
[[nodiscard]] abi::Result test(void* request, int* is_done, int* bytes);
[[nodiscard]] abi::Result close_connection(void* connection);
[[nodiscard]] abi::Result close_listener(void* listener);

}  // namespace weft::nccl
