// metrics: what the contexts of this process have done, as Prometheus text (format 0.0.4).
//
//   class Mine : public MetricSource {
//     void collect(Metrics& to) override { to.counter("weft_operations_total", "…", labels, 7); }
//   };
//   MetricRegistry::of_process().add(&mine);       // until remove()
//   std::string text = MetricRegistry::of_process().text();
//
// Names, types and meanings are in docs/metrics.md. Threads: any thread may call the registry.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/trace/flight.h"
#include "verbs/base/base.h"

namespace weft {

// Samples by family: all samples of a name stand together, in the order in which the names came.
class Metrics {
 public:
  // `labels`: such as `rank="0"`, or empty. The first call with a name gives its help.
  void counter(std::string_view name, std::string_view help, const std::string& labels,
               std::uint64_t value);
  void gauge(std::string_view name, std::string_view help, const std::string& labels,
             std::uint64_t value);
  // counts[k]: how many values were at most bounds[k] and above bounds[k-1]; the last one has no
  // bound. `sum`: of all values.
  void histogram(std::string_view name, std::string_view help, const std::string& labels,
                 std::span<const std::uint64_t> bounds, std::span<const std::uint64_t> counts,
                 std::uint64_t sum);
  [[nodiscard]] std::string text() const;

 private:
  struct Family {
    std::string name;
    std::string head;
    std::string samples;
  };
  std::string& samples_of(std::string_view name, std::string_view help, std::string_view type);
  std::vector<Family> families_;
};

// `name="value"`, with what a value may not have escaped.
[[nodiscard]] std::string metric_label(std::string_view name, std::string_view value);

class MetricSource {
 public:
  virtual ~MetricSource() = default;
  virtual void collect(Metrics& to) = 0;
  // Adds what its part of the flight recorder has.
  virtual void recall(FlightText& /*to*/) {}
};

class MetricRegistry {
 public:
  static MetricRegistry& of_process();
  void add(MetricSource* source);
  // Waits until the source is not being asked.
  void remove(MetricSource* source);
  [[nodiscard]] std::string text();
  // The dump of the flight recorder: of each context all operations that have not ended, and this many of
  // those that have.
  [[nodiscard]] std::string flight(std::size_t most = FlightRing::kRecords);

 private:
  std::mutex mutex_;
  std::vector<MetricSource*> sources_;
};

// Replaces the file by the registry's text, so that a reader sees a whole text.
Status write_metrics(const std::string& path);

// Writes the file now and then, as long as this object lives, and in the end.
class MetricsFile {
 public:
  // `unavailable`: the thread cannot be started.
  static Result<std::shared_ptr<MetricsFile>> open(std::string path);
  virtual ~MetricsFile() = default;
};

}  // namespace weft
