// Events in the order of time: a node is ready, or ends.
#include "tools/weft/predict/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <unordered_map>

namespace weft {
namespace {

using Kind = ChakraNode::Kind;

struct Place {
  std::uint32_t rank = 0;  // index into the traces
  std::uint32_t node = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

struct Event {
  double us = 0;
  bool is_end = false;
  Place at;
  // Ends come first: what they free is then free for what is ready at the same time.
  friend bool operator>(const Event& a, const Event& b) {
    return std::tuple(a.us, !a.is_end, a.at) > std::tuple(b.us, !b.is_end, b.at);
  }
};

// One at a time, the first of the file first.
struct Unit {
  bool is_busy = false;
  std::set<std::uint32_t> waiting;
};

// A collective that all ranks of a group call; the numbers are those of one group.
struct Call {
  std::vector<Place> here;
  std::size_t expected = 0;
};

struct Group {
  std::vector<Rank> ranks;
  std::vector<std::uint32_t> files;
  double free_us = 0;
};

struct Letter {
  double arrives_us = -1;  // -1: not sent yet
  std::optional<Place> reader;
};

class Player {
 public:
  Player(const std::vector<ChakraTrace>& traces, int ranks, const StepCosts& costs)
      : traces_(traces), size_(ranks), costs_(costs), states_(traces.size()) {}

  Result<PlayedStep> run() {
    for (std::uint32_t rank = 0; rank < traces_.size(); ++rank) WEFT_RETURN_IF_ERROR(prepare(rank));
    WEFT_RETURN_IF_ERROR(number_calls());
    for (std::uint32_t rank = 0; rank < traces_.size(); ++rank)
      for (std::uint32_t node = 0; node < traces_[rank].nodes.size(); ++node)
        if (states_[rank].pending[node] == 0) events_.push({0, false, {rank, node}});
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.us;
      WEFT_RETURN_IF_ERROR(event.is_end ? end(event.at) : begin(event.at));
    }
    WEFT_RETURN_IF_ERROR(check_all_ended());
    return result();
  }

 private:
  struct State {
    std::vector<std::uint32_t> pending;            // by node: dependencies that have not ended
    std::vector<std::vector<std::uint32_t>> next;  // by node: who waits for it
    std::vector<std::uint64_t>
        number;  // by node: of a collective in its group, of a message on its way
    std::uint64_t ended = 0;
    Unit processor, gpu;
    double sender_free_us = 0;
    int computing = 0, communicating = 0;
    double since_us = 0;
    RankOfStep sums;
  };
  using Way = std::tuple<Rank, Rank, std::uint64_t>;  // from, to, tag

  [[nodiscard]] const ChakraNode& node_at(Place at) const {
    return traces_[at.rank].nodes[at.node];
  }
  [[nodiscard]] Status wrong(Place at, const std::string& why) const {
    const ChakraNode& node = node_at(at);
    return {Code::invalid_argument, fmt::format("{}: node {} ({:.60}): {}", traces_[at.rank].path,
                                                node.id, node.name, why)};
  }
  [[nodiscard]] bool is_one_for_all() const { return traces_.size() == 1; }

  Status prepare(std::uint32_t rank) {
    const std::vector<ChakraNode>& nodes = traces_[rank].nodes;
    State& state = states_[rank];
    std::unordered_map<std::uint64_t, std::uint32_t> place_of;
    place_of.reserve(nodes.size());
    for (std::uint32_t node = 0; node < nodes.size(); ++node)
      if (!place_of.emplace(nodes[node].id, node).second)
        return wrong({rank, node}, "its id is there twice");
    state.pending.resize(nodes.size());
    state.next.resize(nodes.size());
    state.number.resize(nodes.size());
    for (std::uint32_t node = 0; node < nodes.size(); ++node) {
      for (const std::uint64_t id : nodes[node].after) {
        const auto before = place_of.find(id);
        if (before == place_of.end())
          return wrong({rank, node}, fmt::format("it waits for node {}, which is not there", id));
        ++state.pending[node];
        state.next[before->second].push_back(node);
      }
    }
    return {};
  }

  // In the order of the files: the third call of a group is the same one at all its ranks.
  Status number_calls() {
    for (std::uint32_t rank = 0; rank < traces_.size(); ++rank) {
      std::map<std::string, std::uint64_t> calls;
      std::map<Way, std::uint64_t> letters;
      for (std::uint32_t node = 0; node < traces_[rank].nodes.size(); ++node) {
        const Place at{rank, node};
        const ChakraNode& it = node_at(at);
        if (it.kind == Kind::computation) continue;
        if (it.kind == Kind::collective) {
          states_[rank].number[node] = calls[it.group]++;
          Group& group = groups_[it.group];
          if (group.files.empty() || group.files.back() != rank) group.files.push_back(rank);
          continue;
        }
        if (is_one_for_all() && size_ > 1)
          return wrong(at, "a message needs the traces of all ranks, not one for all");
        if (it.peer >= static_cast<Rank>(traces_.size()))
          return wrong(at, fmt::format("rank {}, of {} ranks", it.peer, traces_.size()));
        states_[rank].number[node] = letters[way_of(at)]++;
      }
    }
    for (auto& [name, group] : groups_) {
      for (Rank rank = 0; is_one_for_all() && rank < size_; ++rank) group.ranks.push_back(rank);
      for (std::size_t i = 0; !is_one_for_all() && i < group.files.size(); ++i)
        group.ranks.push_back(static_cast<Rank>(group.files[i]));
    }
    return {};
  }

  [[nodiscard]] Way way_of(Place at) const {
    const ChakraNode& node = node_at(at);
    const auto own = static_cast<Rank>(at.rank);
    return node.kind == Kind::send ? Way{own, node.peer, node.tag} : Way{node.peer, own, node.tag};
  }

  // Adds up what the rank did until now.
  void account(State& state) const {
    const double us = now_ - state.since_us;
    if (state.computing > 0) state.sums.computing_us += us;
    if (state.communicating > 0) state.sums.communicating_us += us;
    if (state.communicating > 0 && state.computing == 0) state.sums.exposed_us += us;
    state.since_us = now_;
  }

  Status begin(Place at) {
    State& state = states_[at.rank];
    const ChakraNode& node = node_at(at);
    if (node.kind == Kind::computation) {
      Unit& unit = node.is_on_cpu ? state.processor : state.gpu;
      unit.waiting.insert(at.node);
      start_next(at.rank, unit);
      return {};
    }
    account(state);
    ++state.communicating;
    if (node.kind == Kind::collective) return call(at);
    return node.kind == Kind::send ? send(at) : receive(at);
  }

  void start_next(std::uint32_t rank, Unit& unit) {
    if (unit.is_busy || unit.waiting.empty()) return;
    const std::uint32_t node = *unit.waiting.begin();
    unit.waiting.erase(unit.waiting.begin());
    unit.is_busy = true;
    account(states_[rank]);
    ++states_[rank].computing;
    events_.push({now_ + static_cast<double>(traces_[rank].nodes[node].us), true, {rank, node}});
  }

  Status call(Place at) {
    const ChakraNode& node = node_at(at);
    Group& group = groups_[node.group];
    const std::pair key{node.group, states_[at.rank].number[at.node]};
    Call& call = calls_[key];
    call.here.push_back(at);
    const ChakraNode& first = node_at(call.here.front());
    if (first.operation != node.operation || first.bytes != node.bytes)
      return wrong(
          at, fmt::format("call {} of its group is {} of {} bytes, and {} of {} at {}", key.second,
                          weft::name(node.operation), node.bytes, weft::name(first.operation),
                          first.bytes, traces_[call.here.front().rank].path));
    if (call.here.size() < group.files.size()) return {};
    double us = 0;
    if (group.ranks.size() > 1) {
      WEFT_ASSIGN(us, costs_.collective_us(node, group.ranks));
    }
    group.free_us = std::max(now_, group.free_us) + us;
    count(weft::name(node.operation), node.bytes, us);
    for (const Place& each : call.here) events_.push({group.free_us, true, each});
    calls_.erase(key);
    return {};
  }

  Status send(Place at) {
    const ChakraNode& node = node_at(at);
    WEFT_ASSIGN(const StepCosts::Message costs,
                costs_.message(static_cast<Rank>(at.rank), node.peer, node.bytes));
    double& free_us = states_[at.rank].sender_free_us;
    free_us = std::max(now_, free_us) + costs.sending_us;
    count("message", node.bytes, costs.sending_us + costs.latency_us);
    events_.push({free_us, true, at});
    Letter& letter = letters_[{way_of(at), states_[at.rank].number[at.node]}];
    letter.arrives_us = free_us + costs.latency_us;
    if (letter.reader) events_.push({std::max(now_, letter.arrives_us), true, *letter.reader});
    return {};
  }

  Status receive(Place at) {
    Letter& letter = letters_[{way_of(at), states_[at.rank].number[at.node]}];
    if (letter.arrives_us < 0)
      letter.reader = at;
    else
      events_.push({std::max(now_, letter.arrives_us), true, at});
    return {};
  }

  Status end(Place at) {
    State& state = states_[at.rank];
    const ChakraNode& node = node_at(at);
    account(state);
    ++state.ended;
    state.sums.us = now_;
    for (const std::uint32_t next : state.next[at.node])
      if (--state.pending[next] == 0) events_.push({now_, false, {at.rank, next}});
    if (node.kind != Kind::computation) {
      --state.communicating;
      return {};
    }
    --state.computing;
    Unit& unit = node.is_on_cpu ? state.processor : state.gpu;
    unit.is_busy = false;
    start_next(at.rank, unit);
    return {};
  }

  void count(std::string_view what, std::uint64_t bytes, double us) {
    OperationOfStep& sum = sums_[{std::string(what), bytes}];
    ++sum.count;
    sum.us += us;
  }

  Status check_all_ended() const {
    for (const auto& [key, call] : calls_) {
      const Group& group = groups_.at(key.first);
      for (const std::uint32_t file : group.files) {
        if (std::ranges::count(call.here, file, &Place::rank) == 0)
          return wrong(call.here.front(),
                       fmt::format("{} never comes to this call", traces_[file].path));
      }
    }
    for (std::uint32_t rank = 0; rank < traces_.size(); ++rank) {
      const State& state = states_[rank];
      if (state.ended == traces_[rank].nodes.size()) continue;
      for (const auto& [key, letter] : letters_)
        if (letter.reader && letter.arrives_us < 0)
          return wrong(*letter.reader,
                       fmt::format("rank {} never sends this message", std::get<0>(key.first)));
      for (std::uint32_t node = 0; node < state.pending.size(); ++node)
        if (state.pending[node] > 0) return wrong({rank, node}, "dependencies go in a circle");
    }
    return {};
  }

  PlayedStep result() {
    PlayedStep step;
    for (std::uint32_t rank = 0; rank < traces_.size(); ++rank) {
      const RankOfStep& sums = states_[rank].sums;
      step.us = std::max(step.us, sums.us);
      step.ranks.push_back(sums);
      step.nodes += traces_[rank].nodes.size();
      for (const ChakraNode& node : traces_[rank].nodes)
        step.without_time += node.kind == Kind::computation && node.us == 0 ? 1U : 0U;
    }
    for (auto& [key, sum] : sums_) {
      sum.name = key.first;
      sum.bytes = key.second;
      step.operations.push_back(sum);
    }
    std::ranges::stable_sort(step.operations, std::greater{}, &OperationOfStep::us);
    return step;
  }

  const std::vector<ChakraTrace>& traces_;
  const int size_;
  const StepCosts& costs_;
  double now_ = 0;
  std::vector<State> states_;
  std::map<std::string, Group> groups_;
  std::map<std::pair<std::string, std::uint64_t>, Call> calls_;
  std::map<std::pair<Way, std::uint64_t>, Letter> letters_;
  std::map<std::pair<std::string, std::uint64_t>, OperationOfStep> sums_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace

Result<PlayedStep> play_step(const std::vector<ChakraTrace>& traces, int ranks,
                             const StepCosts& costs) {
  return Player(traces, ranks, costs).run();
}

}  // namespace weft
