// One rank of a soak (tools/soak): it makes steps until its time is over. In each it lets ranks in and calls one operation
// that a seed chooses, the same on all ranks; it checks every result. An operation may say that a rank is gone;
// any other error, and any wrong element, ends the rank with status 1. Whoever watches kills, stops and restarts
// ranks, and cuts cables.
//
//   soak_rank SECONDS SEED
//
// At the end it prints what it has done and what it holds, on one line of "name=value" each.
#include <dirent.h>
#include <fmt/format.h>
#include <weft/macros.h>
#include <weft/weft.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace {

using weft::Code;
using weft::Context;
using weft::Graph;
using weft::in;
using weft::out;
using weft::Rank;
using weft::ReduceOp;
using weft::Result;
using weft::Status;

constexpr std::size_t kMostElements = 200'000;

bool is_gone(const Status& status) {
  return status.code() == Code::peer_died || status.code() == Code::peer_left;
}

Status wrong(const std::string& what) {
  return Status(Code::system, fmt::format("WRONG: {}", what));
}

std::size_t entries_of(const char* folder) {
  std::size_t count = 0;
  DIR* const open = opendir(folder);
  if (open == nullptr) return 0;
  while (readdir(open) != nullptr) ++count;
  closedir(open);
  return count;
}

std::size_t resident_kib() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4;
}

std::size_t heap_kib() {
  const std::string text = weft::metrics();
  const std::string name = "\nweft_heap_allocated_bytes ";
  const std::size_t place = text.find(name);
  return place == std::string::npos
             ? 0
             : std::strtoull(text.c_str() + place + name.size(), nullptr, 10) / 1024;
}

// Memory of the process or of the shared heap, which tensors can have either of.
template <typename T>
struct Anywhere {
  using value_type = T;
  explicit Anywhere(bool is_shared) : is_shared(is_shared) {}
  template <typename Other>
  explicit Anywhere(const Anywhere<Other>& other) : is_shared(other.is_shared) {}
  T* allocate(std::size_t count) const {
    const std::size_t bytes = count * sizeof(T);
    return static_cast<T*>(is_shared ? weft::allocate(bytes).value() : ::operator new(bytes));
  }
  void deallocate(T* data, std::size_t) const {
    is_shared ? weft::deallocate(data) : ::operator delete(data);
  }
  bool operator==(const Anywhere&) const = default;

  bool is_shared;
};
using Ints = std::vector<std::int64_t, Anywhere<std::int64_t>>;
using Doubles = std::vector<double, Anywhere<double>>;

// What a rank holds, which must not grow.
struct Held {
  std::size_t descriptors = entries_of("/proc/self/fd");
  std::size_t threads = entries_of("/proc/self/task");
  std::size_t resident = resident_kib();
  std::size_t heap = heap_kib();
};

class Soak {
 public:
  Soak(Context& context, std::uint64_t seed)
      : context_(context),
        seed_(seed),
        own_random_(seed + static_cast<std::uint64_t>(context.rank())) {}

  Status run(double seconds);

 private:
  using Random = std::mt19937_64;
  using Operation = Status (Soak::*)(Random&);

  Status let_in();
  Status step();
  Result<bool> is_over(bool over);

  Status allreduce(Random& random);
  Status in_place(Random& random);
  Status in_flight(Random& random);
  Status neighbors(Random& random);
  Status broadcast(Random& random);
  Status reduce(Random& random);
  Status allgather(Random& random);
  Status alltoall(Random& random);
  Status barrier(Random& random);
  Status graph(Random& random);
  Status split(Random& random);
  Status window(Random& random);
  Status window_of(Context& context, Random& random);
  Status named(Random& random);
  Status group(Random& random);

  // Tensors of this rank; where they are is no matter of the others.
  Ints ints(std::size_t count, std::int64_t value = 0) {
    return {count, value, Anywhere<std::int64_t>(own_random_() % 2 == 0)};
  }
  Doubles doubles(std::size_t count, double value = 0) {
    return {count, value, Anywhere<double>(own_random_() % 2 == 0)};
  }
  [[nodiscard]] std::int64_t mask() const {
    std::int64_t bits = 0;
    for (const Rank rank : context_.members()) bits |= std::int64_t{1} << rank;
    return bits;
  }
  [[nodiscard]] std::int64_t own() const { return std::int64_t{1} << context_.rank(); }
  [[nodiscard]] Status all_are(std::span<const std::int64_t> y, std::int64_t value,
                               const char* what) const;
  static std::size_t size_of(Random& random) {
    const double power = std::uniform_real_distribution<>(0, std::log2(kMostElements))(random);
    return static_cast<std::size_t>(std::exp2(power));
  }

  Context& context_;
  const std::uint64_t seed_;
  Random own_random_;  // which differs by rank
  std::int64_t step_ = 0;
  bool has_come_back_ = false;
  std::map<std::string, std::int64_t> done_;
};

Status Soak::all_are(std::span<const std::int64_t> y, std::int64_t value, const char* what) const {
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (y[i] != value)
      return wrong(fmt::format("{}: element {} is {}, not {}", what, i, y[i], value));
  }
  return {};
}

Status Soak::allreduce(Random& random) {
  const Ints x = ints(size_of(random), own());
  Ints y = ints(x.size());
  WEFT_RETURN_IF_ERROR(
      context_.allreduce(in(x.data(), x.size()), out(y.data(), y.size()), ReduceOp::sum));
  return all_are(y, mask(), "allreduce");
}

Status Soak::in_place(Random& random) {
  Ints x = ints(size_of(random), own());
  WEFT_RETURN_IF_ERROR(
      context_.allreduce(in(x.data(), x.size()), out(x.data(), x.size()), ReduceOp::sum));
  return all_are(x, mask(), "allreduce in place");
}

Status Soak::in_flight(Random& random) {
  constexpr std::size_t kHandles = 4;
  const Ints x = ints(size_of(random), own());
  std::vector<Ints> y(kHandles, ints(x.size()));
  std::vector<weft::Handle> handles;
  Status failed;
  for (auto& each : y) {
    Result<weft::Handle> handle = context_.allreduce_start(
        in(x.data(), x.size()), out(each.data(), each.size()), ReduceOp::sum);
    if (handle.ok()) handles.push_back(*std::move(handle));
    if (!handle.ok()) failed = handle.status();
  }
  const std::int64_t before = mask();
  for (std::size_t i = 0; i < handles.size(); ++i) {
    const Status status = handles[i].wait();
    if (!status.ok()) failed = status;
    // A death between two of them leaves the first as it was.
    const std::int64_t found = y[i].front();
    if (status.ok() && found != before && found != mask())
      return wrong(fmt::format("allreduce in flight: {}", found));
    if (status.ok()) WEFT_RETURN_IF_ERROR(all_are(y[i], found, "allreduce in flight"));
  }
  return failed;
}

Status Soak::neighbors(Random& random) {
  const auto value = [this](Rank rank) { return rank + static_cast<double>(step_ % 7); };
  const Doubles x = doubles(size_of(random), value(context_.rank()));
  Doubles y = doubles(x.size());
  const std::int64_t before = mask();
  WEFT_RETURN_IF_ERROR(
      context_.neighbor_allreduce(in(x.data(), x.size()), out(y.data(), y.size())));
  // If a rank died, the call may have ended on other ranks already, and this one keeps its own.
  if (before != mask() && std::ranges::equal(x, y)) return {};
  const Graph& graph = context_.graph();
  double sum = 0, weights = 0;
  const auto add = [&](Rank rank, double weight) {
    sum += weight * value(rank);
    weights += weight;
  };
  const double share = 1.0 / static_cast<double>(graph.in_edges(context_.rank()).size() + 1);
  const bool is_healed = std::ssize(context_.members()) != context_.size();
  add(context_.rank(), is_healed ? graph.self_weight(context_.rank()) : share);
  for (const weft::Peer& peer : graph.in_edges(context_.rank()))
    add(peer.rank, is_healed ? peer.weight : share);
  for (const double each : y) {
    if (std::abs(each - sum) > 1e-9)
      return wrong(fmt::format("neighbor_allreduce: {}, not {}", each, sum));
  }
  return {};
}

Status Soak::broadcast(Random& random) {
  const auto root = static_cast<Rank>(random() % static_cast<std::uint64_t>(context_.size()));
  Ints x = ints(size_of(random), own());
  WEFT_RETURN_IF_ERROR(context_.broadcast(in(x.data(), x.size()), out(x.data(), x.size()), root));
  return all_are(x, std::int64_t{1} << root, "broadcast");
}

Status Soak::reduce(Random& random) {
  const auto root = static_cast<Rank>(random() % static_cast<std::uint64_t>(context_.size()));
  const Ints x = ints(size_of(random), own());
  Ints y = ints(x.size());
  WEFT_RETURN_IF_ERROR(
      context_.reduce(in(x.data(), x.size()), out(y.data(), y.size()), root, ReduceOp::sum));
  return root == context_.rank() ? all_are(y, mask(), "reduce") : Status();
}

Status Soak::allgather(Random& random) {
  const Ints x = ints(size_of(random) / 4 + 1, own());
  Ints y = ints(x.size() * static_cast<std::size_t>(context_.size()));
  WEFT_RETURN_IF_ERROR(context_.allgather(in(x.data(), x.size()), out(y.data(), y.size())));
  for (std::size_t i = 0; i < y.size(); ++i)
    if (y[i] != std::int64_t{1} << (i / x.size())) return wrong("allgather");
  return {};
}

Status Soak::alltoall(Random& random) {
  const auto ranks = static_cast<std::size_t>(context_.size());
  const std::size_t block = size_of(random) / 8 + 1;
  Ints x = ints(block * ranks), y = ints(block * ranks);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = own() * 1000 + static_cast<std::int64_t>(i / block);
  WEFT_RETURN_IF_ERROR(context_.alltoall(in(x.data(), x.size()), out(y.data(), y.size())));
  for (std::size_t i = 0; i < y.size(); ++i)
    if (y[i] != (std::int64_t{1} << (i / block)) * 1000 + context_.rank()) return wrong("alltoall");
  return {};
}

Status Soak::barrier(Random&) {
  return context_.barrier();
}

Status Soak::graph(Random& random) {
  const int size = context_.size();
  const auto made = random() % 3 == 0   ? weft::ring_graph(size)
                    : random() % 2 == 0 ? weft::exponential_graph(size)
                                        : weft::fully_connected_graph(size);
  return context_.set_graph(made.value());
}

Status Soak::split(Random&) {
  WEFT_ASSIGN(const std::unique_ptr<Context> half, context_.split(context_.rank() % 2));
  const std::int64_t one = 1;
  std::int64_t sum = 0;
  WEFT_RETURN_IF_ERROR(half->allreduce(in(&one, 1), out(&sum, 1), ReduceOp::sum));
  return sum == std::ssize(half->members()) ? Status() : wrong(fmt::format("split: {}", sum));
}

// A rank that hears of a death by a put is at another call than those that hear of it in a fence. So the window is on a context
// of its own, which that rank leaves.
Status Soak::window(Random& random) {
  WEFT_ASSIGN(const std::unique_ptr<Context> left, context_.split(0));
  return window_of(*left, random);
}

Status Soak::window_of(Context& context, Random& random) {
  // Mostly small: the memory of a window that is open when a rank dies stays.
  const std::size_t most = random() % 16 == 0 ? kMostElements : 2000;
  const auto tensor = std::make_shared<Doubles>(doubles(size_of(random) % most + 1, 1.0));
  Doubles& x = *tensor;
  const std::string name = fmt::format("w{}", step_);
  WEFT_ASSIGN(weft::Window window,
              context.win_create(out(x.data(), x.size()), name, {.owner = tensor}));
  for (std::uint64_t puts = 1 + random() % 4; puts != 0; --puts) {
    WEFT_RETURN_IF_ERROR(random() % 2 == 0 ? window.put(out(x.data(), x.size())) : window.get());
    WEFT_RETURN_IF_ERROR(context.win_fence());
    WEFT_RETURN_IF_ERROR(window.update());
    for (const double each : x)
      if (std::abs(each - 1) > 1e-12) return wrong("window");
    WEFT_RETURN_IF_ERROR(context.win_fence());
  }
  return context.win_free(name);
}

Status Soak::named(Random& random) {
  WEFT_ASSIGN(weft::Named named, context_.named());
  Ints x = ints(size_of(random), own());
  std::vector<weft::Handle> handles;
  std::vector<Ints> y(3, ints(x.size()));
  for (std::size_t i = 0; i < y.size(); ++i) {
    const weft::Request request{.collective = weft::Collective::allreduce,
                                .input = in(x.data(), x.size()),
                                .output = out(y[i].data(), x.size()),
                                .op = ReduceOp::sum};
    WEFT_ASSIGN(weft::Handle handle, named.start(fmt::format("tensor {}", i), request));
    handles.push_back(std::move(handle));
  }
  Status failed;
  for (weft::Handle& handle : handles)
    if (const Status status = handle.wait(); !status.ok()) failed = status;
  WEFT_RETURN_IF_ERROR(failed);
  for (const auto& each : y)
    WEFT_RETURN_IF_ERROR(
        all_are(each, (std::int64_t{1} << context_.size()) - 1, "allreduce by name"));
  return named.end();
}

// The tensors of a group are slices of one array.
Status Soak::group(Random& random) {
  WEFT_ASSIGN(weft::Named named, context_.named());
  const std::size_t slices = 1 + random() % 64;
  const std::size_t count = size_of(random) / slices + 1;
  Ints x = ints(count * slices, own());
  Ints y = ints(x.size());
  const bool is_in_place = random() % 2 == 0;
  std::vector<weft::Request> requests;
  for (std::size_t i = 0; i < slices; ++i)
    requests.push_back({.collective = weft::Collective::allreduce,
                        .input = in(x.data() + i * count, count),
                        .output = out((is_in_place ? x : y).data() + i * count, count),
                        .op = ReduceOp::sum});
  WEFT_ASSIGN(weft::Handle handle, named.start_group("slices", requests));
  WEFT_RETURN_IF_ERROR(handle.wait());
  WEFT_RETURN_IF_ERROR(all_are(is_in_place ? x : y, (std::int64_t{1} << context_.size()) - 1,
                               "allreduce of a group"));
  return named.end();
}

Status Soak::let_in() {
  const std::vector<weft::Output> state = {out(&step_, 1)};
  WEFT_ASSIGN(const std::vector<Rank> ranks, context_.admit(state));
  done_["let in"] += std::ssize(ranks);
  has_come_back_ |= std::ranges::count(ranks, context_.rank()) != 0;
  return {};
}

Status Soak::step() {
  struct Choice {
    const char* name;
    Operation operation;
  };
  static constexpr Choice kChoices[] = {
      {"allreduce", &Soak::allreduce}, {"in place", &Soak::in_place},
      {"in flight", &Soak::in_flight}, {"neighbors", &Soak::neighbors},
      {"neighbors", &Soak::neighbors}, {"broadcast", &Soak::broadcast},
      {"reduce", &Soak::reduce},       {"allgather", &Soak::allgather},
      {"alltoall", &Soak::alltoall},   {"barrier", &Soak::barrier},
      {"graph", &Soak::graph},         {"split", &Soak::split},
      {"window", &Soak::window},       {"named", &Soak::named},
      {"group", &Soak::group}};
  Random random(seed_ * 1'000'003 + static_cast<std::uint64_t>(step_));
  const Choice& choice = kChoices[random() % std::size(kChoices)];
  const Status status = (this->*choice.operation)(random);
  if (status.ok()) ++done_[choice.name];
  if (is_gone(status)) ++done_["gone"];
  if (status.ok() || is_gone(status)) return {};
  return Status(status.code(), fmt::format("{}, step {}: {}", choice.name, step_, status.text()));
}

// Whether the time of any rank is over. A rank that does not hear of it makes another step.
Result<bool> Soak::is_over(bool over) {
  const std::int64_t mine = over ? 1 : 0;
  std::int64_t all = 0;
  const Status status = context_.allreduce(in(&mine, 1), out(&all, 1), ReduceOp::max);
  if (is_gone(status)) return over;
  WEFT_RETURN_IF_ERROR(status);
  return all != 0;
}

Status Soak::run(double seconds) {
  const weft::Deadline end = weft::Deadline::after_ms(static_cast<std::int64_t>(seconds * 1000));
  constexpr std::int64_t kStepsToWarmUp = 100;
  Held first;
  for (std::int64_t made = 0;; ++made) {
    if (made == kStepsToWarmUp) first = Held();
    WEFT_RETURN_IF_ERROR(let_in());
    WEFT_ASSIGN(const bool over, is_over(end.passed()));
    if (over) break;
    WEFT_RETURN_IF_ERROR(step());
    ++step_;
  }
  const Held last;
  fmt::print("step={};came back={}", step_, has_come_back_ ? 1 : 0);
  for (const auto& [held, when] : {std::pair<const Held*, const char*>(&first, " at first"),
                                   std::pair<const Held*, const char*>(&last, "")})
    fmt::print(";descriptors{0}={1};threads{0}={2};resident KiB{0}={3};heap KiB{0}={4}", when,
               held->descriptors, held->threads, held->resident, held->heap);
  for (const auto& [name, count] : done_) fmt::print(";{}={}", name, count);
  std::printf("\n");
  std::fflush(stdout);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 10;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const auto context = Context::from_environment();
  if (!context.ok()) {
    std::printf("failed: no context: %s\n", context.status().to_string().c_str());
    return 1;
  }
  const Status status = Soak(**context, seed).run(seconds);
  if (status.ok()) return 0;
  std::printf("failed: %s\n", status.to_string().c_str());
  return 1;
}
