// weft top: what the ranks of running jobs do, and why they are slow, look after look.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <memory>

#include "tools/weft/commands.h"
#include "tools/weft/common/save.h"
#include "tools/weft/flight/gather.h"
#include "tools/weft/predict/rates.h"
#include "tools/weft/top/serve.h"
#include "tools/weft/top/show.h"

namespace weft {
namespace {

constexpr const char* kExamples = R"(
Shows the ranks that run with WEFT_LIVE, on this host or on others, and the causes of what is slow. A host or a
rank that does not answer, and a socket that a dead process has left, are a line each; the rest goes on.

Examples:
  WEFT_LIVE=auto weft run -n 4 -- ./train
  weft top                              a look every second
  weft top --once                       two looks, a second apart, and what happened between them
  weft top --live /run/weft --json | jq .causes
  weft top --hosts node0,node1          by ssh
  weft top --prometheus                 and at http://127.0.0.1:9464/metrics)";

constexpr double kMs = 1e3;

struct Arguments {
  dumps::Running from;
  double interval_s = 1;
  bool once = false;
  std::string prometheus;
  std::string json;
};

int fail(const Status& status) {
  fmt::print(stderr, "weft top: {}\n", status.text());
  return status.code() == Code::invalid_argument ? kUsageError : 1;
}

// While it lives, signals that end the command wait: what is being written is written.
class Whole {
 public:
  Whole() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
    (void)::pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~Whole() { (void)::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Whole(const Whole&) = delete;
  Whole& operator=(const Whole&) = delete;

 private:
  sigset_t before_{};
};

class Watch {
 public:
  explicit Watch(const Arguments& asked) : asked_(asked) {}

  Status run() {
    WEFT_ASSIGN(rows_, Rows::open(asked_.json));
    if (!asked_.prometheus.empty()) {
      const Whole no_signals;  // for the thread
      WEFT_ASSIGN(server_, MetricServer::open(asked_.prometheus));
      WEFT_RETURN_IF_ERROR(
          rows_.text(fmt::format("metrics at http://{}/metrics\n", server_->address())));
    }
    WEFT_RETURN_IF_ERROR(look(false));
    do {
      (void)::poll(nullptr, 0, static_cast<int>(asked_.interval_s * kMs));
      WEFT_RETURN_IF_ERROR(look(true));
    } while (!asked_.once);
    return rows_.close();
  }

 private:
  Status look(bool shows) {
    WEFT_ASSIGN(dumps::Gathered found, dumps::gather_running(asked_.from, dumps::kCallsOfLook));
    const bool is_empty = found.parts.empty();
    const dumps::View view = observer_.next(std::move(found.parts));
    if (server_ != nullptr) {
      WEFT_ASSIGN(dumps::Words words, dumps::gather_metrics(asked_.from));
      server_->publish(std::move(words.text) + dumps::view_metrics(view));
    }
    if (!shows) return {};
    const Whole whole;
    const bool clears = !asked_.once && ::isatty(STDOUT_FILENO) != 0;
    WEFT_RETURN_IF_ERROR(rows_.text(std::string(clears ? "\033[H\033[2J" : "") +
                                    (is_empty ? "no rank answers\n" : "") +
                                    dumps::view_text(view, found.remarks)));
    return rows_.json(dumps::view_json(view, found.remarks));
  }

  const Arguments& asked_;
  Rows rows_;
  dumps::Observer observer_{allreduce_us};
  std::unique_ptr<MetricServer> server_;
};

int run(const Arguments& asked) {
  const Status status = Watch(asked).run();
  return status.ok() ? 0 : fail(status);
}

}  // namespace

void add_top(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("top", "Show what the ranks of running jobs do, and why they are slow");
  const auto arguments = std::make_shared<Arguments>();
  Arguments& to = *arguments;
  command->add_option("--live", to.from.folder, "The folder that WEFT_LIVE names")
      ->capture_default_str()
      ->check(no_empty_text());
  to.from.hosts.timeout_s = 5;
  add_host_options(*command, to.from.hosts);
  command->add_option("--interval", to.interval_s, "Seconds from look to look")
      ->capture_default_str()
      ->check(number_in(0.05, 3600.0));
  command->add_flag("--once", to.once, "Show one interval, and end");
  const auto take_address = [&to](const std::vector<std::string>& words) {
    to.prometheus = words.empty() || words.front().empty() || words.front() == "{}"
                        ? "127.0.0.1:9464"
                        : words.front();
    return true;
  };
  command
      ->add_option("--prometheus", take_address,
                   "Also answer Prometheus: metrics of all ranks (127.0.0.1:9464)")
      ->expected(0, 1)
      ->type_name("[ADDRESS:PORT]");
  add_json_option(*command, to.json, "One JSON object per look");
  command->footer(kExamples);
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace weft
