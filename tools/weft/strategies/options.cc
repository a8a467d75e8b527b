// The command line's words turned into values.
#include "tools/weft/strategies/options.h"

#include <fmt/format.h>

#include "tools/weft/common/bytes.h"
#include "tools/weft/common/save.h"

namespace weft {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of a model

Status invalid(std::string text) {
  return Status(Code::invalid_argument, std::move(text));
}

Result<std::unique_ptr<Task>> task_of(const StrategiesArguments& asked) {
  if (asked.task == "digits") return read_digits(asked.data, asked.ranks);
  if (asked.task != "parabola")
    return invalid(fmt::format("--task {}: there are parabola, digits", asked.task));
  WEFT_ASSIGN(const std::size_t bytes, bytes_of("--size", asked.size));
  if (bytes % sizeof(float) != 0 || bytes > kMostBytes)
    return invalid(fmt::format("--size {}: whole floats, at most 1G", asked.size));
  return make_parabola(bytes / sizeof(float));
}

}  // namespace

Result<StrategiesOptions> understand(const StrategiesArguments& arguments) {
  if (arguments.hosts < 1 || arguments.hosts > arguments.ranks)
    return invalid(
        fmt::format("--hosts {}: expected 1…{}, the ranks", arguments.hosts, arguments.ranks));
  WEFT_ASSIGN(Graph graph, make_graph(arguments.graph, arguments.ranks));
  WEFT_ASSIGN(std::unique_ptr<Task> task, task_of(arguments));
  StrategiesOptions options{{}, {}, std::move(graph), std::move(task), arguments};
  const double rate = arguments.rate > 0 ? arguments.rate : options.task->rate();
  WEFT_ASSIGN(options.strategies, contestants(arguments.strategies, strategy_names(), rate));
  WEFT_ASSIGN(options.stragglers, stragglers(arguments.stragglers));
  WEFT_RETURN_IF_ERROR(check_writable(arguments.svg));
  return options;
}

}  // namespace weft
