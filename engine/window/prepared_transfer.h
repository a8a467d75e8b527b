// prepared_transfer: puts, accumulates and writes of a window that were prepared. Internal to the
// module.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "engine/lane/lane.h"

namespace weft::window {

class PreparedTransfer final : public PreparedOperation {
 public:
  // The call with its arguments: with a handle it only begins.
  using Call = std::function<Status(Handle*)>;
  // `is_quick`: whether a run waits for nobody, now.
  PreparedTransfer(std::string_view what, Call call, std::function<bool()> is_quick)
      : what_(what), call_(std::move(call)), is_quick_(std::move(is_quick)) {}

  Status run() override;
  Result<Handle> start() override;
  Result<std::optional<Handle>> run_for(std::int64_t patience_ns) override;
  std::optional<Handle> started() override;

 private:
  // ok, or that the last run is under way.
  Status check_idle();

  const std::string_view what_;
  const Call call_;
  const std::function<bool()> is_quick_;
  std::mutex mutex_;  // of last_
  std::optional<Handle> last_;
};

}  // namespace weft::window
