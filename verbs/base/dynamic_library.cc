// Loading shared libraries by dlopen(3).
#include "verbs/base/dynamic_library.h"

#include <dlfcn.h>

namespace weft {

DynamicLibrary::DynamicLibrary(const char* file, Symbols symbols)
    : file_(file),
      loaded_(::dlopen(file, RTLD_NOW | RTLD_NODELETE |
                                 (symbols == Symbols::global ? RTLD_GLOBAL : RTLD_LOCAL))) {
  if (loaded_ == nullptr) missing_ = ::dlerror();
}

void* DynamicLibrary::symbol(const char* name) const {
  return loaded_ != nullptr ? ::dlsym(loaded_, name) : nullptr;
}

void* DynamicLibrary::required(const char* name) {
  if (!missing_.empty()) return nullptr;
  void* const found = symbol(name);
  if (found == nullptr) missing_ = std::string(file_) + " has no " + name;
  return found;
}

Status DynamicLibrary::status(std::string_view what) const {
  if (missing_.empty()) return {};
  return Status(Code::unavailable, std::string(what) + ": " + missing_);
}

}  // namespace weft
