// shared_index: see the header.
#include "engine/algorithms/shared_index.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "engine/algorithms/own_window.h"
#include "engine/context/context.h"
#include "engine/membership/membership.h"

namespace weft {
namespace {

constexpr int kPublished = 0;  // the signal
// How often a rank that waits asks whether those that it waits for are there.
constexpr std::int64_t kAskNs = 20'000'000;
constexpr double kHalf = 4294967296.0;  // 2^32

void split(std::span<const std::uint64_t> words, double* halves) {
  for (std::size_t word = 0; word < words.size(); ++word) {
    halves[2 * word] = static_cast<double>(words[word] >> 32);
    halves[2 * word + 1] = static_cast<double>(words[word] & 0xFFFFFFFF);
  }
}
void join(const double* halves, std::span<std::uint64_t> words) {
  for (std::size_t word = 0; word < words.size(); ++word)
    words[word] = static_cast<std::uint64_t>(halves[2 * word]) << 32 |
                  static_cast<std::uint64_t>(halves[2 * word + 1]);
}

}  // namespace

SharedIndex::SharedIndex(Context& context, ExchangeIndex index, std::string title)
    : context_(&context), index_(std::move(index)), title_(std::move(title)) {
  index_.write(words_);
}

Result<SharedIndex> SharedIndex::create(Context& context, const ExchangeOptions& options,
                                        const std::string& name) {
  WEFT_ASSIGN(ExchangeIndex index, ExchangeIndex::make(options));
  SharedIndex made(context, std::move(index), fmt::format("gradient exchange \"{}\"", name));
  const std::size_t halves = 2 * made.words_.size();
  WEFT_ASSIGN(made.arrived_, Memory::allocate(halves * sizeof(double)));
  WEFT_ASSIGN(made.window_, own_window(context, halves, DataType::f64, name + ".index"));
  return made;
}

std::vector<NeighborWeight> SharedIndex::others() const {
  std::vector<NeighborWeight> others;
  for (const Rank rank : window_.out_neighbors())
    if (!index_.has_left(rank)) others.push_back({rank, 1.0});
  return others;
}

Status SharedIndex::pass_gone(const Status& status) {
  if (!is_gone(status) || status.rank() == kNoRank) return status;
  return index_.leave(status.rank());
}

Status SharedIndex::send(int signal) {
  const std::vector<NeighborWeight> to = others();
  if (to.empty()) return {};
  index_.write(words_);
  split(words_, halves());
  return pass_gone(
      window_.put(window_.tensor(), {.destinations = std::span(to), .signal = signal}));
}

Status SharedIndex::publish() {
  return send(kPublished);
}

// The signal is read before the copies: what comes after is merged the next time.
Status SharedIndex::refresh() {
  if (context_->size() == 1) return {};
  WEFT_ASSIGN(const std::uint64_t raised, window_.signal(kPublished));
  if (raised == merged_) return {};
  const Output copy = out(arrived_.as<double>(), 2 * words_.size());
  for (const Rank rank : window_.in_neighbors()) {
    const NeighborWeight source[] = {{rank, 1.0}};
    WEFT_RETURN_IF_ERROR(
        window_.update({.self_weight = 0.0, .sources = std::span(source), .clone = copy}));
    join(arrived_.as<double>(), words_);
    if (words_[0] == 0) continue;  // it has published nothing yet
    WEFT_RETURN_IF_ERROR(index_.merge(words_));
  }
  merged_ = raised;
  return {};
}

// If all others are gone, nobody can raise the signal, which is no error here.
Status SharedIndex::wait(const std::function<Rank()>& late, std::string_view what) {
  const Deadline deadline = Deadline::after_ms(context_->config().deadline_ms);
  for (std::int64_t ask_ns = now_ns() + kAskNs;;) {
    WEFT_RETURN_IF_ERROR(refresh());
    const Rank rank = late();
    if (rank == kNoRank) return {};
    const std::int64_t now = now_ns();
    if (now >= deadline.ns()) {
      return Status(Code::timed_out, fmt::format("{}: rank {} has not {}", title_, rank, what),
                    rank);
    }
    if (now >= ask_ns) {
      WEFT_RETURN_IF_ERROR(send(-1));
      ask_ns = now + kAskNs;
      continue;
    }
    const Status woken =
        window_.wait_signal(kPublished, merged_ + 1, std::min(deadline.ns(), ask_ns) - now);
    if (is_gone(woken))
      ask_ns = now;
    else if (!woken.ok() && woken.code() != Code::timed_out)
      return woken;
  }
}

}  // namespace weft
