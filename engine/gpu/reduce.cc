// Combines on a GPU: where it finds the terms, and where it writes.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/gpu/operand_set.h"

namespace weft {
namespace {

// A smaller piece of a block is the host's (docs/gpu.md).
constexpr std::size_t kLeastBytes = std::size_t{2} << 20;

// A combine on a GPU. The terms and the destination are held by the operation until it is over. A
// destination that the GPU cannot write is written by who asks last.
class GpuWork final : public Reducer::Work {
 public:
  GpuWork(std::unique_ptr<GpuMark> mark, std::vector<PinnedBlock> copies, PinnedBlock result,
          Span destination)
      : mark_(std::move(mark)),
        copies_(std::move(copies)),
        result_(std::move(result)),
        destination_(destination) {}
  bool is_over() override {
    if (!mark_->is_over()) return false;
    if (result_.data() != nullptr && mark_->status().ok())
      std::memcpy(destination_.data, result_.data(), destination_.bytes);
    result_ = PinnedBlock();
    return true;
  }
  Status status() override { return mark_->status(); }
  void wait() override { mark_->wait(); }
  bool is_in_order() const override { return result_.data() == nullptr; }

 private:
  std::unique_ptr<GpuMark> mark_;
  std::vector<PinnedBlock> copies_;
  PinnedBlock result_;
  Span destination_;
};

}  // namespace

// The GPU that has the result; else one that can read what peers have.
std::optional<GpuMemory> OperandSet::gpu_for_reductions() const {
  if (!outputs_.empty()) return outputs_.front().gpu;
  if (!inputs_.empty()) return inputs_.front().gpu;
  for (const Found& each : found_) return each.gpu_y ? each.gpu_y : each.gpu_x;
  return gpu_for_peers();
}

const GpuOperand* OperandSet::output_at(const std::byte* destination, std::size_t bytes) const {
  const auto found = std::ranges::find_if(
      outputs_, [&](const GpuOperand& y) { return y.span().has(destination, bytes); });
  return found == outputs_.end() ? nullptr : &*found;
}

std::byte* OperandSet::own_memory_at(const GpuMemory& gpu, const void* address) const {
  for (const auto* operands : {&inputs_, &outputs_, &scratch_}) {
    for (const GpuOperand& each : *operands) {
      const auto* const at = static_cast<const std::byte*>(address);
      if (each.device != nullptr && each.gpu.device == gpu.device && each.span().has(at, 1))
        return each.device + (at - each.here);
    }
  }
  return nullptr;
}

bool OperandSet::is_in_device_memory(const void* address) const {
  return is_device_alias(address);
}

// Ranks that exchange blocks of a tensor have such parts.
Result<std::byte*> OperandSet::scratch(std::size_t bytes) {
  if (way_ != Way::aliases) return nullptr;
  const std::lock_guard lock(mutex_);
  GpuOperand made{*gpu_for_reductions(), {nullptr, bytes}};
  WEFT_ASSIGN(made.device, device_block(bytes, made.gpu));
  WEFT_RETURN_IF_ERROR(alias_of(made));
  scratch_.push_back(made);
  return made.here;
}

// Where the GPU reads a term; with `must`, it gets a copy of what it cannot read.
Result<OperandSet::Seen> OperandSet::see(const GpuMemory& gpu, const Term& term, std::size_t bytes,
                                         bool must) const {
  const auto* const data = static_cast<const std::byte*>(term.data);
  Seen seen;
  if (const std::byte* const own = own_memory_at(gpu, data); own != nullptr) {
    seen.data = own;
    seen.is_on_gpu = true;
    return seen;
  }
  WEFT_ASSIGN(const std::optional<Behind> there, behind(gpu, data, bytes));
  if (there) {
    // A network interface may have written it just now.
    WEFT_RETURN_IF_ERROR(flush_rdma_writes(data, *there));
    seen.data = there->data;
    seen.is_on_gpu = there->is_for_reader;
    if (there->is_for_reader) return seen;
    WEFT_ASSIGN(seen.copy, copy_to_host({there->device, there->context}, there->data, bytes));
    seen.data = seen.copy.data();
    return seen;
  }
  // An input is read where it is, unless the output is in the same place in part.
  for (const GpuOperand& x : inputs_) {
    if (x.device != nullptr || has_shifted() || x.gpu.device != gpu.device) continue;
    if (!x.span().has(data, bytes)) continue;
    seen.data = x.at(data);
    seen.is_on_gpu = true;
    return seen;
  }
  const bool is_input =
      std::ranges::any_of(inputs_, [&](const GpuOperand& x) { return x.span().has(data, bytes); });
  if (is_input && !has_all_input_.load(std::memory_order_acquire)) return seen;  // it is on its way
  seen.data = gpu_view(gpu, data, bytes);
  if (seen.data != nullptr || !must) return seen;
  WEFT_ASSIGN(seen.copy, PinnedBlock::take(bytes, gpu));
  std::memcpy(seen.copy.data(), data, bytes);
  seen.data = seen.copy.data();
  return seen;
}

// What no GPU has to do is for the CPU: small pieces of blocks, what a GPU cannot read, and copies
// that do not end in its memory.
Result<std::unique_ptr<Reducer::Work>> OperandSet::begin(const Job& job) {
  const std::size_t bytes = job.count * size_of(job.type);
  const bool must = is_in_device_memory(job.destination) ||
                    std::ranges::any_of(job.terms, [this](const Term& term) {
                      return is_in_device_memory(term.data);
                    });
  std::unique_ptr<Reducer::Work> none;
  const std::optional<GpuMemory> gpu = gpu_for_reductions();
  if (job.terms.empty() || !gpu) return none;
  if (!must && (!has_kernels_ || bytes < kLeastBytes || outputs_.empty())) return none;
  if (job.terms.size() > GpuKernels::kMostTerms) {
    if (!must) return none;
    return Status(Code::unavailable,
                  fmt::format("a GPU adds up at most {} tensors in its memory; WEFT_GPU_IPC=off "
                              "leaves them to the host",
                              GpuKernels::kMostTerms));
  }
  const std::lock_guard lock(mutex_);
  // The result goes to where it belongs, if nobody reads it from a block.
  std::byte* const own = own_memory_at(*gpu, job.destination);
  const GpuOperand* const into = own == nullptr ? output_at(job.destination, bytes) : nullptr;
  const bool goes_there =
      own != nullptr || (into != nullptr && into->gpu.device == gpu->device && job.is_last);
  if (!must && job.is_copy && !goes_there) return none;

  std::vector<Term> terms;
  std::vector<PinnedBlock> copies;
  bool is_from_gpu = false;
  for (const Term& term : job.terms) {
    WEFT_ASSIGN(Seen seen, see(*gpu, term, bytes, must));
    if (seen.data == nullptr) return none;
    is_from_gpu = seen.is_on_gpu;
    terms.push_back({seen.data, term.weight});
    if (seen.copy.data() != nullptr) copies.push_back(std::move(seen.copy));
  }
  void* to = nullptr;
  PinnedBlock result;
  if (goes_there) {
    to = own != nullptr ? own : into->at(job.destination);
  } else {
    to = const_cast<void*>(gpu_view(*gpu, job.destination, bytes));
    if (to == nullptr && !must) return none;
    if (to == nullptr) {
      WEFT_ASSIGN(result, PinnedBlock::take(bytes, *gpu));
      to = result.data();
    }
  }
  WEFT_ASSIGN(const std::shared_ptr<GpuQueue> queue, GpuQueue::into(*gpu));
  WEFT_ASSIGN(const GpuKernels* kernels, GpuKernels::of(*gpu));
  if (!job.is_copy) {
    WEFT_RETURN_IF_ERROR(
        kernels->combine(*queue, job.type, job.reduction, terms, to, job.count, job.divisor));
  } else if (goes_there && is_from_gpu) {
    WEFT_RETURN_IF_ERROR(queue->copy_inside(to, terms.front().data, bytes));
  } else if (goes_there) {
    WEFT_RETURN_IF_ERROR(queue->copy_in(to, terms.front().data, bytes));
  } else if (is_from_gpu) {
    WEFT_RETURN_IF_ERROR(queue->copy_out(to, terms.front().data, bytes));
  } else {
    const GpuKernels::Copy copy{terms.front().data, to, bytes};
    WEFT_RETURN_IF_ERROR(kernels->copy(*queue, {&copy, 1}));
  }
  if (goes_there && into != nullptr) {
    written_[static_cast<std::size_t>(into - outputs_.data())].add(
        static_cast<std::size_t>(job.destination - into->here), bytes);
  }
  WEFT_ASSIGN(std::unique_ptr<GpuMark> mark,
              queue->mark([bell = bell_, blocks = blocks_] { bell->ring(); }));
  return std::unique_ptr<Reducer::Work>(std::make_unique<GpuWork>(
      std::move(mark), std::move(copies), std::move(result), Span{job.destination, bytes}));
}

}  // namespace weft
