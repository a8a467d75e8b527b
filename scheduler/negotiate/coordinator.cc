// coordinator: see the header.
#include "scheduler/negotiate/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::negotiate {

std::string list_of(const std::vector<bool>& ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size(); ++first) {
    if (!ranks[first]) continue;
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1]) ++last;
    if (!text.empty()) text += ", ";
    text += first == last ? fmt::to_string(first) : fmt::format("{}-{}", first, last);
    first = last;
  }
  return text;
}

Status check_joined(const NamedRequest& request, int joined) {
  const bool takes_zeros = request.collective == Collective::allreduce &&
                           (request.op == ReduceOp::sum || request.op == ReduceOp::average);
  if (joined == 0 || takes_zeros) return {};
  return Status(
      Code::invalid_argument,
      fmt::format("{}: {} of the ranks have joined, and can only give zeros to the sum or "
                  "average of an allreduce",
                  request.name, joined));
}

int Coordinator::joined() const {
  return static_cast<int>(std::ranges::count(has_joined_, true));
}

void Coordinator::hear(const Told& told) {
  const auto rank = static_cast<std::size_t>(told.rank);
  if (told.joins && !has_joined_[rank]) {
    has_joined_[rank] = true;
    last_to_join_ = told.rank;
  }
  for (const NamedRequest& request : told.requests) {
    auto [at, is_new] = table_.try_emplace(request.name);
    Entry& entry = at->second;
    if (is_new) {
      entry.request = request;
      entry.first = told.rank;
      entry.submitted.resize(has_joined_.size());
      order_.push_back(request.name);
    } else if (entry.error.ok()) {
      entry.error = compare(entry.request, entry.first, request, told.rank);
    }
    entry.submitted[rank] = true;
  }
}

bool Coordinator::is_complete(const Entry& entry) const {
  for (std::size_t rank = 0; rank < has_joined_.size(); ++rank) {
    if (!entry.submitted[rank] && !has_joined_[rank]) return false;
  }
  return true;
}

Decision Coordinator::end(const std::string& name, Entry& entry) const {
  Decision decision;
  decision.status = entry.error.ok() ? check_joined(entry.request, joined()) : entry.error;
  decision.kind = decision.status.ok() ? Decision::Kind::run : Decision::Kind::fail;
  decision.request = std::move(entry.request);
  decision.request.name = name;
  return decision;
}

std::vector<Decision> Coordinator::decide(const std::vector<Told>& told) {
  for (const Told& each : told) hear(each);
  std::vector<Decision> decisions;
  std::deque<std::string> waiting;
  for (std::string& name : order_) {
    const auto found = table_.find(name);
    if (is_complete(found->second)) {
      decisions.push_back(end(name, found->second));
      table_.erase(found);
    } else {
      waiting.push_back(std::move(name));
    }
  }
  order_ = std::move(waiting);
  std::ranges::stable_sort(decisions, std::greater<>(),
                           [](const Decision& each) { return each.request.priority; });
  if (std::string text = report(told); !text.empty()) {
    Decision stalled;
    stalled.kind = Decision::Kind::stalled;
    stalled.status = Status(Code::timed_out, std::move(text));
    decisions.push_back(std::move(stalled));
  }
  if (joined() == static_cast<int>(has_joined_.size())) {
    Decision all;
    all.kind = Decision::Kind::all_joined;
    all.rank = last_to_join_;
    decisions.push_back(std::move(all));
    has_joined_.assign(has_joined_.size(), false);
  }
  return decisions;
}

// "grad.7: submitted by ranks 0-6, not by 7; grad.9: …". Empty if nobody has told pending names.
std::string Coordinator::report(const std::vector<Told>& told) const {
  std::vector<std::pair<std::string, std::vector<bool>>> names;
  std::map<std::string, std::size_t, std::less<>> places;
  for (const Told& each : told) {
    for (const std::string& name : each.pending) {
      const auto [at, is_new] = places.emplace(name, names.size());
      if (is_new) names.emplace_back(name, std::vector<bool>(has_joined_.size()));
      names[at->second].second[static_cast<std::size_t>(each.rank)] = true;
    }
  }
  std::string text;
  std::size_t reported = 0;
  for (const auto& [name, submitted] : names) {
    std::vector<bool> missing(submitted.size());
    for (std::size_t rank = 0; rank < missing.size(); ++rank)
      missing[rank] = !submitted[rank] && !has_joined_[rank];
    const std::string lacking = list_of(missing);
    if (lacking.empty()) continue;
    if (++reported > kMostReported) continue;
    if (!text.empty()) text += "; ";
    text += fmt::format("{}: submitted by ranks {}, not by {}", name, list_of(submitted), lacking);
  }
  if (reported > kMostReported) text += fmt::format("; and {} more", reported - kMostReported);
  return text;
}

}  // namespace weft::negotiate
