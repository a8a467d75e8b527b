// A libnccl.so.2 for tests: allreduces and broadcasts of ranks that are threads or processes, over a
// shared file, as work in the streams of the fake of libcuda.so.1.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "tests/cuda/fake.h"
#include "tests/cuda/nccl_fake.h"

namespace {

constexpr int kSuccess = 0, kSystemError = 2, kInternalError = 3, kInvalidArgument = 4,
              kInProgress = 7;
constexpr std::size_t kRanks = 8, kMostBytes = std::size_t{64} << 20;

struct UniqueId {
  std::array<char, 128> bytes;
};

// What the ranks share. Each has room for one operation's input.
struct Shared {
  std::atomic<int> joined;
  std::array<std::atomic<std::uint64_t>, kRanks> arrived, done;  // operations
};

struct Comm {
  std::byte* base = nullptr;
  int size = 0, rank = 0;
  std::uint64_t operations = 0;
  std::atomic<bool> is_aborted{false};
  std::atomic<int> queries_until_queued{0};

  [[nodiscard]] Shared& shared() const { return *reinterpret_cast<Shared*>(base); }
  [[nodiscard]] std::byte* area(int of) const {
    return base + 4096 + static_cast<std::size_t>(of) * kMostBytes;
  }
  [[nodiscard]] bool all(const std::array<std::atomic<std::uint64_t>, kRanks>& counts,
                         std::uint64_t least) const {
    return std::all_of(counts.begin(), counts.begin() + size,
                       [&](const auto& each) { return each.load() >= least; });
  }
};

// A piece of a stream's work.
struct Piece {
  std::shared_ptr<Comm> comm;
  std::uint64_t number = 0;
  const void* x = nullptr;
  void* y = nullptr;
  std::size_t count = 0;
  int type = 0, op = 0, root = -1;  // root: of a broadcast
};

struct Told {
  std::mutex mutex;
  std::string fails;
  int failures = 0;
  int slow_launches = 0;
  std::vector<std::shared_ptr<Comm>> comms;
};
Told& told() {
  static auto* const all = new Told;
  return *all;
}
bool fails(const char* function) {
  const std::lock_guard lock(told().mutex);
  if (told().failures == 0 || told().fails != function) return false;
  --told().failures;
  return true;
}
std::shared_ptr<Comm> comm_of(void* handle) {
  const std::lock_guard lock(told().mutex);
  for (const auto& each : told().comms)
    if (each.get() == handle) return each;
  return nullptr;
}

template <typename Function>
Function of_cuda(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return reinterpret_cast<Function>(dlsym(library, name));
}

std::size_t size_of(int type) {
  return type == 2 || type == 7 ? 4 : 8;  // int32, float; int64, double
}

template <typename T>
void reduce(const Piece& piece, std::vector<std::byte>& into) {
  auto* const result = reinterpret_cast<T*>(into.data());
  for (std::size_t i = 0; i < piece.count; ++i) {
    T value = reinterpret_cast<const T*>(piece.comm->area(0))[i];
    for (int rank = 1; rank < piece.comm->size; ++rank) {
      const T next = reinterpret_cast<const T*>(piece.comm->area(rank))[i];
      switch (piece.op) {
        case 1:
          value = static_cast<T>(value * next);
          break;
        case 2:
          value = std::max(value, next);
          break;
        case 3:
          value = std::min(value, next);
          break;
        default:
          value = static_cast<T>(value + next);
      }
    }
    result[i] = piece.op == 4 ? static_cast<T>(value / static_cast<T>(piece.comm->size)) : value;
  }
}

// First piece: the input goes to the shared file, once all have taken what was there.
int may_arrive(void* data) {
  const Piece& piece = *static_cast<Piece*>(data);
  return piece.comm->is_aborted || piece.comm->all(piece.comm->shared().done, piece.number - 1);
}
void arrive(void* data) {
  const Piece& piece = *static_cast<Piece*>(data);
  if (piece.comm->is_aborted) return;
  const int rank = piece.comm->rank;
  if (piece.root < 0 || piece.root == rank) {
    of_cuda<decltype(&fake_read)>("fake_read")(piece.x, piece.comm->area(rank),
                                               piece.count * size_of(piece.type));
  }
  piece.comm->shared().arrived[static_cast<std::size_t>(rank)] = piece.number;
}

// Second piece: the result, once all have arrived.
int may_end(void* data) {
  const Piece& piece = *static_cast<Piece*>(data);
  return piece.comm->is_aborted || piece.comm->all(piece.comm->shared().arrived, piece.number);
}
void end(void* data) {
  const std::unique_ptr<Piece> piece(static_cast<Piece*>(data));
  if (piece->comm->is_aborted) return;
  std::vector<std::byte> result(piece->count * size_of(piece->type));
  if (piece->root >= 0) {
    std::memcpy(result.data(), piece->comm->area(piece->root), result.size());
  } else if (piece->type == 2) {
    reduce<std::int32_t>(*piece, result);
  } else if (piece->type == 4) {
    reduce<std::int64_t>(*piece, result);
  } else if (piece->type == 7) {
    reduce<float>(*piece, result);
  } else {
    reduce<double>(*piece, result);
  }
  of_cuda<decltype(&fake_write)>("fake_write")(piece->y, result.data(), result.size());
  piece->comm->shared().done[static_cast<std::size_t>(piece->comm->rank)] = piece->number;
}

int queue(Piece piece, void* stream) {
  const std::size_t bytes = piece.count * size_of(piece.type);
  const bool is_known = piece.type == 2 || piece.type == 4 || piece.type == 7 || piece.type == 8;
  if (!is_known || bytes > kMostBytes) return kInvalidArgument;
  piece.number = ++piece.comm->operations;
  auto* const kept = new Piece(std::move(piece));  // of end()
  const std::shared_ptr<Comm> comm = kept->comm;
  const auto add = of_cuda<decltype(&fake_queue)>("fake_queue");
  if (add(stream, &may_arrive, &arrive, kept) != 0 || add(stream, &may_end, &end, kept) != 0)
    return kInternalError;
  const std::lock_guard lock(told().mutex);
  if (told().slow_launches == 0) return kSuccess;
  --told().slow_launches;
  comm->queries_until_queued = 3;
  return kInProgress;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = FAKE_NCCL_VERSION;
  return kSuccess;
}
const char* ncclGetErrorString(int answer) {
  return answer == kSystemError ? "unhandled system error" : "internal error";
}
int ncclGetUniqueId(UniqueId* id) {
  if (fails("ncclGetUniqueId")) return kSystemError;
  std::random_device random;
  id->bytes.fill('\0');
  std::snprintf(id->bytes.data(), id->bytes.size(), "/weft-nccl-fake-%08x%08x", random(), random());
  return kSuccess;
}
int ncclCommInitRankConfig(void** comm, int size, UniqueId id, int rank, void*) {
  if (fails("ncclCommInitRankConfig")) return kSystemError;
  constexpr std::size_t kBytes =
      4096 + kRanks * kMostBytes;  // pages that nobody touches are not there
  const int file = shm_open(id.bytes.data(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, kBytes) != 0) return kSystemError;
  void* const base = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (base == MAP_FAILED) return kSystemError;
  auto made = std::make_shared<Comm>();
  made->base = static_cast<std::byte*>(base);
  made->size = size;
  made->rank = rank;
  if (made->shared().joined.fetch_add(1) + 1 == size) shm_unlink(id.bytes.data());
  *comm = made.get();
  const std::lock_guard lock(told().mutex);
  told().comms.push_back(std::move(made));
  return kInProgress;
}
int ncclCommGetAsyncError(void* handle, int* error) {
  const std::shared_ptr<Comm> comm = comm_of(handle);
  if (comm == nullptr) return kInvalidArgument;
  if (fails("ncclCommGetAsyncError")) {
    *error = kSystemError;
    return kSuccess;
  }
  const bool is_being_queued = comm->queries_until_queued > 0 && comm->queries_until_queued-- > 0;
  *error = comm->shared().joined < comm->size || is_being_queued ? kInProgress : kSuccess;
  return kSuccess;
}
// Its memory stays: work in streams may still look at it.
int ncclCommAbort(void* handle) {
  const std::shared_ptr<Comm> comm = comm_of(handle);
  if (comm == nullptr) return kInvalidArgument;
  comm->is_aborted = true;
  return kSuccess;
}
int ncclAllReduce(const void* x, void* y, std::size_t count, int type, int op, void* handle,
                  void* stream) {
  if (fails("ncclAllReduce")) return kSystemError;
  return queue({comm_of(handle), 0, x, y, count, type, op, -1}, stream);
}
int ncclBroadcast(const void* x, void* y, std::size_t count, int type, int root, void* handle,
                  void* stream) {
  if (fails("ncclBroadcast")) return kSystemError;
  return queue({comm_of(handle), 0, x, y, count, type, 0, root}, stream);
}

void nccl_fake_fail(const char* function, int count) {
  const std::lock_guard lock(told().mutex);
  told().fails = function;
  told().failures = count;
}
void nccl_fake_launch_slowly(int count) {
  const std::lock_guard lock(told().mutex);
  told().slow_launches = count;
}
}
