// A job in which the last rank stops, dies or leaves, and the others try every call that there is;
// started by `weft run` from death_test.cc.
//   absent_rank stopped      calls that need it end at their deadline: timed_out
//   absent_rank killed       they end at once: peer_died
//   absent_rank leaves       they end at once: peer_left
// Each call has a context of its own, because an operation that fails ends its context, and a thread
// of its own, so that the deadlines pass at the same time. The rank dies or leaves when the others
// have begun. Each rank prints what was wrong, and how its job ended.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/context/context.h"
#include "tests/context/faulty.h"

namespace {

using weft::Code;
using weft::Context;
using weft::Rank;
using weft::Request;
using weft::Status;

constexpr std::size_t kCount = 300'000;  // divisible by 3, and too large for a slot
constexpr Rank kAbsent = 2;

// What a call uses.
struct Place {
  std::unique_ptr<Context> context;
  weft::Window window;
  weft::Named named;
  float* x = nullptr;
  float* y = nullptr;

  [[nodiscard]] weft::Input input(std::size_t count = kCount) const { return weft::in(x, count); }
  [[nodiscard]] weft::Output output(std::size_t count = kCount) const {
    return weft::out(y, count);
  }
};

enum class Needs : std::uint8_t { nothing, window, named };
enum class Waits : std::uint8_t {
  absent,  // for the rank that is absent
  nobody,
  others,  // for what a rank that is there could still do
};

struct Call {
  const char* name;
  Needs needs;
  Waits waits;
  std::function<Status(Place&)> run;
};

template <typename T>
Status status_of(const weft::Result<T>& result) {
  return result.ok() ? Status() : result.status();
}

std::vector<weft::NeighborWeight> to_absent() {
  return {{kAbsent, 1.0}};
}

Status put(Place& at, bool require_mutex, bool accumulates) {
  const std::vector<weft::NeighborWeight> to = to_absent();
  weft::WindowPut how;
  how.destinations = to;
  how.require_mutex = require_mutex;
  return accumulates ? at.window.accumulate(at.output(), how) : at.window.put(at.output(), how);
}

Status get(Place& at, bool require_mutex) {
  const std::vector<weft::NeighborWeight> from = to_absent();
  weft::WindowGet how;
  how.sources = from;
  how.require_mutex = require_mutex;
  return at.window.get(how);
}

std::vector<Call> operations() {
  constexpr Needs kNone = Needs::nothing;
  constexpr Waits kAbs = Waits::absent;
  constexpr std::size_t kPart = kCount / 3;
  static constexpr std::array<std::size_t, 3> kParts = {kPart, kPart, kPart};
  static constexpr std::array<Rank, 3> kAll = {0, 1, 2};
  return {
      {"neighbor_allreduce", kNone, kAbs,
       [](Place& at) { return at.context->neighbor_allreduce(at.input(), at.output()); }},
      {"hierarchical_neighbor_allreduce", kNone, kAbs,
       [](Place& at) {
         return at.context->hierarchical_neighbor_allreduce(at.input(), at.output());
       }},
      {"neighbor_allgather", kNone, kAbs,
       [](Place& at) {
         return at.context->neighbor_allgather(at.input(kPart), at.output(2 * kPart));
       }},
      {"allreduce", kNone, kAbs,
       [](Place& at) { return at.context->allreduce(at.input(), at.output()); }},
      {"allreduce of a few", kNone, kAbs,
       [](Place& at) { return at.context->allreduce(at.input(3), at.output(3)); }},
      {"run_for", kNone, kAbs,
       [](Place& at) {
         const Request request{weft::Collective::allreduce, at.input(), at.output()};
         auto ended = at.context->run_for(request, 1'000'000);
         if (!ended.ok()) return ended.status();
         return ended->has_value() ? (*ended)->wait() : Status();
       }},
      {"local_allreduce", kNone, kAbs,
       [](Place& at) { return at.context->local_allreduce(at.input(), at.output()); }},
      {"broadcast", kNone, kAbs,
       [](Place& at) { return at.context->broadcast(at.input(), at.output(), kAbsent); }},
      {"barrier", kNone, kAbs, [](Place& at) { return at.context->barrier(); }},
      {"allgather", kNone, kAbs,
       [](Place& at) { return at.context->allgather(at.input(kPart), at.output()); }},
      {"reduce_scatter", kNone, kAbs,
       [](Place& at) { return at.context->reduce_scatter(at.input(), at.output(kPart)); }},
      {"reduce", kNone, kAbs,
       [](Place& at) { return at.context->reduce(at.input(), at.output(), 0); }},
      {"gather", kNone, kAbs,
       [](Place& at) { return at.context->gather(at.input(kPart), at.output(), 0); }},
      {"scatter", kNone, kAbs,
       [](Place& at) { return at.context->scatter(at.input(), at.output(kPart), kAbsent); }},
      {"alltoall", kNone, kAbs,
       [](Place& at) { return at.context->alltoall(at.input(), at.output()); }},
      {"alltoallv", kNone, kAbs,
       [](Place& at) { return at.context->alltoallv(at.input(), at.output(), kParts, kParts); }},
      {"send", kNone, kAbs, [](Place& at) { return at.context->send(at.input(), kAbsent); }},
      {"recv", kNone, kAbs, [](Place& at) { return at.context->recv(at.output(), kAbsent); }},
      {"pair_average", kNone, kAbs,
       [](Place& at) { return at.context->pair_average(at.input(), at.output(), kAbsent); }},
      {"group_average", kNone, kAbs,
       [](Place& at) { return at.context->group_average(at.input(), at.output(), kAll); }},
  };
}

std::vector<Call> setups() {
  constexpr Needs kNone = Needs::nothing;
  constexpr Waits kAbs = Waits::absent;
  return {
      {"split", kNone, kAbs, [](Place& at) { return status_of(at.context->split(0)); }},
      {"split alone", kNone, kAbs,
       [](Place& at) { return status_of(at.context->split(at.context->rank())); }},
      {"win_create", kNone, kAbs,
       [](Place& at) { return status_of(at.context->win_create(at.output(), "late")); }},
      {"named", kNone, Waits::nobody, [](Place& at) { return status_of(at.context->named()); }},
      {"placement", kNone, Waits::nobody,
       [](Place& at) { return status_of(at.context->placement()); }},
      {"set_graph", kNone, Waits::nobody,
       [](Place& at) { return at.context->set_graph(*weft::ring_graph(3)); }},
      {"close", kNone, Waits::nobody,
       [](Place& at) {
         at.context.reset();
         return Status();
       }},
  };
}

std::vector<Call> window_calls() {
  constexpr Needs kWindow = Needs::window;
  constexpr Waits kAbs = Waits::absent;
  return {
      {"put", kWindow, Waits::nobody, [](Place& at) { return put(at, false, false); }},
      {"put with mutex", kWindow, kAbs, [](Place& at) { return put(at, true, false); }},
      {"accumulate", kWindow, Waits::nobody, [](Place& at) { return put(at, false, true); }},
      {"accumulate with mutex", kWindow, kAbs, [](Place& at) { return put(at, true, true); }},
      {"get", kWindow, Waits::nobody, [](Place& at) { return get(at, false); }},
      {"get with mutex", kWindow, kAbs, [](Place& at) { return get(at, true); }},
      {"lock", kWindow, kAbs,
       [](Place& at) {
         static constexpr std::array<Rank, 1> kOne = {kAbsent};
         return at.window.lock(kOne);
       }},
      {"update", kWindow, Waits::nobody, [](Place& at) { return at.window.update(); }},
      {"wait_signal", kWindow, Waits::others,
       [](Place& at) { return at.window.wait_signal(0, 1, 500'000'000); }},
      {"read", kWindow, Waits::nobody,
       [](Place& at) { return at.window.read(kAbsent, at.output()); }},
      {"win_fence", kWindow, kAbs, [](Place& at) { return at.context->win_fence(); }},
      {"win_free", kWindow, kAbs, [](Place& at) { return at.context->win_free("w"); }},
  };
}

std::vector<Call> named_calls() {
  constexpr Needs kNamed = Needs::named;
  constexpr Waits kAbs = Waits::absent;
  return {
      {"named allreduce", kNamed, kAbs,
       [](Place& at) { return at.named.allreduce("a", at.input(), at.output()); }},
      {"named neighbor_allreduce", kNamed, kAbs,
       [](Place& at) { return at.named.neighbor_allreduce("n", at.input(), at.output()); }},
      {"named join", kNamed, kAbs, [](Place& at) { return status_of(at.named.join()); }},
      {"named end", kNamed, kAbs, [](Place& at) { return at.named.end(); }},
  };
}

std::vector<Call> all_calls() {
  std::vector<Call> all = operations();
  for (std::vector<Call> more : {setups(), window_calls(), named_calls()})
    std::ranges::move(more, std::back_inserter(all));
  return all;
}

// Collective.
weft::Result<Place> prepare(Context& all, const Call& call) {
  Place place;
  WEFT_ASSIGN(place.context, all.split(0));
  Context& context = *place.context;
  WEFT_RETURN_IF_ERROR(context.set_graph(*weft::fully_connected_graph(context.size())));
  WEFT_RETURN_IF_ERROR(context.set_machine_graph(*weft::fully_connected_graph(1)));
  for (float** each : {&place.x, &place.y}) {
    WEFT_ASSIGN(void* memory, weft::allocate(kCount * sizeof(float)));
    *each = static_cast<float*>(memory);
  }
  if (call.needs == Needs::window) {
    WEFT_ASSIGN(place.window, context.win_create(place.output(), "w"));
    static constexpr std::array<Rank, 1> kOwn = {kAbsent};
    if (context.rank() == kAbsent) WEFT_RETURN_IF_ERROR(place.window.lock(kOwn));
  }
  if (call.needs == Needs::named) {
    WEFT_ASSIGN(place.named, context.named());
  }
  return place;
}

// What is wrong with the end of a call; empty: nothing.
std::string judge(const Call& call, const Context& context, Code expected, const Status& status,
                  std::int64_t ms) {
  const std::int64_t most_ms = 2 * context.config().deadline_ms;
  const std::string said =
      std::string(call.name) + ": " + std::to_string(ms) + " ms, " + status.to_string();
  if (ms >= most_ms) return "late: " + said;
  if (call.waits == Waits::others) return status.ok() ? said : "";
  // Rank 0 needs the absent rank wherever the call waits; rank 1 may be through before.
  // A network may have taken all that is sent.
  const bool is_buffered = context.config().transports.ucx && call.name == std::string("send");
  const bool may_be_ok = call.waits == Waits::nobody || is_buffered || context.rank() != 0;
  if (status.ok()) return may_be_ok ? "" : said;
  // Who has not submitted a name is not known while one rank does not answer.
  const bool is_named = status.rank() == kAbsent || call.needs == Needs::named;
  const bool is_right = status.code() == expected && is_named;
  const bool may_fail = call.waits == Waits::absent || expected != Code::timed_out;
  return is_right && may_fail ? "" : said;
}

Status try_all(Context& context, const std::vector<Call>& calls, std::vector<Place>& places,
               Code expected) {
  std::vector<std::string> wrong(calls.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    threads.emplace_back([&, i] {
      const std::int64_t begin = weft::now_ns();
      const Status status = calls[i].run(places[i]);
      const std::int64_t ms = (weft::now_ns() - begin) / 1'000'000;
      wrong[i] = judge(calls[i], context, expected, status, ms);
    });
  }
  const std::uint8_t begun = 1;
  if (expected != Code::timed_out) (void)context.send(weft::in(&begun, 1), kAbsent);
  for (std::thread& thread : threads) thread.join();
  for (const std::string& each : wrong) {
    if (!each.empty()) std::printf("%s\n", each.c_str());
  }
  return {};
}

Status run(Context& context, const std::string& fault) {
  const std::vector<Call> calls = all_calls();
  std::vector<Place> places;
  for (const Call& call : calls) {
    WEFT_ASSIGN(Place place, prepare(context, call));
    places.push_back(std::move(place));
  }
  std::array<std::int32_t, 3> processes{};
  const std::int32_t own = getpid();
  WEFT_RETURN_IF_ERROR(context.allgather(weft::in(&own, 1), weft::out(processes.data(), 3)));
  const Code expected = fault == "stopped"  ? Code::timed_out
                        : fault == "killed" ? Code::peer_died
                                            : Code::peer_left;
  if (context.rank() != kAbsent) {
    const int absent = processes[kAbsent];
    while (fault == "stopped" && weft::test::state_of(absent) != 'T') std::this_thread::yield();
    WEFT_RETURN_IF_ERROR(try_all(context, calls, places, expected));
    if (fault != "stopped") return {};
    // The last of the others lets it go on.
    std::uint8_t done = 1;
    if (context.rank() == 1) return context.send(weft::in(&done, 1), 0);
    WEFT_RETURN_IF_ERROR(context.recv(weft::out(&done, 1), 1));
    kill(absent, SIGKILL);
    return {};
  }
  if (fault == "stopped") raise(SIGSTOP);
  std::uint8_t begun = 0;
  for (const Rank other : {0, 1}) WEFT_RETURN_IF_ERROR(context.recv(weft::out(&begun, 1), other));
  if (fault == "killed") raise(SIGKILL);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  return weft::test::run_rank(
      [&](weft::Context& context) { return run(context, argc > 1 ? argv[1] : ""); });
}
