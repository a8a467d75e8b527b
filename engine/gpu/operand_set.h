// operand_set: the memory of one operation on GPU memory, and its combines. Internal to the module.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/gpu/gpu.h"
#include "engine/gpu_kernels/gpu_kernels.h"
#include "verbs/cuda/cuda.h"

namespace weft {

// The peer's heap, if it shares memory with this rank.
[[nodiscard]] std::shared_ptr<const PeerHeap> heap_of(const PeerConnection& connection);

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

// An operand in GPU memory.
struct GpuOperand {
  GpuMemory gpu;
  Span there;                 // the caller's
  std::byte* here = nullptr;  // what the operation has in its place
  // With a device alias: where the operation's data are on the GPU, the caller's memory or a block of
  // ours. Else null: `here` is pinned.
  std::byte* device = nullptr;
  std::shared_ptr<GpuQueue> follower = {};  // of an input: behind what the stream has

  [[nodiscard]] Span span() const { return {here, there.bytes}; }
  // The caller's memory in whose place this part is.
  [[nodiscard]] std::byte* at(const std::byte* part) const { return there.data + (part - here); }
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

class OperandSet final : public GpuOperands, public Reducer {
 public:
  OperandSet(Rank rank, const GpuOperandOptions& options, std::shared_ptr<GpuBell> bell)
      : rank_(rank), options_(options), bell_(std::move(bell)) {}

  // Looks for operands in GPU memory, and gives those in place different addresses.
  Status find(std::span<Request> requests);
  [[nodiscard]] bool is_empty() const { return found_.empty(); }

  Status follow() override;
  Status place(std::span<Request> requests, std::span<PeerConnection* const> in,
               std::span<PeerConnection* const> out) override;
  Status bring() override;
  Status hold() override { return gate_ ? gate_->hold(stream_.value_or(Stream{})) : Status(); }
  void let_go() override {
    if (gate_) gate_->open();
  }
  Status leave(std::span<Request> requests) override;
  [[nodiscard]] bool is_small() const override;
  [[nodiscard]] const void* input_on_gpu() const override {
    return inputs_.empty() ? nullptr : inputs_.front().device;
  }
  [[nodiscard]] std::optional<OnGpu> on_one_gpu() const override;
  // Peers may send device aliases also where this rank leaves its sums to the host.
  Reducer* reducer() override { return has_kernels_ || gpu_for_peers() ? this : nullptr; }
  State input_state() override;
  Status input_status() override { return input_status_; }
  std::size_t there(const std::byte* data, std::size_t bytes) override;
  void ended(const Status& status) override;
  bool is_over() override;
  void wait_until_over() override;
  Status output_status() override { return output_status_; }

  Result<std::unique_ptr<Reducer::Work>> begin(const Job& job) override;
  bool is_in_device_memory(const void* address) const override;
  Result<std::byte*> scratch(std::size_t bytes) override;

 private:
  using Marks = std::vector<std::unique_ptr<GpuMark>>;
  // What lives until a copy or a kernel is done.
  struct Blocks {
    std::vector<PinnedBlock> pinned;
    std::vector<DeviceBlock> device;
  };
  // The operands of a request that are GPU memory.
  struct Found {
    std::size_t request = 0;
    Span x, y;
    std::optional<GpuMemory> gpu_x = {}, gpu_y = {};
    bool has_result = true;
    // Input and output share a part of their memory: they are places of one block, too.
    bool is_shifted = false;
    std::shared_ptr<GpuQueue> follower = {};  // behind what the stream has; one has it, or more

    [[nodiscard]] std::size_t bytes() const { return std::max(x.bytes, y.bytes); }
  };
  // What takes the place of operands: of all of them, but for the small ones of leave().
  enum class Way : std::uint8_t { blocks, aliases, in_place };
  // Where a GPU finds a term.
  struct Seen {
    const void* data = nullptr;  // null: it cannot read it
    bool is_on_gpu = false;      // else it is pinned host memory
    PinnedBlock copy;            // that holds it
  };

  // operand_set.cc
  // Whether an input and an output share a part of their memory.
  [[nodiscard]] bool has_shifted() const {
    return std::ranges::any_of(found_, [](const Found& each) { return each.is_shifted; });
  }
  void offer_to(std::span<PeerConnection* const> peers);
  Status place(Request& request, const Found& found);
  Status place_both(Request& request, const Found& found);
  Result<GpuOperand> place_input(const GpuMemory& gpu, const Span& x, bool is_output);
  Result<GpuOperand> place_output(const GpuMemory& gpu, const Span& y);
  Status alias_of(GpuOperand& operand);
  Result<std::byte*> pinned_block(std::size_t bytes, const GpuMemory& gpu);
  Result<std::byte*> device_block(std::size_t bytes, const GpuMemory& gpu);
  Status find_kernels();
  [[nodiscard]] bool stays(const Found& found) const {
    return way_ == Way::in_place && found.bytes() >= options_.least;
  }
  bool has_all_input();
  Status copy_out(GpuQueue& queue, const GpuOperand& x);
  Status copy_in(GpuQueue& queue, std::size_t output);
  // Small operands that one launch copies to their blocks, or from them.
  struct Packed {
    GpuMemory gpu;
    std::shared_ptr<GpuQueue> queue;
    std::vector<std::size_t> operands;
  };
  [[nodiscard]] std::vector<Packed> find_packed(const std::vector<GpuOperand>& operands) const;
  Status copy_packed(const Packed& packed, bool is_input);
  std::size_t look_for_parts();
  Status begin_outputs();
  Status mark(GpuQueue& queue, Marks& marks);
  // ok, or why the memory cannot be read by the peers where it is.
  Status check_peers(std::span<PeerConnection* const> in,
                     std::span<PeerConnection* const> out) const;
  // The same for the network interfaces on the way to those on other machines.
  Status check_interfaces(std::span<PeerConnection* const> out) const;
  Status place_all(std::span<Request> requests);

  // reduce.cc
  [[nodiscard]] std::optional<GpuMemory> gpu_for_reductions() const;
  Result<Seen> see(const GpuMemory& gpu, const Term& term, std::size_t bytes, bool must) const;
  const GpuOperand* output_at(const std::byte* destination, std::size_t bytes) const;
  // The memory for which the address stands, if it is this operation's.
  [[nodiscard]] std::byte* own_memory_at(const GpuMemory& gpu, const void* address) const;

  const Rank rank_;
  const GpuOperandOptions options_;
  const std::shared_ptr<GpuBell> bell_;
  std::optional<Stream> stream_;
  std::vector<Found> found_;
  bool has_kernels_ = false;
  Way way_ = Way::blocks;
  Status alias_status_;  // ok, or why blocks are used

  std::vector<GpuOperand> inputs_, outputs_;
  std::vector<GpuOperand> scratch_;
  std::vector<Written> written_;  // by output
  const std::shared_ptr<Blocks> blocks_ = std::make_shared<Blocks>();
  std::vector<DeviceAlias> aliases_;
  std::unique_ptr<GpuGate> gate_;
  std::mutex mutex_;
  Marks ins_, outs_;
  // A part of an input that is copied to its block, in the order of the copies.
  struct Part {
    Span block;
    std::size_t mark;  // in ins_
  };
  std::vector<Part> parts_;
  std::size_t parts_there_ = 0;
  std::atomic<bool> has_all_input_{false};
  Status input_status_, output_status_;
};

}  // namespace weft
