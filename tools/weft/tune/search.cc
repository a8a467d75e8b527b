// search: see the header.
#include "tools/weft/tune/search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "tools/weft/common/bytes.h"

namespace weft {
namespace {

// A row whose one call takes more of the time would leave too little for all else.
constexpr double kMostShare = 1.0 / 400;
constexpr double kMostRowUs = 400'000;  // so that Ctrl-C is heard before a launcher loses patience
constexpr double kAlgorithmsShare = 0.35;
constexpr double kSettingsUntil = 0.72;  // of the time; the check has the rest
constexpr double kFusionShare = 0.05;
constexpr double kWorthIt = 1.03;  // less is taken for noise
constexpr double kAlgorithmGain = 1.05;
constexpr double kLost = 0.8;     // not worth more rounds
constexpr double kLosing = 0.95;  // of a row: it lost more than noise
constexpr std::size_t kNamedBytes = 16 << 10;

constexpr AllreduceAlgorithm kAlgorithms[] = {AllreduceAlgorithm::direct,
                                              AllreduceAlgorithm::split,
                                              AllreduceAlgorithm::ring,
                                              AllreduceAlgorithm::bcube,
                                              AllreduceAlgorithm::halving_doubling,
                                              AllreduceAlgorithm::torus,
                                              AllreduceAlgorithm::multi_ring,
                                              AllreduceAlgorithm::hierarchical};

double geometric_mean(const std::vector<double>& ratios) {
  double sum = 0;
  for (const double ratio : ratios) sum += std::log(std::max(ratio, 1e-6));
  return ratios.empty() ? 1 : std::exp(sum / static_cast<double>(ratios.size()));
}

std::string row_text(const TuneRow& row) {
  return fmt::format("{} {}", row.name(), bytes_text(row.bytes));
}

}  // namespace

Search::Search(Bench& bench, const std::vector<std::size_t>& sizes, std::set<std::string> set,
               const Config& config, std::function<void(const std::string&)> say)
    : bench_(bench), set_(std::move(set)), config_(config), say_(std::move(say)), sizes_(sizes) {
  std::ranges::sort(sizes_);
  sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
}

std::string Search::usual_of(const std::string& setting) const {
  const Result<std::string> value = config_.get(setting);
  return value.ok() ? *value : std::string();
}

// Between machines a context learns how fast its rails are from the first megabytes of each peer.
Status Search::warm_up(Stand& stand) {
  constexpr int kLaps = 3;
  constexpr int kMostDirect = 32;  // ranks
  if (bench_.size() == 1 || rows_.empty()) return {};
  TuneRow row{TuneRow::What::allreduce, rows_.front().bytes};
  if (bench_.size() <= kMostDirect) stand.algorithm = AllreduceAlgorithm::direct;
  for (int lap = 0; lap < kLaps && !bench_.is_stopped(); ++lap)
    WEFT_RETURN_IF_ERROR(bench_.time_once(stand, row).status());
  stand.algorithm = AllreduceAlgorithm::automatic;
  return {};
}

// Null if a rank cannot have it; that is noted.
Result<Stand> Search::open(const Settings& settings) {
  std::string why;
  WEFT_ASSIGN(Stand stand, bench_.stand(settings, why));
  if (stand.context != nullptr) {
    WEFT_RETURN_IF_ERROR(warm_up(stand));
  } else if (!why.empty()) {
    std::string text;
    for (const auto& [name, value] : settings) text += fmt::format("{}={} ", name, value);
    found_.notes.push_back(fmt::format("{}: {}", text, why));
  }
  return stand;
}

Status Search::run() {
  std::string why;
  WEFT_ASSIGN(usual_, bench_.stand({}, why));
  if (usual_.context == nullptr) return Status(Code::unavailable, why);
  WEFT_RETURN_IF_ERROR(choose_rows());
  WEFT_RETURN_IF_ERROR(warm_up(usual_));
  if (!set_.contains("WEFT_ALLREDUCE")) WEFT_RETURN_IF_ERROR(try_algorithms());
  WEFT_RETURN_IF_ERROR(try_settings());
  if (!set_.contains("WEFT_FUSION_BYTES")) WEFT_RETURN_IF_ERROR(try_fusion());
  return check();
}

Status Search::choose_rows() {
  const double most_us =
      std::min((bench_.left_s() + bench_.spent_s()) * 1e6 * kMostShare, kMostRowUs);
  std::set<std::size_t> slow;
  for (const std::size_t bytes : sizes_) {
    if (!slow.empty()) {
      slow.insert(bytes);
      continue;
    }
    for (const TuneRow::What what :
         {TuneRow::What::allreduce, TuneRow::What::neighbor_allreduce, TuneRow::What::allgather}) {
      TuneRow row{what, bytes};
      WEFT_ASSIGN(row.us, bench_.time_once(usual_, row));
      if (row.us > most_us && bytes != sizes_.front()) {
        found_.notes.push_back(fmt::format("{} takes {:.0f} ms, too long for this --time",
                                           row_text(row), row.us / 1e3));
        if (what == TuneRow::What::allreduce) slow.insert(bytes);
      } else {
        rows_.push_back(row);
      }
      if (bench_.is_stopped()) return {};
    }
  }
  // The first one that is not measured stays, by rule: from there on nothing is known.
  if (!slow.empty()) slow.erase(slow.begin());
  std::erase_if(sizes_, [&](std::size_t bytes) { return slow.contains(bytes); });
  std::ranges::reverse(rows_);  // large ones first
  algorithms_.assign(sizes_.size(), "auto");
  return {};
}

Status Search::try_algorithms() {
  if (bench_.size() == 1) return {};
  const double seconds = (bench_.left_s() + bench_.spent_s()) * kAlgorithmsShare;
  for (std::size_t size = 0; size < sizes_.size() && !bench_.is_stopped(); ++size)
    WEFT_RETURN_IF_ERROR(try_algorithms_at(size, seconds / static_cast<double>(sizes_.size())));
  return {};
}

Status Search::try_algorithms_at(std::size_t size, double seconds) {
  WEFT_ASSIGN(const Context::Placement placement, usual_.context->placement());
  const Layout layout = placement.machine_size == 1 ? Layout{} : placement.layout;
  const auto row = std::ranges::find_if(rows_, [&](const TuneRow& each) {
    return each.what == TuneRow::What::allreduce && each.bytes == sizes_[size];
  });
  if (row == rows_.end()) return {};
  const std::string_view by_rule =
      plan_allreduce(0, bench_.size(), row->bytes, {}, AllreduceAlgorithm::automatic, layout)
          .plan.algorithm;
  double best = kAlgorithmGain;
  std::size_t taken = 0;  // index of the entry in `tried`, plus 1
  for (const AllreduceAlgorithm algorithm : kAlgorithms) {
    if (bench_.is_stopped()) return {};
    if (name(algorithm) == by_rule || !check_allreduce(algorithm, bench_.size(), layout).ok())
      continue;
    Stand other{usual_.context, algorithm};  // an algorithm needs no context of its own
    WEFT_ASSIGN(const Pairing pairing,
                bench_.pair(usual_, other, *row, seconds / std::size(kAlgorithms), 3, kLost));
    found_.profile.tried.push_back({"WEFT_ALLREDUCE", std::string(name(algorithm)),
                                    fmt::format("auto ({})", by_rule), row_text(*row),
                                    pairing.times, pairing.rounds});
    say_(fmt::format("{} by {}: {:.2f} times as fast as by {}", row_text(*row), name(algorithm),
                     pairing.times, by_rule));
    if (pairing.rounds < 3 || pairing.times <= best) continue;
    best = pairing.times;
    algorithms_[size] = name(algorithm);
    if (taken != 0) found_.profile.tried[taken - 1].is_taken = false;
    taken = found_.profile.tried.size();
    found_.profile.tried.back().is_taken = true;
  }
  return {};
}

// "direct:16384,ring": between two sizes that want different algorithms the geometric mean is the bound.
std::string Search::table() const {
  std::string text;
  for (std::size_t size = 0; size < algorithms_.size(); ++size) {
    if (size + 1 == algorithms_.size()) return text + algorithms_[size];
    if (algorithms_[size] == algorithms_[size + 1]) continue;
    const double bound =
        std::sqrt(static_cast<double>(sizes_[size]) * static_cast<double>(sizes_[size + 1]));
    text += fmt::format("{}:{:.0f},", algorithms_[size], bound);
  }
  return "auto";
}

Settings Search::settings() const {
  Settings all = taken_;
  if (const std::string algorithms = table(); algorithms != "auto")
    all.insert(all.begin(), {"WEFT_ALLREDUCE", algorithms});
  return all;
}

std::vector<Search::Candidate> Search::candidates() const {
  const Result<Context::Placement> placement = usual_.context->placement();
  const bool has_networks = placement.ok() && placement->machine_size > 1;
  const bool has_rdma = placement.ok() && placement->topology.find(", ib ") != std::string::npos;
  std::vector<Candidate> all;
  const auto add = [&](const char* setting, std::initializer_list<const char*> values) {
    for (const char* value : values)
      if (!set_.contains(setting) && usual_of(setting) != value) all.push_back({setting, value});
  };
  if (has_networks) {
    add("WEFT_EAGER_BYTES", {"65536", "262144", "4096"});
    add("WEFT_RAIL_SLOTS", {"64", "32", "8"});
    add("WEFT_PIECE_BYTES", {"131072", "65536", "32768"});
    if (has_rdma) add("WEFT_IB_QUEUE_PAIRS", {"1", "4"});
  } else {
    add("WEFT_EAGER_BYTES", {"4096", "32768", "65536"});
    add("WEFT_SLOTS", {"16", "4"});
  }
  add("WEFT_SPIN_NS", {"0", "2000", "50000"});
  add("WEFT_YIELD_US", {"0", "50", "1000"});
  if (config_.progress == ProgressMode::thread) add("WEFT_LANES", {"2", "1"});
  return all;
}

Status Search::try_settings() {
  if (bench_.size() == 1 || bench_.is_stopped()) return {};
  const std::vector<Candidate> all = candidates();
  const double end = (bench_.left_s() + bench_.spent_s()) * kSettingsUntil;
  // What the algorithms alone bring: what a setting must beat.
  WEFT_RETURN_IF_ERROR(
      try_setting({}, (end - bench_.spent_s()) / static_cast<double>(all.size() + 1)));
  for (std::size_t i = 0; i < all.size() && !bench_.is_stopped(); ++i) {
    const double left = end - bench_.spent_s();
    if (left <= 0) {
      std::set<std::string> names;
      for (std::size_t j = i; j < all.size(); ++j) names.insert(all[j].setting);
      found_.notes.push_back(
          fmt::format("no time for {} more values, of {}", all.size() - i, fmt::join(names, ", ")));
      return {};
    }
    WEFT_RETURN_IF_ERROR(try_setting(all[i], left / static_cast<double>(all.size() - i)));
  }
  return {};
}

Status Search::try_setting(const Candidate& candidate, double seconds) {
  Settings settings = this->settings();
  const bool is_none = candidate.setting.empty();
  if (is_none && settings.empty()) return {};
  if (!is_none) {
    std::erase_if(settings, [&](const auto& each) { return each.first == candidate.setting; });
    settings.emplace_back(candidate.setting, candidate.value);
  }
  // Both new, because a context learns its rails for longer than the warm-up takes.
  WEFT_ASSIGN(Stand usual, open({}));
  WEFT_ASSIGN(Stand other, open(settings));
  if (usual.context == nullptr || other.context == nullptr) return {};
  std::vector<double> ratios;
  int rounds = 0;
  const double each = seconds / static_cast<double>(rows_.size());
  for (const TuneRow& row : rows_) {
    WEFT_ASSIGN(const Pairing pairing, bench_.pair(usual, other, row, each, 2, kLost));
    ratios.push_back(pairing.times);
    rounds = std::max(rounds, pairing.rounds);
    if (bench_.is_stopped()) return {};
    if (pairing.times < kLost) break;
  }
  const double times = geometric_mean(ratios);
  if (is_none) {
    best_ = times;
    return {};
  }
  const bool is_whole = ratios.size() == rows_.size();
  const bool is_taken =
      is_whole && times > std::max(best_, 1.0) * kWorthIt && std::ranges::min(ratios) > kLosing;
  found_.profile.tried.push_back(
      {candidate.setting, candidate.value, usual_of(candidate.setting),
       is_whole ? fmt::format("all {} rows, with what was taken before", rows_.size())
                : fmt::format("{}, where it lost", row_text(rows_[ratios.size() - 1])),
       is_whole ? times : ratios.back(), rounds, is_taken});
  say_(fmt::format("{}={}: {:.2f} times as fast as the defaults{}", candidate.setting,
                   candidate.value, is_whole ? times : ratios.back(), is_taken ? ", taken" : ""));
  if (!is_taken) return {};
  best_ = times;
  std::erase_if(taken_, [&](const auto& each) { return each.first == candidate.setting; });
  taken_.emplace_back(candidate.setting, candidate.value);
  for (Profile::Tried& tried : found_.profile.tried) {
    const bool is_this = &tried == &found_.profile.tried.back();
    if (!is_this && tried.setting == candidate.setting) tried.is_taken = false;
  }
  return {};
}

Status Search::try_fusion() {
  if (bench_.size() == 1 || bench_.is_stopped()) return {};
  TuneRow row{TuneRow::What::named, kNamedBytes};
  WEFT_ASSIGN(row.us, bench_.time_once(usual_, row));
  named_us_ = row.us;
  double best = kAlgorithmGain;
  const double seconds = (bench_.left_s() + bench_.spent_s()) * kFusionShare;
  for (const std::int64_t bytes :
       {std::int64_t{64} << 10, std::int64_t{256} << 10, std::int64_t{2} << 20}) {
    if (bench_.is_stopped()) return {};
    Stand other{usual_.context, AllreduceAlgorithm::automatic, bytes};
    WEFT_ASSIGN(const Pairing pairing, bench_.pair(usual_, other, row, seconds / 3, 3, kLost));
    const bool is_taken = pairing.rounds >= 3 && pairing.times > best;
    say_(fmt::format("WEFT_FUSION_BYTES={}: {:.2f} times as fast as the default{}", bytes,
                     pairing.times, is_taken ? ", taken" : ""));
    if (is_taken) {
      best = pairing.times;
      std::erase_if(taken_, [](const auto& each) { return each.first == "WEFT_FUSION_BYTES"; });
      taken_.emplace_back("WEFT_FUSION_BYTES", std::to_string(bytes));
      for (Profile::Tried& tried : found_.profile.tried)
        if (tried.setting == "WEFT_FUSION_BYTES") tried.is_taken = false;
    }
    found_.profile.tried.push_back({"WEFT_FUSION_BYTES", std::to_string(bytes), "auto",
                                    "32 tensors of 16K by name", pairing.times, pairing.rounds,
                                    is_taken});
  }
  return {};
}

// The rows that what was taken can change.
std::vector<TuneRow> Search::changed_rows() const {
  const auto is_fusion = [](const auto& each) { return each.first == "WEFT_FUSION_BYTES"; };
  std::vector<TuneRow> changed;
  for (const TuneRow& row : rows_) {
    const auto at = static_cast<std::size_t>(std::ranges::find(sizes_, row.bytes) - sizes_.begin());
    const bool has_algorithm = row.what == TuneRow::What::allreduce && algorithms_[at] != "auto";
    if (has_algorithm || !std::ranges::all_of(taken_, is_fusion)) changed.push_back(row);
  }
  if (std::ranges::any_of(taken_, is_fusion))
    changed.push_back({TuneRow::What::named, kNamedBytes, named_us_});
  return changed;
}

Status Search::check_once(const std::vector<TuneRow>& changed) {
  WEFT_ASSIGN(Stand usual, open({}));
  WEFT_ASSIGN(Stand other, open(settings()));
  if (usual.context == nullptr || other.context == nullptr)
    return Status(Code::unavailable, "a rank cannot have what was taken");
  found_.profile.rows.clear();
  const double seconds = std::max(bench_.left_s() / 2, 0.0) / static_cast<double>(changed.size());
  for (const TuneRow& row : changed) {
    if (bench_.is_stopped()) return {};
    WEFT_ASSIGN(Pairing pairing, bench_.pair(usual, other, row, seconds, 5));
    // A row that lost is looked at again before it decides.
    if (pairing.times < kLosing && !bench_.is_stopped()) {
      WEFT_ASSIGN(pairing, bench_.pair(usual, other, row, seconds, 7));
    }
    found_.profile.rows.push_back(
        {row.name(), row.bytes, pairing.usual_us, pairing.us, pairing.times, pairing.rounds});
  }
  return {};
}

// The last word. An algorithm that loses where it was chosen is taken back, and so is fusion; if another row loses, all
// settings but the algorithms are. The rest is checked anew.
Status Search::check() {
  for (std::size_t attempt = 0; attempt < sizes_.size() + 2 && !bench_.is_stopped(); ++attempt) {
    if (settings().empty()) break;
    const std::vector<TuneRow> changed = changed_rows();
    say_(fmt::format(
        "the check: what was taken, beside the defaults, on the {} rows that it changes",
        changed.size()));
    WEFT_RETURN_IF_ERROR(check_once(changed));
    if (bench_.is_stopped()) return {};
    std::vector<double> ratios(std::max(rows_.size(), changed.size()), 1.0);
    const auto& rows = found_.profile.rows;
    std::ranges::transform(rows, ratios.begin(), &Profile::Row::times);
    found_.profile.times = geometric_mean(ratios);
    const Profile::Row& worst = *std::ranges::min_element(rows, {}, &Profile::Row::times);
    if (worst.times >= kLosing) {
      found_.is_better = found_.profile.times > 1;
      if (!found_.is_better)
        found_.why_not = fmt::format("what was taken is {:.3f} times as fast as the defaults",
                                     found_.profile.times);
      return {};
    }
    say_(fmt::format("{} {} is {:.2f} times as fast as with the defaults: taken back",
                     worst.operation, bytes_text(worst.bytes), worst.times));
    take_back(worst);
  }
  if (!bench_.is_stopped()) found_.why_not = "nothing was faster than the defaults";
  return {};
}

void Search::take_back(const Profile::Row& loser) {
  const auto at = static_cast<std::size_t>(std::ranges::find(sizes_, loser.bytes) - sizes_.begin());
  if (loser.operation == "allreduce" && at < algorithms_.size() && algorithms_[at] != "auto") {
    algorithms_[at] = "auto";
    return;
  }
  const bool is_named = loser.operation == "named";
  std::erase_if(taken_, [is_named](const auto& each) {
    return !is_named || each.first == "WEFT_FUSION_BYTES";
  });
}

TuneFound Search::found() const {
  TuneFound found = found_;
  found.profile.settings = settings();
  // What was taken back later is not.
  for (Profile::Tried& tried : found.profile.tried) {
    const auto is_kept = [&](const std::pair<std::string, std::string>& each) {
      return each.first == tried.setting && each.second == tried.value;
    };
    bool is_algorithm = false;
    for (std::size_t size = 0; size < algorithms_.size(); ++size)
      is_algorithm =
          is_algorithm || (algorithms_[size] == tried.value &&
                           tried.where == fmt::format("allreduce {}", bytes_text(sizes_[size])));
    tried.is_taken =
        tried.is_taken &&
        (tried.setting == "WEFT_ALLREDUCE" ? is_algorithm : std::ranges::any_of(taken_, is_kept));
  }
  found.profile.seconds = bench_.spent_s();
  found.profile.is_complete = found.is_better;
  if (found.is_better || !bench_.is_stopped()) return found;
  // Interrupted: what was taken was faster in rounds of its own.
  found.profile.rows.clear();
  found.profile.times = std::max(best_, 1.0);
  found.is_better = !found.profile.settings.empty();
  found.why_not = "nothing was faster than the defaults so far";
  return found;
}

}  // namespace weft
