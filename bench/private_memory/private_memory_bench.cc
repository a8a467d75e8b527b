// One operation on private memory (from the C++ library, touched before), call by call: what the
// first call takes, what later ones take, and what the rank then holds for it.
//
//   weft run -n 2 -- bench_private_memory allreduce 67108864
//
// Bytes are those of a whole tensor; a block is one rank's share of it. Rank 0 prints one JSON object;
// its times are the median of the later calls, and the first.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "engine/context/context.h"

namespace {

constexpr int kLaterCalls = 9;

struct Operands {
  std::vector<float> x, y;  // whole tensors
  std::size_t block = 0;    // elements of a rank's share

  [[nodiscard]] weft::Input whole() const { return weft::in(x.data(), x.size()); }
  [[nodiscard]] weft::Input share() const { return weft::in(x.data(), block); }
  [[nodiscard]] weft::Output to_whole() { return weft::out(y.data(), y.size()); }
  [[nodiscard]] weft::Output to_share() { return weft::out(y.data(), block); }
};

using Call = weft::Status (*)(weft::Context& context, Operands& on);

const std::map<std::string, Call> kCalls = {
    {"neighbor_allreduce",
     [](weft::Context& context, Operands& on) {
       return context.neighbor_allreduce(on.whole(), on.to_whole());
     }},
    {"neighbor_allgather",
     [](weft::Context& context, Operands& on) {
       const std::size_t neighbors = context.graph().in_edges(context.rank()).size();
       return context.neighbor_allgather(
           weft::in(on.x.data(), on.x.size() / neighbors),
           weft::out(on.y.data(), on.x.size() / neighbors * neighbors));
     }},
    {"allreduce", [](weft::Context& context,
                     Operands& on) { return context.allreduce(on.whole(), on.to_whole()); }},
    {"broadcast", [](weft::Context& context,
                     Operands& on) { return context.broadcast(on.whole(), on.to_whole(), 0); }},
    {"reduce",
     [](weft::Context& context, Operands& on) {
       const bool is_root = context.rank() == 0;
       return context.reduce(on.whole(), is_root ? on.to_whole() : weft::Output{}, 0);
     }},
    {"allgather", [](weft::Context& context,
                     Operands& on) { return context.allgather(on.share(), on.to_whole()); }},
    {"reduce_scatter",
     [](weft::Context& context, Operands& on) {
       return context.reduce_scatter(on.whole(), on.to_share());
     }},
    {"gather",
     [](weft::Context& context, Operands& on) {
       const bool is_root = context.rank() == 0;
       return context.gather(on.share(), is_root ? on.to_whole() : weft::Output{}, 0);
     }},
    {"scatter",
     [](weft::Context& context, Operands& on) {
       const bool is_root = context.rank() == 0;
       return context.scatter(is_root ? on.whole() : weft::Input{}, on.to_share(), 0);
     }},
    {"alltoall", [](weft::Context& context,
                    Operands& on) { return context.alltoall(on.whole(), on.to_whole()); }},
};

weft::Status run(weft::Context& context, const std::string& name, std::size_t bytes) {
  WEFT_ASSIGN(weft::Graph graph, weft::make_graph("exponential", context.size()));
  WEFT_RETURN_IF_ERROR(context.set_graph(std::move(graph)));
  Operands on;
  on.x.assign(bytes / sizeof(float), 1.0F);
  on.y.assign(bytes / sizeof(float), 0.0F);
  on.block = on.x.size() / static_cast<std::size_t>(context.size());
  const Call call = kCalls.at(name);
  std::vector<double> times;
  for (int again = 0; again <= kLaterCalls; ++again) {
    WEFT_RETURN_IF_ERROR(context.barrier());
    const auto begin = std::chrono::steady_clock::now();
    WEFT_RETURN_IF_ERROR(call(context, on));
    WEFT_RETURN_IF_ERROR(context.barrier());
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    times.push_back(took.count());
  }
  std::sort(times.begin() + 1, times.end());
  if (context.rank() == 0) {
    fmt::print(
        R"({{"op":"{}","bytes":{},"ranks":{},"first_us":{:.1f},"p50_us":{:.1f},"scratch_bytes":{}}})"
        "\n",
        name, bytes, context.size(), times[0], times[1 + kLaterCalls / 2],
        context.usage().scratch_bytes);
  }
  return {};
}

}  // namespace

int main(int count, char** words) {
  if (count != 3 || !kCalls.contains(words[1])) {
    fmt::print(stderr, "usage: weft run -n RANKS -- bench_private_memory OPERATION BYTES\n");
    return 2;
  }
  weft::Result<std::unique_ptr<weft::Context>> context = weft::Context::from_environment();
  const weft::Status status = context.ok()
                                  ? run(**context, words[1], std::strtoull(words[2], nullptr, 10))
                                  : context.status();
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_private_memory: {}\n", status.to_string());
  return 1;
}
