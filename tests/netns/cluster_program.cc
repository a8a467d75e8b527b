// A rank for the tests and figures of several hosts: joins by its environment, runs one operation
// again and again on values that it can check, and tells how long that took.
//
//   tools/netns -n 4 --rates 1000 --each cluster_program OPERATION[+OPERATION…] GRAPH BYTES REPEAT [WARMUPS]
//
// OPERATION is neighbor_allreduce, neighbor_allgather, allreduce, broadcast or
// hierarchical_neighbor_allreduce, whose GRAPH is that of the machines, on floats; allreduce:NAME
// is by that algorithm, and allreduce:NAME and neighbor_allreduce:NAME with that compression. Every element of every result is checked. REPEAT 0 is: until rank 0's standard input ends. Rank 0
// prints one JSON line; each time in it is the slowest rank's, from the end of a barrier.
#include <poll.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "engine/context/context.h"

namespace weft {
namespace {

constexpr int kWarmUps = 2;  // rounds that are checked and not told, if nothing else is said
constexpr float kTolerance = 1e-3F;  // results are below 250 * ranks; a wrong addend is 1/ranks off
constexpr float kTolerance8Bits = 4;  // of results below 250: buckets of a sample

struct Job {
  std::string operation;
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic;
  Compression compression = Compression::none;
  std::string graph;
  std::size_t bytes = 0;
  int repeat = 0;
  int warm_ups = kWarmUps;

  [[nodiscard]] std::size_t count() const { return bytes / sizeof(float); }
};

// What rank `rank` gives as element `i` of repetition `round`: whole numbers that differ from those
// around them in all three directions, and begin again after so many elements. So what is right is
// worked out once for all of them: in an emulated processor it would take longer than the operation.
constexpr std::size_t kPeriod = 241;
float given(Rank rank, std::size_t i, int round) {
  return static_cast<float>(
      (i * 7 + static_cast<std::size_t>(rank) * 13 + static_cast<std::size_t>(round) * 5) %
      kPeriod);
}

class Exercise {
 public:
  static Result<Exercise> create(Context& context, const Job& job) {
    WEFT_ASSIGN(const Context::Placement here, context.placement());
    Exercise exercise(context, job, here);
    if (job.operation == "neighbor_allgather") exercise.blocks_ = exercise.in_.size();
    const std::size_t bytes = job.count() * sizeof(float);
    WEFT_ASSIGN(void* x, allocate(bytes));
    WEFT_ASSIGN(void* y, allocate(std::max<std::size_t>(exercise.blocks_, 1) * bytes));
    exercise.x_ = static_cast<float*>(x);
    exercise.y_ = static_cast<float*>(y);
    return exercise;
  }

  // Nanoseconds that the operation took here, its result checked.
  Result<double> round(int number) {
    for (std::size_t i = 0; i < std::min(kPeriod, job_.count()); ++i)
      x_[i] = given(context_.rank(), i, number);
    for (std::size_t i = kPeriod; i < job_.count(); ++i) x_[i] = x_[i - kPeriod];
    WEFT_RETURN_IF_ERROR(context_.barrier());
    const std::int64_t begin = now_ns();
    WEFT_RETURN_IF_ERROR(operate());
    const auto took = static_cast<double>(now_ns() - begin);
    WEFT_RETURN_IF_ERROR(check(number));
    return took;
  }

 private:
  Exercise(Context& context, const Job& job, const Context::Placement& here)
      : context_(context), job_(job), here_(here) {
    // The context's graphs stay, and keep what this shows.
    if (!is_over_machines()) {
      in_ = context.graph().in_edges(context.rank());
    } else if (machines_ = context.machine_graph(); machines_) {
      in_ = machines_->in_edges(here_.machine_rank);
    }
  }

  [[nodiscard]] bool is_over_machines() const {
    return job_.operation == "hierarchical_neighbor_allreduce";
  }

  Status operate() {
    const Input x = in(x_, job_.count());
    const Output y = out(y_, blocks_ * job_.count());
    if (job_.operation == "neighbor_allreduce") {
      return context_.run({.collective = Collective::neighbor_allreduce,
                           .input = x,
                           .output = y,
                           .compression = job_.compression});
    }
    if (job_.operation == "neighbor_allgather") return context_.neighbor_allgather(x, y);
    if (job_.operation == "allreduce") {
      return context_.run({.collective = Collective::allreduce,
                           .input = x,
                           .output = y,
                           .op = ReduceOp::sum,
                           .algorithm = job_.algorithm,
                           .compression = job_.compression});
    }
    if (job_.operation == "broadcast") return context_.broadcast(x, y, 0);
    if (is_over_machines()) return context_.hierarchical_neighbor_allreduce(x, y);
    return {Code::invalid_argument, "operation " + job_.operation + " is not known"};
  }

  // What a neighbor counts for: a rank's element, or a machine's mean.
  [[nodiscard]] double given_by(int neighbor, std::size_t i, int number) const {
    if (!is_over_machines()) return static_cast<double>(given(neighbor, i, number));
    double sum = 0, ranks = 0;
    for (Rank rank = 0; rank < context_.size(); ++rank) {
      if (here_.layout.machine_of(rank) != neighbor) continue;
      sum += static_cast<double>(given(rank, i, number));
      ++ranks;
    }
    return sum / ranks;
  }

  // Element i of block `block` of the result, from its definition.
  [[nodiscard]] double expected(std::size_t block, std::size_t i, int number) const {
    if (job_.operation == "broadcast") return static_cast<double>(given(0, i, number));
    if (job_.operation == "neighbor_allgather")
      return static_cast<double>(given(in_[block].rank, i, number));
    double sum = 0;
    if (job_.operation == "allreduce") {
      for (Rank rank = 0; rank < context_.size(); ++rank)
        sum += static_cast<double>(given(rank, i, number));
      return sum;
    }
    sum = given_by(is_over_machines() ? here_.machine_rank : context_.rank(), i, number);
    for (const Peer& peer : in_) sum += given_by(peer.rank, i, number);
    return sum / static_cast<double>(in_.size() + 1);
  }

  [[nodiscard]] Status check(int number) const {
    std::array<float, kPeriod> right;
    for (std::size_t block = 0; block < blocks_; ++block) {
      for (std::size_t i = 0; i < kPeriod; ++i)
        right[i] = static_cast<float>(expected(block, i, number));
      for (std::size_t begin = 0; begin < job_.count(); begin += kPeriod) {
        const std::size_t end = std::min(begin + kPeriod, job_.count());
        WEFT_RETURN_IF_ERROR(check(right, block * job_.count() + begin, end - begin, number));
      }
    }
    return {};
  }

  // `count` elements of the result, from `first` on.
  [[nodiscard]] Status check(const std::array<float, kPeriod>& right, std::size_t first,
                             std::size_t count, int number) const {
    const float* const y = y_ + first;
    const float tolerance = job_.compression == Compression::sketch ? kTolerance8Bits : kTolerance;
    if (std::memcmp(y, right.data(), count * sizeof(float)) == 0) return {};
    for (std::size_t i = 0; i < count; ++i) {
      if (!(std::abs(y[i] - right[i]) <= tolerance)) {
        return {Code::mismatch, job_.operation + ", round " + std::to_string(number) +
                                    ": element " + std::to_string(first + i) + " is " +
                                    std::to_string(y[i]) + "; expected " +
                                    std::to_string(right[i])};
      }
    }
    return {};
  }

  Context& context_;
  const Job& job_;
  Context::Placement here_;
  std::optional<Graph> machines_;
  std::span<const Peer> in_;  // of the graph that the operation is over
  std::size_t blocks_ = 1;    // of job_.count() elements in the result
  float* x_ = nullptr;        // both for the life of the process
  float* y_ = nullptr;
};

// Whether a further round is due after so many: all ranks hear it from rank 0.
Result<bool> goes_on(Context& context, const Job& job, int rounds) {
  if (job.repeat > 0) return rounds < job.repeat;
  pollfd input{.fd = 0, .events = POLLIN, .revents = 0};
  const int ended = context.rank() == 0 ? poll(&input, 1, 0) : 0;
  int told = 0;
  WEFT_RETURN_IF_ERROR(context.broadcast(in(&ended, 1), out(&told, 1), 0));
  return told == 0;
}

// Sorted; of each round the slowest rank's.
Result<std::vector<double>> measure(Context& context, const Job& job) {
  WEFT_ASSIGN(Exercise exercise, Exercise::create(context, job));
  for (int round = 0; round < job.warm_ups; ++round)
    WEFT_RETURN_IF_ERROR(exercise.round(round).status());
  std::vector<double> mine;
  for (bool more = true; more;) {
    WEFT_ASSIGN(const double took, exercise.round(job.warm_ups + static_cast<int>(mine.size())));
    mine.push_back(took);
    WEFT_ASSIGN(more, goes_on(context, job, static_cast<int>(mine.size())));
  }
  std::vector<double> slowest(mine.size());
  WEFT_RETURN_IF_ERROR(context.allreduce(in(mine.data(), mine.size()),
                                         out(slowest.data(), slowest.size()), ReduceOp::max));
  std::ranges::sort(slowest);
  return slowest;
}

Status run(Context& context, const Job& job) {
  const bool over_machines = job.operation == "hierarchical_neighbor_allreduce";
  const int nodes = over_machines ? context.machine_size() : context.size();
  WEFT_ASSIGN(const Graph graph, make_graph(job.graph, nodes));
  WEFT_RETURN_IF_ERROR(over_machines ? context.set_machine_graph(graph) : context.set_graph(graph));
  WEFT_ASSIGN(const std::vector<double> times, measure(context, job));
  if (context.rank() != 0) return {};
  const double p50_ns = times[times.size() / 2];
  std::printf(
      "{\"op\":\"%s\",\"graph\":\"%s\",\"bytes\":%zu,\"ranks\":%d,\"p50_us\":%.2f,\"min_us\":%.2f,"
      "\"max_us\":%.2f,\"GBps\":%.4f}\n",
      job.operation.c_str(), graph.name().c_str(), job.bytes, context.size(), p50_ns / 1e3,
      times.front() / 1e3, times.back() / 1e3, static_cast<double>(job.bytes) / p50_ns);
  return {};
}

// Each of `operations` may have an algorithm or a compression behind it.
Status run(const std::string& operations, Job job) {
  WEFT_ASSIGN(const auto context, Context::from_environment());
  std::istringstream all(operations);
  for (std::string operation; std::getline(all, operation, '+');) {
    const std::size_t colon = std::min(operation.find(':'), operation.size());
    const std::string by = colon == operation.size() ? "auto" : operation.substr(colon + 1);
    const Result<Compression> compressed = compression(by);
    job.compression = compressed.ok() ? *compressed : Compression::none;
    job.algorithm = AllreduceAlgorithm::automatic;
    if (!compressed.ok()) {
      WEFT_ASSIGN(job.algorithm, allreduce_algorithm(by));
    }
    job.operation = operation.substr(0, colon);
    WEFT_RETURN_IF_ERROR(run(*context, job));
  }
  return {};
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const bool is_whole = argc == 5 || argc == 6;
  const long long bytes = is_whole ? std::atoll(argv[3]) : 0;
  const int repeat = is_whole ? std::atoi(argv[4]) : 0;
  const int warm_ups = argc == 6 ? std::atoi(argv[5]) : weft::kWarmUps;
  if (bytes < 4 || bytes % 4 != 0 || repeat < 0 || warm_ups < 0) {
    std::fprintf(
        stderr,
        "usage: cluster_program OPERATION GRAPH BYTES REPEAT [WARMUPS] (BYTES of floats)\n");
    return 2;
  }
  weft::Job job;
  job.graph = argv[2];
  job.bytes = static_cast<std::size_t>(bytes);
  job.repeat = repeat;
  job.warm_ups = warm_ups;
  const weft::Status done = weft::run(argv[1], job);
  if (!done.ok()) std::fprintf(stderr, "cluster_program: %s\n", done.to_string().c_str());
  return done.ok() ? 0 : 1;
}
