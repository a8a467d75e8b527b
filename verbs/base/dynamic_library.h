// DynamicLibrary: a shared library that is loaded at run time, so that a host without it still
// starts, and the functions that are looked up in it.
//
//   DynamicLibrary file("libibverbs.so.1");
//   file.find("ibv_open_device", table.open_device).find("ibv_close_device", table.close_device);
//   WEFT_RETURN_IF_ERROR(file.status("RDMA verbs cannot be used here"));
//
// The first thing that is missing (the library, a function) is kept for status(); nothing is looked
// up after it. The library stays loaded when this object goes: libraries of this kind leave threads
// and handlers behind that run in it. Not thread safe; tables are made once, in a static.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "verbs/base/status.h"

namespace weft {

class DynamicLibrary {
 public:
  // Whether the symbols of the library are there for libraries that are loaded later.
  enum class Symbols : std::uint8_t { local, global };

  explicit DynamicLibrary(const char* file, Symbols symbols = Symbols::local);

  // Sets `function` to the function of that name, or to nullptr where something is missing.
  template <typename Function>
  DynamicLibrary& find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(required(name));
    return *this;
  }
  // The same for a function that older versions lack: nullptr then, and no error.
  template <typename Function>
  DynamicLibrary& find_newer(const char* name, Function& function) {
    function = reinterpret_cast<Function>(symbol(name));
    return *this;
  }

  // ok, or `unavailable`: "`what`: " and what is missing.
  [[nodiscard]] Status status(std::string_view what) const;

 private:
  [[nodiscard]] void* symbol(const char* name) const;
  [[nodiscard]] void* required(const char* name);

  const char* file_;
  void* loaded_;
  std::string missing_;
};

}  // namespace weft
