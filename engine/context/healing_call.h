// healing_call: a call of a context that goes on when ranks die, and how it ends if it cannot run again.
// Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/context/healing.h"

namespace weft {

// The number of a call that is no operation of all ranks.
inline constexpr std::uint64_t kNotCounted = std::numeric_limits<std::uint64_t>::max();

// Ends a call by the rule for those that the others are ahead of.
[[nodiscard]] Status rest(const Request& request);

// A call that was started, or whose core has failed. Its members belong to the holder of the mutex.
class Context::Healing::Call final : public Outcome,
                                     public std::enable_shared_from_this<Context::Healing::Call> {
 public:
  Call(const std::shared_ptr<Healing>& healing, const Request& given, std::uint64_t number)
      : request(given), index(number), healing_(healing) {}

  // Blocks while ranks agree, if this call is the first to see a death.
  bool test() override;
  Status wait() override;
  bool wait_for(std::int64_t patience_ns) override;
  Status then(std::function<void(const Status&)> call) override;

  // Saves the input, if running would lose it; and puts it back.
  void save();
  void restore() const;
  // Why it cannot run again; empty: it can.
  [[nodiscard]] std::string_view why_not_again() const;
  void finish(Status how);

  OwnedRequest request;
  const std::uint64_t index;  // kNotCounted: it is no operation of all ranks
  Present in;                 // where it runs
  Present ended_in;           // where it has ended, here or on the ranks that are ahead
  Handle handle;              // empty: `status` says why it could not be started there
  Status status;              // once it is over
  bool is_over = false;

 private:
  const std::weak_ptr<Healing> healing_;
  std::vector<std::byte> saved_;
  bool is_saved_ = false;
};

}  // namespace weft
