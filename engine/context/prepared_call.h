// prepared_call: a call of a context that was prepared, and what the core is asked to run. Internal to
// the module.
#pragma once

#include <weft/context.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/lane/lane.h"
#include "engine/request/request.h"

namespace weft {

class PreparedCall final : public PreparedOperation {
 public:
  // `number`: Repeats::new_number().
  PreparedCall(std::shared_ptr<Context::Core> core, const Request& request, std::uint64_t number);
  ~PreparedCall() override;

  Status run() override;
  Result<Handle> start() override;
  Result<std::optional<Handle>> run_for(std::int64_t patience_ns) override;
  std::optional<Handle> started() override;

  [[nodiscard]] const Request& request() const { return request_.get(); }
  [[nodiscard]] std::uint64_t number() const { return number_; }
  // The run that was started last; null: none. Both: token.
  [[nodiscard]] const std::shared_ptr<Operation>& last() const { return last_; }
  void set_last(std::shared_ptr<Operation> operation) { last_ = std::move(operation); }

 private:
  const std::shared_ptr<Context::Core> core_;  // closed when its Context ends
  const OwnedRequest request_;
  const std::uint64_t number_;
  std::shared_ptr<Operation> last_;
};

// A call: its request, and what was prepared, if it is a run of that.
struct Asked {
  Asked(const Request& given) : request(given) {}  // NOLINT(google-explicit-constructor)
  Asked(PreparedCall& call)                        // NOLINT(google-explicit-constructor)
      : request(call.request()), prepared(&call) {}

  const Request& request;
  PreparedCall* prepared = nullptr;
};

}  // namespace weft
