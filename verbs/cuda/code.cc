// Code: modules of the driver, and their functions by name.
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "verbs/cuda/cuda.h"
#include "verbs/cuda/driver.h"

namespace weft {
namespace {

using cuda::Current;
using cuda::Driver;
using cuda::status_of;

class LoadedCode final : public GpuCode {
 public:
  LoadedCode(const Driver& driver, const GpuMemory& memory, void* module)
      : driver_(driver), memory_(memory), module_(module) {}

  [[nodiscard]] Result<void*> function(const char* name) const override {
    const std::lock_guard lock(mutex_);
    void*& found = functions_[name];
    if (found != nullptr) return found;
    const Current current(driver_, memory_.context);
    WEFT_RETURN_IF_ERROR(status_of(driver_, driver_.module_function(&found, module_, name),
                                   fmt::format("GPU {}: the kernel {}", memory_.device, name)));
    return found;
  }

 private:
  const Driver& driver_;
  const GpuMemory memory_;
  void* const module_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, void*> functions_;
};

}  // namespace

Result<const GpuCode*> GpuCode::load(const GpuMemory& memory, std::span<const std::byte> image) {
  WEFT_ASSIGN(const Driver* driver, cuda::load_driver());
  static std::mutex mutex;
  static auto& known = *new std::map<std::pair<void*, const void*>, std::unique_ptr<LoadedCode>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<LoadedCode>& code = known[{memory.context, image.data()}];
  if (code != nullptr) return code.get();
  const Current current(*driver, memory.context);
  void* module = nullptr;
  const std::string what = fmt::format(
      "GPU {}: loading kernels, which are for compute capability 8.0 and newer", memory.device);
  WEFT_RETURN_IF_ERROR(status_of(*driver, current.answer(), what));
  const Status loaded = status_of(*driver, driver->module_load(&module, image.data()), what);
  if (!loaded.ok()) return Status(Code::unavailable, std::string(loaded.text()));
  code = std::make_unique<LoadedCode>(*driver, memory, module);
  return code.get();
}

}  // namespace weft
