// Blocks in place of memory of GPUs, and the copies between both.
#include "engine/gpu/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "engine/gpu_kernels/gpu_kernels.h"
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
  [[nodiscard]] bool has(const std::byte* at, std::size_t size) const {
    return data <= at && size <= bytes && at - data <= static_cast<std::ptrdiff_t>(bytes - size);
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

  [[nodiscard]] Span block() const { return {here, there.bytes}; }
  // Memory of the GPU in whose place this part of the block is.
  [[nodiscard]] std::byte* at(const std::byte* part) const { return there.data + (part - here); }
};

// A combine on a GPU. The terms and the destination are held by the operation until it is over.
class GpuWork final : public Combiner::Work {
 public:
  explicit GpuWork(std::unique_ptr<GpuMark> mark) : mark_(std::move(mark)) {}
  bool is_over() override { return mark_->is_over(); }
  Status status() override { return mark_->status(); }
  void wait() override { mark_->wait(); }

 private:
  std::unique_ptr<GpuMark> mark_;
};

// The parts of an output that a GPU has written where they belong. Parts of lanes come in any order.
class Written {
 public:
  void add(std::size_t begin, std::size_t bytes) { parts_.emplace_back(begin, begin + bytes); }
  // Calls `copy(begin, bytes)` for each part of [0, bytes) that is not among them.
  template <typename Function>
  Status for_the_rest(std::size_t bytes, Function copy) {
    std::ranges::sort(parts_);
    std::size_t at = 0;
    for (const auto& [begin, end] : parts_) {
      if (begin > at) WEFT_RETURN_IF_ERROR(copy(at, begin - at));
      at = std::max(at, end);
    }
    return at < bytes ? copy(at, bytes - at) : Status();
  }

 private:
  std::vector<std::pair<std::size_t, std::size_t>> parts_;
};

class Stage final : public OperandStage, public Combiner {
 public:
  explicit Stage(std::shared_ptr<GpuBell> bell) : bell_(std::move(bell)) {}

  // An error if they were asked for and cannot be had.
  Status use_kernels() {
    if (outputs_.empty()) return {};  // this rank has no result on a GPU
    WEFT_ASSIGN(kernels_, GpuKernels::of(outputs_.front().gpu));
    written_.resize(outputs_.size());
    return {};
  }
  Combiner* combiner() override { return kernels_ != nullptr ? this : nullptr; }

  // On the GPU of the first output. What it cannot read is for the CPU.
  Result<std::unique_ptr<Combiner::Work>> begin(DataType type, Reduction reduction,
                                                std::span<const Term> terms, std::byte* destination,
                                                std::size_t count, bool is_last) override {
    const std::size_t bytes = count * size_of(type);
    const GpuMemory& gpu = outputs_.front().gpu;
    std::unique_ptr<Combiner::Work> none;
    if (terms.empty() || terms.size() > GpuKernels::kMostTerms) return none;
    std::vector<Term> there;
    for (const Term& term : terms) {
      const void* const data = readable(static_cast<const std::byte*>(term.data), bytes, gpu);
      if (data == nullptr) return none;
      there.push_back({data, term.weight});
    }
    const std::lock_guard lock(mutex_);
    const auto into = std::ranges::find_if(outputs_, [&](const Copy& copy) {
      return copy.gpu.device == gpu.device && copy.block().has(destination, bytes);
    });
    const bool goes_there = is_last && into != outputs_.end();
    void* const to =
        goes_there ? into->at(destination) : const_cast<void*>(gpu_view(gpu, destination, bytes));
    if (to == nullptr) return none;
    WEFT_ASSIGN(const std::shared_ptr<GpuQueue> queue, GpuQueue::into(gpu));
    WEFT_RETURN_IF_ERROR(kernels_->combine(*queue, type, reduction, there, to, count));
    if (goes_there) {
      written_[static_cast<std::size_t>(into - outputs_.begin())].add(
          static_cast<std::size_t>(destination - into->here), bytes);
    }
    WEFT_ASSIGN(std::unique_ptr<GpuMark> mark,
                queue->mark([bell = bell_, blocks = blocks_] { bell->ring(); }));
    return std::unique_ptr<Combiner::Work>(std::make_unique<GpuWork>(std::move(mark)));
  }

  // Replaces a request's operands; the copies of its input begin with begin().
  Status take(Request& request, Rank rank) {
    const Span x = span_of(request.input), y = span_of(request.output);
    WEFT_ASSIGN(const std::optional<GpuMemory> gpu_x, gpu_of(x));
    WEFT_ASSIGN(const std::optional<GpuMemory> gpu_y, gpu_of(y));
    // Where both are one tensor they have blocks of their own: peers read the input's, so nothing has
    // to wait for them before the output is written.
    if (gpu_x && gpu_y && x.overlaps(y) && (x.data != y.data || x.bytes != y.bytes))
      return take_both(request, rank, *gpu_x);
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

  // Input and output share a part of their memory: they are places of one block, too.
  Status take_both(Request& request, Rank rank, const GpuMemory& gpu) {
    const Span x = span_of(request.input), y = span_of(request.output);
    std::byte* const begin = std::min(x.data, y.data);
    WEFT_ASSIGN(std::byte * here,
                block(static_cast<std::size_t>(std::max(x.end(), y.end()) - begin), gpu));
    is_shifted_ = true;
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
    written_.resize(outputs_.size());
    for (std::size_t each = 0; each < outputs_.size(); ++each) {
      const Copy& copy = outputs_[each];
      WEFT_ASSIGN(const std::shared_ptr<GpuQueue> queue, GpuQueue::into(copy.gpu));
      WEFT_RETURN_IF_ERROR(
          written_[each].for_the_rest(copy.there.bytes, [&](std::size_t begin, std::size_t bytes) {
            return queue->copy_in(copy.there.data + begin, copy.here + begin, bytes);
          }));
      WEFT_RETURN_IF_ERROR(mark(*queue, outs_));
    }
    return {};
  }

  // Where the GPU reads this memory: an input of its own where it is, unless the output is in the same
  // place in part.
  const void* readable(const std::byte* data, std::size_t bytes, const GpuMemory& gpu) const {
    for (const Copy& copy : inputs_) {
      if (copy.gpu.device == gpu.device && !is_shifted_ && copy.block().has(data, bytes))
        return copy.at(data);
    }
    return gpu_view(gpu, data, bytes);
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
  const GpuKernels* kernels_ = nullptr;  // null: sums are the host's
  std::vector<Written> written_;         // by output
  bool is_shifted_ = false;              // an input and an output share memory in part
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
                                                       const StageOptions& options,
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
  if (options.sums == GpuSums::gpu) WEFT_RETURN_IF_ERROR(stage->use_kernels());
  WEFT_RETURN_IF_ERROR(stage->begin(stream, options.holds));
  for (Request& each : requests) each.stream.reset();  // the stage follows it
  return std::shared_ptr<OperandStage>(std::move(stage));
}

GpuUsage gpu_usage() {
  const GpuCounts counts = gpu_counts();
  return {counts.copies_out, counts.copies_in, counts.bytes_out,
          counts.bytes_in,   counts.launches,  counts.pinned_bytes};
}

std::string describe_gpu_memory() {
  const GpuCounts counts = gpu_counts();
  if (counts.copies_out + counts.copies_in == 0) return "";
  return fmt::format(
      "through pinned host memory, {} copies out ({} MiB) and {} in ({} MiB), {} sums on a GPU so "
      "far; "
      "{} MiB pinned",
      counts.copies_out, counts.bytes_out >> 20, counts.copies_in, counts.bytes_in >> 20,
      counts.launches, counts.pinned_bytes >> 20);
}

Status check_host_memory(std::string_view what, const void* pointer) {
  WEFT_ASSIGN(const std::optional<GpuMemory> gpu, find_gpu_memory(pointer));
  if (!gpu) return {};
  return Status(Code::unavailable, fmt::format("{}: {} is memory of GPU {}; host memory is needed",
                                               what, pointer, gpu->device));
}

}  // namespace weft
