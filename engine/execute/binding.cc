// binding: gives the buffers, slices and edges of a plan the memory and the peers of a call.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "engine/execute/execute.h"

namespace weft {
namespace {

// Sets both numbers in one store. A transport that copies headers word by word then reads the word
// without waiting for two stores (engine/README.md).
void set_numbers(WireHeader& header, std::uint32_t operation, std::uint32_t epoch) {
  static_assert(offsetof(WireHeader, epoch) % 8 == 0 &&
                offsetof(WireHeader, operation) == offsetof(WireHeader, epoch) + sizeof epoch);
  const auto both = std::bit_cast<std::uint64_t>(std::array{epoch, operation});
  std::memcpy(reinterpret_cast<std::byte*>(&header) + offsetof(WireHeader, epoch), &both,
              sizeof both);
}

}  // namespace

Execution::Execution(const ExecutionOptions& options) : options_(options) {
  header_.job = options.job;
  header_.context = options.context;
  for (std::size_t type = 0; type < kDataTypes; ++type) {
    for (std::size_t reduction = 0; reduction < kReductions; ++reduction) {
      const auto t = static_cast<DataType>(type);
      const auto r = static_cast<Reduction>(reduction);
      if (check_reduction(t, r).ok()) functions_[type][reduction] = select_combine(t, r);
    }
  }
}

Execution::~Execution() {
  for (const Offload& offload : offloads_) offload.work->wait();
  scratch_pool().give(scratch_);
  scratch_pool().give(lists_);
}

void Execution::end() {
  state_ = State::done;
  if (use_ != nullptr) learn_way();
  scratch_pool().give(std::exchange(scratch_, {}));
  scratch_pool().give(std::exchange(lists_, {}));
  while (!staged_.empty()) staging().give(drop_staged(staged_.size() - 1));
}

Status Execution::start(const Plan& plan, const Call& call) {
  invariant(state_ != State::running, "an execution runs one operation at a time");
  invariant(call.in.size() == plan.in_degree && call.out.size() == plan.out_degree,
            "peers must match the plan's edges");
  plan_ = &plan;
  call_ = call;
  check_graph_ = options_.check_graph && call.checks_graph;
  element_ = size_of(call.type);
  bind_edges();
  bind_header();
  may_be_fast_ = may_be_fast();
  reads_in_step_ = !may_be_fast_ &&
                   std::ranges::count(plan.steps, Step::Kind::send, &Step::kind) == 1 &&
                   std::ranges::count_if(
                       plan.steps, [this](const Step& step) { return takes_messages(step); }) <= 1;
  if (may_be_fast_) bind_fast_heads();
  imitated_edge_ = may_be_fast_ || options_.ways == nullptr ? kNoEdge : imitated();
  fast_slices_.clear();
  is_bound_ = false;
  return run();
}

Status Execution::start_again(std::uint32_t operation, std::uint32_t epoch, double self_weight) {
  invariant(state_ == State::done, "only what has ended well is run again");
  call_.operation = operation;
  call_.epoch = epoch;
  call_.self_weight = self_weight;
  set_numbers(header_, operation, epoch);
  for (std::size_t edge = 0; may_be_fast_ && edge < fast_heads_.size(); ++edge) {
    set_numbers(fast_heads_[edge], operation, epoch);
    fast_heads_[edge].weight = send_weight(edge);
  }
  for (InEdge& edge : in_) edge.heard = edge.is_there = false;
  for (OutEdge& edge : out_) {
    edge.mark = 0;
    edge.spoken = edge.blocked = false;
  }
  return run();
}

// Starts the bound plan at its first step.
Status Execution::run() {
  status_ = {};
  touched_output_ = has_read_in_place_ = false;
  use_ = nullptr;
  imitated_form_ = PieceForm::payload;
  pc_ = 0;
  combining_ = false;
  sends_.clear();
  cursors_.clear();
  first_unfinished_ = 0;
  credit_posts_ = credit_takes_ = 0;
  result_ = kNoChecksum;
  result_posts_ = result_takes_ = 0;
  is_fast_ = may_be_fast_;
  fast_posts_ = fast_step_ = fast_heard_ = 0;
  if (!is_bound_) WEFT_RETURN_IF_ERROR(bind_buffers());
  state_ = State::running;
  return {};
}

void Execution::bind_edges() {
  in_.resize(call_.in.size());
  out_.resize(call_.out.size());
  for (std::size_t i = 0; i < in_.size(); ++i)
    in_[i] = {call_.in[i]->endpoint, false, false, false, nullptr, 1.0, kNoChecksum};
  for (std::size_t o = 0; o < out_.size(); ++o)
    out_[o] = {call_.out[o]->endpoint, 0, false, false, false};
  prefer_rails();
  for (std::size_t i = 0, o = 0; i < in_.size() && o < out_.size();) {
    const Rank from = call_.in[i]->rank;
    const Rank to = call_.out[o]->rank;
    if (from == to) in_[i].mutual = out_[o].mutual = true;
    i += from <= to ? 1 : 0;
    o += to <= from ? 1 : 0;
  }
}

// Withdraws the rails that the previous operation on this channel preferred, and prefers those of
// this plan, or of the call.
void Execution::prefer_rails() {
  for (Endpoint* endpoint : kept_to_rails_)
    endpoint->prefer_rail(options_.channel, kAnyRail, PreferFrom::start);
  kept_to_rails_.clear();
  if (plan_->rails.empty() && call_.rail == kAnyRail) return;
  for (std::size_t o = 0; o < out_.size(); ++o) {
    const int planned = plan_->rails.empty() ? kAnyRail : plan_->rails[o];
    const int rail = planned == kAnyRail ? call_.rail : planned;
    if (rail == kAnyRail) continue;
    out_[o].endpoint->prefer_rail(options_.channel, rail,
                                  planned == kAnyRail ? PreferFrom::measured : PreferFrom::start);
    kept_to_rails_.push_back(out_[o].endpoint);
  }
}

Status Execution::lacks_memory(std::string_view what, const Status& why) const {
  return Status(why.code(), fmt::format("{} for {}: {}", what, name(call_.collective), why.text()));
}

Status Execution::take_scratch(std::size_t bytes) {
  scratch_data_ = nullptr;
  if (call_.reducer != nullptr) {
    const Result<std::byte*> given = call_.reducer->scratch(bytes);
    if (!given.ok()) return lacks_memory("scratch", given.status());
    scratch_data_ = *given;
  }
  if (scratch_data_ != nullptr) return {};
  const Result<ScratchPool::Block> taken = scratch_pool().take(bytes);
  if (!taken.ok()) return lacks_memory("scratch", taken.status());
  scratch_ = *taken;
  scratch_data_ = scratch_.data;
  return {};
}

// The memory of the lists of all sends whose source is in several runs.
Status Execution::take_lists() {
  listed_ = 0;
  if (call_.input.is_one() && call_.output.is_one()) return {};
  std::size_t runs = 0;
  for (const Step& step : plan_->steps) {
    if (step.kind != Step::Kind::send) continue;
    Bytes source = bytes_of(step.slice);
    if (source.is_one_run()) continue;
    invariant(source.count <= kLargestListed, "one piece names all runs of a message");
    for (; source.count != 0; ++runs) {
      const std::uint64_t bytes = std::min(source.count, source.at.left());
      source.at.advance(bytes);
      source.count -= bytes;
    }
  }
  if (runs == 0) return {};
  const Result<ScratchPool::Block> taken = scratch_pool().take(runs * sizeof(WireRun));
  if (!taken.ok()) return lacks_memory("lists", taken.status());
  lists_ = *taken;
  return {};
}

Status Execution::bind_buffers() {
  if (send_of_step_.size() < plan_->steps.size()) send_of_step_.resize(plan_->steps.size());
  if (!plan_->hazards.empty()) read_marks_.assign(plan_->steps.size() * out_.size(), 0);
  const bool has_scratch = plan_->partition_of(Buffer::scratch).kind != Partition::Kind::none;
  if (has_scratch) {
    const std::size_t count =
        plan_->scratch_of == Buffer::input ? call_.input_count : call_.output_count;
    if (count != 0) {
      WEFT_RETURN_IF_ERROR(take_scratch(count * element_));
      fast_slices_.clear();  // the scratch may be another block in each operation
    }
  }
  WEFT_RETURN_IF_ERROR(take_lists());
  if (!is_fast_) return {};
  if (fast_slices_.empty()) bind_fast_slices();
  is_bound_ = !has_scratch && plan_->hazards.empty();
  return {};
}

Execution::Bytes Execution::bytes_of(const Slice& slice) const {
  Runs base;
  std::size_t elements = 0;
  switch (slice.buffer) {
    case Buffer::input:
      base = call_.input;
      elements = call_.input_count;
      break;
    case Buffer::output:
      base = call_.output;
      elements = call_.output_count;
      break;
    case Buffer::scratch:
      base = scratch_data_;
      elements = plan_->scratch_of == Buffer::input ? call_.input_count : call_.output_count;
      break;
  }
  const Partition& partition = plan_->partition_of(slice.buffer);
  if (partition.kind == Partition::Kind::even && partition.blocks == 1 && slice.last == 1 &&
      slice.first == 0) {
    return {base.at(0), elements * element_};
  }
  const Range range = range_of(slice, elements);
  // While only sizes are asked for, the scratch is not there yet.
  if (range.count == 0 || base.is_null()) return {Cursor(), range.count * element_};
  return {base.at(range.offset * element_), range.count * element_};
}

Range Execution::range_of(const Slice& slice, std::size_t elements) const {
  if (slice.first == slice.last) return {};
  const Partition& partition = plan_->partition_of(slice.buffer);
  Range first, last;
  if (partition.kind == Partition::Kind::given) {
    const Buffer like = slice.buffer == Buffer::scratch ? plan_->scratch_of : slice.buffer;
    const std::span<const Range> given = like == Buffer::input ? call_.given_input : call_.given;
    first = given[slice.first];
    last = given[slice.last - 1];
  } else {
    const std::size_t grain = 64 / element_;
    first = block_range(elements, grain, partition.blocks, slice.first);
    last = block_range(elements, grain, partition.blocks, slice.last - 1);
  }
  return {first.offset, last.offset + last.count - first.offset};
}

void Execution::bind_header() {
  header_.collective = static_cast<std::uint8_t>(call_.collective);
  header_.data_type = static_cast<std::uint8_t>(call_.type);
  header_.agreement = call_.agreement;
  header_.epoch = call_.epoch;
  header_.operation = call_.operation;
  header_.flags = static_cast<std::uint8_t>((options_.checks_pieces ? kFlagChecked : 0) |
                                            (compares() ? kFlagCompared : 0));
}

// The operation's name in error messages. The number of a subset operation means nothing to people.
std::string Execution::label(Collective collective, std::uint32_t operation) {
  if (is_of_some_ranks(collective)) return std::string(name(collective));
  return fmt::format("{} (operation {})", name(collective), operation);
}

void Execution::fail(Status status) {
  // A GPU is done soon, and must not touch what is given back.
  for (const Offload& offload : offloads_) offload.work->wait();
  offloads_.clear();
  status_ = std::move(status);
  state_ = State::failed;
  staged_.clear();  // peers may still read the blocks, so they are not given back
  staged_marks_.clear();
}

}  // namespace weft
