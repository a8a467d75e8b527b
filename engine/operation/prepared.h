// prepared: what a Prepared stands for.
#pragma once

#include <weft/prepared.h>

#include <cstdint>
#include <optional>

namespace weft {

// Who makes one implements it. Any thread may call any function.
class PreparedOperation {
 public:
  PreparedOperation() = default;
  virtual ~PreparedOperation() = default;
  PreparedOperation(const PreparedOperation&) = delete;
  PreparedOperation& operator=(const PreparedOperation&) = delete;

  // Those of Prepared.
  virtual Status run() = 0;
  virtual Result<Handle> start() = 0;
  virtual Result<std::optional<Handle>> run_for(std::int64_t patience_ns) = 0;
  // The run that was started last; nothing: none.
  virtual std::optional<Handle> started() = 0;
};

}  // namespace weft
