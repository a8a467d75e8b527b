// What is exported, and the order of what arrives in a GPU.
#include "verbs/cuda/gpudirect.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "verbs/cuda/counts.h"
#include "verbs/cuda/cuda.h"
#include "verbs/cuda/driver.h"

namespace weft {
namespace {

// Of a flush: the context that is current; for its GPU, for all GPUs.
constexpr int kCurrentContext = 0, kForOwner = 100, kForAll = 200;

struct Exported {
  std::uintptr_t memory = 0, begin = 0, end = 0;  // `begin` and `end`: of whole pages
  Fd dma_buf;
  std::uint64_t offset = 0;  // of `begin`

  [[nodiscard]] bool has(std::uintptr_t at, std::size_t bytes) const {
    return begin <= at && at + bytes <= end;
  }
};

// Never destroyed: threads of a host may export until its end.
struct AllExported {
  std::mutex mutex;
  std::map<std::uint64_t, Exported> exported;  // by number
  std::uint64_t last = 0;
  std::atomic<std::size_t> count{0};
};
AllExported& all_exported() {
  static auto* const all = new AllExported;
  return *all;
}

// The mutex is held. What was exported last is asked first: it may have come in the place of other
// memory.
const Exported* find_exported(const AllExported& all, const void* address, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (auto each = all.exported.rbegin(); each != all.exported.rend(); ++each)
    if (each->second.has(at, bytes)) return &each->second;
  return nullptr;
}

// Parts of a few blocks, each of which has one name: there are fewer names than peers may be. Parts are used
// again. Never destroyed, as blocks.
struct ReceiveBuffers {
  struct Block {
    DeviceBlock memory;
    DeviceAlias name;
    std::size_t used = 0, bytes = 0;
  };
  std::mutex mutex;
  std::vector<Block> blocks;
  std::map<std::size_t, std::vector<std::byte*>> free;  // by size
  std::size_t bytes = 0;                                // of all blocks
};
ReceiveBuffers& receive_buffers() {
  static auto* const all = new ReceiveBuffers;
  return *all;
}

class OwnReceiveBuffer final : public ReceiveBuffer {
 public:
  OwnReceiveBuffer(std::byte* address, std::size_t bytes) : address_(address), bytes_(bytes) {}
  OwnReceiveBuffer(const OwnReceiveBuffer&) = delete;
  OwnReceiveBuffer& operator=(const OwnReceiveBuffer&) = delete;
  ~OwnReceiveBuffer() override {
    const std::lock_guard lock(receive_buffers().mutex);
    receive_buffers().free[bytes_].push_back(address_);
  }
  [[nodiscard]] std::byte* address() const override { return address_; }

 private:
  std::byte* const address_;
  const std::size_t bytes_;
};

// The mutex is held.
Result<std::byte*> take_receive_buffer(ReceiveBuffers& all, const GpuMemory& gpu,
                                       std::size_t bytes) {
  constexpr std::size_t kBlockBytes = std::size_t{16} << 20, kMostBytes = std::size_t{256} << 20;
  if (std::vector<std::byte*>& free = all.free[bytes]; !free.empty()) {
    std::byte* const address = free.back();
    free.pop_back();
    return address;
  }
  if (all.blocks.empty() || all.blocks.back().bytes - all.blocks.back().used < bytes) {
    ReceiveBuffers::Block block;
    block.bytes = std::max(kBlockBytes, bytes);
    if (all.bytes + block.bytes > kMostBytes) {
      return Status(Code::exhausted, fmt::format("{} MiB of GPU {} are for it already",
                                                 all.bytes >> 20, gpu.device));
    }
    WEFT_ASSIGN(block.memory, DeviceBlock::take(block.bytes, gpu));
    WEFT_ASSIGN(block.name, DeviceAlias::of(gpu, block.memory.data(), block.bytes));
    all.bytes += block.bytes;
    all.blocks.push_back(std::move(block));
  }
  ReceiveBuffers::Block& last = all.blocks.back();
  return last.name.address() + std::exchange(last.used, last.used + bytes);
}

bool is_exported(const void* address) {
  AllExported& all = all_exported();
  if (all.count.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(all.mutex);
  return find_exported(all, address, 1) != nullptr;
}

}  // namespace

Result<ExportedMemory> ExportedMemory::of(void* memory, std::size_t bytes, int dma_buf,
                                          std::uint64_t offset) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  Exported exported;
  exported.memory = reinterpret_cast<std::uintptr_t>(memory);
  exported.begin = exported.memory / page * page;
  exported.end = (exported.memory + bytes + page - 1) / page * page;
  const std::uintptr_t before = exported.memory - exported.begin;
  if (dma_buf >= 0) {
    if (offset < before || (offset - before) % page != 0) {
      return Status(Code::invalid_argument,
                    fmt::format("{} is {} bytes behind the beginning of a page, and at {} of its "
                                "dma-buf, which is not",
                                memory, before, offset));
    }
    exported.offset = offset - before;
    exported.dma_buf = Fd(::fcntl(dma_buf, F_DUPFD_CLOEXEC, 0));
    if (!exported.dma_buf.valid())
      return system_error(fmt::format("the dma-buf {} of {}", dma_buf, memory), errno);
  }
  AllExported& all = all_exported();
  const std::lock_guard lock(all.mutex);
  ExportedMemory made;
  made.number_ = ++all.last;
  all.exported.emplace(made.number_, std::move(exported));
  all.count.store(all.exported.size(), std::memory_order_release);
  return made;
}

ExportedMemory::~ExportedMemory() {
  if (number_ == 0) return;
  AllExported& all = all_exported();
  const std::lock_guard lock(all.mutex);
  all.exported.erase(number_);
  all.count.store(all.exported.size(), std::memory_order_release);
}

bool is_for_devices(const void* address) {
  return is_exported(address) || is_own_alias(address);
}

std::optional<ForDevices> memory_for_devices(const void* address, std::size_t bytes) {
  AllExported& all = all_exported();
  if (all.count.load(std::memory_order_acquire) != 0) {
    const std::lock_guard lock(all.mutex);
    if (const Exported* exported = find_exported(all, address, bytes); exported != nullptr) {
      ForDevices found;
      found.pointer = const_cast<void*>(address);
      found.offset =
          exported->offset + (reinterpret_cast<std::uintptr_t>(address) - exported->begin);
      if (exported->dma_buf.valid())
        found.dma_buf = Fd(::fcntl(exported->dma_buf.get(), F_DUPFD_CLOEXEC, 0));
      if (!found.dma_buf.valid()) {
        found.refusal = Status(Code::unavailable,
                               fmt::format("GPU memory at {} came without a dma-buf", address));
      }
      return found;
    }
  }
  return pages_behind(address, bytes);
}

Status copy_for_devices(std::span<std::byte> to, const std::byte* from) {
  if (!is_exported(from)) return copy_from_behind(to, from);
  WEFT_ASSIGN(const std::optional<GpuMemory> gpu, find_gpu_memory(from));
  if (!gpu) return Status(Code::system, fmt::format("{} is GPU memory no more", fmt::ptr(from)));
  WEFT_ASSIGN(const PinnedBlock block, copy_to_host(*gpu, from, to.size()));
  std::memcpy(to.data(), block.data(), to.size());
  return {};
}

Result<std::shared_ptr<ReceiveBuffer>> ReceiveBuffer::make(std::size_t bytes) {
  const std::optional<GpuMemory> gpu = gpu_for_peers();
  if (!gpu) return Status(Code::unavailable, "no GPU was used with peers yet");
  if (cuda::closed_gates() != 0) return Status(Code::unavailable, "a stream is held");
  WEFT_RETURN_IF_ERROR(flush_rdma_writes(*gpu, gpu->device));
  // Whole pages, as they are registered.
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t whole = (bytes + page - 1) / page * page;
  const std::lock_guard lock(receive_buffers().mutex);
  WEFT_ASSIGN(std::byte* const address, take_receive_buffer(receive_buffers(), *gpu, whole));
  return std::shared_ptr<ReceiveBuffer>(std::make_shared<OwnReceiveBuffer>(address, whole));
}

Status flush_rdma_writes(const GpuMemory& gpu, int reader) {
  WEFT_ASSIGN(const cuda::Driver* driver, cuda::load_driver());
  int device = 0;
  const std::string what = fmt::format("GPU {}: flush what network interfaces wrote", gpu.device);
  WEFT_RETURN_IF_ERROR(cuda::status_of(*driver, driver->device_get(&device, gpu.device), what));
  const cuda::RdmaWrites writes = cuda::rdma_writes_of(*driver, device);
  const bool is_owner = reader == gpu.device;
  if (is_owner ? writes.keep_order : writes.keep_order_for_all) return {};
  if (!writes.can_be_flushed)
    return Status(Code::unavailable, what + ": it has no order of its own, and no flush");
  const cuda::Current current(*driver, gpu.context);
  WEFT_RETURN_IF_ERROR(cuda::status_of(*driver, current.answer(), what));
  return cuda::status_of(
      *driver, driver->flush_rdma_writes(kCurrentContext, is_owner ? kForOwner : kForAll), what);
}

Status flush_rdma_writes(const void* alias, const Behind& there) {
  if (!is_own_alias(alias)) return {};
  WEFT_ASSIGN(const std::optional<GpuMemory> owner, find_gpu_memory(there.data));
  return owner ? flush_rdma_writes(*owner, there.device) : Status();
}

}  // namespace weft
