// Registrations: keeps what an RDMA transport has registered for its device. Registering pins every
// page, and may well cost more than sending what is in the pages; finding a kept registration costs
// a few nanoseconds.
//
// A registration covers the pages of one request, never more. It is not grown to the union with its
// neighbors, because only the request's own memory is known to be mapped now. If another thread
// unmapped a neighbor's pages while they are being pinned, the stale registration would stay in the
// cache for ever. So a caller registers a whole tensor first and then finds its pieces in it.
//
// No kept registration lies within another. So their order by start is also their order by end, and
// only one candidate can cover a request.
//
// A request is answered with one registration, never with a list. A large region may be registered
// in chunks by several threads (prepare). Each chunk reaches into the next one by the longest piece
// of a transfer, so that every piece lies completely in one chunk. That pins 1 MiB twice per 64 MiB
// or more, and spares the data path gather lists with a key for each part.
//
// A kept registration is dropped when its pages go (changes.h), when a new one covers it, or when
// room is needed and it is the least recently used idle one. If it is in use, it leaves the cache
// at once and is deregistered with its last Use.
//
// The process's own heap always announces its changes. Other memory is announced only if hooks see
// the calls that unmap it (coherence()). Memory that is not announced is not kept: each find()
// registers it, and the end of the Use deregisters it.
//
// Bounds: at most limit_bytes are registered, and at most Watch::kMostRanges registrations are
// kept.
//
// Do not register memory of another process's heap (PeerHeap): what the peer gives back is not
// announced here.
//
// Threads: one lane's thread owns the object and every Use; only prepare() uses other threads,
// while it runs. If find() hits what is kept, it allocates nothing, calls nothing and takes no
// lock. Lanes that use one device have Registrations of their own over SharedRegistrations
// (shared_registrations.h), so that what several of them use is registered once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "verbs/base/base.h"
#include "verbs/memory/changes.h"

namespace weft {

// What a device gave for a range. `native` is the transport's own (an ibv_mr).
struct Registered {
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
  void* native = nullptr;
  // False for memory of another device, for which nothing announces that it goes. Its registration
  // is not kept: it lasts as long as its Use.
  bool watched = true;
};

// How a transport registers; it outlives the Registrations.
class RegistrationBackend {
 public:
  virtual ~RegistrationBackend() = default;
  // Registers [address, address+bytes), whole pages. Code::exhausted: it may succeed once others
  // are removed. Called by several threads at once when RegistrationOptions::threads allows it.
  virtual Result<Registered> add(void* address, std::size_t bytes) = 0;
  // The same for pages whose changes are announced: the answer may be a registration that others
  // hold, too, and may cover more.
  virtual Result<Registered> share(void* address, std::size_t bytes) { return add(address, bytes); }
  // Once for each answer.
  virtual void remove(void* native) = 0;
};

struct RegistrationOptions {
  std::size_t limit_bytes = 0;  // registered at once; 0: only the system's limits
  int threads = 1;              // that prepare() may use
};

// What is registered now, and what was done since the object was made; for tools and tests.
struct RegistrationCounts {
  std::size_t kept = 0;       // that find() can answer with
  std::size_t bytes = 0;      // registered, also those that wait for their last use
  std::uint64_t added = 0;    // given by the backend
  std::uint64_t evicted = 0;  // idle ones, to make room
  std::uint64_t changed = 0;  // dropped because their pages went
};

class Registrations {
  struct Registration;

 public:
  // The longest piece of a transfer that prepare() promises to find in one registration.
  static constexpr std::size_t kMostPiece = std::size_t{1} << 20;
  // The smallest chunk that is worth a thread: pinning it takes milliseconds, starting a thread
  // tens of microseconds.
  static constexpr std::size_t kLeastChunk = std::size_t{64} << 20;

  // Holds a registration while a device uses it. Keep the Use until the work request has completed.
  // It must end on the owner's thread, and before the Registrations do.
  class Use {
   public:
    Use(Use&& other) noexcept : registration_(std::exchange(other.registration_, nullptr)) {}
    Use& operator=(Use&& other) noexcept {
      std::swap(registration_, other.registration_);
      return *this;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      if (registration_ != nullptr && --registration_->uses == 0 && !registration_->kept) {
        registration_->owner->remove(registration_);
      }
    }
    [[nodiscard]] std::uint32_t lkey() const { return registration_->given.lkey; }
    [[nodiscard]] std::uint32_t rkey() const { return registration_->given.rkey; }

   private:
    friend class Registrations;
    explicit Use(Registration* registration) : registration_(registration) { ++registration->uses; }
    Registration* registration_;
  };

  // `coherence`: ok if all changes of memory are announced, else why not. Tests give their own.
  Registrations(RegistrationBackend& backend, const RegistrationOptions& options,
                Status coherence = announce_unmaps());
  ~Registrations();
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  // The registration that covers [address, address+bytes), made if there is none. The memory must
  // stay mapped until the Use ends. Errors: invalid_argument for 0 bytes; exhausted, with what to
  // set; what else the backend says.
  [[nodiscard]] Result<Use> find(const void* address, std::size_t bytes) {
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    if (last_ != nullptr && last_->covers(start, bytes) && !watch_.changed()) return use(last_);
    return look_up(start, bytes);
  }
  // Registers a region ahead, so that find() of any piece up to kMostPiece in it finds it there.
  // Does nothing if the region's registration would not be kept.
  Status prepare(const void* address, std::size_t bytes);
  // Gives up what is idle, because others lack room.
  void give_room();

  // Whether a registration of this memory is kept after its Use: heap memory, and where hooks see
  // all changes any memory.
  [[nodiscard]] bool keeps(const void* address, std::size_t bytes) const;
  // Ok: all registrations are kept. Else the reason why only the heap's are.
  [[nodiscard]] const Status& coherence() const { return coherence_; }
  [[nodiscard]] bool is_coherent() const { return coherence_.ok(); }
  [[nodiscard]] RegistrationCounts counts() const;

 private:
  struct Pages {
    std::uintptr_t start;
    std::uintptr_t end;
    [[nodiscard]] std::size_t bytes() const { return end - start; }
  };
  struct Registration {
    Registrations* owner;
    Pages pages;
    Registered given;
    std::size_t range;          // its number in the watch, while it is kept
    bool kept;                  // in by_start_
    std::size_t uses = 0;       // Use objects
    std::uint64_t used_at = 0;  // the value of finds_ at the last use

    // False for 0 bytes, and for what would pass the end of the address space.
    [[nodiscard]] bool covers(std::uintptr_t start, std::size_t bytes) const {
      return start >= pages.start && start < pages.end && bytes - 1 < pages.end - start;
    }
  };

  Use use(Registration* registration) {
    registration->used_at = ++finds_;
    return Use(registration);
  }
  Result<Use> look_up(std::uintptr_t start, std::size_t bytes);
  [[nodiscard]] Registration* covering(std::uintptr_t start, std::size_t bytes) const;
  Result<Use> add(const Pages& pages);
  Result<Registered> ask_backend(const Pages& pages, bool is_watched);
  Result<Registered> add_with_room(const Pages& pages, bool is_watched);
  Use insert(const Pages& pages, const Registered& given, std::optional<std::size_t> range);
  [[nodiscard]] std::optional<std::size_t> watch_with_room(const Pages& pages);
  Status make_room(std::size_t bytes);
  bool evict_one();
  void forget(Registration* registration);
  void forget_within(const Pages& pages);
  void forget_idle_within(const Pages& pages);
  void forget_changed();
  void remove(Registration* registration);
  [[nodiscard]] Status exhausted(std::size_t bytes, const Status& said) const;

  [[nodiscard]] std::vector<Pages> chunks(const Pages& whole) const;
  std::vector<Use> add_in_parallel(std::vector<Pages> missing);
  std::vector<Result<Registered>> call_backend(const std::vector<Pages>& missing);

  RegistrationBackend& backend_;
  RegistrationOptions options_;
  Status coherence_;
  std::size_t page_bytes_;
  Watch watch_;
  std::map<std::uintptr_t, std::unique_ptr<Registration>> by_start_;
  std::vector<Registration*> by_range_;  // by number in the watch
  Registration* last_ = nullptr;         // the kept one that find() returned last
  std::size_t left_ = 0;                 // not kept any more; they wait for their last Use
  std::uint64_t finds_ = 0;
  RegistrationCounts counts_;
};

}  // namespace weft
