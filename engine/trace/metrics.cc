// The registry, the text, and the thread that writes it to a file.
#include "engine/trace/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <memory>

#include "engine/trace/file.h"

namespace weft {
namespace {

// A scraper asks every few seconds to a minute.
constexpr std::chrono::seconds kPeriod(10);

std::string in_braces(const std::string& labels) {
  return labels.empty() ? "" : "{" + labels + "}";
}

}  // namespace

std::string metric_label(std::string_view name, std::string_view value) {
  std::string text = fmt::format("{}=\"", name);
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

std::string& Metrics::samples_of(std::string_view name, std::string_view help,
                                 std::string_view type) {
  const auto found = std::ranges::find(families_, name, &Family::name);
  if (found != families_.end()) return found->samples;
  families_.push_back(
      {std::string(name), fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type), {}});
  return families_.back().samples;
}

void Metrics::counter(std::string_view name, std::string_view help, const std::string& labels,
                      std::uint64_t value) {
  fmt::format_to(std::back_inserter(samples_of(name, help, "counter")), "{}{} {}\n", name,
                 in_braces(labels), value);
}

void Metrics::gauge(std::string_view name, std::string_view help, const std::string& labels,
                    std::uint64_t value) {
  fmt::format_to(std::back_inserter(samples_of(name, help, "gauge")), "{}{} {}\n", name,
                 in_braces(labels), value);
}

void Metrics::histogram(std::string_view name, std::string_view help, const std::string& labels,
                        std::span<const std::uint64_t> bounds,
                        std::span<const std::uint64_t> counts, std::uint64_t sum) {
  const auto out = std::back_inserter(samples_of(name, help, "histogram"));
  const std::string more = labels.empty() ? "" : labels + ",";
  std::uint64_t count = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    count += counts[k];
    const std::string bound = k < bounds.size() ? std::to_string(bounds[k]) : "+Inf";
    fmt::format_to(out, "{}_bucket{{{}le=\"{}\"}} {}\n", name, more, bound, count);
  }
  fmt::format_to(out, "{0}_sum{1} {2}\n{0}_count{1} {3}\n", name, in_braces(labels), sum, count);
}

std::string Metrics::text() const {
  std::string text;
  for (const Family& family : families_) text += family.head + family.samples;
  return text;
}

// Never destroyed: contexts may end after the end of main().
MetricRegistry& MetricRegistry::of_process() {
  static auto* const registry = new MetricRegistry;
  return *registry;
}

void MetricRegistry::add(MetricSource* source) {
  const std::lock_guard lock(mutex_);
  sources_.push_back(source);
}

void MetricRegistry::remove(MetricSource* source) {
  const std::lock_guard lock(mutex_);
  std::erase(sources_, source);
}

std::string MetricRegistry::text() {
  Metrics metrics;
  const std::lock_guard lock(mutex_);
  for (MetricSource* source : sources_) source->collect(metrics);
  return metrics.text();
}

std::string MetricRegistry::flight(std::size_t most) {
  FlightText text(most);
  const std::lock_guard lock(mutex_);
  for (MetricSource* source : sources_) source->recall(text);
  return std::move(text).text();
}

Status write_metrics(const std::string& path) {
  return replace_file("write the metrics", path, MetricRegistry::of_process().text());
}

namespace {

class Writer final : public MetricsFile {
 public:
  explicit Writer(std::string path) : path_(std::move(path)) {}
  ~Writer() override {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    changed_.notify_all();
    thread_.join();
    write();
  }
  Status start() {
    WEFT_ASSIGN(thread_, start_thread("weft-metrics", [this] { run(); }));
    return {};
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kPeriod, [this] { return stops_; })) {
      lock.unlock();
      write();
      lock.lock();
    }
  }
  void write() {
    if (const Status status = write_metrics(path_); !status.ok())
      log(LogLevel::error, status.to_string());
  }

  const std::string path_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ = false;
  Thread thread_;
};

}  // namespace

Result<std::shared_ptr<MetricsFile>> MetricsFile::open(std::string path) {
  auto writer = std::make_shared<Writer>(std::move(path));
  WEFT_RETURN_IF_ERROR(writer->start());
  return std::shared_ptr<MetricsFile>(std::move(writer));
}

}  // namespace weft
