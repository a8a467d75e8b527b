// all_works: see the header.
#include "engine/named/all_works.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft::named {
namespace {

// What every rank gives as the size of the tensor; 0 where sizes may differ.
std::size_t common_count(const Request& request) {
  switch (request.collective) {
    case Collective::broadcast:
    case Collective::allgather:
      return request.output.count;
    case Collective::gather:
    case Collective::scatter:
      return 0;
    case Collective::alltoall:
      return request.counts.empty() ? request.input.count : 0;
    default:
      return request.input.count;
  }
}

DataType type_of(const Request& request) {
  return request.collective == Collective::broadcast ? request.output.type : request.input.type;
}

// Whether several tensors may travel as one.
bool is_fusable(const NamedRequest& request) {
  if (request.algorithm == AllreduceAlgorithm::nccl) return false;  // what is packed is on the host
  if (request.compression == Compression::low_rank) return false;   // two matrices are none
  // What is lost of a tensor depends on those that are encoded with it.
  if (request.compression != Compression::none && request.bits == Bits::fixed) return false;
  switch (request.collective) {
    case Collective::allreduce:
    case Collective::local_allreduce:
    case Collective::broadcast:
      return true;
    case Collective::hierarchical_neighbor_allreduce:
      return request.weights != NamedWeights::several;
    default:
      return false;
  }
}

// Of a matrix of low rank the rows and columns: a rank that has joined needs them.
std::vector<std::size_t> shape_in_common(const Request& request) {
  const std::size_t rows = Encoding(request).low_rank.rows;
  return rows == 0 ? common_shape(request)
                   : std::vector<std::size_t>{rows, request.input.count / rows};
}

// Of parts that all ranks must give alike; 0: they are all of one size, which the size of the tensor tells.
std::uint64_t digest_of_parts(const Request& request) {
  const bool are_common = request.collective == Collective::allgather ||
                          request.collective == Collective::reduce_scatter;
  const std::span<const std::size_t> counts = request.counts;
  const bool is_even = std::ranges::adjacent_find(counts, std::not_equal_to<>()) == counts.end();
  if (!are_common || is_even) return 0;
  return fnv1a64({reinterpret_cast<const char*>(counts.data()), counts.size_bytes()}) | 1;
}

// `origin` tells requests from each other whose weights may differ. Those of one request agree on
// every rank.
std::uint64_t key_of(const NamedRequest& request, DataType type, std::size_t origin) {
  const bool is_weighted = request.weights == NamedWeights::one;
  std::uint64_t key = static_cast<std::uint64_t>(request.collective);
  key = key << 7 | static_cast<std::uint64_t>(request.op);
  key = key << 1 | static_cast<std::uint64_t>(request.bits);
  key = key << 4 | static_cast<std::uint64_t>(request.algorithm);
  key = key << 4 | static_cast<std::uint64_t>(request.compression);
  key = key << 7 | static_cast<std::uint64_t>(type);
  key = key << 1 | static_cast<std::uint64_t>(is_weighted);
  return key << 32 | (is_weighted ? origin : static_cast<std::uint64_t>(request.root + 1));
}

bool are_equal(const NeighborWeights* a, const NeighborWeights* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr) return false;
  const auto same = [](const auto& one, const auto& other) {
    if (one.has_value() != other.has_value()) return false;
    return !one || std::ranges::equal(*one, *other, [](const auto& x, const auto& y) {
      return x.rank == y.rank && x.weight == y.weight;
    });
  };
  return a->self == b->self && a->push_sum == b->push_sum && same(a->sources, b->sources) &&
         same(a->destinations, b->destinations);
}

NamedWeights weights_of(const Work& work) {
  const NeighborWeights* const first = work.request().weights;
  const bool are_one = std::ranges::all_of(
      work.requests, [&](const auto& each) { return are_equal(each.weights, first); });
  if (!are_one) return NamedWeights::several;
  return first == nullptr || first->names_none() ? NamedWeights::none : NamedWeights::one;
}

NegotiateOptions negotiate_options(const NamedHost& host, const NamedOptions& options) {
  constexpr std::int64_t kNsPerMs = 1'000'000;
  NegotiateOptions made;
  made.rank = host.rank();
  made.size = host.size();
  made.cache_capacity = options.cache_capacity;
  made.gather_ns = std::max<std::int64_t>(options.gather_us, 0) * 1000;
  // In time for the error at the deadline.
  made.stall_ns = std::min(options.stall_ms, host.deadline_ms() / 2) * kNsPerMs;
  return made;
}

// Of the tensor with this place; null: it has none.
ResidualUse* residual_of(Work* work, std::size_t tensor) {
  if (work == nullptr || work->residuals.empty()) return nullptr;
  ResidualUse& use = work->residuals[tensor];
  return use.values().empty() ? nullptr : &use;
}

}  // namespace

NamedRequest named_request_of(const Work& work) {
  const Request& first = work.request();
  NamedRequest request;
  request.name = work.name;
  request.collective = first.collective;
  request.op = first.op;
  request.algorithm = first.algorithm;
  request.bits = first.bits;
  request.compression = first.compression;
  if (first.compression == Compression::low_rank) request.low_rank = first.low_rank.rank;
  request.root = first.root;
  request.weights = weights_of(work);
  request.priority = work.priority;
  if (first.collective == Collective::barrier) return request;
  request.tensors.reserve(work.requests.size());
  for (const Request& each : work.requests)
    request.tensors.push_back(
        {type_of(each), common_count(each), shape_in_common(each), digest_of_parts(each)});
  return request;
}

AllWorks::AllWorks(NamedHost& host, const NamedOptions& options, Buffers& buffers,
                   Timeline& timeline, End end)
    : host_(host),
      tuning_(host, options),
      buffers_(buffers),
      timeline_(timeline),
      end_(std::move(end)),
      negotiator_(negotiate_options(host, options)) {}

Status AllWorks::submit(const std::shared_ptr<Work>& work, std::int64_t now) {
  WEFT_RETURN_IF_ERROR(negotiator_.submit(named_request_of(*work), now));
  work->left = work->requests.size();
  works_.emplace(work->name, work);
  return {};
}

Status AllWorks::join(const std::shared_ptr<Work>& work, std::int64_t now) {
  WEFT_RETURN_IF_ERROR(negotiator_.join(now));
  join_ = work;
  heard_ns_ = now;
  return {};
}

std::shared_ptr<Work> AllWorks::work_of(const std::string& name) const {
  const auto found = works_.find(name);
  return found == works_.end() ? nullptr : found->second;
}

Status AllWorks::receive(Rank from, std::span<const std::byte> message, std::int64_t now) {
  negotiator_.receive(from, message, now);
  return negotiator_.failure();
}

bool AllWorks::is_idle() const {
  return works_.empty() && join_ == nullptr && !negotiator_.is_busy() && running_.empty();
}

std::int64_t AllWorks::oldest_ns() const {
  std::int64_t oldest = std::numeric_limits<std::int64_t>::max();
  for (const auto& [name, work] : works_) {
    if (!work->is_running) oldest = std::min(oldest, work->submitted_ns);
  }
  return join_ == nullptr ? oldest : std::min(oldest, heard_ns_);
}

std::string AllWorks::waiting() const {
  if (!stall_.empty()) return stall_;
  return works_.empty() ? "not all ranks have joined, and none has run an operation since"
                        : "not all ranks have submitted an operation";
}

void AllWorks::recall(FlightText& to) const {
  for (const auto& [name, work] : works_)
    to.named(name, work->request().collective, work->submitted_ns, work->is_running);
  if (!stall_.empty()) to.lacking(stall_);
}

Departure AllWorks::find_departure() const {
  const std::vector<Rank> awaited = negotiator_.awaited();
  const auto found =
      std::ranges::find_if(awaited, [this](Rank rank) { return host_.has_left(rank); });
  if (found == awaited.end()) return {};
  // Rank 0 hears of the others first, and leaves because one of them has left.
  Rank left = *found;
  for (Rank rank = 1; left == 0 && rank < host_.size(); ++rank)
    if (rank != host_.rank() && host_.has_left(rank)) left = rank;
  const Work* oldest = nullptr;
  for (const auto& [name, work] : works_) {
    const bool is_older = oldest == nullptr || work->number < oldest->number;
    if (!work->is_running && is_older) oldest = work.get();
  }
  if (oldest != nullptr) return {left, oldest->name};
  return {left, join_ != nullptr ? "join" : "a name that other ranks have submitted"};
}

// While operations run, what is new may as well wait for more, and be fused with it.
void AllWorks::adapt_wait() {
  constexpr std::int64_t kBusyNs = 200'000;
  const std::int64_t given_us = tuning_.gather_us();
  negotiator_.set_gather_ns(given_us >= 0 ? given_us * 1000 : running_.empty() ? 0 : kBusyNs);
}

bool AllWorks::advance(std::int64_t now) {
  adapt_wait();
  negotiator_.step(now);
  send_messages();
  bool moved = false;
  if (!host_.holds_back()) {
    for (Negotiator::Cycle& cycle : negotiator_.take_decisions()) {
      moved = true;
      if (cycle.told != 0) tuning_.follow(cycle.told);
      decide(std::move(cycle.decisions), now);
    }
  }
  for (std::size_t i = 0; i < running_.size();) {
    if (!running_[i].operation->done.load(std::memory_order_acquire)) {
      ++i;
      continue;
    }
    moved = true;
    Batch ended = std::move(running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    finish(ended);
  }
  return moved;
}

void AllWorks::send_messages() {
  for (ControlMessage& message : negotiator_.take_messages())
    host_.send(message.to, Letter::of_all, message.bytes);
}

void AllWorks::decide(std::vector<Decision> decisions, std::int64_t now) {
  if (const std::uint64_t told = tuning_.note(decisions, now); told != 0)
    negotiator_.tell_all(told);
  auto decided = std::make_shared<std::vector<Decided>>();
  for (Decision& decision : decisions) {
    std::shared_ptr<Work> work = work_of(decision.request.name);
    switch (decision.kind) {
      case Decision::Kind::run:
        if (work != nullptr) work->is_running = true;
        heard_ns_ = now;
        if (decision.request.tensors.empty()) decision.request.tensors.emplace_back();
        decided->push_back({std::move(work), std::move(decision.request)});
        break;
      case Decision::Kind::fail:
        if (work != nullptr) {
          works_.erase(work->name);
          end_(*work, decision.status);
        }
        break;
      case Decision::Kind::all_joined:
        joined_ = decision.rank;
        if (const std::shared_ptr<Work> join = std::exchange(join_, nullptr)) end_(*join, {});
        break;
      case Decision::Kind::stalled:
        stall_ = decision.status.text();
        if (host_.rank() == 0)  // all ranks know the same
          log(LogLevel::warning, fmt::format("operations by name wait: {}", stall_));
        break;
    }
  }
  if (!decided->empty()) run(decided);
}

void AllWorks::run(const AllDecided& decided) {
  std::vector<Run> runs;
  std::vector<FuseItem> items;
  std::size_t tensors = 0;
  for (const Decided& each : *decided) tensors += each.request.tensors.size();
  runs.reserve(tensors);
  items.reserve(tensors);
  for (const Decided& each : *decided) {
    const NamedRequest& request = each.request;
    const bool is_alone = !is_fusable(request);
    const std::size_t first = runs.size();
    for (const NamedTensor& tensor : request.tensors) {
      items.push_back(
          {key_of(request, tensor.type, first), tensor.count * size_of(tensor.type), is_alone});
      runs.push_back({&each, runs.size() - first});
    }
  }
  std::vector<FuseBatch> all = plan_batches(items, tuning_.limits());
  std::size_t bytes = 0;
  for (const FuseBatch& planned : all) bytes += planned.bytes;
  for (FuseBatch& planned : all) {
    Batch batch;
    batch.decided = decided;
    if (bytes != 0) batch.share = static_cast<double>(planned.bytes) / static_cast<double>(bytes);
    batch.parts = std::move(planned.parts);
    batch.runs.reserve(batch.parts.size());
    for (const FusePart& part : batch.parts) batch.runs.push_back(runs[part.item]);
    batches_.add(batch.runs.size());
    for (const Run& each : batch.runs)
      if (each.tensor == 0 && each.work() != nullptr)
        timeline_.runs(*each.work(), batch.runs.size());
    // The other ranks refuse the same batches. They do not know of an error of this rank alone.
    if (const Status refused = check(batch, planned.bytes); !refused.ok()) {
      end_all(batch, refused);
      continue;
    }
    if (const Status status = begin(batch, planned.bytes); !status.ok()) return host_.fail(status);
    running_.push_back(std::move(batch));
  }
}

// WEFT_ALLREDUCE may choose for a batch what it does not choose for its tensors.
Status AllWorks::check(const Batch& batch, std::size_t bytes) {
  const NamedRequest& common = batch.runs.front().of->request;
  if (common.collective != Collective::allreduce || common.compression != Compression::none)
    return {};
  return host_.check_choice(common.algorithm, common.bits, bytes);
}

Status AllWorks::begin(Batch& batch, std::size_t bytes) {
  const Run& run = batch.runs.front();
  if (batch.runs.size() > 1 || run.work() == nullptr) return begin_set(batch, bytes);
  return begin_alone(batch, run.request());
}

// A large tensor may be GPU memory. What is fused never is, so ranks do not vote on it.
Status AllWorks::begin_alone(Batch& batch, const Request& given) {
  Request request = given;
  request.needs_all = false;  // every operation by name needs all, so ranks need not say the same
  WEFT_RETURN_IF_ERROR(lend_residuals(batch, request));
  WEFT_ASSIGN(batch.operation, host_.begin(request, {.piece_bytes = tuning_.piece_bytes(),
                                                     .share = batch.share,
                                                     .by_nccl = true}));
  return {};
}

// Of a broadcast the ranks but the root give nothing, and the result takes the place of what is given.
// Encoders and networks need memory in one piece.
Status AllWorks::begin_set(Batch& batch, std::size_t bytes) {
  const Run& first = batch.runs.front();
  const NamedRequest& common = first.of->request;
  const bool is_broadcast = common.collective == Collective::broadcast;
  const bool is_alone =
      batch.runs.size() == 1;  // the rank has joined: all is as on the other ranks
  std::vector<FusedTensor> tensors;
  tensors.reserve(batch.runs.size());
  for (std::size_t i = 0; i < batch.runs.size(); ++i) {
    const Run& run = batch.runs[i];
    FusedTensor& tensor = tensors.emplace_back();
    tensor.offset = batch.parts[i].offset;
    tensor.bytes = run.shape().count * size_of(run.shape().type);
    if (run.work() == nullptr) continue;
    tensor.input = run.request().input.data;
    tensor.output = run.request().output.data;
  }
  const bool reads_in_place = host_.is_one_machine() && common.compression == Compression::none;
  const FusedSet::Kind kind = is_broadcast     ? FusedSet::Kind::overwriting
                              : reads_in_place ? FusedSet::Kind::in_place
                                               : FusedSet::Kind::packed;
  WEFT_ASSIGN(batch.set, FusedSet::make(kind, std::move(tensors), bytes, buffers_));
  if (!is_broadcast || common.root == host_.rank()) batch.set->pack();
  const std::size_t count = is_alone ? first.shape().count : bytes / size_of(first.shape().type);
  Request request;
  request.collective = common.collective;
  request.op = common.op;
  request.algorithm = common.algorithm;
  request.bits = common.bits;
  request.compression = common.compression;
  request.low_rank.rank = common.low_rank;
  request.root = common.root;
  if (is_alone) request.shape = first.shape().shape;
  if (first.work() != nullptr) request.weights = first.request().weights;
  request.input = in(batch.set->input_buffer(), count, first.shape().type);
  request.output = out(batch.set->output_buffer(), count, first.shape().type);
  WEFT_RETURN_IF_ERROR(lend_residuals(batch, request));
  WEFT_ASSIGN(batch.operation, host_.begin(request, {.piece_bytes = tuning_.piece_bytes(),
                                                     .share = batch.share,
                                                     .by_nccl = is_alone,
                                                     .input = batch.set->input(),
                                                     .output = batch.set->output()}));
  return {};
}

// The residuals of the tensors become one, as the tensors do.
Status AllWorks::lend_residuals(Batch& batch, Request& request) {
  request.feedback = nullptr;
  const bool has_any = std::ranges::any_of(
      batch.runs, [](const Run& run) { return residual_of(run.work(), run.tensor) != nullptr; });
  if (!has_any) return {};
  request.feedback = &batch.feedback.emplace();
  batch.count = request.input.count;
  return exchange_residuals(batch, [](ResidualUse& own, std::span<float> its) {
    std::ranges::copy(own.values(), its.begin());
  });
}

Status AllWorks::give_back_residuals(Batch& batch) {
  if (!batch.feedback) return {};
  return exchange_residuals(batch, [](ResidualUse& own, std::span<float> its) {
    std::ranges::copy(its, own.values().begin());
  });
}

// Calls exchange(a tensor's residual, its part of the batch's); swaps them where there is one tensor.
template <typename Exchange>
Status AllWorks::exchange_residuals(Batch& batch, Exchange exchange) {
  WEFT_ASSIGN(ResidualUse all, ResidualUse::begin(&*batch.feedback, "batch", batch.count));
  for (std::size_t i = 0; i < batch.runs.size(); ++i) {
    ResidualUse* const own = residual_of(batch.runs[i].work(), batch.runs[i].tensor);
    if (own == nullptr) continue;
    const std::size_t offset = batch.parts[i].offset / sizeof(float);
    batch.runs.size() == 1 ? all.swap(*own)
                           : exchange(*own, all.values().subspan(offset, own->values().size()));
  }
  return {};
}

// Ends the works.
void AllWorks::finish(Batch& batch) {
  Status status = batch.operation->status;
  if (status.ok()) status = give_back_residuals(batch);
  if (status.ok() && batch.set) {  // after an error peers may still read it
    batch.set->unpack();
    batch.set->give_back(buffers_);
  }
  end_all(batch, status);
}

void AllWorks::end_all(const Batch& batch, const Status& status) {
  for (const Run& run : batch.runs)
    if (run.work() != nullptr) end_one(run.of->work, status);
}

void AllWorks::end_one(const std::shared_ptr<Work>& work, const Status& status) {
  if (work->status.ok()) work->status = status;
  if (--work->left != 0) return;
  works_.erase(work->name);
  end_(*work, work->status);
}

void AllWorks::abandon(const Status& why) {
  for (const auto& [name, work] : std::exchange(works_, {})) end_(*work, why);
  running_.clear();
  if (const std::shared_ptr<Work> join = std::exchange(join_, nullptr)) end_(*join, why);
}

void AllWorks::add_to(Named::Usage& usage) const {
  const Negotiator::Counts& counts = negotiator_.counts();
  usage.cycles = counts.cycles;
  usage.control_bytes += counts.bytes;
  usage.control_messages += counts.messages;
  usage.coordinator_messages = counts.coordinator_messages;
  usage.cache_hits = counts.hits;
  batches_.add_to(usage);
  tuning_.add_to(usage);
  usage.pending += works_.size();
}

}  // namespace weft::named
