// gradient_exchange: pieces in windows, an index of who has sent what, and a copy of the model in a window
// from which others pull it.
//
// A piece counts as out when all receivers have it. So whoever sees its bit in the index has the piece. Under
// `bulk` a piece replaces the one before, and nobody sends before all have begun the iteration: whoever has begun
// it has taken the pieces of the last one. A mesh has a second half of bits under `bulk`, of the means that an
// owner has sent.
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
#include "engine/gpu/gpu.h"
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
  const bool waits_for_means =
      options.rule == ExchangeRule::bulk && options.topology == ExchangeTopology::mesh;
  const auto count = static_cast<int>(colayers);
  const int staleness = has_bound ? options.staleness : 0;
  return {.workers = workers,
          .colayers = waits_for_means ? 2 * count : count,
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
  WEFT_RETURN_IF_ERROR(check_model(title, model));
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
  if (options.compression == Compression::low_rank)
    return invalid("compression (low_rank) takes matrices, and a colayer is none");
  if (options.compression != Compression::none && model.type != DataType::f32)
    return invalid(fmt::format("a model of {} cannot be compressed", name(model.type)));
  if (options.staleness < 0 || options.staleness > 1'000'000)
    return invalid(fmt::format("a staleness of {}; 0 to 1000000 is needed", options.staleness));
  const Status status =
      ExchangeIndex::make(index_options(workers, colayers.size(), options)).status();
  return status.ok() ? status : invalid(std::string(status.text()));
}

// The model for the host, if everything is right.
Result<Staged> staged_model(const Context& context, const Output& model,
                            std::span<const std::size_t> colayers,
                            const GradientExchangeOptions& options) {
  WEFT_RETURN_IF_ERROR(check_all(context.size(), model, colayers, options));
  return Staged::make(model.data, model.count * size_of(model.type), context.config().deadline_ms);
}

CommonArguments described(const Output& model, std::span<const std::size_t> colayers,
                          const GradientExchangeOptions& options) {
  const ExchangeOptions of = index_options(1, colayers.size(), options);
  return {
      fmt::format("\"{}\"", options.name),
      fmt::format("rule {}, staleness {}, proportion {}, rate {}, topology {}, compression {}, {} "
                  "elements of {} in colayers of {}",
                  name(options.rule), of.staleness, of.proportion, options.rate.value_or(0),
                  name(options.topology), name(options.compression), model.count, name(model.type),
                  fmt::join(colayers, " "))};
}

}  // namespace

std::string_view name(ExchangeTopology topology) {
  return topology == ExchangeTopology::mesh ? "mesh" : "all_to_all";
}

Result<ExchangeTopology> exchange_topology(std::string_view text) {
  for (const ExchangeTopology each : {ExchangeTopology::all_to_all, ExchangeTopology::mesh})
    if (text == name(each)) return each;
  return Status(
      Code::invalid_argument,
      fmt::format("there is no exchange topology '{}'; there are all_to_all, mesh", text));
}

class GradientExchange::State {
 public:
  State(Context& context, const Output& model, Staged here, const GradientExchangeOptions& options,
        SharedIndex shared)
      : context_(context),
        self_(context.rank()),
        model_(model),
        here_(std::move(here)),
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
  [[nodiscard]] GradientExchangeCounts counts() const {
    GradientExchangeCounts counts = counts_;
    for (const auto& pieces : colayers_) counts.bytes += pieces->bytes();
    return counts;
  }
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
  Result<Staged> staged(const void* data, std::size_t count) const {
    return Staged::make(data, bytes_of(count), context_.config().deadline_ms);
  }
  [[nodiscard]] bool is_bulk() const { return options_.rule == ExchangeRule::bulk; }
  [[nodiscard]] bool is_mesh() const { return options_.topology == ExchangeTopology::mesh; }
  // ok for the error that a rank is gone, unless it owns shares.
  Status pass_gone(const Status& status);
  // An error if a rank is gone that owns shares; `how`: what happened to it.
  [[nodiscard]] Status check_owners(Code how = Code::peer_left) const;
  // Waits until late() is kNoRank. In a mesh it is an error if a rank is gone.
  Status await(const std::function<Rank()>& late, const std::string& what);
  // Waits for the bits of these colayers, of all ranks.
  Status await_bits(int first, int last, const std::string& what);
  Status send(int colayer, const void* gradient);
  // Sets the bits of pieces that are out; `waits`: of all that were pushed. Returns whether there are new ones.
  Result<bool> settle(bool waits);
  // Whether the gradients of this iteration are to be dropped from here on.
  Status judge();
  Status await_others();
  Status add_up();
  Status tell_of_means();
  Status await_means();
  Result<EndedIteration> take_all(std::byte* mean);
  Result<std::vector<int>> take(std::byte* mean);
  Status descend(const std::byte* mean);
  Status pull();
  Status copy_from(Rank rank);
  Status show();
  Status with_mutexes(std::span<const Rank> ranks, const std::function<Status()>& call);
  [[nodiscard]] Rank slowest() const;
  // A rank whose bit of one of these colayers is missing, of those that are gone or of those that are not.
  [[nodiscard]] Rank rank_without(int first, int last, bool are_gone) const;

  Context& context_;
  const Rank self_;
  const Output model_;
  Staged here_;  // the host's side of the model
  const GradientExchangeOptions options_;
  const std::string title_;
  SharedIndex shared_;
  std::vector<std::unique_ptr<Pieces>> colayers_;
  std::optional<Window> shown_;  // the copy of the model that others pull; of `canary`
  Memory theirs_;                // a model that is pulled
  std::vector<bool> is_marked_;  // by colayer: its bit is set in this iteration
  bool has_begun_ = false;       // the iteration
  bool has_added_up_ = false;    // in this iteration; a mesh
  Rank pulls_from_ = kNoRank;    // this iteration is dropped
  std::int64_t next_ = 0;        // the lowest number of the next iteration
  GradientExchangeCounts counts_;
  Status failed_;
};

Status GradientExchange::State::open(std::span<const std::size_t> colayers) {
  const Sending how{model_.type, options_.compression, is_bulk()};
  for (const std::size_t count : colayers) {
    const std::string name = fmt::format("{}.{}", options_.name, colayers_.size());
    WEFT_ASSIGN(std::unique_ptr<Pieces> made,
                Pieces::create(context_, options_.topology, count, how, name));
    colayers_.push_back(std::move(made));
  }
  is_marked_.resize(colayers.size());
  if (options_.rule != ExchangeRule::canary) return {};
  WEFT_ASSIGN(theirs_, Memory::allocate(bytes_of(model_.count)));
  WEFT_ASSIGN(Window window,
              own_window(context_, model_.count, model_.type, options_.name + ".model"));
  shown_.emplace(std::move(window));
  WEFT_RETURN_IF_ERROR(here_.fetch(options_.stream));
  return show();
}

Status GradientExchange::State::begin() {
  WEFT_RETURN_IF_ERROR(failed_);
  if (has_begun_) return invalid("an iteration has begun and not ended");
  WEFT_RETURN_IF_ERROR(note(shared_.refresh()));
  WEFT_RETURN_IF_ERROR(fail(check_owners()));
  WEFT_RETURN_IF_ERROR(note(index().begin(self_, std::max(next_, iteration() + 1))));
  has_begun_ = true;
  has_added_up_ = false;
  pulls_from_ = kNoRank;
  is_marked_.assign(is_marked_.size(), false);
  return note(shared_.publish());
}

Status GradientExchange::State::check_push(int colayer, const Input& gradient) const {
  if (!has_begun_) return invalid("no iteration has begun");
  if (colayer < 0 || static_cast<std::size_t>(colayer) >= colayers_.size())
    return invalid(fmt::format("colayer {} is not one of 0…{}", colayer, colayers_.size() - 1));
  const Pieces& pieces = *colayers_[static_cast<std::size_t>(colayer)];
  if (has_added_up_ || pieces.is_pushed())
    return invalid(fmt::format("colayer {} was pushed in this iteration", colayer));
  return check_like(title_, fmt::format("the gradient of colayer {}", colayer), gradient,
                    "the colayer", {nullptr, pieces.count(), model_.type});
}

Status GradientExchange::State::push(int colayer, const Input& gradient) {
  WEFT_RETURN_IF_ERROR(failed_);
  WEFT_RETURN_IF_ERROR(check_push(colayer, gradient));
  WEFT_ASSIGN(Staged slope, staged(gradient.data, gradient.count));
  WEFT_RETURN_IF_ERROR(note(slope.fetch(options_.stream)));
  return note(send(colayer, slope.data()));
}

Status GradientExchange::State::pass_gone(const Status& status) {
  WEFT_RETURN_IF_ERROR(shared_.pass_gone(status));
  return check_owners(status.ok() ? Code::peer_left : status.code());
}

Status GradientExchange::State::check_owners(Code how) const {
  for (Rank rank = 0; is_mesh() && rank < context_.size(); ++rank) {
    if (!index().has_left(rank)) continue;
    return Status(how,
                  fmt::format("{}: rank {} is gone, and of a mesh it owns shares of the gradients",
                              title_, rank),
                  rank);
  }
  return {};
}

// In a mesh, ranks that know of one that is gone begin no iteration more, so the others must not wait for them.
Status GradientExchange::State::await(const std::function<Rank()>& late, const std::string& what) {
  const auto hopeful = [&] { return check_owners().ok() ? late() : kNoRank; };
  WEFT_RETURN_IF_ERROR(shared_.wait(hopeful, what));
  return check_owners();
}

// A rank that is gone and has set its bits is missed by nobody in this iteration.
Status GradientExchange::State::await_bits(int first, int last, const std::string& what) {
  const auto is_lost = [&] { return is_mesh() && rank_without(first, last, true) != kNoRank; };
  const auto late = [&] { return is_lost() ? kNoRank : rank_without(first, last, false); };
  WEFT_RETURN_IF_ERROR(shared_.wait(late, what));
  return is_lost() ? check_owners() : Status();
}

Status GradientExchange::State::send(int colayer, const void* gradient) {
  WEFT_RETURN_IF_ERROR(shared_.refresh());
  WEFT_RETURN_IF_ERROR(judge());
  if (pulls_from_ != kNoRank) return {};
  if (is_bulk()) {
    const auto late = [&] {
      for (Rank rank = 0; rank < context_.size(); ++rank)
        if (!index().has_left(rank) && index().iteration_of(rank) < iteration()) return rank;
      return kNoRank;
    };
    WEFT_RETURN_IF_ERROR(await(late, fmt::format("begun iteration {}", iteration())));
  }
  WEFT_ASSIGN(const bool has_news, settle(false));
  if (has_news) WEFT_RETURN_IF_ERROR(shared_.publish());
  return colayers_[static_cast<std::size_t>(colayer)]->push(gradient, shared_.others());
}

Result<bool> GradientExchange::State::settle(bool waits) {
  bool has_news = false;
  for (std::size_t colayer = 0; colayer < colayers_.size(); ++colayer) {
    Pieces& pieces = *colayers_[colayer];
    if (!pieces.is_pushed() || is_marked_[colayer] || !(waits || pieces.is_out())) continue;
    WEFT_RETURN_IF_ERROR(fail(pass_gone(pieces.settle())));
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

Rank GradientExchange::State::rank_without(int first, int last, bool are_gone) const {
  for (Rank rank = 0; rank < context_.size(); ++rank) {
    if (index().has_left(rank) != are_gone) continue;
    for (int colayer = first; colayer < last; ++colayer)
      if (!index().has(rank, colayer, iteration())) return rank;
  }
  return kNoRank;
}

Rank GradientExchange::State::slowest() const {
  Rank slowest = self_;
  for (Rank rank = 0; rank < context_.size(); ++rank)
    if (!index().has_left(rank) && index().iteration_of(rank) < index().iteration_of(slowest))
      slowest = rank;
  return slowest;
}

Status GradientExchange::State::await_others() {
  if (is_bulk()) {
    return await_bits(0, static_cast<int>(colayers_.size()),
                      fmt::format("sent all gradients of iteration {}", iteration()));
  }
  if (options_.rule != ExchangeRule::bounded) return {};
  const auto late = [&] { return index().verdict(self_).what == What::wait ? slowest() : kNoRank; };
  return await(late, fmt::format("begun iteration {}", iteration() - options_.staleness + 1));
}

// A mesh. Nothing of the last iteration is under way any more.
Status GradientExchange::State::add_up() {
  if (!is_mesh()) return {};
  if (!has_added_up_) {
    for (const auto& pieces : colayers_) {
      WEFT_RETURN_IF_ERROR(fail(pass_gone(pieces->settle())));
      WEFT_RETURN_IF_ERROR(fail(pieces->add_up(shared_.others())));
    }
    has_added_up_ = true;
    if (is_bulk()) WEFT_RETURN_IF_ERROR(fail(tell_of_means()));
  }
  return is_bulk() ? note(await_means()) : Status();
}

Status GradientExchange::State::tell_of_means() {
  const auto colayers = static_cast<int>(colayers_.size());
  for (int colayer = 0; colayer < colayers; ++colayer) {
    WEFT_RETURN_IF_ERROR(pass_gone(colayers_[static_cast<std::size_t>(colayer)]->settle()));
    WEFT_RETURN_IF_ERROR(index().add(self_, colayers + colayer, iteration()));
  }
  return shared_.publish();
}

Status GradientExchange::State::await_means() {
  const auto colayers = static_cast<int>(colayers_.size());
  return await_bits(colayers, 2 * colayers,
                    fmt::format("sent its means of iteration {}", iteration()));
}

Result<EndedIteration> GradientExchange::State::end_iteration(const Output& mean) {
  WEFT_RETURN_IF_ERROR(failed_);
  if (!has_begun_) return invalid("no iteration has begun");
  WEFT_RETURN_IF_ERROR(
      check_like(title_, "the mean", {mean.data, mean.count, mean.type}, "the model", model_));
  for (std::size_t each = 0; each < colayers_.size(); ++each) {
    if (is_bulk() && !has_added_up_ && !colayers_[each]->is_pushed())
      return invalid(fmt::format("colayer {} was not pushed, and all ranks wait for it", each));
  }
  WEFT_ASSIGN(Staged to, staged(mean.data, mean.count));
  WEFT_RETURN_IF_ERROR(note(settle(true).status()));
  WEFT_RETURN_IF_ERROR(note(shared_.publish()));
  WEFT_RETURN_IF_ERROR(note(await_others()));
  if (pulls_from_ == kNoRank) WEFT_RETURN_IF_ERROR(add_up());
  Result<EndedIteration> ended = take_all(to.data());
  WEFT_RETURN_IF_ERROR(fail(ended.status()));
  WEFT_RETURN_IF_ERROR(note(to.store(options_.stream)));
  has_begun_ = false;
  ++counts_.iterations;
  return ended;
}

// What this rank adds up after a pull is in no model yet, so it counts here in the next iteration.
Result<EndedIteration> GradientExchange::State::take_all(std::byte* mean) {
  EndedIteration ended;
  ended.number = iteration();
  ended.is_dropped = pulls_from_ != kNoRank;
  WEFT_ASSIGN(ended.contributors, take(mean));
  next_ = iteration() + 1;
  if (ended.is_dropped) {
    std::memset(mean, 0, bytes_of(model_.count));
    WEFT_RETURN_IF_ERROR(pull());
    ended.pulled_from = pulls_from_;
    ++counts_.dropped;
    WEFT_RETURN_IF_ERROR(add_up());
  } else if (options_.rate) {
    WEFT_RETURN_IF_ERROR(descend(mean));
  }
  return ended;
}

Result<std::vector<int>> GradientExchange::State::take(std::byte* mean) {
  std::vector<int> contributors;
  for (const auto& pieces : colayers_) {
    WEFT_ASSIGN(const int count, pieces->take(mean));
    contributors.push_back(count);
    mean += bytes_of(pieces->count());
  }
  return contributors;
}

Status GradientExchange::State::descend(const std::byte* mean) {
  WEFT_RETURN_IF_ERROR(here_.fetch(options_.stream));
  const Term terms[] = {{here_.data(), 1.0}, {mean, -*options_.rate}};
  combine(model_.type, Reduction::weighted_sum, terms, here_.data(), model_.count);
  WEFT_RETURN_IF_ERROR(here_.store(options_.stream));
  return shown_ ? show() : Status();
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
    for (void* to : {static_cast<void*>(here_.data()), shown_->tensor().data})
      std::memcpy(to, theirs_.data(), bytes_of(model_.count));
    return here_.store(options_.stream);
  });
}

// Others pull the model as the host has it now.
Status GradientExchange::State::show() {
  return with_mutexes({&self_, 1}, [&]() -> Status {
    std::memcpy(shown_->tensor().data, here_.data(), bytes_of(model_.count));
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
  if (!shown_) return {};
  WEFT_RETURN_IF_ERROR(here_.fetch(options_.stream));
  return show();
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
  for (const auto& pieces : colayers_) WEFT_RETURN_IF_ERROR(note(pieces->end(context_)));
  if (shown_) WEFT_RETURN_IF_ERROR(note(context_.win_free(shown_->name())));
  WEFT_RETURN_IF_ERROR(note(shared_.end()));
  failed_ = Status(Code::closed, title_ + ": has ended");
  return {};
}

Result<GradientExchange> GradientExchange::create(Context& context, const Output& model,
                                                  std::span<const std::size_t> colayers,
                                                  const GradientExchangeOptions& options) {
  Result<Staged> staged = staged_model(context, model, colayers, options);
  WEFT_RETURN_IF_ERROR(
      agree(context, title_of(options), described(model, colayers, options), staged.status()));
  return or_free_windows(context, [&]() -> Result<GradientExchange> {
    WEFT_ASSIGN(const Graph graph, fully_connected_graph(context.size()));
    if (!(context.graph() == graph)) WEFT_RETURN_IF_ERROR(context.set_graph(graph));
    WEFT_ASSIGN(
        SharedIndex shared,
        SharedIndex::create(context, index_options(context.size(), colayers.size(), options),
                            options.name));
    auto state =
        std::make_unique<State>(context, model, *std::move(staged), options, std::move(shared));
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
