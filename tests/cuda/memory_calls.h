// Calls of CUDA's driver on memory, as the fake plays them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::fake {

struct IpcBytes {
  char bytes[64];
};

int cuPointerGetAttributes(unsigned count, int* attributes, void** values, std::uint64_t pointer);
int cuMemAlloc(std::uint64_t* pointer, std::size_t bytes);
int cuMemFree(std::uint64_t pointer);
int cuMemHostRegister(void* memory, std::size_t bytes, unsigned);
int cuMemHostUnregister(void* memory);
int cuMemHostGetDevicePointer(std::uint64_t* pointer, void* memory, unsigned);
int cuDeviceGetUuid(char* id, int device);
int cuDeviceCanAccessPeer(int* can, int, int);
int cuCtxEnablePeerAccess(void*, unsigned);
int cuIpcGetMemHandle(IpcBytes* handle, std::uint64_t pointer);
int cuIpcOpenMemHandle(std::uint64_t* pointer, IpcBytes handle, unsigned);
int cuIpcCloseMemHandle(std::uint64_t pointer);
int cuMemGetHandleForAddressRange(void* handle, std::uint64_t pointer, std::size_t bytes, int,
                                  unsigned long long);

}  // namespace weft::fake
