// Device aliases of this process, and the memory behind those of peers.
#include "verbs/cuda/shared.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "verbs/cuda/board.h"
#include "verbs/cuda/contexts.h"
#include "verbs/cuda/counts.h"
#include "verbs/cuda/cuda.h"
#include "verbs/cuda/driver.h"
#include "verbs/cuda/gpudirect.h"

namespace weft {
namespace {

using cuda::Board;
using cuda::Current;
using cuda::Driver;
using cuda::status_of;

constexpr unsigned kLazyPeerAccess = 1;
constexpr std::size_t kProbeBytes = 64 << 10;

// The allocation around a pointer.
struct Allocation {
  cuda::Pointer begin = 0;
  std::uint64_t number = 0;  // the driver gives each allocation another one
  unsigned has_ipc = 0;
};
Result<Allocation> allocation_of(const Driver& driver, cuda::Pointer pointer) {
  constexpr int kNumber = 7, kBegin = 11, kHasIpc = 13;
  Allocation found;
  std::array<int, 3> attributes = {kNumber, kBegin, kHasIpc};
  std::array<void*, 3> values = {&found.number, &found.begin, &found.has_ipc};
  WEFT_RETURN_IF_ERROR(status_of(
      driver,
      driver.pointer_attributes(attributes.size(), attributes.data(), values.data(), pointer),
      fmt::format("ask for the allocation around {:#x}", pointer)));
  return found;
}

// A GPU that is offered.
struct Offered {
  GpuMemory gpu;
  std::uint32_t number = 0;  // on the board
};
// An allocation that the board names.
struct Exported {
  Allocation allocation;
  std::size_t uses = 0;  // device aliases
};
// An allocation of a peer, mapped here.
struct Imported {
  std::uint64_t id = 0;
  cuda::Pointer begin = 0;
  std::weak_ptr<const PeerHeap> owner;
};
// A peer's heap, its place on its board, and a context here.
using ImportKey = std::tuple<std::uint64_t, std::uint32_t, void*>;

// As reserve_heap_addresses() aligns.
constexpr std::uintptr_t kLargePage = std::uintptr_t{2} << 20;

// Never destroyed, as pinned blocks.
struct Sharing {
  std::mutex mutex;
  Board* board = nullptr;
  std::atomic<const Board*> shown{nullptr};  // the same, without the mutex
  std::map<int, Result<Offered>> offered;    // by device
  std::array<Exported, Board::kExports> exported;
  std::uint64_t next_id = 1;
  std::map<ImportKey, Imported> imported;
  std::vector<std::pair<void*, cuda::Pointer>> gone;  // to be unmapped when no stream is held
  // Who has read the GPU memory of a peer, by the peer's heap and the GPU on its board.
  std::map<std::pair<std::uint64_t, std::uint32_t>, GpuMemory> readers;
  std::size_t answers = 0;
};
Sharing& sharing() {
  static auto* const sharing = new Sharing;
  return *sharing;
}

// The mutex is held.
Status take_board(Sharing& all) {
  if (all.board != nullptr) return {};
  WEFT_ASSIGN(std::byte * memory, heap_board());
  all.board = reinterpret_cast<Board*>(memory);  // zero, as a new one
  all.shown.store(all.board, std::memory_order_release);
  return {};
}

const Board* board_of(const PeerHeap& peer) {
  const auto* const board = reinterpret_cast<const Board*>(peer.board());
  return board != nullptr && board->layout.load(std::memory_order_acquire) == Board::kLayout
             ? board
             : nullptr;
}

Result<Offered> offer(Sharing& all, const Driver& driver, const GpuMemory& gpu) {
  WEFT_RETURN_IF_ERROR(take_board(all));
  Offered made{gpu, 0};
  made.number = static_cast<std::uint32_t>(all.offered.size());
  if (made.number >= Board::kGpus)
    return Status(Code::exhausted, fmt::format("more than {} GPUs in one process", Board::kGpus));
  const std::string what = fmt::format("share memory of GPU {} with other processes", gpu.device);
  Board::Gpu& there = all.board->gpus[made.number];
  const Current current(driver, gpu.context);
  WEFT_RETURN_IF_ERROR(status_of(driver, current.answer(), what));
  int device = 0;
  WEFT_RETURN_IF_ERROR(status_of(driver, driver.device_get(&device, gpu.device), what));
  WEFT_RETURN_IF_ERROR(status_of(driver, driver.device_uuid(&there.id, device), what));
  cuda::Pointer probe = 0;
  WEFT_RETURN_IF_ERROR(status_of(driver, driver.allocate(&probe, kProbeBytes), what));
  if (const Status status = status_of(driver, driver.ipc_handle(&there.probe, probe), what);
      !status.ok()) {
    (void)driver.free(probe);
    return status;
  }
  there.state.store(1, std::memory_order_release);
  all.board->layout.store(Board::kLayout, std::memory_order_release);
  return made;
}

// The place of the allocation on the board. The mutex is held.
Result<std::uint32_t> export_of(Sharing& all, const Driver& driver, const GpuMemory& gpu,
                                const Allocation& allocation, std::uint32_t gpu_number) {
  auto& exported = all.exported;
  const auto is_same = [&](const Exported& each) {
    return each.allocation.begin == allocation.begin && each.allocation.number == allocation.number;
  };
  const auto place_of = [&](const Exported& each) {
    return static_cast<std::uint32_t>(&each - exported.data());
  };
  if (const auto known = std::ranges::find_if(exported, is_same); known != exported.end())
    return place_of(*known);
  // Those that are gone make room; else the first that nobody uses.
  const auto forget = [&](Exported& each) {
    all.board->exports[place_of(each)].id.store(0, std::memory_order_release);
    each = {};
  };
  for (Exported& each : exported) {
    if (each.allocation.begin == 0 || each.uses != 0) continue;
    const Result<Allocation> now = allocation_of(driver, each.allocation.begin);
    if (!now.ok() || now->number != each.allocation.number) forget(each);
  }
  auto place = std::ranges::find_if(
      exported, [](const Exported& each) { return each.allocation.begin == 0; });
  if (place == exported.end()) {
    place = std::ranges::find_if(exported, [](const Exported& each) { return each.uses == 0; });
    if (place == exported.end())
      return Status(Code::exhausted,
                    fmt::format("operations on more than {} allocations of GPUs", Board::kExports));
    forget(*place);
  }
  Board::Export& there = all.board->exports[place_of(*place)];
  const Current current(driver, gpu.context);
  WEFT_RETURN_IF_ERROR(status_of(
      driver, driver.ipc_handle(&there.handle, allocation.begin),
      fmt::format("GPU {}: share the allocation at {:#x}", gpu.device, allocation.begin)));
  there.gpu = gpu_number;
  there.id.store(all.next_id++, std::memory_order_release);
  place->allocation = allocation;
  return place_of(*place);
}

void unmap(const Driver& driver, void* context, cuda::Pointer begin) {
  const Current current(driver, context);
  if (current.answer() == cuda::kSuccess) (void)driver.ipc_close(begin);
}

// A peer's allocation in the reader's context. The mutex is held.
Result<cuda::Pointer> import(Sharing& all, const Driver& driver, const GpuMemory& reader,
                             const std::shared_ptr<const PeerHeap>& peer, const Board& board,
                             const Board::Meaning& entry) {
  if (entry.exported >= Board::kExports)
    return Status(Code::mismatch, "a peer's board names an allocation that cannot be");
  const Board::Export& there = board.exports[entry.exported];
  Imported& known = all.imported[{peer->nonce(), entry.exported, reader.context}];
  if (known.id == entry.id) return known.begin;
  if (known.id != 0) all.gone.emplace_back(reader.context, known.begin);
  known = {};
  if (there.id.load(std::memory_order_acquire) != entry.id)
    return Status(Code::system, "a peer has given back GPU memory that is being read");
  const Current current(driver, reader.context);
  cuda::Pointer begin = 0;
  WEFT_RETURN_IF_ERROR(status_of(driver, driver.ipc_open(&begin, there.handle, kLazyPeerAccess),
                                 fmt::format("GPU {}: map a peer's memory", reader.device)));
  known = {entry.id, begin, peer};
  return begin;
}

// Whether kernels of the reader read memory of another GPU of this process.
bool has_peer_access(const Driver& driver, const GpuMemory& reader, const GpuMemory& memory) {
  if (reader.device == memory.device) return true;
  int reader_device = 0, device = 0, can = 0;
  if (driver.device_get(&reader_device, reader.device) != cuda::kSuccess ||
      driver.device_get(&device, memory.device) != cuda::kSuccess ||
      driver.can_access_peer(&can, reader_device, device) != cuda::kSuccess || can == 0)
    return false;
  const Current current(driver, reader.context);
  const cuda::Answer answer = driver.enable_peer_access(memory.context, 0);
  return answer == cuda::kSuccess || answer == cuda::kPeerAccessIsOn;
}

const Board* own_board() {
  return sharing().shown.load(std::memory_order_acquire);
}

// The heap around the address, its board, and the entry that has the bytes.
struct Found {
  std::shared_ptr<const PeerHeap> heap;  // null: that of this process
  const Board* board = nullptr;
  Board::Meaning entry{};
  std::uint64_t within = 0;  // offset in the device alias
};
std::optional<Found> find(const void* address, std::size_t bytes) {
  Found found;
  std::uint64_t offset = heap_offset(address, bytes);
  if (offset != kNotInHeap) {
    found.board = own_board();
  } else {
    found.heap = PeerHeap::around(address, bytes);
    if (found.heap == nullptr) return std::nullopt;
    offset = found.heap->offset_of(address);
    found.board = board_of(*found.heap);
  }
  if (found.board == nullptr) return std::nullopt;
  const std::size_t count = std::min<std::size_t>(
      found.board->entry_count.load(std::memory_order_acquire), Board::kAliases);
  for (std::size_t at = 0; at < count; ++at) {
    const Board::Meaning entry = found.board->entries[at].get();
    if (entry.begin == 0 || offset < entry.begin || offset - entry.begin >= entry.bytes) continue;
    if (bytes > entry.bytes - (offset - entry.begin)) continue;
    found.entry = entry;
    found.within = offset - entry.begin;
    return found;
  }
  return std::nullopt;
}

// An answer that was written before, or kAnswers.
std::size_t answer_place(const Board& board, std::uint64_t owner, std::uint32_t gpu) {
  for (std::size_t at = 0; at < Board::kAnswers; ++at) {
    const Board::Answer& each = board.answers[at];
    if (each.state.load(std::memory_order_acquire) == 0) break;
    if (each.owner == owner && each.gpu == gpu) return at;
  }
  return Board::kAnswers;
}

// The mutex is held.
void answer(Sharing& all, std::uint64_t owner, std::uint32_t gpu, bool reads) {
  if (all.answers == Board::kAnswers) return;  // no answer is a no
  Board::Answer& there = all.board->answers[all.answers++];
  there.owner = owner;
  there.gpu = gpu;
  there.state.store(reads ? Board::kReads : Board::kCannotRead, std::memory_order_release);
}

// The probe stays mapped: to unmap it could be a wait for a stream that is held.
bool can_open(const Driver& driver, const GpuMemory& reader, const cuda::IpcHandle& handle) {
  const Current current(driver, reader.context);
  cuda::Pointer probe = 0;
  return current.answer() == cuda::kSuccess &&
         driver.ipc_open(&probe, handle, kLazyPeerAccess) == cuda::kSuccess;
}

}  // namespace

Result<DeviceAlias> DeviceAlias::of(const GpuMemory& gpu, void* memory, std::size_t bytes) {
  WEFT_ASSIGN(const Driver* driver, cuda::load_driver());
  const auto pointer = reinterpret_cast<cuda::Pointer>(memory);
  WEFT_ASSIGN(const Allocation allocation, allocation_of(*driver, pointer));
  if (allocation.has_ipc == 0) {
    return Status(
        Code::unavailable,
        fmt::format("other processes cannot map {}: it is memory of a pool, or was mapped "
                    "by the driver's functions for virtual memory",
                    memory));
  }
  DeviceAlias made;
  Sharing& all = sharing();
  const std::lock_guard lock(all.mutex);
  const auto offered = all.offered.find(gpu.device);
  if (offered == all.offered.end() || !offered->second.ok())
    return Status(Code::unavailable, fmt::format("GPU {} is not offered", gpu.device));
  WEFT_ASSIGN(const std::uint32_t place,
              export_of(all, *driver, gpu, allocation, offered->second->number));
  auto& entries = all.board->entries;
  const auto free =
      std::ranges::find_if(entries, [](const Board::Entry& each) { return each.get().begin == 0; });
  if (free == entries.end()) {
    return Status(Code::exhausted,
                  fmt::format("more than {} operations on GPU memory at once", entries.size()));
  }
  // At the same place of a large page, so that devices translate both alike.
  const std::size_t within = pointer % kLargePage;
  WEFT_ASSIGN(void* address, reserve_heap_addresses(within + bytes));
  made.address_ = static_cast<std::byte*>(address) + within;
  made.number_ = static_cast<std::size_t>(free - entries.begin());
  ++all.exported[place].uses;
  free->set({.begin = heap_offset(made.address_, 1),
             .bytes = bytes,
             .pointer = pointer,
             .offset = pointer - allocation.begin,
             .id = all.board->exports[place].id.load(std::memory_order_relaxed),
             .exported = place,
             .gpu = offered->second->number});
  if (all.board->entry_count.load(std::memory_order_relaxed) <= made.number_) {
    all.board->entry_count.store(static_cast<std::uint32_t>(made.number_ + 1),
                                 std::memory_order_release);
  }
  return made;
}

DeviceAlias::~DeviceAlias() {
  if (address_ == nullptr) return;
  Sharing& all = sharing();
  {
    const std::lock_guard lock(all.mutex);
    Board::Entry& entry = all.board->entries[number_];
    --all.exported[entry.get().exported].uses;
    entry.set({});
  }
  deallocate(address_ - reinterpret_cast<std::uintptr_t>(address_) % kLargePage);
}

bool is_device_alias(const void* address) {
  return find(address, 1).has_value();
}

bool is_own_alias(const void* address) {
  return heap_offset(address, 1) != kNotInHeap && own_board() != nullptr &&
         is_device_alias(address);
}

Result<std::optional<Behind>> behind(const GpuMemory& reader, const void* address,
                                     std::size_t bytes) {
  const std::optional<Found> found = find(address, bytes);
  if (!found) return std::optional<Behind>();
  WEFT_ASSIGN(const Driver* driver, cuda::load_driver());
  const Board::Meaning& entry = found->entry;
  Sharing& all = sharing();
  const std::lock_guard lock(all.mutex);
  Behind there{nullptr, true, reader.device, reader.context};
  if (found->heap == nullptr || found->heap->is_own()) {
    there.data = reinterpret_cast<void*>(entry.pointer + found->within);
    const Result<std::optional<GpuMemory>> memory = find_gpu_memory(there.data);
    if (!memory.ok()) return memory.status();
    if (!*memory) return Status(Code::system, fmt::format("{} is GPU memory no more", there.data));
    if (!has_peer_access(*driver, reader, **memory))
      there = {there.data, false, (*memory)->device, (*memory)->context};
    return std::optional<Behind>(there);
  }
  const auto at = [&](cuda::Pointer begin) {
    return reinterpret_cast<void*>(begin + entry.offset + found->within);
  };
  Result<cuda::Pointer> begin = import(all, *driver, reader, found->heap, *found->board, entry);
  const auto tried = all.readers.find({found->heap->nonce(), entry.gpu});
  if (!begin.ok() && tried != all.readers.end() && tried->second.context != reader.context) {
    begin = import(all, *driver, tried->second, found->heap, *found->board, entry);
    there = {nullptr, false, tried->second.device, tried->second.context};
  }
  if (!begin.ok()) return begin.status();
  there.data = at(*begin);
  return std::optional<Behind>(there);
}

Status offer_gpu(const GpuMemory& gpu) {
  WEFT_ASSIGN(const Driver* driver, cuda::load_driver());
  Sharing& all = sharing();
  const std::lock_guard lock(all.mutex);
  const auto known = all.offered.find(gpu.device);
  if (known != all.offered.end()) return known->second.status();
  Result<Offered> made = offer(all, *driver, gpu);
  return all.offered.emplace(gpu.device, std::move(made)).first->second.status();
}

void try_gpus_of(const std::shared_ptr<const PeerHeap>& peer, const GpuMemory& reader) {
  const Driver* const driver = cuda::loaded_driver();
  const Board* const board = board_of(*peer);
  if (driver == nullptr || board == nullptr || peer->is_own()) return;
  Sharing& all = sharing();
  const std::lock_guard lock(all.mutex);
  if (!take_board(all).ok()) return;
  for (std::uint32_t number = 0; number < Board::kGpus; ++number) {
    const Board::Gpu& gpu = board->gpus[number];
    if (gpu.state.load(std::memory_order_acquire) == 0) break;
    if (answer_place(*all.board, peer->nonce(), number) != Board::kAnswers) continue;
    const bool reads = can_open(*driver, reader, gpu.probe);
    if (reads) all.readers.emplace(std::pair(peer->nonce(), number), reader);
    answer(all, peer->nonce(), number, reads);
  }
  if (cuda::closed_gates() != 0) return;
  for (const auto& [context, begin] : std::exchange(all.gone, {})) unmap(*driver, context, begin);
  std::erase_if(all.imported, [&](const auto& each) {
    const auto& [nonce, place, context] = each.first;
    const Imported& mapped = each.second;
    const bool is_kept = nonce == peer->nonce()
                             ? board->exports[place].id.load(std::memory_order_acquire) == mapped.id
                             : !mapped.owner.expired();
    if (!is_kept && mapped.id != 0) unmap(*driver, context, mapped.begin);
    return !is_kept;
  });
}

Status is_read_by(const GpuMemory& gpu, const PeerHeap& peer) {
  const auto unavailable = [&](std::string_view why) {
    return Status(Code::unavailable, fmt::format("GPU {}: {}", gpu.device, why));
  };
  std::uint32_t number = 0;
  std::uint64_t own = 0;
  {
    Sharing& all = sharing();
    const std::lock_guard lock(all.mutex);
    const auto offered = all.offered.find(gpu.device);
    if (offered == all.offered.end()) return unavailable("it is not offered to other processes");
    if (!offered->second.ok()) return offered->second.status();
    number = offered->second->number;
  }
  if (peer.is_own()) return {};
  const Result<HeapIdentity> identity = heap_identity();
  if (!identity.ok()) return identity.status();
  own = identity->nonce;
  const Board* const board = board_of(peer);
  if (board == nullptr) return unavailable("the peer has used no GPU yet");
  const std::size_t place = answer_place(*board, own, number);
  if (place == Board::kAnswers) return unavailable("the peer has not tried to read it yet");
  if (board->answers[place].state.load(std::memory_order_acquire) == Board::kReads) return {};
  return unavailable("the peer's process cannot map its memory (CUDA IPC)");
}

std::optional<ForDevices> pages_behind(const void* address, std::size_t bytes) {
  constexpr int kDmaBuf = 1;
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  if (!is_cuda_loaded()) return std::nullopt;
  const std::uint64_t begin = heap_offset(address, bytes);
  if (begin == kNotInHeap) return std::nullopt;
  Sharing& all = sharing();
  const std::lock_guard lock(all.mutex);
  if (all.board == nullptr) return std::nullopt;
  for (const Board::Entry& each : all.board->entries) {
    const Board::Meaning entry = each.get();
    const std::uint64_t first = entry.begin / page * page;
    const std::uint64_t last = (entry.begin + entry.bytes + page - 1) / page * page;
    if (entry.begin == 0 || begin < first || begin + bytes > last) continue;
    ForDevices found;
    const cuda::Pointer pointer = entry.pointer - entry.begin + begin;
    found.pointer = reinterpret_cast<void*>(pointer);
    const Result<const Driver*> driver = cuda::load_driver();
    const auto offered = std::ranges::find_if(all.offered, [&](const auto& gpu) {
      return gpu.second.ok() && gpu.second->number == entry.gpu;
    });
    if (!driver.ok() || offered == all.offered.end()) return std::nullopt;
    const Current current(**driver, offered->second->gpu.context);
    int file = -1;
    found.refusal =
        status_of(**driver, (*driver)->range_handle(&file, pointer, bytes, kDmaBuf, 0),
                  fmt::format("GPU {}: export {} bytes as a dma-buf", offered->first, bytes));
    if (found.refusal.ok()) found.dma_buf = Fd(file);
    return found;
  }
  return std::nullopt;
}

Status copy_from_behind(std::span<std::byte> to, const std::byte* from) {
  const std::optional<GpuMemory> any = is_device_alias(from) ? gpu_for_peers() : std::nullopt;
  if (!any) {
    std::memcpy(to.data(), from, to.size());
    return {};
  }
  WEFT_ASSIGN(const std::optional<Behind> there, behind(*any, from, to.size()));
  WEFT_RETURN_IF_ERROR(flush_rdma_writes(from, *there));
  WEFT_ASSIGN(const PinnedBlock block,
              copy_to_host({there->device, there->context}, there->data, to.size()));
  std::memcpy(to.data(), block.data(), to.size());
  return {};
}

std::optional<GpuMemory> gpu_for_peers() {
  Sharing& all = sharing();
  const std::lock_guard lock(all.mutex);
  for (const auto& [device, offered] : all.offered)
    if (offered.ok()) return offered->gpu;
  return std::nullopt;
}

}  // namespace weft
