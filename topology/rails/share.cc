// A transportation problem, solved by shortest augmenting paths: one wish after another goes to the
// interface that has room at the least cost, where earlier wishes may move over to make it. The
// price of room grows with an interface's load, so each step keeps the whole optimal. Ranks at the
// same place are one row, so a machine of many ranks costs no more than one of few.
#include "topology/rails/share.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <tuple>

#include "topology/rails/rails.h"

namespace weft {
namespace {

constexpr double kTooSlow = 8;

using Table = std::vector<std::vector<int>>;

class Sharing {
 public:
  Sharing(Table far, const std::vector<double>& rates, bool only_once)
      : far_(std::move(far)),
        rates_(rates),
        only_once_(only_once),
        taken_(far_.size(), std::vector<int>(rates.size(), 0)),
        load_(rates.size(), 0) {}

  // One more interface for a rank of this row.
  void add(std::size_t row) {
    const std::size_t best = find_best(row);
    ++load_[best];
    std::size_t nic = best;
    for (; moved_[nic] != kNobody; nic = before_[nic]) {  // no path visits an interface twice
      ++taken_[moved_[nic]][nic];
      --taken_[moved_[nic]][before_[nic]];
    }
    ++taken_[row][nic];
  }

  // How much farther all would have, then.
  int cost_of_one_more(std::size_t row) { return cost_[find_best(row)]; }

  // The lowest interface that is still to be given to a rank of this row.
  int give(std::size_t row) {
    const auto found = std::ranges::find_if(taken_[row], [](int count) { return count > 0; });
    --*found;
    return static_cast<int>(found - taken_[row].begin());
  }

 private:
  static constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

  [[nodiscard]] double price(std::size_t nic) const {
    if (only_once_ && load_[nic] > 0) return std::numeric_limits<double>::infinity();
    return (load_[nic] + 1) / rates_[nic];
  }

  std::size_t find_best(std::size_t row) {
    find_paths(row);
    std::size_t best = 0;
    for (std::size_t nic = 1; nic < rates_.size(); ++nic) {
      if (std::tuple(price(nic), cost_[nic]) < std::tuple(price(best), cost_[best])) best = nic;
    }
    return best;
  }

  // The least cost at which an interface could take one more, if others move: Bellman and Ford.
  void find_paths(std::size_t row) {
    cost_ = far_[row];
    before_.assign(rates_.size(), 0);
    moved_.assign(rates_.size(), kNobody);
    for (std::size_t round = 0; round < rates_.size(); ++round) {
      for (std::size_t other = 0; other < far_.size(); ++other)
        for (std::size_t nic = 0; nic < rates_.size(); ++nic)
          if (taken_[other][nic] > 0) move(other, nic);
    }
  }
  void move(std::size_t row, std::size_t from) {
    for (std::size_t to = 0; to < rates_.size(); ++to) {
      const int cost = cost_[from] + far_[row][to] - far_[row][from];
      if (cost >= cost_[to]) continue;
      cost_[to] = cost;
      before_[to] = from;
      moved_[to] = row;
    }
  }

  Table far_;
  const std::vector<double>& rates_;
  bool only_once_;
  Table taken_;  // by row and interface
  std::vector<int> load_;
  // The paths to the interfaces: their cost, who moves over there, and from which.
  std::vector<int> cost_;
  std::vector<std::size_t> before_;
  std::vector<std::size_t> moved_;
};

// Of the ranks with the fewest interfaces, the first for whom one more costs least.
std::size_t nearest_to_what_is_left(Sharing& sharing, const Table& far,
                                    const std::map<std::vector<int>, std::size_t>& row_of,
                                    const std::vector<std::size_t>& wishes) {
  const std::size_t fewest = std::ranges::min(wishes);
  std::size_t best = far.size();
  int least = std::numeric_limits<int>::max();
  for (std::size_t rank = 0; rank < far.size(); ++rank) {
    if (wishes[rank] != fewest) continue;
    const int cost = sharing.cost_of_one_more(row_of.at(far[rank]));
    if (cost >= least) continue;
    least = cost;
    best = rank;
  }
  return best;
}

// Of interfaces that are all fit for a share.
Table share_fit(const Table& far, const std::vector<double>& rates) {
  Table result(far.size());
  std::map<std::vector<int>, std::size_t> row_of;
  Table rows;
  for (const std::vector<int>& row : far)
    if (row_of.emplace(row, rows.size()).second) rows.push_back(row);
  std::vector<std::size_t> wishes(far.size(), std::max<std::size_t>(rates.size() / far.size(), 1));
  Sharing sharing(std::move(rows), rates, rates.size() >= far.size());
  for (std::size_t turn = 0; turn < wishes.front(); ++turn)
    for (const std::vector<int>& row : far) sharing.add(row_of.at(row));
  for (std::size_t left = rates.size() > far.size() ? rates.size() % far.size() : 0; left > 0;
       --left) {
    const std::size_t rank = nearest_to_what_is_left(sharing, far, row_of, wishes);
    sharing.add(row_of.at(far[rank]));
    ++wishes[rank];
  }
  for (std::size_t rank = 0; rank < far.size(); ++rank) {
    for (std::size_t turn = 0; turn < wishes[rank]; ++turn)
      result[rank].push_back(sharing.give(row_of.at(far[rank])));
    std::ranges::sort(result[rank]);
  }
  return result;
}

// Those fast enough for a share.
std::vector<int> fit_of(const std::vector<double>& rates) {
  std::vector<int> fit;
  const double fastest = rates.empty() ? 0 : std::ranges::max(rates);
  for (std::size_t nic = 0; nic < rates.size(); ++nic)
    if (rates[nic] * kTooSlow >= fastest) fit.push_back(static_cast<int>(nic));
  return fit;
}

template <typename Value>
std::vector<Value> picked(const std::vector<Value>& values, const std::vector<int>& which) {
  std::vector<Value> some;
  for (const int one : which) some.push_back(values[static_cast<std::size_t>(one)]);
  return some;
}

}  // namespace

Table share_interfaces(const Table& far, const std::vector<double>& rates) {
  if (rates.empty() || far.empty()) return Table(far.size());
  const std::vector<int> fit = fit_of(rates);
  Table fit_far;
  for (const std::vector<int>& row : far) fit_far.push_back(picked(row, fit));
  Table result = share_fit(fit_far, picked(rates, fit));
  for (std::vector<int>& taken : result) taken = picked(fit, taken);
  return result;
}

bool is_one_nearer(const Table& far, const std::vector<double>& rates) {
  const std::vector<int> fit = fit_of(rates);
  return std::ranges::any_of(far, [&fit](const std::vector<int>& row) {
    const std::vector<int> seen = picked(row, fit);
    return std::ranges::adjacent_find(seen, std::not_equal_to<>()) != seen.end();
  });
}

Table share_rails(const Table& far, const std::vector<double>& rates, RailPolicy policy) {
  if (policy == RailPolicy::all || rates.empty()) return {};
  if (policy == RailPolicy::automatic && !is_one_nearer(far, rates)) return {};
  return share_interfaces(far, rates);
}

std::string_view name(RailPolicy policy) {
  switch (policy) {
    case RailPolicy::automatic:
      return "auto";
    case RailPolicy::near:
      return "near";
    case RailPolicy::all:
      return "all";
  }
  return {};
}

Result<RailPolicy> rail_policy(std::string_view text) {
  for (const RailPolicy policy : {RailPolicy::automatic, RailPolicy::near, RailPolicy::all})
    if (name(policy) == text) return policy;
  return Status(Code::invalid_argument, fmt::format("'{}': there are auto, near, all", text));
}

}  // namespace weft
