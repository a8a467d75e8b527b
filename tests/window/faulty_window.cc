// One rank of a job with a window, in which something happens to a process; started by `weft run`
// from processes_test.cc.
//   faulty_window holder     the last rank kills itself while it holds the mutex of rank 0
//   faulty_window writer     the last rank kills itself in the middle of its puts
//   faulty_window stopped    the last rank is stopped while the others use its memory
//   faulty_window deserted   rank 0 waits for signals of rank 2, which dies, and of rank 3, which leaves
//   faulty_window owner      the last rank dies; the others take its mutex, or hold it
//   faulty_window silent     the same where the owner's lane has to serve: rank 0 tries, and says so
//   faulty_window mutexes    the same with mutexes; rank 1 goes on in the end, and rank 0 takes its mutex
// Each rank prints how its job ended; the test reads the lines.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "engine/context/context.h"
#include "tests/context/faulty.h"

namespace {

using weft::Context;
using weft::Rank;
using weft::Status;
using weft::Window;

constexpr std::size_t kCount = 100'000;
constexpr int kTimes = 1000;

weft::Result<std::vector<int>> processes(Context& context) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(context.size()));
  const std::int32_t own = getpid();
  WEFT_RETURN_IF_ERROR(context.allgather(weft::in(&own, 1), weft::out(all.data(), all.size())));
  return std::vector<int>(all.begin(), all.end());
}

// A rank that has the last put that it waits for may leave before the writer knows that it landed.
Status put_last(Window& window, double* x, const weft::WindowPut& how) {
  Status status = window.put(weft::out(x, kCount), how);
  return status.code() == weft::Code::peer_left ? Status() : status;
}

// The ranks but the last wait for one another, so that none leaves while it is needed. Operations of
// all ranks are over with the death of one.
Status meet_others(Context& context, Window& window, double* x) {
  std::vector<weft::NeighborWeight> others;
  for (const Rank rank : window.out_neighbors()) {
    if (rank != context.size() - 1) others.push_back({rank, 1.0});
  }
  weft::WindowPut how;
  how.destinations = others;
  how.signal = 0;
  WEFT_RETURN_IF_ERROR(put_last(window, x, how));
  return window.wait_signal(0, others.size());
}

Status hold_and_die(Context& context, Window& window, double* x) {
  const Rank first[] = {0};
  const bool dies = context.rank() == context.size() - 1;
  if (dies) WEFT_RETURN_IF_ERROR(window.lock(first));
  // Who is late in the barrier hears there of the death.
  const Status met = context.barrier();
  if (!met.ok() && met.code() != weft::Code::peer_died) return met;
  if (dies) raise(SIGKILL);
  WEFT_RETURN_IF_ERROR(window.lock(first));
  WEFT_RETURN_IF_ERROR(window.unlock());
  return meet_others(context, window, x);
}

// A second thread kills the process as soon as a put has begun.
Status write_and_die(Context& context, Window& window, double* x) {
  const bool dies = context.rank() == context.size() - 1;
  std::atomic<int> begun{0};
  if (dies) {
    std::thread([&] {
      while (begun < 20) std::this_thread::yield();
      kill(getpid(), SIGKILL);
    }).detach();
  }
  const Rank last = context.size() - 1;
  std::vector<double> clone(kCount);
  Status ended;
  bool knows = false;
  for (int round = 1; !knows || dies; ++round) {
    for (std::size_t i = 0; i < kCount; ++i) x[i] = round;
    ++begun;
    const Status status = window.put(weft::out(x, kCount));
    if (!status.ok()) {
      ended = status;
      knows = status.code() == weft::Code::peer_died && status.rank() == last;
      if (!knows) return status;
    }
    if (dies) continue;
    weft::WindowUpdate how;
    const weft::NeighborWeight from[] = {{last, 1.0}};
    how.self_weight = 0.0;
    how.sources = from;
    how.clone = weft::out(clone.data(), kCount);
    WEFT_RETURN_IF_ERROR(window.update(how));
    for (const double each : clone) {
      if (each != clone[0]) return Status(weft::Code::mismatch, "a torn read");
    }
  }
  // Survivors go on with one another.
  WEFT_RETURN_IF_ERROR(meet_others(context, window, x));
  WEFT_RETURN_IF_ERROR(window.update());
  return ended;
}

Status use_stopped(Context& context, Window& window, double* x) {
  WEFT_ASSIGN(const std::vector<int> all, processes(context));
  const Rank last = context.size() - 1;
  const int process = all.back();
  if (context.rank() == last) {
    raise(SIGSTOP);
    return context.barrier();
  }
  while (weft::test::state_of(process) != 'T') std::this_thread::yield();
  const weft::NeighborWeight to[] = {{last, 1.0}};
  weft::WindowPut put;
  put.destinations = to;
  weft::WindowGet get;
  get.sources = to;
  const Rank its[] = {last};
  Status first;
  const auto note = [&](const Status& status) {
    if (first.ok()) first = status;
  };
  for (int time = 0; time < kTimes; ++time) {
    note(window.put(weft::out(x, kCount), put));
    note(window.accumulate(weft::out(x, kCount), put));
    note(window.get(get));
    note(window.lock(its));
    note(window.unlock());
  }
  if (weft::test::state_of(process) != 'T')
    note(Status(weft::Code::mismatch, "the rank was not stopped"));
  // The last of the others lets it go on.
  const std::uint8_t done = 1;
  const Rank others = last;
  if (context.rank() == 0) {
    for (Rank rank = 1; rank < others; ++rank) {
      std::uint8_t got = 0;
      note(context.recv(weft::out(&got, 1), rank));
    }
    kill(process, SIGCONT);
  } else {
    note(context.send(weft::in(&done, 1), 0));
  }
  note(context.barrier());
  return first;
}

Status use_silent(Context& context, Window& window, double* x) {
  WEFT_ASSIGN(const std::vector<int> all, processes(context));
  const Rank last = context.size() - 1;
  if (context.rank() == last) raise(SIGSTOP);
  if (context.rank() != 0) return {};
  while (weft::test::state_of(all.back()) != 'T') std::this_thread::yield();
  const weft::NeighborWeight to[] = {{last, 1.0}};
  weft::WindowPut put;
  put.destinations = to;
  const Status status = window.put(weft::out(x, kCount), put);
  kill(all.back(), SIGKILL);
  return status;
}

// Rank 0 tries the mutexes of ranks that are stopped. Nothing of this may wait for them.
Status use_silent_mutexes(Context& context, Window& window, double* x) {
  WEFT_ASSIGN(const std::vector<int> all, processes(context));
  const Rank first[] = {1};
  const Rank second[] = {2};
  const Rank third[] = {3};
  if (context.rank() == 0) {
    const Rank held[] = {1, 3};
    WEFT_RETURN_IF_ERROR(window.lock(held));
  }
  WEFT_RETURN_IF_ERROR(context.barrier());
  if (context.rank() != 0) {
    raise(SIGSTOP);
    while (true) pause();  // its lane serves until rank 0 has seen enough
  }
  for (const Rank rank : {1, 2, 3}) {
    while (weft::test::state_of(all[static_cast<std::size_t>(rank)]) != 'T')
      std::this_thread::yield();
  }
  const auto say = [](const char* what, const Status& status) {
    std::printf("%s %s\n", what, status.to_string().c_str());
    std::fflush(stdout);
  };
  const weft::NeighborWeight to[] = {{2, 1.0}};
  weft::WindowPut put;
  put.destinations = to;
  put.require_mutex = true;
  say("put", window.put(weft::out(x, kCount), put));
  const weft::NeighborWeight from[] = {{3, 1.0}};
  weft::WindowGet get;
  get.sources = from;
  get.require_mutex = true;  // held already
  say("get", window.get(get));
  say("unlock", window.unlock());
  say("lock", window.lock(second));
  say("lock", window.lock(third));
  kill(all[1], SIGCONT);
  Status again = window.lock(first);
  if (again.ok()) again = window.unlock();
  for (const Rank rank : {1, 2, 3}) kill(all[static_cast<std::size_t>(rank)], SIGKILL);
  return again;
}

// A rank that goes right after a collective operation could end it for those that are still in it.
// So it goes when `others` say that they are ready. It may be gone before they know that it heard.
Status await_ready(Context& context, std::span<const Rank> others) {
  std::uint8_t ready = 0;
  for (const Rank rank : others) WEFT_RETURN_IF_ERROR(context.recv(weft::out(&ready, 1), rank));
  return {};
}
void say_ready(Context& context, Rank to) {
  const std::uint8_t ready = 1;
  (void)context.send(weft::in(&ready, 1), to);
}

// What was raised before counts. Rank 1 waits for rank 0, which is still there, as for rank 2.
Status wait_deserted(Context& context, Window& window, double* x) {
  weft::WindowPut how;
  how.signal = 0;
  const Rank others[] = {0, 1};
  if (context.rank() >= 2) WEFT_RETURN_IF_ERROR(await_ready(context, others));
  if (context.rank() == 3) return {};
  if (context.rank() == 2) {
    WEFT_RETURN_IF_ERROR(window.put(weft::out(x, kCount), how));
    raise(SIGKILL);
  }
  for (const Rank rank : {2, 3}) say_ready(context, rank);
  if (context.rank() == 1) return window.wait_signal(0, 2);
  WEFT_ASSIGN(weft::Handle handle, window.wait_signal_start(0, 2));
  const Status ended = window.wait_signal(0, 2);
  if (handle.wait().code() != ended.code())
    return Status(weft::Code::mismatch, "the handle differs");
  WEFT_RETURN_IF_ERROR(window.wait_signal(0, 1));
  WEFT_RETURN_IF_ERROR(put_last(window, x, how));
  return ended;
}

// Rank 0 holds the mutex of the rank that dies; the others try to take it, and then use theirs.
Status outlive_owner(Context& context, Window& window, double* x) {
  const Rank last = context.size() - 1;
  const Rank its[] = {last};
  if (context.rank() == 0) WEFT_RETURN_IF_ERROR(window.lock(its));
  WEFT_RETURN_IF_ERROR(context.barrier());
  if (context.rank() == last) {
    const Rank others[] = {0, 1, 2};
    WEFT_RETURN_IF_ERROR(await_ready(context, others));
    raise(SIGKILL);
  }
  say_ready(context, last);
  if (context.rank() == 0) {
    WEFT_RETURN_IF_ERROR(window.wait_signal(1, 2));  // both know that it died
    WEFT_RETURN_IF_ERROR(window.unlock());
  }
  const Rank both[] = {context.rank(), last};
  const Status refused = window.lock(both);
  weft::WindowPut how;
  how.require_mutex = true;
  how.signal = 1;
  const Status put = window.put(weft::out(x, kCount), how);
  if (put.code() != refused.code()) return Status(weft::Code::mismatch, put.to_string());
  WEFT_RETURN_IF_ERROR(meet_others(context, window, x));
  return refused;
}

// Ranks 2 and 3 are the in-neighbors of rank 0, ranks 0 and 2 those of rank 1.
weft::Result<weft::Graph> graph_of(const std::string& fault, int ranks) {
  if (fault != "deserted") return weft::fully_connected_graph(ranks);
  const std::vector<weft::Edge> edges = {{2, 0, 0.5}, {3, 0, 0.5}, {0, 1, 0.5}, {2, 1, 0.5}};
  const std::vector<double> self_weights = {0.5, 0.5, 0.5, 0.5};
  return weft::Graph::from_edges(ranks, edges, self_weights, "deserted");
}

Status run(Context& context, const std::string& fault) {
  WEFT_ASSIGN(const weft::Graph graph, graph_of(fault, context.size()));
  WEFT_RETURN_IF_ERROR(context.set_graph(graph));
  WEFT_ASSIGN(void* memory, weft::allocate(kCount * sizeof(double)));
  auto* x = static_cast<double*>(memory);
  WEFT_ASSIGN(Window window, context.win_create(weft::out(x, kCount), "w"));
  if (fault == "deserted") return wait_deserted(context, window, x);
  if (fault == "owner") return outlive_owner(context, window, x);
  if (fault == "holder") return hold_and_die(context, window, x);
  if (fault == "mutexes") return use_silent_mutexes(context, window, x);
  if (fault == "silent") return use_silent(context, window, x);
  if (fault == "writer") return write_and_die(context, window, x);
  return use_stopped(context, window, x);
}

}  // namespace

int main(int argc, char** argv) {
  return weft::test::run_rank(
      [&](weft::Context& context) { return run(context, argc > 1 ? argv[1] : ""); });
}
