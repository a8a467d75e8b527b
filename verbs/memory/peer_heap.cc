// Peers' heaps, mapped here: how their file is reached, and what is checked before it is mapped.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "verbs/memory/descriptor_server.h"
#include "verbs/memory/heap.h"

namespace weft {
namespace {

// The heaps that this process has mapped, by nonce, so that ranks of one process share a mapping.
struct Mappings {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<const PeerHeap>> open;
};

Mappings& mappings() {
  static auto* instance = new Mappings;
  return *instance;
}

Status other_process(const HeapIdentity& identity) {
  return Status(Code::peer_died,
                fmt::format("process {} is not the one that was announced", identity.process));
}

// Opens the heap's file through /proc, without the peer's help. This works inside one pid
// namespace, if the kernel lets this process trace the peer's.
Result<ReceivedDescriptor> open_in_proc(const HeapIdentity& identity) {
  if (process_here(identity) < 0) {
    return Status(Code::unavailable,
                  fmt::format("process {} is in another pid namespace", identity.process));
  }
  const std::string path = fmt::format("/proc/{}/fd/{}", identity.process, identity.file);
  ReceivedDescriptor opened{Fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK)), {}};
  if (!opened.descriptor.valid() && errno == ENOENT) {
    return Status(Code::peer_died, fmt::format("process {} has ended: no shared heap at {}",
                                               identity.process, path));
  }
  if (!opened.descriptor.valid()) {
    return Status(Code::unavailable, std::string(system_error("opening " + path, errno).text()));
  }
  opened.life = Fd(static_cast<int>(syscall(SYS_pidfd_open, identity.process, 0U)));
  return opened;
}

Result<ReceivedDescriptor> reach(const HeapIdentity& identity) {
  Result<ReceivedDescriptor> opened = open_in_proc(identity);
  if (opened.ok() && opened->life.valid()) return opened;
  if (opened.status().code() == Code::peer_died) return opened;
  Result<ReceivedDescriptor> received = request_descriptor(identity, identity.file);
  if (received.ok() || received.status().code() == Code::peer_died) return received;
  if (opened.ok()) return opened;  // its memory, without a descriptor for its end
  return Status(Code::unavailable, fmt::format("its memory cannot be shared: {}; {}",
                                               opened.status().text(), received.status().text()));
}

// The identity came over the wire: nothing is mapped before the file agrees with it, because a page
// past the end of a file is a fault.
Status check_file(const HeapIdentity& identity, const Fd& file) {
  struct stat found {};
  const bool agrees = fstat(file.get(), &found) == 0 && S_ISREG(found.st_mode) &&
                      identity.bytes >= kHugePage && identity.bytes % kHugePage == 0 &&
                      static_cast<std::uint64_t>(found.st_size) == identity.bytes;
  return agrees ? Status() : other_process(identity);
}

Result<std::byte*> map_file(const HeapIdentity& identity, const Fd& file) {
  WEFT_RETURN_IF_ERROR(check_file(identity, file));
  WEFT_ASSIGN(std::byte * base,
              map_aligned(file.get(), identity.bytes, fmt::format("process {}", identity.process)));
  const auto* mark = reinterpret_cast<const HeapMark*>(base);
  if (mark->magic == HeapMark::kMagic && mark->nonce == identity.nonce) return base;
  munmap(base, identity.bytes);
  return other_process(identity);
}

}  // namespace

Result<std::shared_ptr<const PeerHeap>> PeerHeap::open(const HeapIdentity& identity) {
  WEFT_ASSIGN(const HeapIdentity own, heap_identity());
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  auto& known = all.open[identity.nonce];
  if (auto shared = known.lock()) return shared;
  std::shared_ptr<PeerHeap> opened;
  if (own.nonce == identity.nonce) {
    opened.reset(new PeerHeap(static_cast<std::byte*>(heap_address(0)), own, own.bytes, false));
  } else {
    WEFT_ASSIGN(ReceivedDescriptor received, reach(identity));
    WEFT_ASSIGN(std::byte * base, map_file(identity, received.descriptor));
    opened.reset(new PeerHeap(base, identity, identity.bytes, true));
    opened->life_ = std::move(received.life);
  }
  known = opened;
  return std::shared_ptr<const PeerHeap>(std::move(opened));
}

std::shared_ptr<const PeerHeap> PeerHeap::around(const void* memory, std::size_t bytes) {
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  for (const auto& [nonce, known] : all.open) {
    std::shared_ptr<const PeerHeap> heap = known.lock();
    if (heap == nullptr) continue;
    const auto offset =
        reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(heap->base_);
    if (heap->at(offset, bytes) == memory) return heap;
  }
  return nullptr;
}

const std::byte* PeerHeap::board() const {
  const auto& mark = *reinterpret_cast<const HeapMark*>(base_);
  const std::uint64_t offset = mark.board.load(std::memory_order_acquire);
  return offset == 0 ? nullptr : static_cast<const std::byte*>(at(offset, kBoardBytes));
}

PeerHeap::~PeerHeap() {
  if (mapped_) munmap(base_, bytes_);
}

Result<Fd> PeerHeap::descriptor(int number) const {
  if (is_own()) return Fd(fcntl(number, F_DUPFD_CLOEXEC, 0));
  if (process() > 0) {
    const std::string path = fmt::format("/proc/{}/fd/{}", process(), number);
    Fd opened(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (opened.valid()) return opened;
  }
  WEFT_ASSIGN(ReceivedDescriptor received, request_descriptor(identity_, number));
  return std::move(received.descriptor);
}

}  // namespace weft
