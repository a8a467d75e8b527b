// Weft's own calls and their floor behind one face.
#include "tools/weft/perf/contenders.h"

#include <algorithm>
#include <cmath>

#include "tools/weft/perf/values.h"

namespace weft {
namespace {

// Steps prepared ahead; a schedule with a longer period repeats after this many.
constexpr std::uint64_t kMostSteps = 64;

NeighborWeight as_weight(const Peer& peer) {
  return {peer.rank, peer.weight};
}

}  // namespace

OwnCalls::OwnCalls(const PerfOptions& options, bool dynamic, Context& context,
                   const Tensors& tensors)
    : options_(options),
      context_(context),
      tensors_(tensors),
      x_{tensors.x.data(), tensors.count, options.type},
      y_{options.asked.in_place ? tensors.x.data() : tensors.y.data(), 0, options.type},
      bits_(options.bits),
      op_(is_floating(options.type) ? ReduceOp::average : ReduceOp::sum),
      recipe_(options.recipe_of(context.rank())) {
  y_.count = output_count(recipe_, block_count());
  called_x_ = x_;
  called_y_ = y_;
  if (!dynamic) return;
  const std::uint64_t steps = std::min(options.schedule.period(), kMostSteps);
  for (std::uint64_t step = 0; step < steps; ++step) {
    const Rank own =
        options.is_over_machines() ? options.machine_of(context.rank()) : context.rank();
    steps_.push_back(step_of(options.schedule.local_view(step, own)));
  }
}

OwnCalls::Step OwnCalls::step_of(const LocalView& view) const {
  Step step;
  step.self = view.self_weight;
  // The receiver's side applies the weight; the sender's is 1, so that their product is the view's.
  std::ranges::transform(view.in, std::back_inserter(step.sources), as_weight);
  for (const Peer& peer : view.out) step.destinations.push_back({peer.rank, 1});
  for (const Peer& peer : view.in) step.recipe.sources.push_back({peer.rank, peer.weight});
  step.recipe.sources.push_back({view.rank, view.self_weight});
  step.recipe = options_.in_ranks(std::move(step.recipe));
  return step;
}

std::size_t OwnCalls::block_count() const {
  return tensors_.count / recipe_.blocks;
}

Subject OwnCalls::subject() {
  Subject subject;
  subject.rewrite = [this](std::uint64_t lap) {
    fill(options_.type, tensors_.x.data(), tensors_.count, context_.rank(), lap);
    if (!steps_.empty()) next_step_ = lap % steps_.size();
  };
  subject.run = [this](int times) { return run(times); };
  if (options_.asked.check) subject.check = [this](std::uint64_t lap) { return check(lap); };
  return subject;
}

Result<Subject> OwnCalls::prepared() {
  WEFT_ASSIGN(Prepared operation, context_.prepare(request(nullptr)));
  Subject prepared = subject();
  prepared.run = [operation](int times) mutable -> Status {
    for (int i = 0; i < times; ++i) WEFT_RETURN_IF_ERROR(operation.run());
    return {};
  };
  return prepared;
}

Status OwnCalls::run(int times) {
  for (int i = 0; i < times; ++i) WEFT_RETURN_IF_ERROR(call());
  return {};
}

// Empty if the weights do not change.
NeighborWeights OwnCalls::next_weights() {
  if (steps_.empty()) return {};
  const Step& step = steps_[next_step_];
  next_step_ = (next_step_ + 1) % steps_.size();
  return {step.self, step.sources, step.destinations};
}

namespace {

// The largest divisor that is not above the square root.
std::size_t nearly_square_rows(std::size_t count) {
  auto rows = static_cast<std::size_t>(std::sqrt(static_cast<double>(count)));
  while (rows > 1 && count % rows != 0) --rows;
  return rows;
}

}  // namespace

Request OwnCalls::request(const NeighborWeights* weights) const {
  Request request{.collective = options_.collective,
                  .op = op_,
                  .algorithm = options_.algorithm,
                  .bits = bits_,
                  .compression = options_.compression,
                  .low_rank = {.rows = nearly_square_rows(called_x_.count)},
                  .root = 0,
                  .weights = weights};
  if (options_.collective == Collective::barrier) return request;
  request.input = called_x_;
  request.output = called_y_;
  return request;
}

Status OwnCalls::call() {
  if (steps_.empty()) return context_.run(request(nullptr));
  const NeighborWeights weights = next_weights();
  return context_.run(request(&weights));
}

Status OwnCalls::check(std::uint64_t lap) const {
  const Recipe& wanted = steps_.empty() ? recipe_ : steps_[lap % steps_.size()].recipe;
  return compare(options_.type, y_.data, block_count(), wanted, context_.rank(), lap);
}

FloorCalls::FloorCalls(const PerfOptions& options, bool streaming, Seat& seat,
                       const Tensors& tensors)
    : options_(options),
      tensors_(tensors),
      rank_(seat.rank()),
      streaming_(streaming),
      recipe_(options.recipe_of(seat.rank())),
      floor_({options.collective, options.type, tensors.count, seat.rank()}, recipe_,
             {seat.boards(), tensors.inputs.sights(), tensors.outputs.sights()}, seat.meeting()) {}

Subject FloorCalls::subject() {
  Subject subject;
  subject.rewrite = [this](std::uint64_t lap) {
    fill(options_.type, tensors_.x.data(), tensors_.count, rank_, lap);
  };
  subject.run = [this](int times) { return floor_.run(times, streaming_); };
  // A floor that computes something else would be no limit.
  if (options_.asked.check) {
    subject.check = [this](std::uint64_t lap) {
      return compare(options_.type, tensors_.y.data(), tensors_.count, recipe_, rank_, lap);
    };
  }
  return subject;
}

Result<std::unique_ptr<PeerJob>> open_peer(const PerfOptions& options) {
  const PerfArguments& asked = options.asked;
  if (asked.against.empty()) return std::unique_ptr<PeerJob>();
  const std::size_t most = std::max<std::size_t>(std::ranges::max(options.sizes), sizeof(float));
  return PeerJob::start({asked.against, asked.graph, asked.ranks, most, is_bound_to_core()});
}

}  // namespace weft
