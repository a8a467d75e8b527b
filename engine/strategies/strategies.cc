// The public class, and what the ranks agree on before a strategy begins.
#include "engine/strategies/strategies.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/algorithms/algorithms.h"
#include "engine/gpu/gpu.h"
#include "engine/strategies/table.h"

namespace weft {
namespace {

Status invalid(std::string_view name, std::string_view why) {
  return Status(Code::invalid_argument, fmt::format("strategy \"{}\": {}", name, why));
}

// An option by its name in messages.
struct Given {
  std::string_view name;
  std::uint32_t bit;  // StrategyHas
  std::optional<double> value;
  double least;
  double most;
};

std::array<Given, 11> given(const StrategyOptions& options) {
  const auto number = [](const auto& option) {
    return option ? std::optional(static_cast<double>(*option)) : std::nullopt;
  };
  constexpr double kAny = std::numeric_limits<double>::max();
  const double below_1 = std::nextafter(1.0, 0.0);
  const bool compresses = options.compression != Compression::none;
  return {
      {{"momentum", kHasMomentum, options.momentum, 0, below_1},
       {"section", kHasSection, number(options.section), 1, kAny},
       {"peers", kHasPeers, number(options.peers), 1, 2},
       {"seed", kHasSeed, number(options.seed), 0, kAny},
       {"compression", kHasCompression, compresses ? std::optional(1.0) : std::nullopt, 0, kAny},
       {"outer_rate", kHasOuter, options.outer_rate, 0, kAny},
       {"outer_momentum", kHasOuter, options.outer_momentum, 0, below_1},
       {"colayers", kHasColayers, number(options.colayers), 1, kAny},
       {"staleness", kHasStaleness, number(options.staleness), 0, kAny},
       {"proportion", kHasProportion, number(options.proportion), 0, kAny},
       {"topology", kHasTopology, number(options.topology), 0, 1}}};
}

Status check_rate(std::string_view name, double rate) {
  if (rate > 0 && std::isfinite(rate)) return {};
  return invalid(name, fmt::format("the rate is {}; a number above 0 is needed", rate));
}

Status check_options(const StrategyRow& row, const Output& model, const StrategyOptions& options) {
  WEFT_RETURN_IF_ERROR(check_rate(row.name, options.rate));
  for (const Given& each : given(options)) {
    if (!each.value) continue;
    if ((row.has & each.bit) == 0) return invalid(row.name, fmt::format("it has no {}", each.name));
    if (*each.value >= each.least && *each.value <= each.most) continue;
    return invalid(
        row.name,
        each.most == std::numeric_limits<double>::max()
            ? fmt::format("{} is {}; at least {} is needed", each.name, *each.value, each.least)
        : each.name == "peers"
            ? fmt::format("peers is {}; 1 or 2 is needed", *each.value)
            : fmt::format("{} is {}; 0 to below 1 is needed", each.name, *each.value));
  }
  if (options.compression == Compression::low_rank)
    return invalid(row.name, "compression (low_rank) takes matrices, and a model is none");
  if (options.compression != Compression::none && model.type != DataType::f32) {
    return invalid(row.name, fmt::format("a model of {} cannot be compressed", name(model.type)));
  }
  return {};
}

Result<const StrategyRow*> check_all(std::string_view name, const Output& model,
                                     const StrategyOptions& options) {
  const auto row = std::ranges::find(strategy_table(), name, &StrategyRow::name);
  if (row == strategy_table().end()) {
    return Status(Code::invalid_argument, fmt::format("there is no strategy \"{}\", only {}", name,
                                                      fmt::join(strategy_names(), ", ")));
  }
  WEFT_RETURN_IF_ERROR(check_model(fmt::format("strategy \"{}\"", name), model));
  WEFT_RETURN_IF_ERROR(check_options(*row, model, options));
  return &*row;
}

std::string described(const Output& model, const StrategyOptions& options) {
  std::string text = fmt::format("rate {}", options.rate);
  for (const Given& each : given(options)) {
    if (each.bit != kHasCompression && each.bit != kHasTopology && each.value)
      text += fmt::format(", {} {}", each.name, *each.value);
  }
  if (options.topology) text += fmt::format(", topology {}", name(*options.topology));
  return text + fmt::format(", compression {}, {} elements of {}", name(options.compression),
                            model.count, name(model.type));
}

}  // namespace

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const StrategyRow& row : strategy_table()) names.emplace_back(row.name);
  return names;
}

class Strategy::State {
 public:
  State(const StrategyRow& row, std::unique_ptr<StrategyMethod> method, Staged model)
      : row_(row),
        method_(std::move(method)),
        model_(std::move(model)),
        stream_(method_->setup().options.stream) {}

  Status begin();
  Status step(const Input& gradient);
  Status set_rate(double rate);
  [[nodiscard]] const StrategyRow& row() const { return row_; }
  [[nodiscard]] StrategyCounts counts() const { return method_->counts(); }
  Status end();

 private:
  Status note(Status status) {
    if (!status.ok()) failed_ = status;
    return status;
  }

  Status step_with(const Input& gradient);

  const StrategyRow& row_;
  const std::unique_ptr<StrategyMethod> method_;
  Staged model_;  // the method's model is the host's side of it
  const std::optional<Stream> stream_;
  bool has_begun_ = false;  // the iteration
  Status failed_;
};

Status Strategy::State::begin() {
  WEFT_RETURN_IF_ERROR(failed_);
  if (has_begun_) return invalid(row_.name, "an iteration has begun and not ended");
  WEFT_RETURN_IF_ERROR(note(model_.fetch(stream_)));
  WEFT_RETURN_IF_ERROR(note(method_->begin()));
  has_begun_ = true;
  return {};
}

Status Strategy::State::step(const Input& gradient) {
  WEFT_RETURN_IF_ERROR(failed_);
  const Output& model = method_->setup().model;
  WEFT_RETURN_IF_ERROR(check_like(fmt::format("strategy \"{}\"", row_.name), "the gradient",
                                  gradient, "the model", model));
  if (!has_begun_) WEFT_RETURN_IF_ERROR(begin());
  WEFT_RETURN_IF_ERROR(note(step_with(gradient)));
  has_begun_ = false;
  ++method_->counts().steps;
  return {};
}

Status Strategy::State::step_with(const Input& gradient) {
  WEFT_ASSIGN(Staged slope, Staged::make(gradient.data, gradient.count * size_of(gradient.type),
                                         method_->context().config().deadline_ms));
  WEFT_RETURN_IF_ERROR(slope.fetch(stream_));
  WEFT_RETURN_IF_ERROR(method_->step(slope.data()));
  return model_.store(stream_);
}

Status Strategy::State::set_rate(double rate) {
  WEFT_RETURN_IF_ERROR(check_rate(row_.name, rate));
  method_->set_rate(rate);
  return {};
}

Status Strategy::State::end() {
  WEFT_RETURN_IF_ERROR(failed_);
  if (has_begun_) return invalid(row_.name, "an iteration has begun and not ended");
  Status ended = method_->end();
  if (ended.ok()) ended = model_.store(stream_);
  failed_ = ended.ok() ? Status(Code::closed, fmt::format("strategy \"{}\" has ended", row_.name))
                       : ended;
  return ended;
}

Result<Strategy> Strategy::create(Context& context, std::string_view name, const Output& model,
                                  const StrategyOptions& options) {
  const Result<const StrategyRow*> row = check_all(name, model, options);
  Result<Staged> staged = row.ok() ? Staged::make(model.data, model.count * size_of(model.type),
                                                  context.config().deadline_ms)
                                   : Result<Staged>(row.status());
  WEFT_RETURN_IF_ERROR(agree(context, fmt::format("strategy \"{}\"", name),
                             {fmt::format("\"{}\"", name), described(model, options)},
                             staged.status()));
  StrategySetup setup{context, (*row)->name, {staged->data(), model.count, model.type}, options};
  if (staged->is_on_gpu()) setup.options.owner = std::make_shared<Staged>(*staged);
  WEFT_RETURN_IF_ERROR(staged->fetch(options.stream));
  const Output& here = setup.model;
  WEFT_RETURN_IF_ERROR(context.broadcast({here.data, here.count, here.type}, here, 0));
  WEFT_RETURN_IF_ERROR(staged->store(options.stream));
  std::unique_ptr<StrategyMethod> method = (*row)->make(std::move(setup));
  WEFT_RETURN_IF_ERROR(method->open_all());
  return Strategy(std::make_unique<State>(**row, std::move(method), *std::move(staged)));
}

Strategy::Strategy(std::unique_ptr<State> state) : state_(std::move(state)) {}
Strategy::~Strategy() = default;
Strategy::Strategy(Strategy&&) noexcept = default;
Strategy& Strategy::operator=(Strategy&&) noexcept = default;

Status Strategy::begin() {
  return state_->begin();
}
Status Strategy::step(const Input& gradient) {
  return state_->step(gradient);
}
Status Strategy::set_rate(double rate) {
  return state_->set_rate(rate);
}
std::string_view Strategy::name() const {
  return state_->row().name;
}
bool Strategy::runs_free() const {
  return state_->row().runs_free;
}
StrategyCounts Strategy::counts() const {
  return state_->counts();
}
Status Strategy::end() {
  return state_->end();
}

}  // namespace weft
