// The timing loop, and what is made of its records.
#include "tools/limits/laps.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace weft {

Result<Laps> time_laps(const Trial& trial, const Subject& subject, Meeting& meeting) {
  Laps record;
  record.laps.reserve(static_cast<std::size_t>(trial.laps));
  const bool single = trial.batch == 1;
  for (int i = 0; i < trial.laps; ++i) {
    const std::uint64_t lap = trial.first_lap + static_cast<std::uint64_t>(i);
    if (single && subject.rewrite) subject.rewrite(lap);
    WEFT_RETURN_IF_ERROR(meeting.wait());
    const std::int64_t cpu_before = process_cpu_ns();
    const std::int64_t begin = now_ns();
    Status done = subject.run(trial.batch);
    const std::int64_t end = now_ns();
    record.cpu_ns += process_cpu_ns() - cpu_before;
    WEFT_RETURN_IF_ERROR(std::move(done));
    WEFT_RETURN_IF_ERROR(meeting.wait());
    record.laps.push_back({begin, end});
    if (single && subject.check) WEFT_RETURN_IF_ERROR(subject.check(lap));
  }
  return record;
}

std::string to_bytes(const Laps& laps) {
  const std::size_t times = laps.laps.size() * sizeof(Lap);
  std::string bytes(sizeof(laps.cpu_ns) + times, '\0');
  std::memcpy(bytes.data(), &laps.cpu_ns, sizeof(laps.cpu_ns));
  if (times != 0) std::memcpy(bytes.data() + sizeof(laps.cpu_ns), laps.laps.data(), times);
  return bytes;
}

Result<Laps> laps_from_bytes(std::string_view bytes) {
  Laps laps;
  if (bytes.size() < sizeof(laps.cpu_ns) ||
      (bytes.size() - sizeof(laps.cpu_ns)) % sizeof(Lap) != 0) {
    return Status(Code::mismatch,
                  "a record of laps of " + std::to_string(bytes.size()) + " bytes is torn");
  }
  std::memcpy(&laps.cpu_ns, bytes.data(), sizeof(laps.cpu_ns));
  bytes.remove_prefix(sizeof(laps.cpu_ns));
  laps.laps.resize(bytes.size() / sizeof(Lap));
  if (!bytes.empty()) std::memcpy(laps.laps.data(), bytes.data(), bytes.size());
  return laps;
}

std::vector<double> spans_us(std::span<const Laps> ranks, int batch) {
  std::vector<double> spans;
  if (ranks.empty()) return spans;
  std::size_t count = ranks[0].laps.size();
  for (const Laps& rank : ranks) count = std::min(count, rank.laps.size());
  for (std::size_t i = 0; i < count; ++i) {
    Lap whole = ranks[0].laps[i];
    for (const Laps& rank : ranks) {
      whole.begin_ns = std::min(whole.begin_ns, rank.laps[i].begin_ns);
      whole.end_ns = std::max(whole.end_ns, rank.laps[i].end_ns);
    }
    spans.push_back(static_cast<double>(whole.end_ns - whole.begin_ns) / 1e3 / batch);
  }
  return spans;
}

double quantile(std::vector<double> samples, double fraction) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const double place = fraction * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  const double part = place - static_cast<double>(below);
  return samples[below] * (1 - part) + samples[above] * part;
}

}  // namespace weft
