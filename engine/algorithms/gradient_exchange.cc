// gradient_exchange: pieces in windows, an index of who has sent what, and a copy of the model in a window
// from which others pull it.
//
// A piece counts as out when all receivers have it. So whoever sees its bit in the index has the piece. Under
// `bulk` a piece replaces the one before, and nobody sends before all have begun the iteration: whoever has begun
// it has taken the pieces of the last one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/algorithms/agreement.h"
#include "engine/algorithms/algorithms.h"
#include "engine/algorithms/models.h"
#include "engine/algorithms/own_window.h"
#include "engine/algorithms/pieces.h"
#include "engine/algorithms/shared_index.h"
#include "engine/kernels/kernels.h"
#include "engine/membership/membership.h"

namespace weft {
namespace {

using What = ExchangeIndex::Verdict::What;

constexpr int kRows = 8;  // of the index, at least

std::string title_of(const GradientExchangeOptions& options) {
  return fmt::format("gradient exchange \"{}\"", options.name);
}

// Six of ten colayers, rounded up.
ExchangeOptions index_options(int workers, std::size_t colayers,
                              const GradientExchangeOptions& options) {
  const bool has_bound =
      options.rule == ExchangeRule::bounded || options.rule == ExchangeRule::canary;
  const auto count = static_cast<int>(colayers);
  const int staleness = has_bound ? options.staleness : 0;
  return {.workers = workers,
          .colayers = count,
          .rule = options.rule,
          .staleness = staleness,
          .proportion = options.proportion.value_or((3 * count + 4) / 5),
          .rows = std::max(kRows, staleness + 2)};
}

Status check_all(int workers, const Output& model, std::span<const std::size_t> colayers,
                 const GradientExchangeOptions& options) {
  const std::string title = title_of(options);
  const auto invalid = [&](const std::string& why) {
    return Status(Code::invalid_argument, fmt::format("{}: {}", title, why));
  };
  WEFT_RETURN_IF_ERROR(check_host_model(title, model));
  std::size_t left = model.count;
  for (const std::size_t count : colayers) {
    if (count == 0) return invalid("a colayer is empty");
    if (count > left)
      return invalid(
          fmt::format("the colayers have more than the {} elements of the model", model.count));
    left -= count;
  }
  if (left != 0) {
    return invalid(fmt::format("the colayers have {} elements, and the model {}",
                               model.count - left, model.count));
  }
  if (options.rate && !(*options.rate > 0 && std::isfinite(*options.rate)))
    return invalid(fmt::format("the rate is {}; a number above 0 is needed", *options.rate));
  if (options.staleness < 0 || options.staleness > 1'000'000)
    return invalid(fmt::format("a staleness of {}; 0 to 1000000 is needed", options.staleness));
  const Status status =
      ExchangeIndex::make(index_options(workers, colayers.size(), options)).status();
  return status.ok() ? status : invalid(std::string(status.text()));
}

CommonArguments described(const Output& model, std::span<const std::size_t> colayers,
                          const GradientExchangeOptions& options) {
  const ExchangeOptions of = index_options(1, colayers.size(), options);
  return {fmt::format("\"{}\"", options.name),
          fmt::format("rule {}, staleness {}, proportion {}, rate {}, {} elements of {} in "
                      "colayers of {}",
                      name(options.rule), of.staleness, of.proportion, options.rate.value_or(0),
                      model.count, name(model.type), fmt::join(colayers, " "))};
}

}  // namespace

class GradientExchange::State {
 public:
  State(Context& context, const Output& model, const GradientExchangeOptions& options,
        SharedIndex shared)
      : context_(context),
        self_(context.rank()),
        model_(model),
        options_(options),
        title_(title_of(options)),
        shared_(std::move(shared)) {}

  Status open(std::span<const std::size_t> colayers);
  Status begin();
  Status push(int colayer, const Input& gradient);
  Result<EndedIteration> end_iteration(const Output& mean);
  Status update(const std::function<void()>& change);
  [[nodiscard]] std::int64_t iteration() const { return index().iteration_of(self_); }
  Result<std::int64_t> staleness();
  Result<std::vector<std::uint64_t>> words();
  [[nodiscard]] GradientExchangeCounts counts() const { return counts_; }
  Status end();

 private:
  [[nodiscard]] ExchangeIndex& index() { return shared_.index(); }
  [[nodiscard]] const ExchangeIndex& index() const { return shared_.index(); }
  [[nodiscard]] std::size_t bytes_of(std::size_t count) const {
    return count * size_of(model_.type);
  }
  [[nodiscard]] Status invalid(std::string_view why) const {
    return Status(Code::invalid_argument, fmt::format("{}: {}", title_, why));
  }
  // Every later call fails, too.
  Status fail(Status status) {
    if (!status.ok() && failed_.ok()) failed_ = status;
    return status;
  }
  // Unless the call may be repeated: it waited for another rank.
  Status note(Status status) {
    return status.code() == Code::timed_out ? status : fail(std::move(status));
  }
  Status check_push(int colayer, const Input& gradient) const;
  Status send(int colayer, const void* gradient);
  // Sets the bits of pieces that are out; `waits`: of all that were pushed. Returns whether there are new ones.
  Result<bool> settle(bool waits);
  // Whether the gradients of this iteration are to be dropped from here on.
  Status judge();
  Status await_others();
  Result<std::vector<int>> take(std::byte* mean);
  Status pull();
  Status copy_from(Rank rank);
  Status show();
  Status with_mutexes(std::span<const Rank> ranks, const std::function<Status()>& call);
  [[nodiscard]] Rank late_sender() const;

  Context& context_;
  const Rank self_;
  const Output model_;
  const GradientExchangeOptions options_;
  const std::string title_;
  SharedIndex shared_;
  std::vector<Pieces> colayers_;
  std::optional<Window> shown_;  // the copy of the model that others pull; of `canary`
  Memory theirs_;                // a model that is pulled
  std::vector<bool> is_marked_;  // by colayer: its bit is set in this iteration
  bool has_begun_ = false;       // the iteration
  Rank pulls_from_ = kNoRank;    // this iteration is dropped
  std::int64_t next_ = 0;        // the lowest number of the next iteration
  GradientExchangeCounts counts_;
  Status failed_;
};

Status GradientExchange::State::open(std::span<const std::size_t> colayers) {
  for (const std::size_t count : colayers) {
    const std::string name = fmt::format("{}.{}", options_.name, colayers_.size());
    WEFT_ASSIGN(Pieces made, Pieces::create(context_, count, model_.type, name));
    colayers_.push_back(std::move(made));
  }
  is_marked_.resize(colayers.size());
  if (options_.rule != ExchangeRule::canary) return {};
  WEFT_ASSIGN(theirs_, Memory::allocate(bytes_of(model_.count)));
  WEFT_ASSIGN(Window window,
              own_window(context_, model_.count, model_.type, options_.name + ".model"));
  shown_.emplace(std::move(window));
  return show();
}

Status GradientExchange::State::begin() {
  WEFT_RETURN_IF_ERROR(failed_);
  if (has_begun_) return invalid("an iteration has begun and not ended");
  WEFT_RETURN_IF_ERROR(note(shared_.refresh()));
  WEFT_RETURN_IF_ERROR(note(index().begin(self_, std::max(next_, iteration() + 1))));
  has_begun_ = true;
  pulls_from_ = kNoRank;
  is_marked_.assign(is_marked_.size(), false);
  return note(shared_.publish());
}

Status GradientExchange::State::check_push(int colayer, const Input& gradient) const {
  if (!has_begun_) return invalid("no iteration has begun");
  if (colayer < 0 || static_cast<std::size_t>(colayer) >= colayers_.size())
    return invalid(fmt::format("colayer {} is not one of 0…{}", colayer, colayers_.size() - 1));
  const Pieces& pieces = colayers_[static_cast<std::size_t>(colayer)];
  if (pieces.is_pushed())
    return invalid(fmt::format("colayer {} was pushed in this iteration", colayer));
  return check_host_like(title_, fmt::format("the gradient of colayer {}", colayer), gradient,
                         "the colayer", {nullptr, pieces.count(), model_.type});
}

Status GradientExchange::State::push(int colayer, const Input& gradient) {
  WEFT_RETURN_IF_ERROR(failed_);
  WEFT_RETURN_IF_ERROR(check_push(colayer, gradient));
  return note(send(colayer, gradient.data));
}

Status GradientExchange::State::send(int colayer, const void* gradient) {
  WEFT_RETURN_IF_ERROR(shared_.refresh());
  WEFT_RETURN_IF_ERROR(judge());
  if (pulls_from_ != kNoRank) return {};
  const bool is_bulk = options_.rule == ExchangeRule::bulk;
  if (is_bulk) {
    const auto late = [&] {
      for (Rank rank = 0; rank < context_.size(); ++rank)
        if (!index().has_left(rank) && index().iteration_of(rank) < iteration()) return rank;
      return kNoRank;
    };
    WEFT_RETURN_IF_ERROR(shared_.wait(late, fmt::format("begun iteration {}", iteration())));
  }
  WEFT_ASSIGN(const bool has_news, settle(false));
  if (has_news) WEFT_RETURN_IF_ERROR(shared_.publish());
  Pieces& pieces = colayers_[static_cast<std::size_t>(colayer)];
  const std::vector<NeighborWeight> to = shared_.others();
  counts_.bytes += to.size() * bytes_of(pieces.count());
  return pieces.push(gradient, to, is_bulk);
}

Result<bool> GradientExchange::State::settle(bool waits) {
  bool has_news = false;
  for (std::size_t colayer = 0; colayer < colayers_.size(); ++colayer) {
    Pieces& pieces = colayers_[colayer];
    if (!pieces.is_pushed() || is_marked_[colayer] || !(waits || pieces.is_out())) continue;
    WEFT_RETURN_IF_ERROR(fail(shared_.pass_gone(pieces.settle())));
    is_marked_[colayer] = has_news = true;
    const Status added = index().add(self_, static_cast<int>(colayer), iteration());
    // Of an iteration that has no row any more, nobody asks.
    if (!added.ok() && added.code() != Code::unavailable) return added;
  }
  return has_news;
}

Status GradientExchange::State::judge() {
  if (options_.rule != ExchangeRule::canary || pulls_from_ != kNoRank) return {};
  if (index().staleness_of(self_) <= options_.staleness) return {};
  WEFT_RETURN_IF_ERROR(settle(true).status());
  const ExchangeIndex::Verdict verdict = index().verdict(self_);
  if (verdict.what == What::drop) pulls_from_ = verdict.from;
  return {};
}

Rank GradientExchange::State::late_sender() const {
  const bool is_bulk = options_.rule == ExchangeRule::bulk;
  if (index().verdict(self_).what != What::wait) return kNoRank;
  Rank slowest = self_;
  for (Rank rank = 0; rank < context_.size(); ++rank) {
    if (index().has_left(rank)) continue;
    for (int colayer = 0; is_bulk && colayer < static_cast<int>(colayers_.size()); ++colayer)
      if (!index().has(rank, colayer, iteration())) return rank;
    if (index().iteration_of(rank) < index().iteration_of(slowest)) slowest = rank;
  }
  return slowest;
}

Status GradientExchange::State::await_others() {
  if (options_.rule != ExchangeRule::bulk && options_.rule != ExchangeRule::bounded) return {};
  const std::string what =
      options_.rule == ExchangeRule::bulk
          ? fmt::format("sent all gradients of iteration {}", iteration())
          : fmt::format("begun iteration {}", iteration() - options_.staleness + 1);
  return shared_.wait([&] { return late_sender(); }, what);
}

Result<EndedIteration> GradientExchange::State::end_iteration(const Output& mean) {
  WEFT_RETURN_IF_ERROR(failed_);
  if (!has_begun_) return invalid("no iteration has begun");
  WEFT_RETURN_IF_ERROR(
      check_host_like(title_, "the mean", {mean.data, mean.count, mean.type}, "the model", model_));
  for (std::size_t each = 0; each < colayers_.size(); ++each) {
    if (options_.rule == ExchangeRule::bulk && !colayers_[each].is_pushed())
      return invalid(fmt::format("colayer {} was not pushed, and all ranks wait for it", each));
  }
  WEFT_RETURN_IF_ERROR(note(settle(true).status()));
  WEFT_RETURN_IF_ERROR(note(shared_.publish()));
  WEFT_RETURN_IF_ERROR(note(await_others()));
  EndedIteration ended;
  ended.number = iteration();
  ended.is_dropped = pulls_from_ != kNoRank;
  Result<std::vector<int>> contributors = take(static_cast<std::byte*>(mean.data));
  WEFT_RETURN_IF_ERROR(fail(contributors.status()));
  ended.contributors = *std::move(contributors);
  next_ = iteration() + 1;
  if (ended.is_dropped) {
    std::memset(mean.data, 0, bytes_of(mean.count));
    WEFT_RETURN_IF_ERROR(fail(pull()));
    ended.pulled_from = pulls_from_;
    ++counts_.dropped;
  } else if (options_.rate) {
    const Term terms[] = {{model_.data, 1.0}, {mean.data, -*options_.rate}};
    WEFT_RETURN_IF_ERROR(fail(update(
        [&] { combine(model_.type, Reduction::weighted_sum, terms, model_.data, model_.count); })));
  }
  has_begun_ = false;
  ++counts_.iterations;
  return ended;
}

Result<std::vector<int>> GradientExchange::State::take(std::byte* mean) {
  std::vector<int> contributors;
  for (Pieces& pieces : colayers_) {
    WEFT_ASSIGN(const Pieces::Taken taken, pieces.take());
    contributors.push_back(taken.contributors);
    const std::size_t bytes = bytes_of(pieces.count());
    if (taken.contributors == 0) {
      std::memset(mean, 0, bytes);
    } else {
      const Term sum[] = {{taken.sum, 1.0}};
      combine(model_.type, Reduction::weighted_sum, sum, mean, pieces.count(), StoreKind::cached,
              taken.contributors);
    }
    mean += bytes;
  }
  return contributors;
}

// What came before the pull was taken and is dropped: the pulled model has it.
Status GradientExchange::State::pull() {
  while (pulls_from_ != kNoRank) {
    const Status pulled = copy_from(pulls_from_);
    if (pulled.ok()) {
      next_ = std::max(next_, index().iteration_of(pulls_from_));
      ++counts_.pulls;
      counts_.bytes += bytes_of(model_.count);
      return {};
    }
    if (!is_gone(pulled)) return pulled;
    WEFT_RETURN_IF_ERROR(shared_.pass_gone(pulled));
    pulls_from_ = index().verdict(self_).from;  // of those that are there, if one is ahead
  }
  return {};
}

Status GradientExchange::State::copy_from(Rank rank) {
  const Rank both[] = {self_, rank};
  return with_mutexes(both, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(shown_->read(rank, {theirs_.data(), model_.count, model_.type}));
    for (void* to : {model_.data, shown_->tensor().data})
      std::memcpy(to, theirs_.data(), bytes_of(model_.count));
    return {};
  });
}

// Others pull the model as it is now.
Status GradientExchange::State::show() {
  return with_mutexes({&self_, 1}, [&]() -> Status {
    std::memcpy(shown_->tensor().data, model_.data, bytes_of(model_.count));
    return {};
  });
}

Status GradientExchange::State::with_mutexes(std::span<const Rank> ranks,
                                             const std::function<Status()>& call) {
  WEFT_RETURN_IF_ERROR(shown_->lock(ranks));
  const Status called = call();
  const Status given_back = shown_->unlock();
  return called.ok() ? given_back : called;
}

Status GradientExchange::State::update(const std::function<void()>& change) {
  if (change == nullptr) return invalid("there is no change to be run");
  change();
  return shown_ ? show() : Status();
}

Result<std::int64_t> GradientExchange::State::staleness() {
  WEFT_RETURN_IF_ERROR(note(shared_.refresh()));
  return index().staleness_of(self_);
}

Result<std::vector<std::uint64_t>> GradientExchange::State::words() {
  WEFT_RETURN_IF_ERROR(note(shared_.refresh()));
  std::vector<std::uint64_t> words;
  index().write(words);
  return words;
}

Status GradientExchange::State::end() {
  WEFT_RETURN_IF_ERROR(failed_);
  if (has_begun_) return invalid("an iteration has begun and not ended");
  for (Pieces& pieces : colayers_) WEFT_RETURN_IF_ERROR(note(pieces.end(context_)));
  if (shown_) WEFT_RETURN_IF_ERROR(note(context_.win_free(shown_->name())));
  WEFT_RETURN_IF_ERROR(note(shared_.end()));
  failed_ = Status(Code::closed, title_ + ": has ended");
  return {};
}

Result<GradientExchange> GradientExchange::create(Context& context, const Output& model,
                                                  std::span<const std::size_t> colayers,
                                                  const GradientExchangeOptions& options) {
  WEFT_RETURN_IF_ERROR(agree(context, title_of(options), described(model, colayers, options),
                             check_all(context.size(), model, colayers, options)));
  return or_free_windows(context, [&]() -> Result<GradientExchange> {
    WEFT_ASSIGN(const Graph graph, fully_connected_graph(context.size()));
    if (!(context.graph() == graph)) WEFT_RETURN_IF_ERROR(context.set_graph(graph));
    WEFT_ASSIGN(
        SharedIndex shared,
        SharedIndex::create(context, index_options(context.size(), colayers.size(), options),
                            options.name));
    auto state = std::make_unique<State>(context, model, options, std::move(shared));
    WEFT_RETURN_IF_ERROR(state->open(colayers));
    return GradientExchange(std::move(state));
  });
}

GradientExchange::GradientExchange(std::unique_ptr<State> state) : state_(std::move(state)) {}
GradientExchange::~GradientExchange() = default;
GradientExchange::GradientExchange(GradientExchange&&) noexcept = default;
GradientExchange& GradientExchange::operator=(GradientExchange&&) noexcept = default;

Status GradientExchange::begin() {
  return state_->begin();
}
Status GradientExchange::push(int colayer, const Input& gradient) {
  return state_->push(colayer, gradient);
}
Result<EndedIteration> GradientExchange::end_iteration(const Output& mean) {
  return state_->end_iteration(mean);
}
Status GradientExchange::update(const std::function<void()>& change) {
  return state_->update(change);
}
std::int64_t GradientExchange::iteration() const {
  return state_->iteration();
}
Result<std::int64_t> GradientExchange::staleness() {
  return state_->staleness();
}
Result<std::vector<std::uint64_t>> GradientExchange::index() {
  return state_->words();
}
GradientExchangeCounts GradientExchange::counts() const {
  return state_->counts();
}
Status GradientExchange::end() {
  return state_->end();
}

}  // namespace weft
