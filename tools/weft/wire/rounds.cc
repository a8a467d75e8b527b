// Rounds: ours, theirs, ours, theirs, so that whatever the machine does meanwhile it does to both.
#include "tools/weft/wire/rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/weft/wire/report.h"

namespace weft {
namespace {

constexpr std::uint32_t kFewest = 5;  // operations of a round; as perftest's least
constexpr std::uint32_t kMost = 20'000;
constexpr int kTries = 3;  // of perftest, which on a busy machine fails or cannot tell the time
// How long it may take: it starts slowly, and then does about what we did.
constexpr std::int64_t kPerftestMs = 30'000;
// A lap, ours or perftest's, may take ten times as long as the one before.
constexpr double kSlower = 10;
constexpr std::int64_t kMostWorkMs = 24 * 3'600'000;
constexpr std::uint32_t kMostDepth = 1 << 16;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 34;

// What rank 0 asks for.
struct Order {
  enum class Kind : std::uint32_t { lap, perftest, end } kind = Kind::end;
  WireTask task;
  std::int64_t work_ms = 0;  // how long it may take
};

// The answer to an order of perftest: where it listens, or why it does not.
struct Served {
  int port = 0;  // 0: nowhere
  std::array<char, 512> why{};
};

class Leader {
 public:
  Leader(const WireOptions& options, WireSide& side, std::string host)
      : options_(options), side_(side), host_(std::move(host)) {}

  Status run() {
    WEFT_ASSIGN(WireReport report, WireReport::open(options_, side_.path()));
    WEFT_RETURN_IF_ERROR(report.head());
    for (const std::size_t bytes : options_.sizes) {
      WEFT_ASSIGN(const WireRow row, measure(bytes));
      WEFT_RETURN_IF_ERROR(report.row(row));
    }
    WEFT_RETURN_IF_ERROR(report.done());
    return side_.line().say_value(Order{});
  }

 private:
  Result<WireRow> measure(std::size_t bytes) {
    WireTask task{options_.op, options_.is_ping_pong(), options_.depth, options_.list, kFewest,
                  bytes};
    WEFT_ASSIGN(const double each, find_iterations(task));
    WireRow row;
    row.bytes = bytes;
    row.iterations = task.iterations;
    for (int round = 0; round < options_.asked.rounds; ++round) {
      WEFT_ASSIGN(WireLap own, lap(task, longest_ms(each * task.iterations), row.cpu_s));
      row.laps.push_back(std::move(own));
      if (!options_.against_perftest) continue;
      const std::int64_t work_ms = kPerftestMs + longest_ms(row.laps.back().seconds);
      WEFT_ASSIGN(const PerftestFigure peer,
                  perftest_that_counts({Order::Kind::perftest, task, work_ms}));
      row.peers.push_back(peer);
    }
    return row;
  }

  static std::int64_t longest_ms(double seconds) {
    return static_cast<std::int64_t>(kSlower * 1000 * seconds);
  }

  // The first lap warms up: connects, registers memory. The second, longer one tells the time, in
  // seconds of an operation.
  Result<double> find_iterations(WireTask& task) {
    const double round_s = options_.asked.seconds / options_.asked.rounds;
    double each = 0;
    for (int tries = 0; tries < 2; ++tries) {
      const std::int64_t lap_ms =
          tries == 0 ? kFewest * side_.patience().deadline_ms : longest_ms(each * task.iterations);
      double unused = 0;
      WEFT_ASSIGN(const WireLap once, lap(task, lap_ms, unused));
      each = once.seconds / static_cast<double>(once.us.size());
      const double share = tries == 0 ? 0.2 : 1;
      const auto wanted = static_cast<std::uint32_t>(
          std::clamp(share * round_s / each, static_cast<double>(kFewest), double{kMost}));
      task.iterations = (wanted + task.list - 1) / task.list * task.list;  // perftest wants it so
    }
    return each;
  }

  Result<WireLap> lap(const WireTask& task, std::int64_t lap_ms, double& cpu_s) {
    prepare_lap(side_, task);
    WEFT_RETURN_IF_ERROR(
        side_.line().say_value(Order{Order::Kind::lap, task, std::min(lap_ms, kMostWorkMs)}));
    WEFT_ASSIGN(const bool ready, side_.hear<bool>("that it is ready"));
    if (!ready) return Status(Code::mismatch, "the other side is not ready");
    const std::int64_t before = process_cpu_ns();
    WEFT_ASSIGN(WireLap own, lead_lap(side_, task));
    const std::int64_t cpu_ns = process_cpu_ns() - before;
    WEFT_RETURN_IF_ERROR(side_.line().say_value(true));
    WEFT_ASSIGN(const std::int64_t theirs, side_.hear<std::int64_t>("its processor time"));
    cpu_s += static_cast<double>(cpu_ns + theirs) / 1e9;
    return own;
  }

  Result<PerftestFigure> perftest_that_counts(const Order& order) {
    for (int tries = 1;; ++tries) {
      Result<PerftestFigure> figure = perftest(order);
      if (figure.ok() || figure.status().code() != Code::mismatch) return figure;
      const std::string program = perftest_program(order.task);
      if (tries == kTries)
        return Status(Code::mismatch, fmt::format("{} failed {} times; the last time: {}", program,
                                                  kTries, figure.status().text()));
      fmt::print(stderr, "weft perf wire: {} failed and is run again: {}\n", program,
                 figure.status().text());
    }
  }

  Result<PerftestFigure> perftest(const Order& order) {
    WEFT_RETURN_IF_ERROR(side_.line().say_value(order));
    WEFT_ASSIGN(const Served served, side_.hear<Served>("where its perftest listens", kPerftestMs));
    if (served.port == 0) return Status(Code::mismatch, served.why.data());
    Result<PerftestFigure> figure = run_perftest(order.task, side_.path(), served.port, host_,
                                                 Deadline::after_ms(order.work_ms));
    WEFT_RETURN_IF_ERROR(side_.line().say_value(true));
    WEFT_ASSIGN(const bool ended, side_.hear<bool>("the end of its perftest"));
    if (!ended) return Status(Code::closed, "the other side's perftest did not end");
    return figure;
  }

  const WireOptions& options_;
  WireSide& side_;
  std::string host_;
};

Status follow_one(WireSide& side, const Order& order) {
  prepare_lap(side, order.task);
  const std::int64_t before = process_cpu_ns();
  WEFT_RETURN_IF_ERROR(side.line().say_value(true));
  WEFT_RETURN_IF_ERROR(follow_lap(side, order.task, order.work_ms));
  return side.line().say_value(process_cpu_ns() - before);
}

Status serve_perftest(WireSide& side, const Order& order) {
  Result<PerftestServer> server = PerftestServer::start(order.task, side.path());
  Served served;
  if (server.ok()) {
    served.port = server->port();
  } else if (server.status().code() == Code::mismatch) {
    std::string(server.status().text()).copy(served.why.data(), served.why.size() - 1);
  } else {
    return server.status();
  }
  WEFT_RETURN_IF_ERROR(side.line().say_value(served));
  if (!server.ok()) return {};
  WEFT_ASSIGN(const bool done,
              side.line().hear_value<bool>(
                  "the end of perftest",
                  Deadline::after_ms(order.work_ms + side.patience().deadline_ms), Line::wait));
  server->finish();
  return side.line().say_value(done);
}

// Orders come from a peer: what they ask for must lie within what was agreed.
Status check(const Order& order, const WirePlan& plan) {
  const WireTask& task = order.task;
  if (order.work_ms < 0 || order.work_ms > kMostWorkMs || task.op != plan.op || task.bytes < 1 ||
      task.bytes > plan.most_bytes || task.depth < 1 || task.depth > plan.depth ||
      task.iterations < 1)
    return Status(Code::mismatch, "the other side asks for what was not agreed");
  return {};
}

}  // namespace

Status lead_wire(const WireOptions& options, Line& line, const std::string& host,
                 const Config& config) {
  WirePlan plan;
  plan.op = options.op;
  plan.over_ucx = options.over_ucx;
  plan.depth = options.depth;
  plan.most_bytes = std::ranges::max(options.sizes);
  WEFT_RETURN_IF_ERROR(line.say_value(plan));
  WEFT_ASSIGN(const std::unique_ptr<WireSide> side,
              WireSide::open(0, plan, options.device, line, config));
  return Leader(options, *side, host).run();
}

Status follow_wire(const WireDevice& device, Line& line, const Config& config) {
  WEFT_ASSIGN(const WirePlan plan,
              line.hear_value<WirePlan>("what to measure", Deadline::after_ms(config.deadline_ms),
                                        Line::wait));
  if (plan.magic != WirePlan{}.magic || plan.op > WireOp::atomic || plan.depth < 1 ||
      plan.depth > kMostDepth || plan.most_bytes < 1 || plan.most_bytes > kMostBytes)
    return Status(Code::mismatch, "the other side is no `weft perf wire` of this version");
  WEFT_ASSIGN(const std::unique_ptr<WireSide> side, WireSide::open(1, plan, device, line, config));
  for (;;) {
    WEFT_ASSIGN(const Order order, side->hear<Order>("what comes next"));
    if (order.kind == Order::Kind::end) return {};
    WEFT_RETURN_IF_ERROR(check(order, plan));
    WEFT_RETURN_IF_ERROR(order.kind == Order::Kind::lap ? follow_one(*side, order)
                                                        : serve_perftest(*side, order));
  }
}

}  // namespace weft
