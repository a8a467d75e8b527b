// Clocks of different machines cannot be compared, so the sender times its message and the
// receiver's one-byte answer, and takes off what an answer needs.
#include "tools/weft/map/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>

#include "tools/weft/map/lap_plan.h"

namespace weft {
namespace {

// A rank that waits for a later edge waits at most one deadline, also if this edge is slow at times.
constexpr std::int64_t kEdgesPerDeadline = 6;

struct Message {
  std::byte* data;
  std::size_t bytes;
};

class EdgeMeasure {
 public:
  // `answer` is a byte.
  EdgeMeasure(Context& context, Message message, Message answer)
      : context_(context), message_(message), answer_(answer) {}

  // Microseconds, at the sender; nothing at the others.
  Result<double> run(const Edge& edge) {
    WEFT_RETURN_IF_ERROR(context_.barrier());
    const bool sends = context_.rank() == edge.from;
    if (!sends && context_.rank() != edge.to) return 0.0;
    if (sends) return time_to(edge.to);
    WEFT_RETURN_IF_ERROR(answer_to(edge.from));
    return 0.0;
  }

 private:
  // A message and its answer, in turn with two answers, so that what slows this machine down for a
  // while slows down both. The fastest answers: a delay that others cause is not to be taken off.
  // The first answer of a lap says whether there is one.
  Result<double> time_to(Rank to) {
    const LapPlan plan{context_.config().deadline_ms * kNsPerMs / kEdgesPerDeadline};
    const std::int64_t start = now_ns();
    int warmed = 0;
    std::vector<double> took;
    double fastest = std::numeric_limits<double>::infinity();
    while (true) {
      const LapPlan::Lap lap = plan.next(warmed, static_cast<int>(took.size()), now_ns() - start);
      *answer_.data = lap == LapPlan::Lap::none ? kLast : std::byte{};
      WEFT_ASSIGN(const double there_and_back, exchange(answer_, to));
      if (lap == LapPlan::Lap::none) break;
      WEFT_ASSIGN(const double both, exchange(message_, to));
      if (lap == LapPlan::Lap::warms_up) {
        ++warmed;
        continue;
      }
      fastest = std::min(fastest, there_and_back);
      took.push_back(both);
    }
    const auto middle = took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2);
    std::nth_element(took.begin(), middle, took.end());
    return std::max(*middle - fastest / 2, 0.0);
  }

  Status answer_to(Rank from) {
    while (true) {
      WEFT_RETURN_IF_ERROR(receive(answer_, from));
      const bool is_last = *answer_.data == kLast;
      WEFT_RETURN_IF_ERROR(send(answer_, from));
      if (is_last) return {};
      WEFT_RETURN_IF_ERROR(receive(message_, from));
      WEFT_RETURN_IF_ERROR(send(answer_, from));
    }
  }

  Result<double> exchange(Message message, Rank to) {
    const std::int64_t start = now_ns();
    WEFT_RETURN_IF_ERROR(send(message, to));
    WEFT_RETURN_IF_ERROR(receive(answer_, to));
    constexpr double kNsPerUs = 1e3;
    return static_cast<double>(now_ns() - start) / kNsPerUs;
  }
  Status send(Message message, Rank to) {
    return context_.send({message.data, message.bytes, DataType::u8}, to);
  }
  Status receive(Message message, Rank from) {
    return context_.recv({message.data, message.bytes, DataType::u8}, from);
  }

  static constexpr std::byte kLast{1};
  static constexpr std::int64_t kNsPerMs = 1'000'000;

  Context& context_;
  Message message_;
  Message answer_;
};

}  // namespace

Status check_places(const Cluster& cluster, int ranks, const Layout& job) {
  Rank elsewhere = 0;
  while (elsewhere < ranks && job.machine_of(elsewhere) == cluster.machine_of(elsewhere))
    ++elsewhere;
  if (elsewhere == ranks) return {};
  Rank beside = 0;
  while (job.machine_of(beside) != job.machine_of(elsewhere)) ++beside;
  const std::string here = beside == elsewhere ? std::string("a machine without lower ranks")
                                               : fmt::format("the machine of rank {}", beside);
  const auto machine = static_cast<std::size_t>(cluster.machine_of(elsewhere));
  return {Code::invalid_argument,
          fmt::format("--measure: rank {} is on {}, but {} has it on {}: the file must list the "
                      "machines of the job in the order of its ranks",
                      elsewhere, here, cluster.source, cluster.machines[machine].name)};
}

Result<std::vector<double>> measure_edges(Context& context, const std::vector<Edge>& edges,
                                          std::size_t bytes) {
  const std::size_t room = std::max<std::size_t>(bytes, 1);
  WEFT_ASSIGN(void* memory, allocate(room + 1));
  auto* const message = static_cast<std::byte*>(memory);
  EdgeMeasure measure(context, {message, room}, {message + room, 1});
  std::vector<double> mine;
  Status status;
  for (const Edge& edge : edges) {
    const Result<double> us = measure.run(edge);
    status = us.status();
    if (!status.ok()) break;
    mine.push_back(*us);
  }
  std::vector<double> all(mine.size());
  if (status.ok())  // each edge has one rank that knows it
    status =
        context.allreduce(in(mine.data(), mine.size()), out(all.data(), all.size()), ReduceOp::sum);
  deallocate(memory);
  if (!status.ok()) return status;
  return all;
}

}  // namespace weft
