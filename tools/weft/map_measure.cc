// Clocks of different machines cannot be compared, so the sender times its message and the
// receiver's one-byte answer, and takes off what an answer needs.
#include "tools/weft/map_measure.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

namespace weft {
namespace {

constexpr int kWarm = 3;
constexpr int kLaps = 15;

struct Message {
  std::byte* data;
  std::size_t bytes;
};

class EdgeMeasure {
 public:
  EdgeMeasure(Context& context, Message message) : context_(context), message_(message) {}

  // Microseconds, at the sender; nothing at the others.
  Result<double> run(const Edge& edge) {
    WEFT_RETURN_IF_ERROR(context_.barrier());
    const bool sends = context_.rank() == edge.from;
    if (!sends && context_.rank() != edge.to) return 0.0;
    const Rank other = sends ? edge.to : edge.from;
    return laps(other, sends);
  }

 private:
  // A message and its answer, in turn with two answers, so that what slows this machine down for a
  // while slows down both. The fastest answers: a delay that others cause is not to be taken off.
  Result<double> laps(Rank other, bool sends) {
    const Message answer{message_.data, 1};
    std::array<double, kLaps> took{};
    double fastest = std::numeric_limits<double>::infinity();
    for (int lap = -kWarm; lap < kLaps; ++lap) {
      WEFT_ASSIGN(const double there_and_back, exchange(answer, answer, other, sends));
      WEFT_ASSIGN(const double both, exchange(message_, answer, other, sends));
      if (lap < 0) continue;
      fastest = std::min(fastest, there_and_back);
      took[static_cast<std::size_t>(lap)] = both;
    }
    std::ranges::nth_element(took, took.begin() + kLaps / 2);
    return sends ? std::max(took[kLaps / 2] - fastest / 2, 0.0) : 0.0;
  }

  Result<double> exchange(Message message, Message answer, Rank other, bool sends) {
    const std::int64_t start = now_ns();
    WEFT_RETURN_IF_ERROR(sends ? send(message, other) : receive(message, other));
    WEFT_RETURN_IF_ERROR(sends ? receive(answer, other) : send(answer, other));
    constexpr double kNsPerUs = 1e3;
    return static_cast<double>(now_ns() - start) / kNsPerUs;
  }
  Status send(Message message, Rank to) {
    return context_.send({message.data, message.bytes, DataType::u8}, to);
  }
  Status receive(Message message, Rank from) {
    return context_.recv({message.data, message.bytes, DataType::u8}, from);
  }

  Context& context_;
  Message message_;
};

}  // namespace

Result<std::vector<double>> measure_edges(Context& context, const std::vector<Edge>& edges,
                                          std::size_t bytes) {
  const std::size_t room = std::max<std::size_t>(bytes, 1);
  WEFT_ASSIGN(void* memory, allocate(room));
  EdgeMeasure measure(context, {static_cast<std::byte*>(memory), room});
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
