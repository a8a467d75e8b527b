// push_sum: steps of push-sum over a window with the associated p, which is the weight w.
//
// The clock `sent` says how many messages each in-neighbor has sent here. The synchronous form must
// keep the messages of two steps apart that come through the same slot: the clock `taken` says how
// many of our messages each out-neighbor has taken, and we send no second one before.
#include <fmt/core.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "engine/algorithms/agreement.h"
#include "engine/algorithms/algorithms.h"
#include "engine/algorithms/clock.h"
#include "engine/algorithms/models.h"
#include "engine/algorithms/own_window.h"
#include "engine/gpu/gpu.h"
#include "engine/kernels/kernels.h"

namespace weft {
namespace {

constexpr double kStochastic = 1e-6;  // how far from 1 the shares of a rank may sum to
constexpr Clock::Meaning kSent{"sent", "messages"};
constexpr Clock::Meaning kTaken{"taken", "messages"};

std::vector<Rank> ranks_of(const std::vector<Peer>& peers) {
  std::vector<Rank> ranks;
  for (const Peer& peer : peers) ranks.push_back(peer.rank);
  return ranks;
}

// All edges of the schedule, and the opposite ones if `both_ways`.
Result<Graph> window_graph(const Schedule& schedule, bool both_ways) {
  WEFT_ASSIGN(const Graph all, union_graph(schedule));
  if (!both_ways) return all;
  std::vector<Edge> edges = all.edges();
  for (const Edge& edge : all.edges()) {
    if (all.weight(edge.from, edge.to) == 0) edges.push_back({edge.to, edge.from, edge.weight});
  }
  return Graph::from_edges(all.size(), edges, all.self_weights(), all.name() + ", both ways");
}

}  // namespace

class PushSum::State {
 public:
  State(Context& context, const Schedule& schedule, const PushSumOptions& options, Window data,
        Clock sent, std::optional<Clock> taken)
      : context_(context),
        schedule_(schedule),
        title_("push-sum \"" + options.name + "\""),
        lag_(options.lag),
        stream_(options.stream),
        data_(std::move(data)),
        sent_(std::move(sent)),
        taken_(std::move(taken)),
        due_(data_.in_neighbors().size()),
        used_(data_.in_neighbors().size()) {}

  Status begin(const std::shared_ptr<State>& self);
  Status end_step(std::int64_t patience_ns);
  Status debias(const Output& z);
  [[nodiscard]] Result<double> weight() { return data_.associated_p(); }
  [[nodiscard]] std::uint64_t steps() const { return step_; }
  Status settle();
  Status end();

 private:
  [[nodiscard]] Status invalid(std::string_view why) const {
    return Status(Code::invalid_argument, fmt::format("{}: {}", title_, why));
  }
  [[nodiscard]] LocalView view(std::uint64_t step) const {
    return schedule_.local_view(step, context_.rank());
  }
  [[nodiscard]] Deadline deadline(std::int64_t patience_ns) const {
    const Deadline last = Deadline::after_ms(context_.config().deadline_ms);
    return patience_ns < 0 ? last : Deadline::at_ns(std::min(last.ns(), now_ns() + patience_ns));
  }
  // What fails for good fails every later step.
  Status note(Status status) {
    if (failed_.ok() && !status.ok() && status.code() != Code::timed_out) failed_ = status;
    return status;
  }
  Status send(const LocalView& view, const std::shared_ptr<State>& self);
  Status announce(std::uint64_t step);
  Status collect();

  Context& context_;
  const Schedule schedule_;
  const std::string title_;
  const std::uint64_t lag_;
  const std::optional<Stream> stream_;
  Window data_;
  Clock sent_;
  std::optional<Clock> taken_;  // if synchronous

  std::uint64_t step_ = 0;
  bool is_in_step_ = false;
  bool is_due_counted_ = false;  // of the step under way
  Handle sending_;
  LocalView now_;                    // of the step under way
  std::vector<std::uint64_t> due_;   // by in-neighbor: messages that the step waits for
  std::vector<std::uint64_t> used_;  // by in-neighbor: messages to it
  Status failed_;

  // The completion thread or end_step(), whoever comes first.
  std::mutex announce_mutex_;
  std::uint64_t announced_ = 0;  // steps
  std::vector<Rank> receivers_;
  Status announcement_;
};

Status PushSum::State::begin(const std::shared_ptr<State>& self) {
  if (is_in_step_) return invalid("a step has begun and not ended");
  WEFT_RETURN_IF_ERROR(failed_);
  now_ = view(step_);
  double sum = now_.self_weight;
  for (const Peer& peer : now_.out) sum += peer.weight;
  if (!(std::abs(sum - 1) <= kStochastic)) {
    return invalid(
        fmt::format("step {}: the shares of rank {} sum to {}, not to 1", step_, now_.rank, sum));
  }
  if (taken_) {
    std::vector<std::uint64_t> least(used_.size());
    for (const Peer& peer : now_.out) {
      const std::size_t place = taken_->place_of(peer.rank);
      least[place] = used_[place];
    }
    WEFT_RETURN_IF_ERROR(note(taken_->wait(least, title_, kTaken, deadline(-1))));
    for (const Peer& peer : now_.out) ++used_[taken_->place_of(peer.rank)];
  }
  WEFT_RETURN_IF_ERROR(note(send(now_, self)));
  is_in_step_ = true;
  is_due_counted_ = false;
  return {};
}

Status PushSum::State::send(const LocalView& view, const std::shared_ptr<State>& self) {
  sending_ = Handle();
  std::vector<NeighborWeight> shares;
  for (const Peer& peer : view.out) shares.push_back({peer.rank, peer.weight});
  {
    const std::lock_guard lock(announce_mutex_);
    receivers_ = ranks_of(view.out);
  }
  if (shares.empty()) return {};
  WEFT_ASSIGN(sending_, data_.accumulate_start(data_.tensor(), {.self_weight = view.self_weight,
                                                                .destinations = shares,
                                                                .stream = stream_}));
  // So receivers learn of the message while we compute.
  return sending_.then([self, step = step_](const Status& status) {
    if (status.ok()) (void)self->announce(step);
  });
}

// Tells the receivers that the message of this step is there, once.
Status PushSum::State::announce(std::uint64_t step) {
  const std::lock_guard lock(announce_mutex_);
  if (announced_ == step) {
    ++announced_;
    announcement_ = sent_.tick(receivers_);
  }
  return announcement_;
}

Status PushSum::State::end_step(std::int64_t patience_ns) {
  if (!is_in_step_) return invalid("no step has begun");
  WEFT_RETURN_IF_ERROR(failed_);
  const Deadline until = deadline(patience_ns);
  if (!now_.out.empty()) WEFT_RETURN_IF_ERROR(note(sending_.wait()));
  WEFT_RETURN_IF_ERROR(note(announce(step_)));
  if (!is_due_counted_ && step_ >= lag_) {
    for (const Peer& peer : view(step_ - lag_).in) ++due_[sent_.place_of(peer.rank)];
  }
  is_due_counted_ = true;
  WEFT_RETURN_IF_ERROR(note(sent_.wait(due_, title_, kSent, until)));
  WEFT_RETURN_IF_ERROR(note(collect()));
  ++step_;
  is_in_step_ = false;
  return {};
}

// The synchronous form leaves the slots alone whose messages belong to later steps.
Status PushSum::State::collect() {
  if (!taken_) return data_.update_then_collect(false, stream_);
  if (now_.in.empty()) return {};
  std::vector<NeighborWeight> sources;
  for (const Peer& peer : now_.in) sources.push_back({peer.rank, 1.0});
  WEFT_RETURN_IF_ERROR(
      data_.update({.self_weight = 1.0, .sources = sources, .reset = true, .stream = stream_}));
  return taken_->tick(ranks_of(now_.in));
}

Status PushSum::State::debias(const Output& z) {
  if (is_in_step_) return invalid("x is in use until the step ends");
  const Output x = data_.tensor();
  WEFT_RETURN_IF_ERROR(check_like(title_, "z", {z.data, z.count, z.type}, "x", x));
  WEFT_ASSIGN(const double w, weight());
  if (!(w > 0)) return invalid(fmt::format("x cannot be divided by the weight {}", w));
  if (x.count == 0) return {};
  const auto staged = [&](const Output& tensor) {
    return Staged::make(tensor.data, tensor.count * size_of(tensor.type),
                        context_.config().deadline_ms);
  };
  WEFT_ASSIGN(Staged from, staged(x));
  WEFT_ASSIGN(Staged to, staged(z));
  WEFT_RETURN_IF_ERROR(from.fetch(stream_));
  const Term term{from.data(), 1.0 / w};
  combine(x.type, Reduction::weighted_sum, {&term, 1}, to.data(), x.count);
  return to.store(stream_);
}

Status PushSum::State::settle() {
  if (is_in_step_) return invalid("a step has begun and not ended");
  WEFT_RETURN_IF_ERROR(context_.win_fence());
  WEFT_RETURN_IF_ERROR(data_.update_then_collect(false, stream_));
  // A rank that goes on before would send into what the others are still to take.
  return context_.barrier();
}

Status PushSum::State::end() {
  WEFT_RETURN_IF_ERROR(context_.win_free(data_.name()));
  WEFT_RETURN_IF_ERROR(sent_.end(context_));
  return taken_ ? taken_->end(context_) : Status();
}

namespace {

Status check_own(const Context& context, const Schedule& schedule, const Output& x,
                 const std::string& title) {
  if (schedule.size() != context.size()) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: the schedule {} has {} ranks, and the context {}", title,
                              schedule.name(), schedule.size(), context.size()));
  }
  return check_model(title, x);
}

}  // namespace

Result<PushSum> PushSum::create(Context& context, const Schedule& schedule, const Output& x,
                                const PushSumOptions& options) {
  const std::string title = fmt::format("push-sum \"{}\"", options.name);
  WEFT_RETURN_IF_ERROR(agree(context, title,
                             {fmt::format("\"{}\"", options.name),
                              fmt::format("schedule {}, lag {}, {} elements of {}", schedule.name(),
                                          options.lag, x.count, name(x.type))},
                             check_own(context, schedule, x, title)));
  return or_free_windows(context, [&]() -> Result<PushSum> {
    const bool is_synchronous = options.lag == 0;
    WEFT_ASSIGN(const Graph graph, window_graph(schedule, is_synchronous));
    if (!(context.graph() == graph)) WEFT_RETURN_IF_ERROR(context.set_graph(graph));
    WEFT_ASSIGN(
        Window data,
        context.win_create(x, options.name,
                           {.zero_init = true, .stream = options.stream, .owner = options.owner}));
    // The clocks are made after it, so that no rank sends before all have switched it on.
    WEFT_RETURN_IF_ERROR(data.set_associated_p(true));
    WEFT_ASSIGN(Clock sent, Clock::create(context, options.name + ".sent"));
    std::optional<Clock> taken;
    if (is_synchronous) {
      WEFT_ASSIGN(Clock made, Clock::create(context, options.name + ".taken"));
      taken.emplace(std::move(made));
    }
    return PushSum(std::make_shared<State>(context, schedule, options, std::move(data),
                                           std::move(sent), std::move(taken)));
  });
}

PushSum::PushSum(std::shared_ptr<State> state) : state_(std::move(state)) {}
PushSum::~PushSum() = default;
PushSum::PushSum(PushSum&&) noexcept = default;
PushSum& PushSum::operator=(PushSum&&) noexcept = default;

Status PushSum::begin_step() {
  return state_->begin(state_);
}
Status PushSum::end_step(std::int64_t patience_ns) {
  return state_->end_step(patience_ns);
}
Status PushSum::step() {
  WEFT_RETURN_IF_ERROR(begin_step());
  return end_step();
}
Status PushSum::debias(const Output& z) {
  return state_->debias(z);
}
Result<double> PushSum::weight() {
  return state_->weight();
}
std::uint64_t PushSum::steps() const {
  return state_->steps();
}
Status PushSum::settle() {
  return state_->settle();
}
Status PushSum::end() {
  return state_->end();
}

}  // namespace weft
