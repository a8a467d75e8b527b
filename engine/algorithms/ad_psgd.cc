// ad_psgd: averages of two models under the mutexes of both.
//
// Neighbors write to a model, which they cannot do on a GPU. So the window's tensor is then host memory of its
// own, which is the model; the caller's tensor gets it in update(), before the change, and after an average.
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
#include "engine/algorithms/models.h"
#include "engine/gpu/gpu.h"
#include "engine/kernels/kernels.h"
#include "engine/membership/membership.h"

namespace weft {

class AdPsgd::State {
 public:
  State(Context& context, Window window, Staged model, Memory theirs, const AdPsgdOptions& options)
      : context_(context),
        window_(std::move(window)),
        stream_(options.stream),
        owner_(options.owner),
        title_("AD-PSGD \"" + window_.name() + "\""),
        self_(context.rank()),
        model_(std::move(model)),
        theirs_(std::move(theirs)),
        peers_(window_.out_neighbors().begin(), window_.out_neighbors().end()),
        random_(options.seed + 0x9e3779b97f4a7c15U * (static_cast<std::uint64_t>(self_) + 1)) {}

  Status average_with(Rank peer);
  Result<Rank> average();
  Status update(const std::function<void()>& change);
  Status read(const Output& y);
  Status end() { return context_.win_free(window_.name()); }

 private:
  class Held;
  // Memory of the host for one model, which a GPU's is copied from and to.
  [[nodiscard]] std::byte* between() const {
    return model_.is_on_gpu() ? model_.data() : theirs_.as<std::byte>();
  }
  [[nodiscard]] std::size_t bytes() const {
    return window_.tensor().count * size_of(window_.tensor().type);
  }

  Context& context_;
  Window window_;
  const std::optional<Stream> stream_;
  const std::shared_ptr<const void> owner_;
  const std::string title_;
  const Rank self_;
  std::mutex mutex_;
  Staged model_;             // the caller's tensor; guarded by the mutex
  Memory theirs_;            // guarded by the mutex; empty if the tensor is on a GPU
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
  const Rank both[] = {self_, peer};
  Held held(*this, both);
  WEFT_RETURN_IF_ERROR(held.status());
  if (bytes() == 0) return held.give_back();
  const Output mean{between(), own.count, own.type};
  WEFT_RETURN_IF_ERROR(window_.read(peer, mean));
  const Term terms[] = {{own.data, 0.5}, {mean.data, 0.5}};
  combine(own.type, Reduction::weighted_sum, terms, mean.data, own.count);
  const WindowPage whole{};
  WEFT_RETURN_IF_ERROR(window_.write(peer, {mean.data, own.count, own.type}, {&whole, 1}, bytes()));
  std::memcpy(own.data, mean.data, bytes());
  WEFT_RETURN_IF_ERROR(held.give_back());
  return model_.store(stream_);
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
  void* const own = window_.tensor().data;
  if (model_.is_on_gpu()) {
    std::memcpy(model_.data(), own, bytes());
    WEFT_RETURN_IF_ERROR(model_.store(stream_));
  }
  change();
  if (model_.is_on_gpu()) {
    WEFT_RETURN_IF_ERROR(model_.fetch(stream_));
    std::memcpy(own, model_.data(), bytes());
  }
  return held.give_back();
}

Status AdPsgd::State::read(const Output& y) {
  const Output own = window_.tensor();
  WEFT_RETURN_IF_ERROR(check_like(title_, "y", {y.data, y.count, y.type}, "the model", own));
  if (bytes() == 0) return {};
  WEFT_ASSIGN(Staged to, Staged::make(y.data, bytes(), context_.config().deadline_ms));
  Held held(*this, {&self_, 1});
  WEFT_RETURN_IF_ERROR(held.status());
  std::memcpy(to.data(), own.data, bytes());
  WEFT_RETURN_IF_ERROR(held.give_back());
  return to.store(stream_);
}

namespace {

// What a rank has before all agree.
struct Own {
  Staged staged;
  Memory theirs;                      // empty if the model is on a GPU
  Output tensor;                      // of the window
  std::shared_ptr<const void> owner;  // of the tensor
};
Result<Own> make_own(Context& context, const std::string& title, const Output& model,
                     const AdPsgdOptions& options) {
  WEFT_RETURN_IF_ERROR(check_model(title, model));
  const std::size_t bytes = model.count * size_of(model.type);
  Own own;
  own.tensor = model;
  own.owner = options.owner;
  WEFT_ASSIGN(own.staged, Staged::make(model.data, bytes, context.config().deadline_ms));
  if (!own.staged.is_on_gpu()) {
    WEFT_ASSIGN(own.theirs, Memory::allocate(bytes));
    return own;
  }
  WEFT_ASSIGN(Memory memory, Memory::allocate(bytes));
  WEFT_RETURN_IF_ERROR(own.staged.fetch(options.stream));
  std::memcpy(memory.data(), own.staged.data(), bytes);
  own.tensor.data = memory.data();
  own.owner = std::make_shared<Memory>(std::move(memory));
  return own;
}

}  // namespace

Result<AdPsgd> AdPsgd::create(Context& context, const Output& model, const AdPsgdOptions& options) {
  const std::string title = fmt::format("AD-PSGD \"{}\"", options.name);
  Result<Own> own = make_own(context, title, model, options);
  WEFT_RETURN_IF_ERROR(agree(context, title,
                             {fmt::format("\"{}\"", options.name),
                              fmt::format("{} elements of {}", model.count, name(model.type))},
                             own.status()));
  WEFT_ASSIGN(Window window, context.win_create(own->tensor, options.name,
                                                {.zero_init = true, .owner = own->owner}));
  return AdPsgd(std::make_shared<State>(context, std::move(window), std::move(own->staged),
                                        std::move(own->theirs), options));
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
