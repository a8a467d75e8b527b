// structs: structs of the C API that begin with their size, from programs that were compiled with
// an older or a newer version of the header.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "bindings/c/call.h"

namespace weft::c {

// `known` := what the caller's struct of `given` bytes says; members that it does not have are
// zero. A larger struct must be zero beyond `size`, the bytes that this version knows.
Status read_struct(const void* from, const char* argument, void* known, std::size_t size);
// Copies `known` into the caller's struct as far as that goes. The size stays as it is, and what
// this version does not know becomes zero.
Status write_struct(const void* known, std::size_t size, const char* argument, void* to);

template <typename T>
Status read_struct(const T* from, const char* argument, T& known) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(std::size_t) == 0);
  return read_struct(from, argument, &known, sizeof(T));
}
template <typename T>
Status write_struct(const T& known, const char* argument, T* to) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(std::size_t) == 0);
  return write_struct(&known, sizeof(T), argument, to);
}

}  // namespace weft::c
