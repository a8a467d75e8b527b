// matcher: see the header.
#include "scheduler/match/matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scheduler/vocabulary/vocabulary.h"

namespace weft {
namespace {

using match::Entry;
using match::EntryKind;
using match::Place;
using match::Round;

constexpr std::size_t kMostWants = 65'536;  // of rounds that have not begun, for each neighbor
constexpr std::size_t kMostReported = 16;   // names in a report

std::size_t place_of(const auto& list, Rank rank, auto projection) {
  return static_cast<std::size_t>(std::ranges::find(list, rank, projection) - list.begin());
}
std::size_t source_of(const MatchRequest& request, Rank rank) {
  return place_of(request.sources, rank, &MatchRequest::Source::rank);
}
std::size_t destination_of(const MatchRequest& request, Rank rank) {
  return place_of(request.destinations, rank, &NeighborWeight::rank);
}
// In which a tensor of so many elements travels.
std::size_t bytes_of(const MatchRequest& request, std::size_t count) {
  return request.compression == Compression::none ? count * size_of(request.type)
                                                  : request.encoded_bytes;
}

}  // namespace

EdgeMatcher::Line& EdgeMatcher::line_to(Rank rank) {
  std::unique_ptr<Line>& line = lines_[rank];
  if (line == nullptr) line = std::make_unique<Line>();
  return *line;
}

EdgeMatcher::Pending* EdgeMatcher::find(const std::string& name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &found->second;
}

Place EdgeMatcher::place_of(const Pending* pending, const Entry& entry) const {
  const bool is_counted = pending != nullptr && pending->round.is_counted();
  return is_counted ? rounds_.place(pending->round, entry.round)
                    : rounds_.place(entry.name, entry.round);
}

Status EdgeMatcher::why_over(const Entry& entry, const Status& no_edge) const {
  const Status failure = rounds_.failure(entry.name, entry.round);
  return failure.ok() ? no_edge : failure;
}

Status EdgeMatcher::submit(MatchRequest request, std::int64_t now) {
  const std::string name = request.name;
  const auto [at, is_new] = by_name_.try_emplace(name);
  if (!is_new) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: an operation of this name is pending", name));
  }
  Pending& pending = at->second;
  pending.round = request.is_of_all ? rounds_.begin(name) : rounds_.begin_uncounted();
  pending.request = std::move(request);
  pending.has_come.resize(pending.request.sources.size());
  pending.has_gone.resize(pending.request.destinations.size());
  pending.open = pending.has_come.size() + pending.has_gone.size();
  if (ask_at_ns_ == kNever) {
    ask_step_ns_ = options_.ask_ns;
    ask_at_ns_ = now + ask_step_ns_;
  }
  for (const Rank rank : pending.request.skipped) {
    Entry skip;
    skip.kind = EntryKind::skip;
    skip.name = name;
    skip.round = pending.round;
    line_to(rank).out.add(skip);
  }
  for (std::size_t s = 0; s < pending.request.sources.size(); ++s) want(pending, s);
  // What neighbors have written before. Each may end the operation.
  for (const auto& [rank, line] : lines_) {
    if (const auto wants = line->wants.find(name); wants != line->wants.end()) {
      const Entry entry = std::move(wants->second);
      line->wants.erase(wants);
      take_want(rank, entry);
    }
    const auto [first, last] = line->skips.equal_range(name);
    const std::multimap<std::string, Round> skips(first, last);
    line->skips.erase(first, last);
    for (const auto& skip : skips) {
      Entry entry;
      entry.name = name;
      entry.round = skip.second;
      take_skip(rank, entry);
    }
  }
  if (Pending* const still = find(name); still != nullptr && still->open == 0) close(*still);
  return {};
}

void EdgeMatcher::want(Pending& pending, std::size_t source) {
  const MatchRequest::Source& from = pending.request.sources[source];
  Entry entry;
  entry.kind = EntryKind::want;
  entry.name = pending.request.name;
  entry.round = pending.round;
  entry.collective = pending.request.collective;
  entry.type = pending.request.type;
  entry.count = from.count;
  entry.shape = pending.request.shape;
  entry.compression = pending.request.compression;
  entry.low_rank = pending.request.low_rank;
  entry.may_skip = pending.request.may_skip;
  line_to(from.rank).out.add(entry);
}

// The destination's want has come, of this round there: the data may leave.
void EdgeMatcher::serve(const Pending& pending, std::size_t destination, std::uint64_t token) {
  const MatchRequest& request = pending.request;
  const NeighborWeight& to = request.destinations[destination];
  const std::size_t bytes = bytes_of(request, request.count);
  line_to(to.rank).ready.push_back(
      {request.id, request.name, token, to.weight, bytes, request.priority});
}

Status EdgeMatcher::receive(Rank from, std::span<const std::byte> message, std::int64_t) {
  Line& line = line_to(from);
  bool is_good = true;
  std::uint64_t items = 0;
  const bool was_read = line.in.read(message, options_.size, [&](const Entry& entry) {
    if (items != 0) {
      --items;
      is_good = is_good && take_item(from, entry);
      return;
    }
    switch (entry.kind) {
      case EntryKind::want:
        if (line.wants.size() >= kMostWants) is_good = false;
        if (is_good) take_want(from, entry);
        break;
      case EntryKind::skip:
        if (line.skips.size() >= kMostWants) is_good = false;
        if (is_good) take_skip(from, entry);
        break;
      case EntryKind::ask:
        take_ask(from, entry);
        break;
      case EntryKind::refuse:
        take_refusal(from, entry);
        break;
      case EntryKind::batch:
        items = entry.count;
        receives_.push_back({from, {}});
        break;
    }
  });
  if (was_read && is_good) return {};
  return Status(Code::mismatch,
                fmt::format("rank {} sent a control message that cannot be read", from), from);
}

Status EdgeMatcher::compare(const Pending& pending, Rank from, const Entry& entry) const {
  const MatchRequest& request = pending.request;
  const auto differ = [&](std::string text) {
    return Status(Code::mismatch, fmt::format("{}: {}", request.name, text), from);
  };
  if (request.collective != entry.collective) {
    return differ(fmt::format("rank {} submits {}, rank {} submits {}", options_.rank,
                              name(request.collective), from, name(entry.collective)));
  }
  if (request.type != entry.type || request.count != entry.count) {
    return differ(fmt::format("rank {} sends {} elements of {}, rank {} expects {} of {}",
                              options_.rank, request.count, name(request.type), from, entry.count,
                              name(entry.type)));
  }
  if (request.compression != entry.compression) {
    return differ(fmt::format("rank {} compresses as {}, rank {} as {}", options_.rank,
                              name(request.compression), from, name(entry.compression)));
  }
  if (request.low_rank != entry.low_rank) {
    return differ(fmt::format("rank {} keeps {} singular values of {} rows, rank {} {} of {}",
                              options_.rank, request.low_rank.rank, request.low_rank.rows, from,
                              entry.low_rank.rank, entry.low_rank.rows));
  }
  if (!are_different(request.shape, entry.shape)) return {};
  return differ(fmt::format("rank {} sends a tensor of shape {}, rank {} expects {}", options_.rank,
                            text_of_shape(request.shape), from, text_of_shape(entry.shape)));
}

void EdgeMatcher::take_want(Rank from, const Entry& entry) {
  Pending* const pending = find(entry.name);
  const bool is_of_all = entry.round.is_counted();
  const Place place = is_of_all ? place_of(pending, entry) : Place::after;
  const bool is_one_kind = pending != nullptr && pending->round.is_counted() == is_of_all;
  const bool is_now = is_one_kind && (!is_of_all || place == Place::same);
  if (!is_now && place != Place::after) {
    if (entry.may_skip) return;  // the word that there is nothing has crossed it
    const Status no_edge(Code::mismatch,
                         fmt::format("{}: rank {} expects data of rank {}, which has no edge to it",
                                     entry.name, from, options_.rank),
                         options_.rank);
    return refuse(from, entry.name, entry.round, why_over(entry, no_edge));
  }
  // An operation of all ranks and one of some ranks are no pair, so their data do not leave.
  const bool may_serve = pending != nullptr && (is_now || !is_one_kind);
  const std::size_t at = may_serve ? destination_of(pending->request, from) : 0;
  const bool has_edge = may_serve && at < pending->request.destinations.size();
  if (has_edge && !pending->has_gone[at]) {
    if (const Status differs = compare(*pending, from, entry); !differs.ok()) {
      fail(entry.name, differs);
      if (!is_one_kind) refuse(from, entry.name, entry.round, differs);
      return;
    }
    pending->has_gone[at] = true;
    serve(*pending, at, entry.round.token);
    if (--pending->open == 0) close(*pending);
    return;
  }
  if (is_now && is_of_all && !has_edge) {
    // It is told that there is nothing, or the two graphs differ.
    if (std::ranges::find(pending->request.skipped, from) != pending->request.skipped.end()) return;
    const Status differs(Code::mismatch,
                         fmt::format("{}: rank {} expects data of rank {}, which has no edge to it",
                                     entry.name, from, options_.rank),
                         from);
    fail(entry.name, differs);
    return refuse(from, entry.name, entry.round, differs);
  }
  lines_.at(from)->wants[entry.name] = entry;
}

void EdgeMatcher::take_skip(Rank from, const Entry& entry) {
  Pending* const pending = find(entry.name);
  const Place place = place_of(pending, entry);
  if (place == Place::after) {
    line_to(from).skips.emplace(entry.name, entry.round);
    return;
  }
  const bool is_now = pending != nullptr && pending->round.is_counted() && place == Place::same;
  if (!is_now) return;
  const std::size_t at = source_of(pending->request, from);
  if (at == pending->request.sources.size() || pending->has_come[at]) return;
  if (!pending->request.may_skip) {
    return fail(entry.name,
                Status(Code::mismatch,
                       fmt::format("{}: rank {} expects data of rank {}, which pushes to others",
                                   entry.name, options_.rank, from),
                       from));
  }
  pending->has_come[at] = true;
  MatchEvent event;
  event.id = pending->request.id;
  event.skipped = from;
  events_.push_back(std::move(event));
  if (--pending->open == 0) close(*pending);
}

// The peer has data for us, and no want. A want that is on its way answers it.
void EdgeMatcher::take_ask(Rank from, const Entry& entry) {
  const Pending* const pending = find(entry.name);
  const Place place = place_of(pending, entry);
  const bool is_now = pending != nullptr && pending->round.is_counted() && place == Place::same;
  if (is_now && source_of(pending->request, from) < pending->request.sources.size()) return;
  if (place == Place::after) return;
  const Status status(Code::mismatch,
                      fmt::format("{}: rank {} sends to rank {}, which has no edge from it",
                                  entry.name, from, options_.rank),
                      from);
  if (is_now) fail(entry.name, status);
  refuse(from, entry.name, entry.round, why_over(entry, status));
}

void EdgeMatcher::take_refusal(Rank from, const Entry& entry) {
  const Pending* const pending = find(entry.name);
  if (pending == nullptr || pending->round.is_counted() != entry.round.is_counted()) return;
  const MatchRequest& request = pending->request;
  const bool is_ours = pending->round.is_counted()
                           ? rounds_.place(pending->round, entry.round) == Place::same
                           : source_of(request, from) < request.sources.size() ||
                                 destination_of(request, from) < request.destinations.size();
  if (is_ours) fail(entry.name, Status(entry.code, entry.text, entry.rank));
}

bool EdgeMatcher::take_item(Rank from, const Entry& entry) {
  ReceiveBatch::Item item;
  item.weight = entry.weight;
  Pending* const pending = find(entry.name);
  const bool is_now = pending != nullptr && pending->round.token == entry.round.token;
  const std::size_t at = is_now ? source_of(pending->request, from) : 0;
  if (is_now && at < pending->request.sources.size() && !pending->has_come[at]) {
    item.id = pending->request.id;
    item.bytes = bytes_of(pending->request, pending->request.sources[at].count);
    receives_.back().items.push_back(item);
    pending->has_come[at] = true;
    if (--pending->open == 0) close(*pending);
    return true;
  }
  const auto orphan = orphans_.find({from, entry.name, entry.round.token});
  if (orphan == orphans_.end()) return false;  // it was never wanted
  item.is_wanted = false;
  item.bytes = orphan->second;
  orphans_.erase(orphan);
  receives_.back().items.push_back(item);
  return true;
}

// All edges are served: nothing more is to be matched.
void EdgeMatcher::close(Pending& pending) {
  by_name_.erase(std::string(pending.request.name));
}

// Ends the operation here, and at the neighbors that wait for this rank.
void EdgeMatcher::fail(const std::string& name, const Status& status) {
  const auto found = by_name_.find(name);
  const Pending pending = std::move(found->second);
  by_name_.erase(found);
  if (pending.round.is_counted()) rounds_.fail(name, pending.round, status);
  MatchEvent event;
  event.id = pending.request.id;
  event.status = status;
  events_.push_back(std::move(event));
  for (std::size_t s = 0; s < pending.has_come.size(); ++s) {
    const MatchRequest::Source& source = pending.request.sources[s];
    refuse(source.rank, name, pending.round, status);
    if (pending.has_come[s]) continue;
    orphans_[{source.rank, name, pending.round.token}] = bytes_of(pending.request, source.count);
  }
  for (std::size_t d = 0; d < pending.has_gone.size(); ++d) {
    const Rank to = pending.request.destinations[d].rank;
    const bool is_batched =
        pending.has_gone[d] && std::erase_if(line_to(to).ready, [&](const Line::Ready& each) {
                                 return each.id == pending.request.id;
                               }) == 0;
    if (!is_batched) refuse(to, name, pending.round, status);
  }
}

void EdgeMatcher::refuse(Rank to, const std::string& name, const Round& round,
                         const Status& status) {
  Entry entry;
  entry.kind = EntryKind::refuse;
  entry.name = name;
  entry.round = round;
  entry.code = status.code();
  entry.rank = status.rank();
  entry.text = status.text();
  line_to(to).out.add(entry);
}

void EdgeMatcher::step(std::int64_t now) {
  for (const auto& [rank, line] : lines_) batch(rank, *line);
  if (now >= ask_at_ns_) ask(now);
}

// Makes batches of what is ready for a rank, higher priorities first.
void EdgeMatcher::batch(Rank to, Line& line) {
  if (line.ready.empty()) return;
  std::ranges::stable_sort(line.ready, std::greater<>(), &Line::Ready::priority);
  std::vector<FuseItem> items;
  for (const Line::Ready& each : line.ready) items.push_back({0, each.bytes, false});
  for (const FuseBatch& fused : plan_batches(items, options_.fusion)) {
    SendBatch batch{to, {}, fused.bytes};
    line.out.add_batch(fused.parts.size());
    for (const FusePart& part : fused.parts) {
      const Line::Ready& each = line.ready[part.item];
      batch.ids.push_back(each.id);
      line.out.add_item(each.name, each.token, each.weight);
    }
    sends_.push_back(std::move(batch));
  }
  line.ready.clear();
}

// Asks destinations that do not want what is here for them. Asks less and less often.
void EdgeMatcher::ask(std::int64_t now) {
  ask_step_ns_ *= 2;
  ask_at_ns_ = by_name_.empty() ? kNever : now + ask_step_ns_;
  for (const auto& [name, pending] : by_name_) {
    for (std::size_t d = 0; d < pending.has_gone.size(); ++d) {
      if (pending.has_gone[d] || !pending.request.is_of_all) continue;
      Entry entry;
      entry.kind = EntryKind::ask;
      entry.name = name;
      entry.round = pending.round;
      line_to(pending.request.destinations[d].rank).out.add(entry);
    }
  }
}

std::vector<MatchMessage> EdgeMatcher::take_messages() {
  std::vector<MatchMessage> messages;
  for (const auto& [rank, line] : lines_) {
    if (!line->out.is_empty()) messages.push_back({rank, line->out.take()});
  }
  return messages;
}

std::string EdgeMatcher::waiting() const {
  std::string text;
  std::size_t names = 0;
  for (const auto& [name, pending] : by_name_) {
    if (++names > kMostReported) continue;
    std::string data;
    std::string wants;
    for (std::size_t s = 0; s < pending.has_come.size(); ++s) {
      if (pending.has_come[s]) continue;
      data += fmt::format("{}{}", data.empty() ? "" : ", ", pending.request.sources[s].rank);
    }
    for (std::size_t d = 0; d < pending.has_gone.size(); ++d) {
      if (pending.has_gone[d]) continue;
      wants += fmt::format("{}{}", wants.empty() ? "" : ", ", pending.request.destinations[d].rank);
    }
    if (!text.empty()) text += "; ";
    text += name + " waits";
    if (!data.empty()) text += fmt::format(" for data of rank {}", data);
    if (!wants.empty())
      text += fmt::format("{} for rank {} to submit it", data.empty() ? "" : " and", wants);
  }
  if (names > kMostReported) text += fmt::format("; and {} more", names - kMostReported);
  return text;
}

}  // namespace weft
