// What is lent, and the order of what arrives in a GPU.
#include "verbs/cuda/lent.h"

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

struct Lent {
  std::uintptr_t memory = 0, begin = 0, end = 0;  // `begin` and `end`: of whole pages
  Fd dma_buf;
  std::uint64_t offset = 0;  // of `begin`

  [[nodiscard]] bool has(std::uintptr_t at, std::size_t bytes) const {
    return begin <= at && at + bytes <= end;
  }
};

// Never destroyed: threads of a host may lend until its end.
struct AllLent {
  std::mutex mutex;
  std::map<std::uint64_t, Lent> lent;  // by number
  std::uint64_t last = 0;
  std::atomic<std::size_t> count{0};
};
AllLent& all_lent() {
  static auto* const all = new AllLent;
  return *all;
}

// The mutex is held. What was lent last is asked first: it may have come in the place of other memory.
const Lent* find_lent(const AllLent& all, const void* address, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (auto each = all.lent.rbegin(); each != all.lent.rend(); ++each)
    if (each->second.has(at, bytes)) return &each->second;
  return nullptr;
}

// Parts of a few blocks, each of which has one name: there are fewer names than peers may be. Parts are used
// again. Never destroyed, as blocks.
struct Landings {
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
Landings& landings() {
  static auto* const all = new Landings;
  return *all;
}

class OwnLanding final : public Landing {
 public:
  OwnLanding(std::byte* address, std::size_t bytes) : address_(address), bytes_(bytes) {}
  OwnLanding(const OwnLanding&) = delete;
  OwnLanding& operator=(const OwnLanding&) = delete;
  ~OwnLanding() override {
    const std::lock_guard lock(landings().mutex);
    landings().free[bytes_].push_back(address_);
  }
  [[nodiscard]] std::byte* address() const override { return address_; }

 private:
  std::byte* const address_;
  const std::size_t bytes_;
};

// The mutex is held.
Result<std::byte*> take_landing(Landings& all, const GpuMemory& gpu, std::size_t bytes) {
  constexpr std::size_t kBlockBytes = std::size_t{16} << 20, kMostBytes = std::size_t{256} << 20;
  if (std::vector<std::byte*>& free = all.free[bytes]; !free.empty()) {
    std::byte* const address = free.back();
    free.pop_back();
    return address;
  }
  if (all.blocks.empty() || all.blocks.back().bytes - all.blocks.back().used < bytes) {
    Landings::Block block;
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
  Landings::Block& last = all.blocks.back();
  return last.name.address() + std::exchange(last.used, last.used + bytes);
}

bool is_lent(const void* address) {
  AllLent& all = all_lent();
  if (all.count.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(all.mutex);
  return find_lent(all, address, 1) != nullptr;
}

}  // namespace

Result<LentMemory> LentMemory::of(void* memory, std::size_t bytes, int dma_buf,
                                  std::uint64_t offset) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  Lent lent;
  lent.memory = reinterpret_cast<std::uintptr_t>(memory);
  lent.begin = lent.memory / page * page;
  lent.end = (lent.memory + bytes + page - 1) / page * page;
  const std::uintptr_t before = lent.memory - lent.begin;
  if (dma_buf >= 0) {
    if (offset < before || (offset - before) % page != 0) {
      return Status(Code::invalid_argument,
                    fmt::format("{} is {} bytes behind the beginning of a page, and at {} of its "
                                "dma-buf, which is not",
                                memory, before, offset));
    }
    lent.offset = offset - before;
    lent.dma_buf = Fd(::fcntl(dma_buf, F_DUPFD_CLOEXEC, 0));
    if (!lent.dma_buf.valid())
      return system_error(fmt::format("the dma-buf {} of {}", dma_buf, memory), errno);
  }
  AllLent& all = all_lent();
  const std::lock_guard lock(all.mutex);
  LentMemory made;
  made.number_ = ++all.last;
  all.lent.emplace(made.number_, std::move(lent));
  all.count.store(all.lent.size(), std::memory_order_release);
  return made;
}

LentMemory::~LentMemory() {
  if (number_ == 0) return;
  AllLent& all = all_lent();
  const std::lock_guard lock(all.mutex);
  all.lent.erase(number_);
  all.count.store(all.lent.size(), std::memory_order_release);
}

bool is_for_devices(const void* address) {
  return is_lent(address) || is_own_alias(address);
}

std::optional<ForDevices> memory_for_devices(const void* address, std::size_t bytes) {
  AllLent& all = all_lent();
  if (all.count.load(std::memory_order_acquire) != 0) {
    const std::lock_guard lock(all.mutex);
    if (const Lent* lent = find_lent(all, address, bytes); lent != nullptr) {
      ForDevices found;
      found.pointer = const_cast<void*>(address);
      found.offset = lent->offset + (reinterpret_cast<std::uintptr_t>(address) - lent->begin);
      if (lent->dma_buf.valid())
        found.dma_buf = Fd(::fcntl(lent->dma_buf.get(), F_DUPFD_CLOEXEC, 0));
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
  if (!is_lent(from)) return copy_from_behind(to, from);
  WEFT_ASSIGN(const std::optional<GpuMemory> gpu, find_gpu_memory(from));
  if (!gpu) return Status(Code::system, fmt::format("{} is GPU memory no more", fmt::ptr(from)));
  WEFT_ASSIGN(const PinnedBlock block, copy_to_host(*gpu, from, to.size()));
  std::memcpy(to.data(), block.data(), to.size());
  return {};
}

Result<std::shared_ptr<Landing>> Landing::make(std::size_t bytes) {
  const std::optional<GpuMemory> gpu = gpu_for_peers();
  if (!gpu) return Status(Code::unavailable, "no GPU was used with peers yet");
  if (cuda::closed_gates() != 0) return Status(Code::unavailable, "a stream is held");
  WEFT_RETURN_IF_ERROR(settle_rdma_writes(*gpu, gpu->device));
  // Whole pages, as they are registered.
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t whole = (bytes + page - 1) / page * page;
  const std::lock_guard lock(landings().mutex);
  WEFT_ASSIGN(std::byte* const address, take_landing(landings(), *gpu, whole));
  return std::shared_ptr<Landing>(std::make_shared<OwnLanding>(address, whole));
}

Status settle_rdma_writes(const GpuMemory& gpu, int reader) {
  WEFT_ASSIGN(const cuda::Driver* driver, cuda::load_driver());
  int device = 0;
  const std::string what = fmt::format("GPU {}: settle what network interfaces wrote", gpu.device);
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

Status settle_behind(const void* alias, const Behind& there) {
  if (!is_own_alias(alias)) return {};
  WEFT_ASSIGN(const std::optional<GpuMemory> owner, find_gpu_memory(there.data));
  return owner ? settle_rdma_writes(*owner, there.device) : Status();
}

}  // namespace weft
