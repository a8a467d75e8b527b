// neighbor_works: see the header.
#include "engine/named/neighbor_works.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/compress/compress.h"
#include "engine/execute/execute.h"
#include "engine/named/tuning.h"

namespace weft::named {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

MatchOptions match_options(const NamedHost& host, const NamedOptions& options) {
  MatchOptions made;
  made.rank = host.rank();
  made.size = host.size();
  made.fusion = Tuning(host, options).limits();
  return made;
}

// Elements that come from the source with this place.
std::size_t count_from(const Request& request, std::size_t source) {
  if (request.collective == Collective::send) return request.output.count;
  return request.counts.empty() ? request.input.count : request.counts[source];
}

std::size_t size_of_batch(const ReceiveBatch& batch) {
  if (batch.items.size() == 1) return batch.items.front().bytes;
  std::size_t bytes = 0;
  for (const ReceiveBatch::Item& item : batch.items) bytes += fused_bytes(item.bytes);
  return bytes;
}

// Whether the result must not be written before the input has left.
bool is_in_place(const Work& work) {
  const Request& request = work.request();
  return work.encoded_bytes == 0 && request.input.data == request.output.data;
}

// What travels.
std::span<const std::byte> sent_of(const Work& work) {
  if (work.encoded_bytes != 0) return {work.encoded.as<std::byte>(), work.encoded_bytes};
  const Input& x = work.request().input;
  return {static_cast<const std::byte*>(x.data), x.count * size_of(x.type)};
}

}  // namespace

NeighborWorks::NeighborWorks(NamedHost& host, const NamedOptions& options, Buffers& buffers,
                             Timeline& timeline, End end)
    : host_(host),
      buffers_(buffers),
      timeline_(timeline),
      end_(std::move(end)),
      matcher_(match_options(host, options)),
      reducer_for_peers_(gpu_reducer_for_peers(host.bell())) {}

Status NeighborWorks::submit(const std::shared_ptr<Work>& work, std::int64_t now) {
  const Request& request = work->request();
  const Edges& edges = *work->edges;
  MatchRequest match;
  match.id = next_id_++;
  match.name = work->name;
  match.collective = request.collective;
  match.type = request.collective == Collective::send && request.receives ? request.output.type
                                                                          : request.input.type;
  match.count = request.input.count;
  match.shape = common_shape(request);
  match.compression = request.compression;
  match.low_rank = Encoding(request).low_rank;
  match.encoded_bytes = work->encoded_bytes;
  for (std::size_t s = 0; s < edges.sources.size(); ++s)
    match.sources.push_back({edges.sources[s].rank, count_from(request, s)});
  match.destinations = edges.destinations;
  match.skipped = edges.skipped;
  match.may_skip = edges.may_skip;
  match.is_of_all = !is_of_some_ranks(request.collective);
  match.priority = work->priority;
  Open open;
  open.work = work;
  open.sources.resize(edges.sources.size());
  open.to_come = edges.sources.size();
  open.to_go = edges.destinations.size();
  const std::uint64_t id = match.id;
  open_.emplace(id, std::move(open));
  const Status status = matcher_.submit(std::move(match), now);
  if (!status.ok()) {
    open_.erase(id);
    return status;
  }
  if (const auto found = open_.find(id); found != open_.end()) proceed(id, found->second);
  return {};
}

Status NeighborWorks::receive(Rank from, std::span<const std::byte> message, std::int64_t now) {
  return matcher_.receive(from, message, now);
}

void NeighborWorks::recall(FlightText& to) const {
  for (const auto& [id, open] : open_)
    to.named(open.work->name, open.work->request().collective, open.work->submitted_ns,
             open.to_come == 0);
  if (!open_.empty()) to.lacking(matcher_.waiting());
}

std::int64_t NeighborWorks::oldest_ns() const {
  std::int64_t oldest = kNever;
  for (const auto& [id, open] : open_) oldest = std::min(oldest, open.work->submitted_ns);
  return oldest;
}

// Waited for are ranks that have not agreed to an edge, those whose data have not come, and those
// that have not returned what they read in place.
Departure NeighborWorks::find_departure() const {
  Departure found;
  const auto look = [&](const std::string& name, Rank rank) {
    if (found.rank == kNoRank && host_.has_left(rank)) found = {rank, name};
  };
  matcher_.visit_awaited(look);
  for (const auto& [id, open] : open_) {
    for (std::size_t s = 0; s < open.sources.size(); ++s)
      if (!open.sources[s].is_there) look(open.work->name, open.work->edges->sources[s].rank);
  }
  for (const auto& [number, lent] : lent_)
    for (const std::uint64_t id : lent.ids)
      if (const auto open = open_.find(id); open != open_.end())
        look(open->second.work->name, lent.to);
  return found;
}

bool NeighborWorks::advance(std::int64_t now) {
  matcher_.step(now);
  bool moved = false;
  for (const MatchMessage& message : matcher_.take_messages()) {
    ++control_messages_;
    control_bytes_ += message.bytes.size();
    host_.send(message.to, Letter::of_neighbors, message.bytes);
  }
  // What was announced is sent, even if its operation has failed since: so events come last.
  Status status;
  for (const SendBatch& batch : matcher_.take_sends()) {
    moved = true;
    if (status.ok()) status = begin(batch);
  }
  for (ReceiveBatch& batch : matcher_.take_receives()) {
    moved = true;
    if (status.ok()) status = begin(std::move(batch));
  }
  for (auto& [rank, lender] : lenders_) take_lent(rank, lender);
  if (!status.ok()) {
    host_.fail(status);
    return true;
  }
  for (const MatchEvent& event : matcher_.take_events()) {
    moved = true;
    if (event.status.ok()) {
      arrived(event.id, event.skipped, nullptr, 1.0, nullptr);
    } else {
      fail(event.id, event.status);
    }
  }
  for (std::size_t i = 0; i < moving_.size();) {
    if (!moving_[i].operation->done.load(std::memory_order_acquire)) {
      ++i;
      continue;
    }
    moved = true;
    Moving over = std::move(moving_[i]);
    moving_.erase(moving_.begin() + static_cast<std::ptrdiff_t>(i));
    ended(over);
  }
  moved |= collect_offloads();
  return_all();
  return moved;
}

// Puts the tensors of a batch one behind the other; `bytes` 0: they are empty.
Status NeighborWorks::pack(const SendBatch& batch, Buffers::Buffer& buffer, std::size_t& bytes) {
  bytes = 0;
  for (const std::uint64_t id : batch.ids) bytes += fused_bytes(sent_of(*open_.at(id).work).size());
  if (bytes == 0) return {};
  WEFT_ASSIGN(buffer, buffers_.take(bytes));
  std::size_t offset = 0;
  for (const std::uint64_t id : batch.ids) {
    const std::span<const std::byte> sent = sent_of(*open_.at(id).work);
    if (!sent.empty()) std::memcpy(buffer.data + offset, sent.data(), sent.size());
    offset += fused_bytes(sent.size());
  }
  return {};
}

// The memory of a tensor that travels alone is lent as it is, if the peer can read it in place. If
// the result goes there, too, a copy is lent: else each rank would wait until the other has read.
Status NeighborWorks::lend(const SendBatch& batch) {
  Lent lent;
  lent.to = batch.to;
  RemoteBuffer there;
  if (batch.ids.size() == 1) {
    const Work& work = *open_.at(batch.ids.front()).work;
    const std::span<const std::byte> sent = sent_of(work);
    if (!sent.empty() && !is_in_place(work)) there = describe_memory(sent.data(), sent.size());
  }
  if (there.form == PieceForm::view && there.bytes != 0) {
    lent.ids = batch.ids;
    ++open_.at(batch.ids.front()).read;
  } else {
    std::size_t bytes = 0;
    WEFT_RETURN_IF_ERROR(pack(batch, lent.buffer, bytes));
    if (bytes != 0) there = describe_memory(lent.buffer.data, bytes);
    for (const std::uint64_t id : batch.ids) sent(id, false);
    if (bytes == 0) return {};
  }
  negotiate::Writer letter;
  letter.number(next_lent_).number(there.word);
  lent_.emplace(next_lent_++, std::move(lent));
  host_.send(batch.to, Letter::lent, letter.take());
  return {};
}

Status NeighborWorks::receive_lent(Rank from, std::span<const std::byte> message) {
  negotiate::Reader reader(message);
  Lender& lender = lenders_[from];
  Lender::Batch batch;
  batch.number = reader.number();
  batch.word = reader.number();
  lender.lent.push_back(batch);
  if (reader.is_good() && host_.shared_with(from) != nullptr) return {};
  return Status(Code::mismatch,
                fmt::format("rank {} sent a control message that cannot be read", from), from);
}

Status NeighborWorks::receive_returned(Rank from, std::span<const std::byte> message) {
  negotiate::Reader reader(message);
  while (!reader.is_good()) {
    const auto found = lent_.find(reader.number());
    if (reader.is_broken() || found == lent_.end()) {
      return Status(Code::mismatch, fmt::format("rank {} returned what was not lent to it", from),
                    from);
    }
    const Lent lent = std::move(found->second);
    lent_.erase(found);
    buffers_.give_back(lent.buffer);
    for (const std::uint64_t id : lent.ids) sent(id, true);
  }
  return {};
}

// Takes the batches of which both the names and the memory are known.
void NeighborWorks::take_lent(Rank from, Lender& lender) {
  while (!lender.announced.empty() && !lender.lent.empty()) {
    const ReceiveBatch batch = std::move(lender.announced.front());
    const Lender::Batch lent = lender.lent.front();
    lender.announced.pop_front();
    lender.lent.pop_front();
    const std::size_t bytes = size_of_batch(batch);
    const std::byte* data =
        host_.shared_with(from)->endpoint->view({PieceForm::view, lent.word, bytes});
    if (data == nullptr) {
      return host_.fail(Status(
          Code::mismatch, fmt::format("rank {} lent memory that is not in its heap", from), from));
    }
    auto held = std::make_shared<Held>();
    held->lender = from;
    held->number = lent.number;
    hand_out(batch, data, held);
  }
}

// Tells lenders what was read.
void NeighborWorks::return_all() {
  for (auto& [rank, lender] : lenders_) {
    if (lender.to_return.empty()) continue;
    negotiate::Writer letter;
    for (const std::uint64_t number : std::exchange(lender.to_return, {})) letter.number(number);
    host_.send(rank, Letter::returned, letter.take());
  }
}

Status NeighborWorks::begin(const SendBatch& batch) {
  batches_.add(batch.ids.size());
  for (const std::uint64_t id : batch.ids) run(open_.at(id), batch.ids.size());
  if (host_.shared_with(batch.to) != nullptr) return lend(batch);
  Request request;
  request.collective = Collective::send;
  request.peer = batch.to;
  Moving moving;
  moving.is_send = true;
  moving.ids = batch.ids;
  std::size_t bytes = sent_of(*open_.at(batch.ids.front()).work).size();
  if (batch.ids.size() > 1) {
    moving.held = std::make_shared<Held>();
    WEFT_RETURN_IF_ERROR(pack(batch, moving.held->buffer, bytes));
  }
  if (bytes == 0) {
    for (const std::uint64_t id : batch.ids) sent(id, false);
    return {};
  }
  if (moving.held != nullptr) {
    request.input = in(moving.held->buffer.data, bytes, DataType::u8);
  } else {
    Open& open = open_.at(batch.ids.front());
    ++open.read;
    const void* const on_gpu = open.work->input_on_gpu;
    request.input =
        in(on_gpu != nullptr ? on_gpu : sent_of(*open.work).data(), bytes, DataType::u8);
  }
  WEFT_ASSIGN(moving.operation, host_.begin(request, {}));
  moving_.push_back(std::move(moving));
  return {};
}

Status NeighborWorks::begin(ReceiveBatch batch) {
  const std::size_t bytes = size_of_batch(batch);
  if (bytes == 0) {
    hand_out(batch, nullptr, std::make_shared<Held>());
    return {};
  }
  if (host_.shared_with(batch.from) != nullptr) {
    lenders_[batch.from].announced.push_back(std::move(batch));
    return {};
  }
  Moving moving;
  moving.held = std::make_shared<Held>();
  WEFT_ASSIGN(moving.held->buffer, buffers_.take(bytes));
  Request request;
  request.collective = Collective::send;
  request.receives = true;
  request.peer = batch.from;
  request.output = out(moving.held->buffer.data, bytes, DataType::u8);
  moving.batch = std::move(batch);
  WEFT_ASSIGN(moving.operation, host_.begin(request, {}));
  moving_.push_back(std::move(moving));
  return {};
}

void NeighborWorks::let_go(std::shared_ptr<Held>& held) {
  if (held == nullptr) return;
  if (--held->users == 0) {
    buffers_.give_back(held->buffer);
    const auto lender = lenders_.find(held->lender);  // abandon() has forgotten them all
    if (lender != lenders_.end()) lender->second.to_return.push_back(held->number);
  }
  held = nullptr;
}

void NeighborWorks::ended(Moving& moving) {
  // After an error the context has failed, and peers may still read the buffers.
  if (!moving.operation->status.ok()) return;
  if (moving.is_send) {
    const bool was_read_in_place = moving.held == nullptr;
    if (!was_read_in_place) buffers_.give_back(moving.held->buffer);
    for (const std::uint64_t id : moving.ids) sent(id, was_read_in_place);
    return;
  }
  hand_out(moving.batch, moving.held->buffer.data, moving.held);
}

// Gives the operations of a batch their data.
void NeighborWorks::hand_out(const ReceiveBatch& batch, const std::byte* data,
                             std::shared_ptr<Held> held) {
  ++held->users;  // this function
  const bool is_alone = batch.items.size() == 1;
  std::size_t offset = 0;
  for (const ReceiveBatch::Item& item : batch.items) {
    if (item.is_wanted && open_.contains(item.id)) {
      ++held->users;
      arrived(item.id, batch.from, data == nullptr ? nullptr : data + offset, item.weight, held);
    }
    offset += is_alone ? item.bytes : fused_bytes(item.bytes);
  }
  let_go(held);
}

void NeighborWorks::sent(std::uint64_t id, bool was_read_in_place) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  Open& open = found->second;
  --open.to_go;
  if (was_read_in_place) --open.read;
  proceed(id, open);
}

void NeighborWorks::arrived(std::uint64_t id, Rank from, const std::byte* data, double weight,
                            const std::shared_ptr<Held>& held) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  Open& open = found->second;
  const std::vector<NeighborWeight>& sources = open.work->edges->sources;
  const auto at = std::ranges::find(sources, from, &NeighborWeight::rank) - sources.begin();
  Source& source = open.sources[static_cast<std::size_t>(at)];
  source = {data, true, weight, held};
  --open.to_come;
  proceed(id, open);
}

// The handle ends once nothing reads the caller's memory any more.
void NeighborWorks::fail(std::uint64_t id, const Status& status) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  found->second.failure = status;
  proceed(id, found->second);
}

void NeighborWorks::proceed(std::uint64_t id, Open& open) {
  const bool has_failed = !open.failure.ok();
  if (!has_failed) {
    // In place, the result must not be written before the input has left.
    if (open.to_come != 0 || (is_in_place(*open.work) && open.to_go != 0)) return;
    if (!std::exchange(open.is_combined, true)) {
      run(open, 1);
      open.failure = combine(open);
      if (!open.offloads.empty()) offloaded_.push_back(id);
    }
    if (!open.offloads.empty()) return;
    // At once: the sources may wait for it.
    for (Source& source : open.sources) let_go(source.held);
    if (open.failure.ok() && open.to_go != 0) return;
  }
  if (open.read != 0 || !open.offloads.empty()) return;
  for (Source& source : open.sources) let_go(source.held);
  const std::shared_ptr<Work> work = open.work;
  const Status status = open.failure;
  open_.erase(id);
  end_(*work, status);
}

// At the first batch that carries it, or when all has come.
void NeighborWorks::run(Open& open, std::size_t together) {
  if (!std::exchange(open.work->is_running, true)) timeline_.runs(*open.work, together);
}

Reducer* NeighborWorks::reducer_of(const Open& open) {
  if (!may_have_gpu_memory()) return nullptr;
  const std::shared_ptr<DeviceOperands>& operands = open.work->operation->operands;
  if (operands != nullptr && operands->reducer() != nullptr) return operands->reducer();
  return has_aliases(open) ? reducer_for_peers_() : nullptr;
}

bool NeighborWorks::has_aliases(const Open& open) {
  return may_have_gpu_memory() && std::ranges::any_of(open.sources, [](const Source& source) {
           return source.data != nullptr && is_device_alias(source.data);
         });
}

Status NeighborWorks::reduce(Open& open, const Reducer::Job& job) {
  Reducer* const reducer = reducer_of(open);
  if (reducer == nullptr && has_aliases(open)) {
    return Status(Code::mismatch, fmt::format("{}: a neighbor lends GPU memory, and nothing here "
                                              "reads it",
                                              open.work->name));
  }
  WEFT_ASSIGN(std::unique_ptr<Reducer::Work> work, weft::reduce(reducer, job));
  if (work != nullptr) open.offloads.push_back(std::move(work));
  return {};
}

// Ends what GPUs have combined.
bool NeighborWorks::collect_offloads() {
  bool moved = false;
  for (std::size_t i = 0; i < offloaded_.size();) {
    const std::uint64_t id = offloaded_[i];
    Open& open = open_.at(id);  // it does not end before
    if (!std::ranges::all_of(open.offloads, [](const auto& work) { return work->is_over(); })) {
      ++i;
      continue;
    }
    moved = true;
    offloaded_.erase(offloaded_.begin() + static_cast<std::ptrdiff_t>(i));
    for (const auto& work : std::exchange(open.offloads, {}))
      if (open.failure.ok()) open.failure = work->status();
    proceed(id, open);
  }
  return moved;
}

Status NeighborWorks::combine(Open& open) {
  const Request& request = open.work->request();
  if (request.compression != Compression::none) return combine_encoded(open);
  if (request.collective == Collective::send ||
      request.collective == Collective::neighbor_allgather)
    return gather(open);
  const Edges& edges = *open.work->edges;
  terms_.clear();
  auto add_self = [&, is_added = false](Rank before) mutable {
    if (is_added || before < host_.rank()) return;
    is_added = true;
    terms_.push_back({request.input.data, edges.self_weight});
  };
  for (std::size_t s = 0; s < edges.sources.size(); ++s) {
    const Source& source = open.sources[s];
    add_self(edges.sources[s].rank);
    if (source.data == nullptr || is_unused(edges.sources[s].weight)) continue;
    terms_.push_back({source.data, edges.sources[s].weight * source.weight});
  }
  add_self(std::numeric_limits<Rank>::max());
  if (request.output.count == 0) return {};
  const double divisor = take_divisor(terms_);
  return reduce(open, {.type = request.input.type,
                       .reduction = Reduction::weighted_sum,
                       .is_copy = false,
                       .terms = terms_,
                       .destination = static_cast<std::byte*>(request.output.data),
                       .count = request.output.count,
                       .divisor = divisor,
                       .is_last = true});
}

Status NeighborWorks::combine_encoded(Open& open) {
  const Request& request = open.work->request();
  const Edges& edges = *open.work->edges;
  std::vector<Rank> ranks;
  terms_.assign(1, {request.input.data, edges.self_weight});
  for (std::size_t s = 0; s < edges.sources.size(); ++s) {
    const NeighborWeight& edge = edges.sources[s];
    ranks.push_back(edge.rank);
    terms_.push_back({is_unused(edge.weight) ? nullptr : open.sources[s].data, edge.weight});
  }
  return weft::combine_encoded(Encoding(request), terms_, ranks,
                               {static_cast<float*>(request.output.data), request.output.count});
}

// One source behind the other.
Status NeighborWorks::gather(Open& open) {
  const Request& request = open.work->request();
  auto* into = static_cast<std::byte*>(request.output.data);
  const std::size_t size = size_of(request.output.type);
  for (std::size_t s = 0; s < open.sources.size(); ++s) {
    const std::size_t bytes = count_from(request, s) * size;
    std::byte* const to = std::exchange(into, into + bytes);
    const std::byte* const from = open.sources[s].data;
    if (from == nullptr || bytes == 0) continue;
    const Term term{from, 1.0};
    WEFT_RETURN_IF_ERROR(reduce(open, {.type = request.output.type,
                                       .reduction = Reduction::sum,
                                       .is_copy = true,
                                       .terms = {&term, 1},
                                       .destination = to,
                                       .count = bytes / size,
                                       .is_last = true}));
  }
  return {};
}

void NeighborWorks::abandon(const Status& why) {
  for (const std::uint64_t id : std::exchange(offloaded_, {}))
    for (const auto& work : open_.at(id).offloads) work->wait();
  moving_.clear();
  lent_.clear();
  lenders_.clear();
  for (auto& [id, open] : std::exchange(open_, {}))
    end_(*open.work, open.failure.ok() ? why : open.failure);
}

void NeighborWorks::add_to(Named::Usage& usage) const {
  usage.control_bytes += control_bytes_;
  usage.control_messages += control_messages_;
  batches_.add_to(usage);
  usage.pending += open_.size();
}

}  // namespace weft::named
