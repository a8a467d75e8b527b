// bounded_staleness: versions are puts into a window, and a clock counts them. A version is counted
// at the receiver when it is in its slot.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "engine/algorithms/agreement.h"
#include "engine/algorithms/algorithms.h"
#include "engine/algorithms/clock.h"
#include "engine/algorithms/own_window.h"

namespace weft {

class BoundedStaleness::State {
 public:
  State(Context& context, Window data, Clock versions, std::uint64_t bound)
      : context_(context),
        title_("bounded staleness \"" + data.name() + "\""),
        bound_(bound),
        data_(std::move(data)),
        versions_(std::move(versions)) {}

  Status publish() {
    if (data_.out_neighbors().empty()) {
      ++version_;
      return {};
    }
    WEFT_RETURN_IF_ERROR(data_.put(data_.tensor()));
    WEFT_RETURN_IF_ERROR(versions_.tick(data_.out_neighbors()));
    ++version_;
    return {};
  }

  Status wait(std::int64_t patience_ns) {
    if (version_ <= bound_) return {};
    const std::vector<std::uint64_t> least(versions_.in_neighbors().size(), version_ - bound_);
    const Deadline last = Deadline::after_ms(context_.config().deadline_ms);
    return versions_.wait(
        least, title_, {"delivered", "versions"},
        patience_ns < 0 ? last : Deadline::at_ns(std::min(last.ns(), now_ns() + patience_ns)));
  }

  Status average() { return data_.update(); }
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] Result<std::vector<std::uint64_t>> delivered() { return versions_.counts(); }
  Status end() {
    WEFT_RETURN_IF_ERROR(context_.win_free(data_.name()));
    return versions_.end(context_);
  }

 private:
  Context& context_;
  const std::string title_;
  const std::uint64_t bound_;
  Window data_;
  Clock versions_;
  std::uint64_t version_ = 0;
};

Result<BoundedStaleness> BoundedStaleness::create(Context& context, const Output& x,
                                                  const BoundedStalenessOptions& options) {
  const std::string title = fmt::format("bounded staleness \"{}\"", options.name);
  Status own;
  if (!is_floating(x.type)) {
    own = Status(Code::invalid_argument,
                 fmt::format("{}: {} cannot be averaged", title, name(x.type)));
  }
  WEFT_RETURN_IF_ERROR(
      agree(context, title,
            {fmt::format("\"{}\"", options.name),
             fmt::format("bound {}, {} elements of {}", options.bound, x.count, name(x.type))},
            own));
  return or_free_windows(context, [&]() -> Result<BoundedStaleness> {
    WEFT_ASSIGN(Window data, context.win_create(x, options.name, {.owner = options.owner}));
    WEFT_ASSIGN(Clock versions, Clock::create(context, options.name + ".versions"));
    return BoundedStaleness(
        std::make_unique<State>(context, std::move(data), std::move(versions), options.bound));
  });
}

BoundedStaleness::BoundedStaleness(std::unique_ptr<State> state) : state_(std::move(state)) {}
BoundedStaleness::~BoundedStaleness() = default;
BoundedStaleness::BoundedStaleness(BoundedStaleness&&) noexcept = default;
BoundedStaleness& BoundedStaleness::operator=(BoundedStaleness&&) noexcept = default;

Status BoundedStaleness::publish() {
  return state_->publish();
}
Status BoundedStaleness::wait(std::int64_t patience_ns) {
  return state_->wait(patience_ns);
}
Status BoundedStaleness::average() {
  return state_->average();
}
Status BoundedStaleness::step() {
  WEFT_RETURN_IF_ERROR(publish());
  WEFT_RETURN_IF_ERROR(wait());
  return average();
}
std::uint64_t BoundedStaleness::version() const {
  return state_->version();
}
Result<std::vector<std::uint64_t>> BoundedStaleness::delivered() {
  return state_->delivered();
}
Status BoundedStaleness::end() {
  return state_->end();
}

}  // namespace weft
