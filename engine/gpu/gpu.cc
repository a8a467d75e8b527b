// Blocks in place of memory of GPUs, and the copies between both.
#include "engine/gpu/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "verbs/cuda/cuda.h"

namespace weft {
namespace {

// The memory of an operand.
struct Span {
  std::byte* data = nullptr;
  std::size_t bytes = 0;

  [[nodiscard]] std::byte* end() const { return data + bytes; }
  [[nodiscard]] bool overlaps(const Span& other) const {
    return data < other.end() && other.data < end();
  }
};

Span span_of(const Input& x) {
  // The engine never writes to an input; Span is for both kinds.
  return {const_cast<std::byte*>(static_cast<const std::byte*>(x.data)), x.count * size_of(x.type)};
}
Span span_of(const Output& y) {
  return {static_cast<std::byte*>(y.data), y.count * size_of(y.type)};
}

Result<std::optional<GpuMemory>> gpu_of(const Span& span) {
  if (span.bytes == 0) return std::optional<GpuMemory>();
  return find_gpu_memory(span.data);
}

// Whether the operation writes this rank's output.
bool has_result(const Request& request, Rank rank) {
  switch (request.collective) {
    case Collective::reduce:
    case Collective::gather:
      return request.root == rank;
    case Collective::send:
      return request.receives;
    case Collective::barrier:
      return false;
    default:
      return true;
  }
}

// A copy between a GPU and a block.
struct Copy {
  GpuMemory gpu;
  Span there;
  std::byte* here = nullptr;
};

class Stage final : public OperandStage {
 public:
  explicit Stage(std::shared_ptr<GpuBell> bell) : bell_(std::move(bell)) {}

  // Replaces a request's operands; the copies of its input begin with begin().
  Status take(Request& request, Rank rank) {
    const Span x = span_of(request.input), y = span_of(request.output);
    WEFT_ASSIGN(const std::optional<GpuMemory> gpu_x, gpu_of(x));
    WEFT_ASSIGN(const std::optional<GpuMemory> gpu_y, gpu_of(y));
    if (gpu_x && gpu_y && x.overlaps(y)) return take_both(request, rank, *gpu_x);
    if (gpu_x) {
      WEFT_ASSIGN(std::byte * here, block(x.bytes, *gpu_x));
      inputs_.push_back({*gpu_x, x, here});
      request.input.data = here;
    }
    if (gpu_y) {
      WEFT_ASSIGN(std::byte * here, block(y.bytes, *gpu_y));
      if (has_result(request, rank)) outputs_.push_back({*gpu_y, y, here});
      request.output.data = here;
      first_gpu_ = *gpu_y;
    }
    if (gpu_x) first_gpu_ = *gpu_x;
    return {};
  }
  [[nodiscard]] bool is_empty() const { return !first_gpu_; }

  Status begin(const std::optional<Stream>& stream, HoldsStream holds) {
    if (stream && holds == HoldsStream::yes) {
      WEFT_ASSIGN(gate_, make_gpu_gate(*first_gpu_));
    }
    const Stream behind = stream.value_or(Stream{});
    if (inputs_.empty()) {
      // The stream may still use the output.
      WEFT_ASSIGN(const std::shared_ptr<GpuQueue> queue, GpuQueue::out_of(*first_gpu_, behind));
      WEFT_RETURN_IF_ERROR(queue->wait_for(behind));
      WEFT_RETURN_IF_ERROR(mark(*queue, ins_));
    }
    for (const Copy& copy : inputs_) {
      WEFT_ASSIGN(const std::shared_ptr<GpuQueue> queue, GpuQueue::out_of(copy.gpu, behind));
      WEFT_RETURN_IF_ERROR(queue->wait_for(behind));
      WEFT_RETURN_IF_ERROR(queue->copy_out(copy.here, copy.there.data, copy.there.bytes));
      WEFT_RETURN_IF_ERROR(mark(*queue, ins_));
    }
    return gate_ ? gate_->hold(behind) : Status();
  }

  // Several lanes may ask.
  bool is_open() override {
    if (is_open_.load(std::memory_order_acquire)) return true;
    const std::lock_guard lock(mutex_);
    if (!are_over(ins_)) return false;
    for (const auto& each : ins_)
      if (gate_status_.ok()) gate_status_ = each->status();
    is_open_.store(true, std::memory_order_release);
    return true;
  }
  Status gate_status() override { return gate_status_; }

  void ended(const Status& status) override {
    if (status.ok()) output_status_ = begin_outputs();
    if (is_over() && gate_) gate_->open();
  }
  bool is_over() override {
    const std::lock_guard lock(mutex_);
    if (!are_over(outs_)) return false;
    for (const auto& each : outs_)
      if (output_status_.ok()) output_status_ = each->status();
    if (gate_) gate_->open();
    return true;
  }
  void wait_until_over() override {
    for (const auto& each : outs_) each->wait();
  }
  Status output_status() override { return output_status_; }

 private:
  using Marks = std::vector<std::unique_ptr<GpuMark>>;

  // Input and output share memory, perhaps all of it: they are places of one block, too.
  Status take_both(Request& request, Rank rank, const GpuMemory& gpu) {
    const Span x = span_of(request.input), y = span_of(request.output);
    std::byte* const begin = std::min(x.data, y.data);
    WEFT_ASSIGN(std::byte * here,
                block(static_cast<std::size_t>(std::max(x.end(), y.end()) - begin), gpu));
    inputs_.push_back({gpu, x, here + (x.data - begin)});
    if (has_result(request, rank)) outputs_.push_back({gpu, y, here + (y.data - begin)});
    request.input.data = here + (x.data - begin);
    request.output.data = here + (y.data - begin);
    first_gpu_ = gpu;
    return {};
  }

  Result<std::byte*> block(std::size_t bytes, const GpuMemory& gpu) {
    WEFT_ASSIGN(PinnedBlock block, PinnedBlock::take(bytes, gpu));
    blocks_->push_back(std::move(block));
    return blocks_->back().data();
  }

  // The driver's thread keeps the blocks until the copy is done, even if the operation has failed
  // and the stage is gone.
  Status mark(GpuQueue& queue, Marks& marks) {
    WEFT_ASSIGN(std::unique_ptr<GpuMark> mark,
                queue.mark([bell = bell_, blocks = blocks_] { bell->ring(); }));
    marks.push_back(std::move(mark));
    return {};
  }

  Status begin_outputs() {
    for (const Copy& copy : outputs_) {
      WEFT_ASSIGN(const std::shared_ptr<GpuQueue> queue, GpuQueue::into(copy.gpu));
      WEFT_RETURN_IF_ERROR(queue->copy_in(copy.there.data, copy.here, copy.there.bytes));
      WEFT_RETURN_IF_ERROR(mark(*queue, outs_));
    }
    return {};
  }

  static bool are_over(const Marks& marks) {
    return std::ranges::all_of(marks, [](const auto& mark) { return mark->is_over(); });
  }

  const std::shared_ptr<GpuBell> bell_;
  std::optional<GpuMemory> first_gpu_;
  std::vector<Copy> inputs_, outputs_;
  const std::shared_ptr<std::vector<PinnedBlock>> blocks_ =
      std::make_shared<std::vector<PinnedBlock>>();
  std::unique_ptr<GpuGate> gate_;
  std::mutex mutex_;
  Marks ins_, outs_;
  std::atomic<bool> is_open_{false};
  Status gate_status_, output_status_;
};

}  // namespace

bool may_have_gpu_memory() {
  return is_cuda_loaded();
}

Result<std::shared_ptr<OperandStage>> stage_gpu_memory(std::span<Request> requests, Rank rank,
                                                       HoldsStream holds,
                                                       const std::shared_ptr<GpuBell>& bell) {
  const std::optional<Stream> stream = requests.front().stream;
  auto stage = std::make_shared<Stage>(bell);
  for (Request& each : requests) WEFT_RETURN_IF_ERROR(stage->take(each, rank));
  if (stage->is_empty()) {
    const bool has_data = std::ranges::any_of(requests, [](const Request& each) {
      return each.input.count != 0 || each.output.count != 0;
    });
    if (!stream || !has_data) return std::shared_ptr<OperandStage>();
    return Status(Code::invalid_argument,
                  fmt::format("{}: a stream was given, and neither {} nor {} is memory of a GPU",
                              name(requests.front().collective), requests.front().input.data,
                              fmt::ptr(requests.front().output.data)));
  }
  WEFT_RETURN_IF_ERROR(stage->begin(stream, holds));
  for (Request& each : requests) each.stream.reset();  // the stage follows it
  return std::shared_ptr<OperandStage>(std::move(stage));
}

GpuUsage gpu_usage() {
  const GpuCounts counts = gpu_counts();
  return {counts.copies_out, counts.copies_in, counts.bytes_out, counts.bytes_in,
          counts.pinned_bytes};
}

std::string describe_gpu_memory() {
  const GpuCounts counts = gpu_counts();
  if (counts.copies_out + counts.copies_in == 0) return "";
  return fmt::format(
      "through pinned host memory, {} copies out ({} MiB) and {} in ({} MiB) so far; {} MiB pinned",
      counts.copies_out, counts.bytes_out >> 20, counts.copies_in, counts.bytes_in >> 20,
      counts.pinned_bytes >> 20);
}

Status check_host_memory(std::string_view what, const void* pointer) {
  WEFT_ASSIGN(const std::optional<GpuMemory> gpu, find_gpu_memory(pointer));
  if (!gpu) return {};
  return Status(Code::unavailable, fmt::format("{}: {} is memory of GPU {}; host memory is needed",
                                               what, pointer, gpu->device));
}

}  // namespace weft
