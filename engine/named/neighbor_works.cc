// neighbor_works: see the header.
#include "engine/named/neighbor_works.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/execute/execute.h"

namespace weft::named {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

MatchOptions match_options(const NamedHost& host, const NamedOptions& options) {
  MatchOptions made;
  made.rank = host.rank();
  made.size = host.size();
  made.fusion_bytes = options.neighbor_fusion_bytes;
  return made;
}

// Elements that come from the source with this place.
std::size_t count_from(const Request& request, std::size_t source) {
  if (request.collective == Collective::send) return request.output.count;
  return request.counts.empty() ? request.input.count : request.counts[source];
}

bool is_in_place(const Request& request) {
  return request.input.data == request.output.data;
}

}  // namespace

NeighborWorks::NeighborWorks(NamedHost& host, const NamedOptions& options, Buffers& buffers,
                             End end)
    : host_(host),
      buffers_(buffers),
      end_(std::move(end)),
      matcher_(match_options(host, options)) {}

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

std::int64_t NeighborWorks::oldest_ns() const {
  std::int64_t oldest = kNever;
  for (const auto& [id, open] : open_) oldest = std::min(oldest, open.work->submitted_ns);
  return oldest;
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
  return moved;
}

Status NeighborWorks::begin(const SendBatch& batch) {
  ++batches_;
  Request request;
  request.collective = Collective::send;
  request.peer = batch.to;
  Moving moving;
  moving.is_send = true;
  moving.ids = batch.ids;
  if (batch.ids.size() == 1) {
    const auto found = open_.find(batch.ids.front());
    const Input& x = found->second.work->request().input;
    const std::size_t bytes = x.count * size_of(x.type);
    if (bytes == 0) {
      sent(batch.ids.front(), false);
      return {};
    }
    ++found->second.read;
    request.input = in(x.data, bytes, DataType::u8);
  } else {
    fused_ += batch.ids.size();
    moving.held = std::make_shared<Held>();
    WEFT_ASSIGN(moving.held->buffer, buffers_.take(batch.bytes));
    std::size_t offset = 0;
    for (const std::uint64_t id : batch.ids) {
      const Input& x = open_.at(id).work->request().input;
      const std::size_t bytes = x.count * size_of(x.type);
      if (bytes != 0) std::memcpy(moving.held->buffer.data + offset, x.data, bytes);
      offset += fused_bytes(bytes);
    }
    if (offset == 0) {
      for (const std::uint64_t id : batch.ids) sent(id, false);
      return {};
    }
    request.input = in(moving.held->buffer.data, offset, DataType::u8);
  }
  WEFT_ASSIGN(moving.operation, host_.begin(request));
  moving_.push_back(std::move(moving));
  return {};
}

// What is received alone by a recv goes where it belongs; everything else to memory of ours.
Status NeighborWorks::begin(ReceiveBatch batch) {
  std::size_t bytes = 0;
  for (const ReceiveBatch::Item& item : batch.items)
    bytes += batch.items.size() == 1 ? item.bytes : fused_bytes(item.bytes);
  Moving moving;
  moving.held = std::make_shared<Held>();
  if (bytes == 0) {
    for (const ReceiveBatch::Item& item : batch.items) {
      if (item.is_wanted) arrived(item.id, batch.from, nullptr, item.weight, nullptr);
    }
    return {};
  }
  WEFT_ASSIGN(moving.held->buffer, buffers_.take(bytes));
  moving.into = moving.held->buffer.data;
  Request request;
  request.collective = Collective::send;
  request.receives = true;
  request.peer = batch.from;
  request.output = out(moving.into, bytes, DataType::u8);
  moving.batch = std::move(batch);
  WEFT_ASSIGN(moving.operation, host_.begin(request));
  moving_.push_back(std::move(moving));
  return {};
}

void NeighborWorks::let_go(std::shared_ptr<Held>& held) {
  if (held == nullptr) return;
  if (--held->users == 0) buffers_.give_back(held->buffer);
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
  const bool is_alone = moving.batch.items.size() == 1;
  std::size_t offset = 0;
  ++moving.held->users;  // this function
  for (const ReceiveBatch::Item& item : moving.batch.items) {
    if (item.is_wanted && open_.contains(item.id)) {
      ++moving.held->users;
      arrived(item.id, moving.batch.from, moving.into + offset, item.weight, moving.held);
    }
    offset += is_alone ? item.bytes : fused_bytes(item.bytes);
  }
  let_go(moving.held);
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
  const Request& request = open.work->request();
  const bool has_failed = !open.failure.ok();
  if (!has_failed) {
    if (open.to_come != 0 || (is_in_place(request) && open.read != 0)) return;
    if (!std::exchange(open.is_combined, true)) combine(open);
    if (open.to_go != 0) return;
  }
  if (open.read != 0) return;
  for (Source& source : open.sources) let_go(source.held);
  const std::shared_ptr<Work> work = open.work;
  const Status status = open.failure;
  open_.erase(id);
  end_(*work, status);
}

void NeighborWorks::combine(Open& open) {
  const Request& request = open.work->request();
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
  if (request.output.count == 0) return;
  weft::combine(request.input.type, Reduction::weighted_sum, terms_, request.output.data,
                request.output.count);
}

// One source behind the other.
void NeighborWorks::gather(Open& open) {
  const Request& request = open.work->request();
  auto* into = static_cast<std::byte*>(request.output.data);
  const std::size_t size = size_of(request.output.type);
  for (std::size_t s = 0; s < open.sources.size(); ++s) {
    const std::size_t bytes = count_from(request, s) * size;
    if (open.sources[s].data != nullptr && bytes != 0)
      std::memcpy(into, open.sources[s].data, bytes);
    into += bytes;
  }
}

void NeighborWorks::abandon(const Status& why) {
  moving_.clear();
  for (auto& [id, open] : std::exchange(open_, {}))
    end_(*open.work, open.failure.ok() ? why : open.failure);
}

void NeighborWorks::add_to(Named::Usage& usage) const {
  usage.control_bytes += control_bytes_;
  usage.control_messages += control_messages_;
  usage.batches += batches_;
  usage.fused += fused_;
  usage.pending += open_.size();
}

}  // namespace weft::named
