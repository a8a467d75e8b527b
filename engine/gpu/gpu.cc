// What the other modules call, and what GPU memory has done so far.
#include "engine/gpu/gpu.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "engine/gpu/operand_set.h"
#include "engine/gpu/ways_so_far.h"
#include "engine/nccl/nccl.h"
#include "verbs/memory/memory.h"

namespace weft {
namespace {

struct WaysSoFar {
  std::mutex mutex;
  std::uint64_t with_aliases = 0, with_blocks = 0;
  std::string why_blocks;  // of the last one
};
WaysSoFar& ways_so_far() {
  static auto* const ways = new WaysSoFar;
  return *ways;
}

// Whether CUDA may have given out memory. The loader is asked under its lock, which takes 15 ns of the
// 60 ns of a call of 4 bytes. So its «no» holds until the next tick of the coarse clock, some
// milliseconds: CUDA takes longer to start.
bool may_have_begun() {
  static std::atomic<std::int64_t> not_at{0};
  timespec coarse{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse);
  const std::int64_t tick = coarse.tv_sec * 1'000'000'000 + coarse.tv_nsec;
  if (not_at.load(std::memory_order_relaxed) == tick) return false;
  if (is_cuda_loaded()) return true;
  not_at.store(tick, std::memory_order_relaxed);
  return false;
}

}  // namespace

void note_way(const Status& aliases) {
  WaysSoFar& ways = ways_so_far();
  const std::lock_guard lock(ways.mutex);
  ++(aliases.ok() ? ways.with_aliases : ways.with_blocks);
  if (!aliases.ok()) ways.why_blocks = aliases.text();
}

bool may_have_gpu_memory() {
  return is_cuda_loaded();
}

// An address tells whether it is the heap's.
bool is_on_host(const Request& request) {
  const std::array operands = {request.input.data, static_cast<const void*>(request.output.data)};
  const auto is_of_heap = [](const void* data) {
    return data == nullptr || heap_offset(data, 1) != kNotInHeap;
  };
  if (std::ranges::all_of(operands, is_of_heap) || !may_have_begun()) return true;
  return std::ranges::all_of(operands, [](const void* data) {
    const Result<std::optional<GpuMemory>> gpu = find_gpu_memory(data);
    return gpu.ok() && !*gpu;
  });
}

Result<std::shared_ptr<GpuOperands>> find_gpu_operands(std::span<Request> requests, Rank rank,
                                                       const GpuOperandOptions& options,
                                                       const std::shared_ptr<GpuBell>& bell) {
  auto operands = std::make_shared<OperandSet>(rank, options, bell);
  WEFT_RETURN_IF_ERROR(operands->find(requests));
  if (!operands->is_empty()) return std::shared_ptr<GpuOperands>(std::move(operands));
  const bool has_data = std::ranges::any_of(requests, [](const Request& each) {
    return each.input.count != 0 || each.output.count != 0;
  });
  const Request& first = requests.front();
  if (first.stream && has_data) {
    return Status(
        Code::invalid_argument,
        fmt::format("{}: a stream was given, and neither {} nor {} is GPU memory",
                    name(first.collective), first.input.data, fmt::ptr(first.output.data)));
  }
  return std::shared_ptr<GpuOperands>();
}

std::function<Reducer*()> gpu_reducer_for_peers(std::shared_ptr<GpuBell> bell) {
  const auto operands = std::make_shared<OperandSet>(kNoRank, GpuOperandOptions{}, std::move(bell));
  return [operands] { return operands->reducer(); };
}

GpuUsage gpu_usage() {
  const GpuCounts counts = gpu_counts();
  WaysSoFar& ways = ways_so_far();
  const std::lock_guard lock(ways.mutex);
  return {counts.copies_out,   counts.copies_in, counts.bytes_out,    counts.bytes_in,
          counts.bytes_inside, counts.launches,  counts.pinned_bytes, ways.with_aliases,
          ways.with_blocks,    nccl_operations()};
}

std::string describe_gpu_memory() {
  const GpuCounts counts = gpu_counts();
  WaysSoFar& ways = ways_so_far();
  const std::lock_guard lock(ways.mutex);
  if (ways.with_aliases + ways.with_blocks == 0) return "";
  std::string text = fmt::format("{} operations where it is (CUDA IPC), {} through pinned blocks",
                                 ways.with_aliases, ways.with_blocks);
  if (!ways.why_blocks.empty()) text += fmt::format(" (the last one: {})", ways.why_blocks);
  return text + fmt::format(
                    "; {} copies out ({} MiB) and {} in ({} MiB), {} sums on a GPU so far; {} MiB "
                    "pinned",
                    counts.copies_out, counts.bytes_out >> 20, counts.copies_in,
                    counts.bytes_in >> 20, counts.launches, counts.pinned_bytes >> 20);
}

std::string describe_gpu_path(const PeerConnection& peer) {
  const std::optional<GpuMemory> gpu = gpu_for_peers();
  if (!gpu || !peer.endpoint->properties().shares_memory) return "";
  const std::shared_ptr<const PeerHeap> heap = heap_of(peer);
  if (heap == nullptr) return "";
  const Status read = is_read_by(*gpu, *heap);
  return read.ok() ? fmt::format("reads GPU {} (CUDA IPC)", gpu->device)
                   : fmt::format("reads no GPU memory here: {}", read.text());
}

Status copy_memory(void* to, const void* from, std::size_t bytes, std::int64_t patience_ms) {
  if (bytes == 0) return {};
  WEFT_ASSIGN(Staged source, Staged::make(from, bytes, patience_ms));
  WEFT_ASSIGN(Staged target, Staged::make(to, bytes, patience_ms));
  WEFT_RETURN_IF_ERROR(source.fetch());
  std::memcpy(target.data(), source.data(), bytes);
  return target.store();
}

Status check_host_memory(std::string_view what, const void* pointer) {
  WEFT_ASSIGN(const std::optional<GpuMemory> gpu, find_gpu_memory(pointer));
  if (!gpu) return {};
  return Status(Code::unavailable, fmt::format("{}: {} is memory of GPU {}; host memory is needed",
                                               what, pointer, gpu->device));
}

}  // namespace weft
