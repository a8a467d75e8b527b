// Strategies and stragglers, read.
#include "tools/weft/strategies/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace weft {
namespace {

Status invalid(std::string text) {
  return Status(Code::invalid_argument, std::move(text));
}

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(by, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

template <typename T>
bool read(std::string_view word, std::optional<T>& to) {
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), to.emplace());
  return error == std::errc() && rest == word.data() + word.size();
}

// "section=20".
bool take(std::string_view option, StrategyOptions& options) {
  const std::size_t sign = std::min(option.find('='), option.size() - 1);
  const std::string_view name = option.substr(0, sign), value = option.substr(sign + 1);
  std::optional<double> rate;
  if (name == "rate") {
    if (!read(value, rate)) return false;
    options.rate = *rate;
    return true;
  }
  if (name == "compression") {
    const Result<Compression> found = compression(value);
    if (!found.ok() || *found == Compression::low_rank) return false;  // a model is no matrix
    options.compression = *found;
    return true;
  }
  if (name == "momentum") return read(value, options.momentum);
  if (name == "section") return read(value, options.section);
  if (name == "peers") return read(value, options.peers);
  if (name == "seed") return read(value, options.seed);
  if (name == "outer_rate") return read(value, options.outer_rate);
  if (name == "outer_momentum") return read(value, options.outer_momentum);
  if (name == "colayers") return read(value, options.colayers);
  if (name == "staleness") return read(value, options.staleness);
  if (name == "proportion") return read(value, options.proportion);
  if (name == "topology") {
    const Result<ExchangeTopology> found = exchange_topology(value);
    if (found.ok()) options.topology = *found;
    return found.ok();
  }
  return false;
}

// "diloco/section=20/outer_rate=0.5".
Result<Contestant> contestant(const std::string& text, const std::vector<std::string>& known,
                              double rate) {
  const std::vector<std::string> words = split(text, '/');
  Contestant made{text, words[0], {}};
  made.options.rate = rate;
  if (std::ranges::find(known, made.name) == known.end()) {
    return invalid(fmt::format("--strategies {}: there are {}", text, fmt::join(known, ", ")));
  }
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].empty() || !take(words[i], made.options))
      return invalid(
          fmt::format("--strategies {}: \"{}\" is no option with a value", text, words[i]));
  }
  return made;
}

// "+2x": sleeps two iteration times more.
Result<double> straggler(const std::string& word) {
  std::optional<double> times;
  const bool is_framed = word.size() > 2 && word.front() == '+' && word.back() == 'x';
  if (!is_framed || !read(std::string_view(word).substr(1, word.size() - 2), times) ||
      !(*times > 0 && *times <= 1000)) {
    return invalid(
        fmt::format("--straggler {}: +2x, which is three times as slow, is expected", word));
  }
  return *times;
}

}  // namespace

Result<std::vector<Contestant>> contestants(const std::string& list,
                                            const std::vector<std::string>& known, double rate) {
  std::vector<Contestant> all;
  for (const std::string& text : split(list, ',')) {
    WEFT_ASSIGN(Contestant each, contestant(text, known, rate));
    all.push_back(std::move(each));
  }
  return all;
}

Result<std::vector<double>> stragglers(const std::string& list) {
  std::vector<double> all{0};
  if (list.empty() || list == "none") return all;
  for (const std::string& word : split(list, ',')) {
    WEFT_ASSIGN(const double times, straggler(word));
    all.push_back(times);
  }
  return all;
}

std::string straggler_text(double times) {
  return times > 0 ? fmt::format("+{}x", times) : "none";
}

}  // namespace weft
