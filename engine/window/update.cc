// update: combining slots, and everything else that touches the tensor or a slot.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "engine/window/window.h"
#include "verbs/sanitizers/sanitizers.h"
#include "verbs/transport/transport.h"

namespace weft {
namespace {

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto from = reinterpret_cast<std::uintptr_t>(a);
  const auto to = reinterpret_cast<std::uintptr_t>(b);
  return from < to + b_bytes && to < from + a_bytes;
}

}  // namespace

using window::Gone;
using window::Locks;
using window::LockTask;
using window::run_copies;
using window::SlotReader;
using window::Staging;
using window::TellTask;
using window::WaitTask;

// The turn of a call that is no task: until it ends, no task of the window is under way.
class WindowObject::UpdateTurn {
 public:
  // token
  UpdateTurn(WindowObject& window, Lane& lane, const Status& result)
      : window_(window), lane_(lane), result_(result) {
    window_.line_up(this, window::CallName::update);
    number_ = window_.turns_.back().number;
    if (window_.turns_.front().who == this) return;
    WaitTask wait([this] { return window_.turns_.front().who == this; }, WaitTask::kNever);
    lane_.run(wait);
  }
  // takes the token
  ~UpdateTurn() {
    const Lane::Hold hold(lane_);
    window_.setup_.timeline->ends(number_, result_);
    // Not always the first: the lane may have closed meanwhile.
    std::erase_if(window_.turns_, [this](const Turn& turn) { return turn.who == this; });
  }
  UpdateTurn(const UpdateTurn&) = delete;
  UpdateTurn& operator=(const UpdateTurn&) = delete;

 private:
  WindowObject& window_;
  Lane& lane_;
  const Status& result_;
  std::uint32_t number_ = 0;  // in the timeline
};

Status WindowObject::update(const WindowUpdate& how, std::span<double> p) {
  constexpr std::string_view kName = "win_update";
  if (!is_floating(shape_.type)) {
    return invalid(
        kName, fmt::format("has elements of {}, not of a floating type", weft::name(shape_.type)));
  }
  if (how.self_weight.has_value() != how.sources.has_value())
    return invalid(kName, "needs both the self weight and the weights of neighbors, or neither");
  const bool clones = how.clone.data != nullptr;
  if (clones) {
    WEFT_RETURN_IF_ERROR(check_tensor(kName, how.clone));
    if (overlap(how.clone.data, shape_.bytes(), setup_.tensor.data, shape_.bytes()))
      return invalid(kName, "cannot clone into its own tensor");
  }
  double self_weight = setup_.self_weight;
  std::vector<double> weights(in_ranks_.size(), 0.0);
  if (how.self_weight) {
    self_weight = *how.self_weight;
    WEFT_RETURN_IF_ERROR(check_weight(kName, self_weight));
    WEFT_RETURN_IF_ERROR(
        for_each(kName, "in-neighbor", in_ranks_, how.sources,
                 [&](std::size_t index, double weight) { weights[index] = weight; }));
  } else {
    for (std::size_t in = 0; in < weights.size(); ++in) weights[in] = setup_.in[in].weight;
  }
  WEFT_ASSIGN(Staging staging, stage(how.stream));
  WindowUpdate here = how;
  if (clones) {
    WEFT_ASSIGN(here.clone, place(how.clone, staging, Staging::Use::writes));
  } else if (setup_.on_gpu.image != nullptr) {
    staging.stores(setup_.on_gpu.image);
  }
  WEFT_RETURN_IF_ERROR(check_stream(kName, how.stream, staging));
  const std::shared_ptr<Lane> lane = lane_.lock();
  if (lane == nullptr) return check_open();
  std::unique_ptr<Locks> locks;
  Status status;
  std::optional<UpdateTurn> turn;
  {
    const Lane::Hold hold(*lane);
    WEFT_RETURN_IF_ERROR(check_open());
    if (how.require_mutex) {
      WEFT_ASSIGN(locks, locks_of(kName, {setup_.self}, Gone::fail));
      WEFT_RETURN_IF_ERROR(named(kName, take(*lane, *locks)));
    }
    turn.emplace(*this, *lane, status);
    status = check_open();
    if (status.ok() && !staging.is_empty())
      status = named(kName, run_copies(*lane, staging, &Staging::fetch, patience_ns()));
    if (status.ok()) publish();
  }
  if (status.ok()) status = combine_slots(here, weights, self_weight, p);
  if (status.ok() && staging.has_stores()) {
    const Lane::Hold hold(*lane);
    status = named(kName, run_copies(*lane, staging, &Staging::store, patience_ns()));
  }
  turn.reset();
  const Lane::Hold hold(*lane);
  tell(*lane);
  if (locks != nullptr) {
    const Status given_back = named(kName, give_back(*lane, *locks));
    if (status.ok()) status = given_back;
  }
  return status;
}

Status window::run_copies(Lane& lane, Staging& staging, Status (Staging::*begin)(),
                          std::int64_t patience_ns) {
  WEFT_RETURN_IF_ERROR((staging.*begin)());
  WaitTask wait([&staging] { return staging.is_over(); }, now_ns() + patience_ns,
                [&staging] { return staging.too_late(); });
  lane.run(wait);
  return wait.status().ok() ? staging.status() : wait.status();
}

// Slots of weight 0 are read, too, if they are to be reset.
Status WindowObject::combine_slots(const WindowUpdate& how, std::span<const double> weights,
                                   double self_weight, std::span<double> slot_p) {
  const std::lock_guard lock(mutex_);
  const Deadline deadline = Deadline::at_ns(deadline_ns());
  std::vector<Term> terms;
  double p = 0;
  const auto add_own = [&] {
    if (self_weight != 0.0) terms.push_back({host_tensor(), self_weight});
    p += self_weight * head().p;
  };
  bool is_own_in = false;
  for (std::size_t in = 0; in < readers_.size(); ++in) {
    if (!is_own_in && in_ranks_[in] > setup_.self) {
      add_own();
      is_own_in = true;
    }
    SlotReader& reader = *readers_[in];
    if (Status status = reader.visit(deadline); !status.ok()) {
      return Status(status.code(), fmt::format("win_update: {}: {}", title_, status.text()),
                    status.rank());
    }
    if (!slot_p.empty()) slot_p[in] = reader.p();
    if (weights[in] == 0.0) continue;
    reader.add_terms(weights[in], terms);
    p += weights[in] * reader.p();
  }
  if (!is_own_in) add_own();
  const double divisor = take_divisor(terms);
  if (how.clone.data != nullptr) {
    add_up(shape_, terms, how.clone.data, divisor);
  } else {
    WEFT_RETURN_IF_ERROR(write(terms, host_tensor(), divisor));
    if (has_p_) head().p = p;
  }
  const bool names = how.sources.has_value();
  for (std::size_t in = 0; in < readers_.size(); ++in) {
    const auto is_it = [&](const NeighborWeight& each) { return each.rank == in_ranks_[in]; };
    const bool was_read = !names || std::ranges::any_of(*how.sources, is_it);
    if (how.reset && was_read) readers_[in]->reset();
    readers_[in]->clear_versions();
  }
  return {};
}

// mutex_ is held. The version is odd while the tensor is half written.
Status WindowObject::write(std::span<const Term> terms, void* destination, double divisor) {
  const bool is_own = overlap(destination, shape_.bytes(), host_tensor(), shape_.bytes());
  if (!is_own) {
    add_up(shape_, terms, destination, divisor);
    return {};
  }
#ifdef WEFT_THREAD_SANITIZER
  WEFT_RETURN_IF_ERROR(sum_.make(shape_));
  add_up(shape_, terms, sum_.data(), divisor);
#endif
  std::uint64_t& version = head().version;
  window::store_word(&version, version + 1);
#ifdef WEFT_THREAD_SANITIZER
  publish_bytes(static_cast<std::byte*>(destination), sum_.data(), shape_.bytes());
#else
  std::atomic_thread_fence(std::memory_order_release);
  add_up(shape_, terms, destination, divisor);
#endif
  window::store_word(&version, version + 1);
  return {};
}

void WindowObject::tell(Lane& lane) {
  std::vector<std::shared_ptr<OperationStep>> words;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t in = 0; in < readers_.size(); ++in) {
      const std::uint64_t* base = readers_[in]->base_to_tell();
      const WindowNeighbor& to = setup_.in[in];
      if (base == nullptr || !check_alive(to.part).ok()) continue;
      words.push_back(
          std::make_shared<TellTask>(to.part, to.shape.ack(to.out_index), *base, patience_ns()));
    }
  }
  for (std::shared_ptr<OperationStep>& word : words) lane.begin(std::move(word), nullptr);
}

double WindowObject::p_to_send() {
  if (!has_p_) return 0.0;
  const std::lock_guard lock(mutex_);
  return head().p;
}

void WindowObject::scale(const Output& x, double weight) {
  const std::lock_guard lock(mutex_);
  const Term term{x.data, weight};
  (void)write(std::span(&term, 1), x.data);
  if (has_p_) head().p *= weight;
  const auto& fetched = setup_.on_gpu.fetched;
  if (fetched != nullptr && x.data == fetched->data()) publish_fetched();
}

void WindowObject::publish() {
  if (setup_.on_gpu.fetched == nullptr) return;
  const std::lock_guard lock(mutex_);
  publish_fetched();
}

void WindowObject::publish_fetched() {
  const Term term{setup_.on_gpu.fetched->data(), 1.0};
  (void)write(std::span(&term, 1), host_tensor());
}

Status WindowObject::make_incoming(SlotReader& reader) {
  const std::lock_guard lock(mutex_);
  return reader.make_incoming();
}

Status WindowObject::fill_slot(SlotReader& reader, double weight, double p) {
  const std::lock_guard lock(mutex_);
  WEFT_RETURN_IF_ERROR(reader.visit(Deadline::at_ns(deadline_ns())));
  reader.take_incoming(weight, has_p_ ? p : 0.0);
  return {};
}

Result<std::vector<std::uint64_t>> WindowObject::versions() {
  WEFT_RETURN_IF_ERROR(check_open());
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> versions;
  for (const auto& reader : readers_) versions.push_back(reader->versions());
  return versions;
}

Result<double> WindowObject::associated_p() {
  WEFT_RETURN_IF_ERROR(check_open());
  const std::lock_guard lock(mutex_);
  return head().p;
}

Status WindowObject::set_associated_p(bool on) {
  WEFT_RETURN_IF_ERROR(check_open());
  const std::lock_guard lock(mutex_);
  has_p_ = on;
  return {};
}

}  // namespace weft
