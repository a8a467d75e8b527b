// One rank, however it was started: finds its job, runs an operation of each kind, compares every
// element with what it must be, and prints one line. With an argument N it runs N ranks as threads
// of this process instead.
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "engine/context/context.h"

namespace weft {
namespace {

constexpr std::size_t kCount = 100'000;  // elements: more than an eager message holds

// Element i of rank r's input; small whole numbers, so that sums are exact.
float input(Rank rank, std::size_t i) {
  return static_cast<float>(rank + 1) + static_cast<float>(i % 7);
}

Status compare(const char* what, const std::vector<float>& y, double ranks_mean) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double expected = ranks_mean + 1 + static_cast<double>(i % 7);
    if (std::abs(y[i] - expected) > 1e-5 * expected) {
      return Status(Code::mismatch, std::string(what) + ": element " + std::to_string(i) + " is " +
                                        std::to_string(y[i]) + " instead of " +
                                        std::to_string(expected));
    }
  }
  return {};
}

// The mean of the ranks that this one averages on the exponential graph: itself, and those a power
// of two behind.
double neighbors_mean(Rank rank, int size) {
  int sum = rank;
  int count = 1;
  for (int hop = 1; hop < size; hop *= 2, ++count) sum += (rank - hop + size) % size;
  return static_cast<double>(sum) / count;
}

Status operate(Context& context) {
  const int size = context.size();
  WEFT_ASSIGN(Graph graph, exponential_graph(size));
  WEFT_RETURN_IF_ERROR(context.set_graph(std::move(graph)));
  std::vector<float> x(kCount);
  std::vector<float> y(kCount);
  for (std::size_t i = 0; i < kCount; ++i) x[i] = input(context.rank(), i);
  for (int step = 0; step < 3; ++step) {
    WEFT_RETURN_IF_ERROR(context.neighbor_allreduce(in(x.data(), kCount), out(y.data(), kCount)));
    WEFT_RETURN_IF_ERROR(compare("neighbor_allreduce", y, neighbors_mean(context.rank(), size)));
  }
  WEFT_RETURN_IF_ERROR(context.allreduce(in(x.data(), kCount), out(y.data(), kCount)));
  WEFT_RETURN_IF_ERROR(compare("allreduce", y, (size - 1) / 2.0));
  WEFT_RETURN_IF_ERROR(context.broadcast(in(x.data(), kCount), out(y.data(), kCount), size - 1));
  WEFT_RETURN_IF_ERROR(compare("broadcast", y, size - 1));
  return context.barrier();
}

int tell(Rank rank, int size, const Status& status) {
  if (!status.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", rank, status.to_string().c_str());
    return 1;
  }
  std::printf("rank %d of %d: all right\n", rank, size);
  return 0;
}

int run_rank() {
  const Result<std::unique_ptr<Context>> context = Context::from_environment();
  if (!context.ok()) return tell(kNoRank, 0, context.status());
  return tell((*context)->rank(), (*context)->size(), operate(**context));
}

Status run_thread(const std::shared_ptr<Store>& store) {
  {
    WEFT_ASSIGN(const std::unique_ptr<Context> context, Context::create(Config{}, store));
    WEFT_RETURN_IF_ERROR(operate(*context));
  }
  return store->goodbye(Deadline::after_ms(10'000));
}

int run_threads(int size) {
  const auto stores = make_local_stores(size);
  if (!stores.ok()) return tell(kNoRank, size, stores.status());
  std::vector<int> failures(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (const std::shared_ptr<Store>& store : *stores) {
    threads.emplace_back([&failures, store, size] {
      failures[static_cast<std::size_t>(store->rank())] =
          tell(store->rank(), size, run_thread(store));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int failure : failures) {
    if (failure != 0) return failure;
  }
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  return argc > 1 ? weft::run_threads(std::atoi(argv[1])) : weft::run_rank();
}
