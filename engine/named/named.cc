// named: from the calls of any thread to the lane, and the lane's turns.
#include "engine/named/named.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace weft {
namespace {

using named::Edges;
using named::Letter;
using named::Work;

constexpr std::int64_t kNsPerMs = 1'000'000;
// How often deadlines are looked at.
constexpr std::int64_t kLookNs = 50 * kNsPerMs;
// How often a needed rank must be found gone, 1 ms apart, before that is the error.
constexpr int kLooksAtDeparture = 16;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

Status invalid(std::string text) {
  return Status(Code::invalid_argument, std::move(text));
}

}  // namespace

NamedObject::NamedObject(const NamedOptions& options, std::unique_ptr<NamedHost> host,
                         const named::GraphOfCalls& graph)
    : options_(options),
      host_(std::move(host)),
      lane_(host_->shared_lane()),
      timeline_(host_->trace()),
      all_(*host_, options_, buffers_, timeline_,
           [this](Work& work, const Status& status) { end(work, status); }),
      neighbors_(*host_, options_, buffers_, timeline_,
                 [this](Work& work, const Status& status) { end(work, status); }),
      reader_([this](Rank from, Mail::Message message) { read(from, message); }),
      stall_clock_(options_.stall_ms * kNsPerMs),
      graph_(std::make_shared<const named::GraphOfCalls>(graph)) {
  MetricRegistry::of_process().add(this);
}

NamedObject::~NamedObject() {
  MetricRegistry::of_process().remove(this);
  host_->close();
}

Status NamedObject::check(std::string_view name, std::span<const Request> requests) const {
  if (requests.empty()) return invalid(fmt::format("{}: a group needs an operation", name));
  for (const Request& each : requests) {
    if (const Status known = check_known(each); !known.ok())
      return invalid(fmt::format("{}: {}", name, known.text()));
    if (requests.size() > 1 && named::is_of_neighbors(each.collective))
      return invalid(fmt::format("{}: only operations of all ranks can be a group", name));
    if (each.shape.size() > kMostDimensions)
      return invalid(fmt::format("{}: a shape of {} extents is longer than {}", name,
                                 each.shape.size(), kMostDimensions));
    const Request& first = requests.front();
    if (each.collective != first.collective || each.op != first.op || each.root != first.root ||
        each.algorithm != first.algorithm || each.bits != first.bits ||
        each.compression != first.compression || each.low_rank.rank != first.low_rank.rank)
      return invalid(fmt::format("{}: the operations of a group must be of one kind", name));
  }
  return {};
}

Result<Handle> NamedObject::submit(std::string_view name, std::span<const Request> requests,
                                   int priority) {
  if (name.empty()) return invalid("an operation by name needs a name");
  if (name.size() > kMostNameBytes)
    return invalid(
        fmt::format("a name of {} bytes is longer than {}", name.size(), kMostNameBytes));
  if (name.find('\0') != std::string_view::npos)
    return invalid(fmt::format("the name \"{}\" has a NUL after these bytes", name.data()));
  WEFT_RETURN_IF_ERROR(check(name, requests));
  std::vector<Request> placed;
  auto work = std::make_shared<Work>();
  std::shared_ptr<GpuOperands> operands;
  if (requests.front().stream || may_have_gpu_memory()) {
    placed.assign(requests.begin(), requests.end());
    WEFT_ASSIGN(operands, operands_of(placed, *work));
    requests = placed;
  }
  work->name = name;
  work->priority = priority;
  for (const Request& each : requests) WEFT_RETURN_IF_ERROR(host_->check(each));
  work->requests.assign(requests, host_->bits());
  if (named::is_of_neighbors(work->request().collective)) {
    std::shared_ptr<const named::GraphOfCalls> graph;
    {
      const std::lock_guard lock(mutex_);
      graph = graph_;
    }
    WEFT_ASSIGN(work->edges, named::edges_of(work->request(), *graph, host_->rank()));
    WEFT_RETURN_IF_ERROR(named::check_parts(work->request(), *work->edges));
    if (work->request().compression != Compression::none) WEFT_RETURN_IF_ERROR(encode(*work));
  } else {
    for (const Request& each : requests) {
      if (each.feedback == nullptr) continue;
      work->residuals.resize(requests.size());
      const auto place = static_cast<std::size_t>(&each - requests.data());
      WEFT_ASSIGN(work->residuals[place],
                  ResidualUse::begin(each.feedback, name, each.input.count));
    }
  }
  return hand_over(work, std::move(operands));
}

Status NamedObject::encode(Work& work) {
  const Request& request = work.request();
  const std::span<const float> x(static_cast<const float*>(request.input.data),
                                 request.input.count);
  WEFT_ASSIGN(const ResidualUse residual,
              ResidualUse::begin(request.feedback, work.name, x.size()));
  const Encoding encoding(request);
  WEFT_ASSIGN(work.encoded, encodings_.encode(encoding, x, residual.values()));
  work.encoded_bytes = encoded_bytes(encoding, x.size());
  return {};
}

// Small tensors are packed on the host, and so get blocks. Large ones travel alone: with operations of
// all ranks from where they are, and to neighbors as device aliases if those read them.
Result<std::shared_ptr<GpuOperands>> NamedObject::operands_of(std::span<Request> requests,
                                                              Work& work) const {
  GpuOperandOptions options = host_->gpu_options();
  options.holds = HoldsStream::no;
  options.least = std::max<std::size_t>(options.least, named::most_fused_tensor(options_)) + 1;
  if (requests.front().algorithm == AllreduceAlgorithm::nccl) options.least = 0;
  WEFT_ASSIGN(std::shared_ptr<GpuOperands> operands,
              find_gpu_operands(requests, host_->rank(), options, host_->bell()));
  if (operands == nullptr) return operands;
  if (requests.front().compression != Compression::none) {
    return Status(Code::unavailable,
                  fmt::format("{}: compression takes memory of the host, not of a GPU", work.name));
  }
  WEFT_RETURN_IF_ERROR(operands->follow());
  if (named::is_of_neighbors(requests.front().collective) && !operands->is_small()) {
    work.to_place = operands;
  } else {
    WEFT_RETURN_IF_ERROR(operands->leave(requests));
  }
  return operands;
}

Result<Handle> NamedObject::hand_over(const std::shared_ptr<Work>& work,
                                      std::shared_ptr<DeviceOperands> operands) {
  work->operation = Lane::new_operation(lane_);
  work->operation->operands = std::move(operands);
  work->submitted_ns = now_ns();
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return failure_;
    if (is_ended_) return Status(Code::invalid_argument, "this Named has ended");
    if (!work->name.empty() && !in_use_.insert(work->name).second)
      return invalid(fmt::format("{}: an operation of this name is pending", work->name));
    work->number = static_cast<std::uint32_t>(++submissions_);
    is_first = submitted_.empty();
    submitted_.push_back(work);
    has_submitted_.store(true, std::memory_order_release);
  }
  // Whoever submitted the first one has woken the lane, which has not taken them yet.
  if (is_first) lane_->interface().wake();
  return Handle(work->operation);
}

// A join is a work without a name.
Result<Rank> NamedObject::join() {
  auto work = std::make_shared<Work>();
  WEFT_ASSIGN(Handle handle, hand_over(work));
  WEFT_RETURN_IF_ERROR(handle.wait());
  const Lane::Hold hold(*lane_);
  return all_.joined();
}

Status NamedObject::set_graph(const Graph& graph, bool weighted) {
  if (graph.size() != host_->size()) {
    return invalid(fmt::format("set_graph: {} has {} ranks, the job has {}", graph.name(),
                               graph.size(), host_->size()));
  }
  const std::lock_guard lock(mutex_);
  graph_ = std::make_shared<const named::GraphOfCalls>(graph, weighted);
  return {};
}

Named::Usage NamedObject::usage() {
  Named::Usage usage;
  const Lane::Hold hold(*lane_);
  all_.add_to(usage);
  neighbors_.add_to(usage);
  usage.fusion_buffer_bytes = buffers_.bytes();
  const std::lock_guard lock(mutex_);
  usage.submitted = submissions_;
  usage.pending += submitted_.size();
  return usage;
}

void NamedObject::collect(Metrics& to) {
  const std::string labels = host_->metric_labels();
  const Named::Usage found = usage();
  to.counter("weft_named_submitted_total", "Names submitted.", labels, found.submitted);
  to.counter("weft_named_cycles_total", "Agreements between all ranks.", labels, found.cycles);
  to.counter("weft_named_control_bytes_total", "Bytes sent to agree.", labels, found.control_bytes);
  to.counter("weft_named_coordinator_messages_total",
             "Messages for names that are not in the response cache.", labels,
             found.coordinator_messages);
  to.counter("weft_named_cache_hits_total", "Names found in the response cache.", labels,
             found.cache_hits);
  to.gauge("weft_named_pending", "Names that have not ended.", labels, found.pending);
  to.gauge("weft_named_fusion_buffer_bytes", "Memory of fused tensors.", labels,
           found.fusion_buffer_bytes);
  std::vector<std::uint64_t> bounds;
  for (std::size_t bin = 0; bin + 1 < found.batches_by_names.size(); ++bin)
    bounds.push_back((std::uint64_t{2} << bin) - 1);
  to.histogram("weft_named_batch_names", "Names that ran together, by operation.", labels, bounds,
               found.batches_by_names, found.fused + found.batches_by_names.front());
}

void NamedObject::recall_pending(FlightText& to) {
  all_.recall(to);
  neighbors_.recall(to);
  const std::lock_guard lock(mutex_);
  for (const auto& work : submitted_)
    if (!work->name.empty())
      to.named(work->name, work->request().collective, work->submitted_ns, false);
}

Status NamedObject::end() {
  {
    const std::lock_guard lock(mutex_);
    if (is_ended_) return {};
    if (!in_use_.empty())
      return invalid(fmt::format("end: {} is pending; wait for it first", *in_use_.begin()));
    is_ended_ = true;
  }
  return host_->leave();
}

bool NamedObject::take_submissions(std::int64_t now) {
  if (!has_submitted_.load(std::memory_order_acquire)) return false;
  std::vector<std::shared_ptr<Work>> works;
  {
    const std::lock_guard lock(mutex_);
    works.swap(submitted_);
    has_submitted_.store(false, std::memory_order_relaxed);
  }
  for (const std::shared_ptr<Work>& work : works) {
    timeline_.taken(*work);
    if (const Status status = place(*work); status.ok()) {
      take(work, now);
    } else {
      end(*work, status);
    }
  }
  return !works.empty();
}

// Chooses what is in the place of GPU memory, for which the peers have to be known.
Status NamedObject::place(Work& work) const {
  const std::shared_ptr<GpuOperands> operands = std::exchange(work.to_place, nullptr);
  if (operands == nullptr) return {};
  std::vector<PeerConnection*> in, out;
  const auto add = [&](std::span<const NeighborWeight> edges, std::vector<PeerConnection*>& to) {
    for (const NeighborWeight& edge : edges)
      if (PeerConnection* const near = host_->shared_with(edge.rank)) to.push_back(near);
  };
  add(work.edges->sources, in);
  add(work.edges->destinations, out);
  Request placed = work.request();
  WEFT_RETURN_IF_ERROR(operands->place({&placed, 1}, in, out));
  WEFT_RETURN_IF_ERROR(operands->bring());
  work.requests.put(placed.input.data, placed.output.data);
  work.input_on_gpu = operands->input_on_gpu();
  return {};
}

void NamedObject::take(const std::shared_ptr<Work>& work, std::int64_t now) {
  if (work->operation->operands == nullptr) {
    begin(work, now);
  } else {
    waiting_.push_back(work);
  }
}

// Begins the operations whose input has come from a GPU.
bool NamedObject::begin_waiting(std::int64_t now) {
  const auto ready = std::ranges::stable_partition(
      waiting_, [](const auto& work) { return !work->operation->operands->has_input(); });
  const std::vector<std::shared_ptr<Work>> works(ready.begin(), ready.end());
  waiting_.erase(ready.begin(), ready.end());
  for (const std::shared_ptr<Work>& work : works) {
    const Status status = work->operation->operands->input_status();
    if (status.ok()) {
      begin(work, now);
    } else {
      end(*work, status);
    }
  }
  return !works.empty();
}

void NamedObject::begin(const std::shared_ptr<Work>& work, std::int64_t now) {
  Status status;
  if (work->name.empty()) {
    status = all_.join(work, now);
  } else if (work->edges) {
    status = neighbors_.submit(work, now);
  } else {
    status = all_.submit(work, now);
  }
  if (!status.ok()) end(*work, status);
}

void NamedObject::end(Work& work, const Status& status) {
  if (!work.name.empty()) {
    const std::lock_guard lock(mutex_);
    in_use_.erase(work.name);
  }
  work.residuals.clear();
  // After an error peers may still read it.
  if (work.encoded_bytes != 0 && status.ok()) encodings_.give(std::move(work.encoded));
  timeline_.ended(work, status);
  lane_->end(work.operation, status);
}

void NamedObject::read(Rank from, std::span<const std::byte> message) {
  const auto letter = static_cast<Letter>(message.front());
  const auto body = message.subspan(1);
  Status status;
  switch (letter) {
    case Letter::of_all:
      status = all_.receive(from, body, now_ns_);
      break;
    case Letter::of_neighbors:
      status = neighbors_.receive(from, body, now_ns_);
      break;
    case Letter::lent:
      status = neighbors_.receive_lent(from, body);
      break;
    case Letter::returned:
      status = neighbors_.receive_returned(from, body);
      break;
    default:
      status = Status(Code::mismatch,
                      fmt::format("rank {} sent a control message of no known kind", from), from);
  }
  if (!status.ok()) host_->fail(status);
}

bool NamedObject::advance() {
  if (!failure_.ok()) return false;  // what still comes is for operations that have ended
  now_ns_ = now_ns();
  is_in_turn_ = true;
  const bool moved = take_turn();
  is_in_turn_ = false;
  if (!failure_.ok()) end_all();
  return moved;
}

bool NamedObject::take_turn() {
  bool moved = take_submissions(now_ns_);
  if (!waiting_.empty()) moved |= begin_waiting(now_ns_);
  moved |= host_->advance_mail(reader_);
  moved |= all_.advance(now_ns_);
  moved |= neighbors_.advance(now_ns_);
  if (now_ns_ >= next_look_ns_) check_liveness();
  return moved;
}

bool NamedObject::is_idle() const {
  if (!failure_.ok()) return true;
  return all_.is_idle() && neighbors_.is_idle() && waiting_.empty() &&
         !has_submitted_.load(std::memory_order_acquire);
}

std::int64_t NamedObject::next_ns() const {
  if (!failure_.ok()) return kNever;
  const std::int64_t next = std::min(all_.next_ns(), neighbors_.next_ns());
  return is_idle() ? next : std::min(next, next_look_ns_);
}

void NamedObject::check_liveness() {
  next_look_ns_ = now_ns_ + kLookNs;
  if (check_departures()) return;
  tell_stall();
  check_deadline();
}

// Ends the context if a rank has left that this one needs. Returns whether it does. The last messages
// of that rank, or of a third one because of which it left, have some turns to arrive.
bool NamedObject::check_departures() {
  named::Departure found = all_.find_departure();
  if (found.rank == kNoRank) found = neighbors_.find_departure();
  if (found.rank == kNoRank) {
    departures_ = 0;
    return false;
  }
  next_look_ns_ = now_ns_ + kNsPerMs;
  if (++departures_ < kLooksAtDeparture) return false;
  host_->fail(Status(Code::peer_left,
                     fmt::format("{}: rank {} closed its context while this rank needed it",
                                 found.name, found.rank),
                     found.rank));
  return true;
}

// Each rank knows its own neighbors alone, so each tells.
void NamedObject::tell_stall() {
  const std::int64_t oldest = neighbors_.oldest_ns();
  if (oldest == kNever || now_ns_ < stall_clock_.due_ns(oldest)) return;
  stall_clock_.told(oldest, now_ns_);
  log(LogLevel::warning, fmt::format("operations by name wait: {}", neighbors_.waiting()));
}

// An operation that has waited too long ends the context, as everywhere: the other ranks may be
// about to run it.
void NamedObject::check_deadline() {
  const std::int64_t of_all = all_.oldest_ns();
  const std::int64_t of_neighbors = neighbors_.oldest_ns();
  const std::int64_t oldest = std::min(of_all, of_neighbors);
  if (oldest == kNever) return;
  if (now_ns_ - oldest < host_->deadline_ms() * kNsPerMs) return;
  const std::string why = of_neighbors <= of_all ? neighbors_.waiting() : all_.waiting();
  host_->fail(Status(Code::timed_out, fmt::format("rank {} waited {} ms (WEFT_DEADLINE_MS): {}",
                                                  host_->rank(), host_->deadline_ms(), why)));
}

// A message that cannot be sent ends the context in the middle of a turn. What the turn looks at is
// there until its end.
void NamedObject::abandon(const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = why;
  }
  if (!is_in_turn_) end_all();
}

void NamedObject::end_all() {
  std::vector<std::shared_ptr<Work>> works;
  {
    const std::lock_guard lock(mutex_);
    works.swap(submitted_);
    has_submitted_.store(false, std::memory_order_relaxed);
  }
  for (const std::shared_ptr<Work>& work : works) end(*work, failure_);
  for (const std::shared_ptr<Work>& work : std::exchange(waiting_, {})) end(*work, failure_);
  all_.abandon(failure_);
  neighbors_.abandon(failure_);
}

}  // namespace weft
