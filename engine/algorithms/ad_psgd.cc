// ad_psgd: averages of two models under the mutexes of both.
//
// The window lets one thread of a rank hold mutexes at a time, so a mutex of the process comes
// first. Who waits for it holds nothing yet, so it adds no deadlock.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <random>
#include <string>
#include <utility>

#include "engine/algorithms/agreement.h"
#include "engine/algorithms/algorithms.h"
#include "engine/algorithms/gone.h"
#include "engine/algorithms/host_models.h"
#include "engine/kernels/kernels.h"

namespace weft {

class AdPsgd::State {
 public:
  State(Context& context, Window window, Memory theirs, std::uint64_t seed)
      : context_(context),
        window_(std::move(window)),
        title_("AD-PSGD \"" + window_.name() + "\""),
        self_(context.rank()),
        theirs_(std::move(theirs)),
        peers_(window_.out_neighbors().begin(), window_.out_neighbors().end()),
        random_(seed + 0x9e3779b97f4a7c15U * (static_cast<std::uint64_t>(self_) + 1)) {}

  Status average_with(Rank peer);
  Result<Rank> average();
  Status update(const std::function<void()>& change);
  Status read(const Output& y);
  Status end() { return context_.win_free(window_.name()); }

 private:
  class Held;

  Context& context_;
  Window window_;
  const std::string title_;
  const Rank self_;
  std::mutex mutex_;
  Memory theirs_;            // guarded by the mutex
  std::vector<Rank> peers_;  // of average(); guarded by the mutex
  std::mt19937_64 random_;   // guarded by the mutex
};

// The mutexes of some ranks, for as long as it lives.
class AdPsgd::State::Held {
 public:
  Held(State& state, std::span<const Rank> ranks)
      : lock_(state.mutex_), window_(state.window_), status_(window_.lock(ranks)) {}
  ~Held() {
    if (status_.ok()) (void)window_.unlock();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  [[nodiscard]] const Status& status() const { return status_; }
  Status give_back() {
    status_ = Status(Code::closed, "the mutexes were given back");
    return window_.unlock();
  }

 private:
  const std::lock_guard<std::mutex> lock_;
  Window& window_;
  Status status_;
};

// The peer's model is written first: if that fails, ours is as it was.
Status AdPsgd::State::average_with(Rank peer) {
  const auto peers = window_.out_neighbors();
  if (!std::ranges::binary_search(peers, peer)) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: rank {} has no out-neighbor {}", title_, self_, peer), peer);
  }
  const Output own = window_.tensor();
  const std::size_t bytes = own.count * size_of(own.type);
  const Rank both[] = {self_, peer};
  Held held(*this, both);
  WEFT_RETURN_IF_ERROR(held.status());
  if (bytes == 0) return held.give_back();
  WEFT_RETURN_IF_ERROR(window_.read(peer, {theirs_.data(), own.count, own.type}));
  const Term terms[] = {{own.data, 0.5}, {theirs_.data(), 0.5}};
  combine(own.type, Reduction::weighted_sum, terms, theirs_.data(), own.count);
  const WindowPage whole{};
  WEFT_RETURN_IF_ERROR(
      window_.write(peer, {theirs_.data(), own.count, own.type}, {&whole, 1}, bytes));
  std::memcpy(own.data, theirs_.data(), bytes);
  return held.give_back();
}

Result<Rank> AdPsgd::State::average() {
  Rank peer = kNoRank;
  {
    const std::lock_guard lock(mutex_);
    if (peers_.empty()) return kNoRank;
    peer = peers_[random_() % peers_.size()];
  }
  Status averaged = average_with(peer);
  if (averaged.ok()) return peer;
  if (is_gone(averaged) && averaged.rank() == peer) {
    const std::lock_guard lock(mutex_);
    std::erase(peers_, peer);
  }
  return averaged;
}

Status AdPsgd::State::update(const std::function<void()>& change) {
  if (change == nullptr) {
    return Status(Code::invalid_argument, fmt::format("{}: there is no change to be run", title_));
  }
  Held held(*this, {&self_, 1});
  WEFT_RETURN_IF_ERROR(held.status());
  change();
  return held.give_back();
}

Status AdPsgd::State::read(const Output& y) {
  const Output own = window_.tensor();
  WEFT_RETURN_IF_ERROR(check_like(title_, "y", {y.data, y.count, y.type}, "the model", own));
  return update([&] { std::memcpy(y.data, own.data, own.count * size_of(own.type)); });
}

Result<AdPsgd> AdPsgd::create(Context& context, const Output& model, const AdPsgdOptions& options) {
  const std::string title = fmt::format("AD-PSGD \"{}\"", options.name);
  WEFT_RETURN_IF_ERROR(agree(context, title,
                             {fmt::format("\"{}\"", options.name),
                              fmt::format("{} elements of {}", model.count, name(model.type))},
                             check_host_model(title, model)));
  WEFT_ASSIGN(Memory theirs, Memory::allocate(model.count * size_of(model.type)));
  WEFT_ASSIGN(Window window,
              context.win_create(model, options.name, {.zero_init = true, .owner = options.owner}));
  return AdPsgd(
      std::make_shared<State>(context, std::move(window), std::move(theirs), options.seed));
}

AdPsgd::AdPsgd(std::shared_ptr<State> state) : state_(std::move(state)) {}
AdPsgd::~AdPsgd() = default;
AdPsgd::AdPsgd(AdPsgd&&) noexcept = default;
AdPsgd& AdPsgd::operator=(AdPsgd&&) noexcept = default;

Status AdPsgd::average_with(Rank peer) {
  return state_->average_with(peer);
}
Result<Rank> AdPsgd::average() {
  return state_->average();
}
Status AdPsgd::update(const std::function<void()>& change) {
  return state_->update(change);
}
Status AdPsgd::read(const Output& y) {
  return state_->read(y);
}
Status AdPsgd::end() {
  return state_->end();
}

}  // namespace weft
