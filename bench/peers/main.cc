// peer_openmpi: measures MPI's collectives and windows on request, lap by lap like Weft's own.
//
//   mpirun -n 4 peer_openmpi exponential 1048576 core allocate <<< "neighbor_allreduce 65536 20 1"
//
// The arguments are the graph, the most bytes that will be asked for, whether ranks are bound to a
// core each (core) or not (none), and whether windows are made by MPI_Win_allocate (allocate) or by
// MPI_Win_create (create). mpirun is told --bind-to none. Rank 0 reads requests from
// standard input, one per line: operation, bytes per rank, laps, calls per lap; and answers each
// with one JSON object on a line of standard output. Between requests the ranks sleep, so that
// `weft perf --against openmpi` can keep a job of this program at hand and alternate with it.
#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "bench/peers/operations.h"
#include "bench/peers/windows.h"
#include "tools/limits/limits.h"

namespace weft::peers {
namespace {

constexpr int kRequestTag = 1;

struct Request {
  std::string operation;
  std::optional<WindowOp> window;  // measured instead of `collective`
  Collective collective = Collective::barrier;
  std::size_t bytes = 0;
  Trial trial;
};

// One rank, and what the command line says.
struct Place {
  int rank = 0;
  int size = 1;
  std::size_t most_bytes = 0;
  WindowKind kind = WindowKind::allocate;
};

Result<Request> parse(const std::string& line) {
  std::istringstream words(line);
  Request request;
  if (!(words >> request.operation >> request.bytes >> request.trial.laps >> request.trial.batch) ||
      request.trial.laps < 1 || request.trial.batch < 1 || request.bytes % sizeof(float) != 0) {
    return Status(Code::invalid_argument,
                  "'" + line + "' is no request: OPERATION BYTES LAPS CALLS-PER-LAP");
  }
  request.window = window_op(request.operation);
  if (request.window) {
    if (request.bytes > 0) return request;
    return Status(Code::invalid_argument, "'" + line + "' is no request: a window has no bytes");
  }
  WEFT_ASSIGN(request.collective, measured_operation(request.operation));
  return request;
}

// The request that rank 0 read, on every rank; empty at the end of input. The others look for it
// once a millisecond and sleep between: MPI's own waiting would take their cores from whom they are
// compared with.
std::string next_request(int rank, int size) {
  std::string line;
  if (rank == 0) {
    while (line.empty() && std::getline(std::cin, line)) continue;
    for (int other = 1; other < size; ++other) {
      MPI_Send(line.data(), static_cast<int>(line.size()), MPI_CHAR, other, kRequestTag,
               MPI_COMM_WORLD);
    }
    return line;
  }
  MPI_Status status;
  int here = 0;
  while (MPI_Iprobe(0, kRequestTag, MPI_COMM_WORLD, &here, &status) == MPI_SUCCESS && here == 0) {
    usleep(5000);
  }
  int length = 0;
  MPI_Get_count(&status, MPI_CHAR, &length);
  line.resize(static_cast<std::size_t>(length));
  MPI_Recv(line.data(), length, MPI_CHAR, 0, kRequestTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return line;
}

// Every rank's record at rank 0, of equally many laps; empty elsewhere.
Result<std::vector<Laps>> gather(const Laps& own, int rank, int size) {
  const std::string bytes = to_bytes(own);
  std::string all(rank == 0 ? bytes.size() * static_cast<std::size_t>(size) : 0, '\0');
  const int length = static_cast<int>(bytes.size());
  MPI_Gather(bytes.data(), length, MPI_CHAR, all.data(), length, MPI_CHAR, 0, MPI_COMM_WORLD);
  std::vector<Laps> laps;
  for (std::size_t at = 0; at < all.size(); at += bytes.size()) {
    WEFT_ASSIGN(Laps one, laps_from_bytes(std::string_view(all).substr(at, bytes.size())));
    laps.push_back(std::move(one));
  }
  return laps;
}

void answer(const Request& request, const Graph& graph, const std::vector<Laps>& ranks) {
  const std::vector<double> spans = spans_us(ranks, request.trial.batch);
  double cpu_s = 0;
  for (const Laps& laps : ranks) cpu_s += static_cast<double>(laps.cpu_ns) / 1e9;
  const double calls = static_cast<double>(request.trial.laps) * request.trial.batch;
  const double gib = calls * static_cast<double>(request.bytes) * graph.size() / (1 << 30);
  fmt::print(R"({{"op":"{}","graph":"{}","ranks":{},"bytes":{},"laps":{},"min_us":{},"p50_us":{},)"
             R"("p99_us":{},"cpu_s_per_GiB":{}}})"
             "\n",
             request.operation, graph.name(), graph.size(), request.bytes, request.trial.laps,
             quantile(spans, 0), median(spans), quantile(spans, 0.99), gib > 0 ? cpu_s / gib : 0);
  std::fflush(stdout);
}

// The shared word of the ranks' meeting, in memory that MPI shares between them.
Meeting::Shared& shared_meeting(MPI_Win& window, int rank) {
  void* base = nullptr;
  const auto bytes = static_cast<MPI_Aint>(rank == 0 ? 2 * sizeof(Meeting::Shared) : 0);
  MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
  MPI_Aint size = 0;
  int unit = 0;
  MPI_Win_shared_query(window, 0, &size, &unit, &base);
  auto address = reinterpret_cast<std::uintptr_t>(base);
  address = (address + 63) / 64 * 64;
  auto* shared = reinterpret_cast<Meeting::Shared*>(address);
  if (rank == 0) new (shared) Meeting::Shared{};
  MPI_Barrier(MPI_COMM_WORLD);
  return *shared;
}

// Made when the first request asks for it.
Result<std::vector<Laps>> time_window(const Request& request, const Place& place,
                                      std::unique_ptr<Windows>& windows) {
  if (place.size < 2) return Status(Code::invalid_argument, request.operation + " needs two ranks");
  if (!windows) {
    WEFT_ASSIGN(windows, Windows::make(place.kind, place.most_bytes));
  }
  WEFT_ASSIGN(Laps own, windows->time(*request.window, request.bytes, request.trial));
  return std::vector<Laps>{std::move(own)};
}

Status serve(const Graph& graph, const Place& place) {
  const auto [rank, size, most_bytes, kind] = place;
  MPI_Win window = MPI_WIN_NULL;
  Meeting meeting(shared_meeting(window, rank), size, oversubscribed(size));
  Operations operations(graph, most_bytes);
  std::unique_ptr<Windows> windows;
  for (;;) {
    const std::string line = next_request(rank, size);
    if (line.empty()) break;
    WEFT_ASSIGN(const Request request, parse(line));
    if (request.bytes > most_bytes) {
      return Status(Code::invalid_argument, fmt::format("{} bytes are more than the {} announced",
                                                        request.bytes, most_bytes));
    }
    if (request.window) {
      WEFT_ASSIGN(const std::vector<Laps> origin, time_window(request, place, windows));
      if (rank == 0) answer(request, graph, origin);
      continue;
    }
    WEFT_ASSIGN(
        const Laps own,
        time_laps(request.trial, operations.subject(request.collective, request.bytes), meeting));
    WEFT_ASSIGN(const std::vector<Laps> ranks, gather(own, rank, size));
    if (rank == 0) answer(request, graph, ranks);
  }
  if (windows) windows->close();
  MPI_Win_free(&window);
  return {};
}

Status run(const std::string& graph_name, std::size_t most_bytes, bool binds, WindowKind kind) {
  Place place{0, 1, most_bytes, kind};
  MPI_Comm_rank(MPI_COMM_WORLD, &place.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &place.size);
  if (binds) WEFT_RETURN_IF_ERROR(bind_to_core(place.rank));
  WEFT_ASSIGN(const Graph graph, make_graph(graph_name, place.size));
  return serve(graph, place);
}

}  // namespace
}  // namespace weft::peers

int main(int argc, char** argv) {
  const bool has_all = argc == 5;
  const std::size_t most_bytes = has_all ? std::strtoull(argv[2], nullptr, 10) : 0;
  const std::string_view binding = has_all ? argv[3] : "";
  const std::string_view windows = has_all ? argv[4] : "";
  if (most_bytes == 0 || (binding != "core" && binding != "none") ||
      (windows != "allocate" && windows != "create")) {
    fmt::print(stderr,
               "usage: mpirun -n N {} GRAPH MOST-BYTES core|none allocate|create  (requests on "
               "input)\n",
               argv[0]);
    return 2;
  }
  MPI_Init(&argc, &argv);
  const weft::Status status = weft::peers::run(
      argv[1], most_bytes, binding == "core",
      windows == "create" ? weft::peers::WindowKind::create : weft::peers::WindowKind::allocate);
  if (!status.ok()) {
    fmt::print(stderr, "peer_openmpi: {}\n", status.to_string());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
