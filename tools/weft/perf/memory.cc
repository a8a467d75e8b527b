// Memory by degree: the same operation among more and more ranks. The degree of a ring stays the same,
// so its bytes must not grow. The graph of --graph shows the growth with the degree.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>

#include "engine/context/context.h"
#include "tools/weft/common/save.h"
#include "tools/weft/perf/perf.h"
#include "tools/weft/perf/seat.h"

namespace weft {
namespace {

constexpr int kFewest = 4;
constexpr int kMost = 32;
constexpr std::size_t kSmall = 4;          // floats: copied to slots
constexpr std::size_t kLarge = 256 << 10;  // floats: read in place

struct Held {
  std::size_t peers = 0;
  std::size_t endpoint_bytes = 0;
  std::size_t scratch_bytes = 0;
};

// What one rank's context holds after a small and a large operation.
Result<Held> hold(const Graph& graph, const Config& config, const std::shared_ptr<Store>& store) {
  WEFT_ASSIGN(const std::unique_ptr<Context> context, Context::create(config, store));
  WEFT_RETURN_IF_ERROR(context->set_graph(graph, true));
  WEFT_ASSIGN(const Tensor x, Tensor::make(kLarge * sizeof(float), false));
  WEFT_ASSIGN(const Tensor y, Tensor::make(kLarge * sizeof(float), false));
  for (const std::size_t count : {kSmall, kLarge}) {
    WEFT_RETURN_IF_ERROR(context->neighbor_allreduce({x.data(), count}, {y.data(), count}));
  }
  const Context::Usage usage = context->usage();
  // Ranks meet at the store. A barrier would connect ranks that are no neighbors.
  WEFT_RETURN_IF_ERROR(store->fence(Deadline::after_ms(config.deadline_ms)));
  return Held{usage.connected_peers, usage.endpoint_bytes, usage.scratch_bytes};
}

// The most that any rank of a job of n holds.
Result<Held> most_held(const Graph& graph, const Config& config) {
  std::mutex mutex;
  Held most;
  WEFT_RETURN_IF_ERROR(
      run_as_threads(graph.size(), config, [&](const std::shared_ptr<Store>& store) -> Status {
        WEFT_ASSIGN(const Held held, hold(graph, config, store));
        const std::lock_guard lock(mutex);
        most.peers = std::max(most.peers, held.peers);
        most.endpoint_bytes = std::max(most.endpoint_bytes, held.endpoint_bytes);
        most.scratch_bytes = std::max(most.scratch_bytes, held.scratch_bytes);
        return {};
      }));
  return most;
}

Status print(const std::string& graph, int ranks, int degree, const Held& held, const Rows& rows) {
  const std::string text =
      fmt::format("{:>14} {:>6} {:>7} {:>6} {:>12} {:>10} {:>10}\n", graph, ranks, degree,
                  held.peers, held.endpoint_bytes, held.scratch_bytes,
                  held.endpoint_bytes / std::max<std::size_t>(held.peers, 1));
  const nlohmann::ordered_json object{{"op", "memory_use"},
                                      {"graph", graph},
                                      {"ranks", ranks},
                                      {"degree", degree},
                                      {"peers", held.peers},
                                      {"endpoint_bytes", held.endpoint_bytes},
                                      {"scratch_bytes", held.scratch_bytes}};
  return rows.row(text, object.dump());
}

}  // namespace

Status run_as_threads(int ranks, const Config& config,
                      const std::function<Status(const std::shared_ptr<Store>&)>& rank) {
  WEFT_ASSIGN(std::vector<std::shared_ptr<Store>> stores, make_local_stores(ranks));
  std::vector<Status> ends(stores.size());
  std::vector<Thread> threads;
  for (std::size_t r = 0; r < stores.size(); ++r) {
    const auto leave = [&, r] { (void)stores[r]->goodbye(Deadline::after_ms(config.deadline_ms)); };
    Result<Thread> started = start_thread("weft-rank", [&, r, leave] {
      ends[r] = rank(stores[r]);
      leave();
    });
    if (started.ok()) {
      threads.push_back(*std::move(started));
    } else {
      ends[r] = started.status();
      leave();
    }
  }
  for (Thread& thread : threads) thread.join();
  const auto is_own = [](const Status& end) { return !end.ok() && end.code() != Code::peer_left; };
  const auto first = std::ranges::find_if(ends, is_own);
  if (first != ends.end()) return *first;
  const auto any = std::ranges::find_if(ends, [](const Status& end) { return !end.ok(); });
  return any != ends.end() ? *any : Status{};
}

Status perf_memory_use(const PerfOptions& options, const Config& config) {
  WEFT_ASSIGN(Rows rows, Rows::open(options.asked.json));
  WEFT_RETURN_IF_ERROR(
      rows.text("what a context holds after small and large exchanges: the most of any rank\n" +
                fmt::format("{:>14} {:>6} {:>7} {:>6} {:>12} {:>10} {:>10}\n", "graph", "ranks",
                            "degree", "peers", "endpoints B", "scratch B", "B per peer")));
  for (const std::string& graph_name : {std::string("ring"), options.asked.graph}) {
    for (int n = kFewest; n <= std::max(kMost, options.asked.ranks); n *= 2) {
      WEFT_ASSIGN(const Graph graph, make_graph(graph_name, n));
      WEFT_ASSIGN(const Held held, most_held(graph, config));
      WEFT_RETURN_IF_ERROR(print(graph_name, n, max_in_degree(graph), held, rows));
    }
    if (options.asked.graph == "ring") break;
  }
  return rows.close();
}

}  // namespace weft
