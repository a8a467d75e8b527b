// Metrics of contexts and of the process.
#include "engine/context/metrics.h"

#include <weft/memory.h>
#include <weft/metrics.h>

#include <charconv>

#include "engine/compress/compress.h"
#include "engine/context/core.h"

namespace weft {
namespace {

class Process final : public MetricSource {
 public:
  void collect(Metrics& to) override {
    const HeapUsage heap = heap_usage();
    to.gauge("weft_heap_allocated_bytes", "Memory of weft::allocate.", "", heap.allocated_bytes);
    to.gauge("weft_heap_huge_bytes", "The part of it in huge pages.", "", heap.huge_bytes);
    const GpuUsage gpu = gpu_usage();
    const std::string out = metric_label("direction", "out"), in = metric_label("direction", "in");
    to.counter("weft_gpu_copies_total", "Copies from GPUs and to them.", out, gpu.copies_out);
    to.counter("weft_gpu_copies_total", "", in, gpu.copies_in);
    to.counter("weft_gpu_copied_bytes_total", "Their bytes.", out, gpu.bytes_out);
    to.counter("weft_gpu_copied_bytes_total", "", in, gpu.bytes_in);
    to.counter("weft_gpu_launches_total", "Kernels that GPUs ran.", "", gpu.launches);
    const auto way = [](const char* name) { return metric_label("way", name); };
    to.counter("weft_gpu_operations_total", "Operations on GPU memory.", way("in_place"),
               gpu.with_aliases);
    to.counter("weft_gpu_operations_total", "", way("blocks"), gpu.with_blocks);
    to.counter("weft_gpu_operations_total", "", way("nccl"), gpu.by_nccl);
    to.gauge("weft_gpu_pinned_bytes", "Host memory pinned for them.", "", gpu.pinned_bytes);
    for (std::size_t form = 1; form < kCompressions; ++form)
      collect_encoded(to, static_cast<Compression>(form));
  }

 private:
  // What was never used is not listed.
  static void collect_encoded(Metrics& to, Compression form) {
    const EncodedCounts found = encoded_counts(form);
    if (found.tensors == 0) return;
    const std::string label = metric_label("form", std::string(name(form)));
    to.counter("weft_encoded_tensors_total", "Tensors, or blocks of them, that were compressed.",
               label, found.tensors);
    to.counter("weft_encoded_bytes_total", "The bytes that they became.", label, found.bytes);
  }
};

}  // namespace

void add_process_metrics() {
  static const bool is_added = [] {
    static auto* const process = new Process;  // as long as the registry
    MetricRegistry::of_process().add(process);
    return true;
  }();
  (void)is_added;
}

std::string metrics() {
  if (is_forked_child()) return "";  // locks may be held by threads that are not here
  add_process_metrics();
  return MetricRegistry::of_process().text();
}

std::string flight() {
  if (is_forked_child()) return "";
  return MetricRegistry::of_process().flight();
}

std::string answer_of_process(std::string_view question) {
  if (question == "metrics") return metrics();
  if (question == "flight") return flight();
  constexpr std::string_view kSome = "flight ";
  if (!question.starts_with(kSome)) return "";
  question.remove_prefix(kSome.size());
  std::size_t most = 0;
  const auto [end, error] =
      std::from_chars(question.data(), question.data() + question.size(), most);
  if (error != std::errc{} || end != question.data() + question.size()) return "";
  return MetricRegistry::of_process().flight(most);
}

std::string Context::Core::metric_labels() const {
  const std::string& prefix = rank_map_.prefix();
  return metric_label("rank", std::to_string(config_.rank)) + "," +
         metric_label("context", prefix.empty() ? "job" : prefix);
}

void Context::Core::collect(Metrics& to) {
  const std::string labels = metric_labels();
  const Usage found = usage();
  to.counter("weft_operations_total", "Operations that ended, well or badly.", labels,
             found.operations);
  to.counter("weft_network_bytes_total",
             "Payload sent to ranks that do not share this rank's memory.", labels,
             found.network_bytes);
  to.counter("weft_allocations_total",
             "Allocations by operations after their first use of a shape.", labels,
             found.allocations);
  to.gauge("weft_connected_peers", "Ranks that this one is connected to.", labels,
           found.connected_peers);
  to.gauge("weft_plans_cached", "Plans in the cache.", labels, found.plans_cached);
  to.gauge("weft_endpoint_bytes", "Memory of rings and slots.", labels, found.endpoint_bytes);
  to.gauge("weft_scratch_bytes", "Memory of plans and staging.", labels, found.scratch_bytes);
  collect_rails(to);
}

}  // namespace weft
