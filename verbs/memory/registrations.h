// Registrations: which memory a device may read and write. Keeps what an RDMA transport registered,
// because registering pins every page, and may well cost more than sending what is in them. A hit
// costs a few nanoseconds.
//
// What is registered is the pages of one request, never more. Growing a registration to the union
// with its neighbors would be wrong, not only dear: of the neighbors nobody has just said that they
// are mapped, and pages that another thread unmaps while they are pinned would stay in the cache
// for ever. Thus a caller names a whole tensor first and then finds its pieces in it. No
// registration that is kept lies within another; so they have one order by start and by end, and a
// single candidate can cover a request.
//
// A request is answered with one registration, never with a list. A large region may be registered
// in chunks by several threads (prepare); each chunk reaches as far into the next one as the
// longest piece of a transfer, so that every piece lies in one chunk whole. That pins 1 MiB twice
// per 64 MiB or more, and spares the data path gather lists with a key for each part.
//
// Kept registrations are dropped when their pages go (changes.h), when a new one covers them, and
// the least recently used idle one when room is needed. What is in use leaves the cache when its
// pages go or it is covered, and is deregistered with its last Use. The process's own heap always
// announces its changes, other memory only where hooks see the calls that unmap it (coherence()).
// What nobody announces is not kept: each find() registers it, and the end of its Use deregisters.
//
// Bounds: limit_bytes; and Watch::kMostRanges registrations are kept.
//
// Memory of another process's heap (PeerHeap) is not for registering: what the peer gives back is
// not announced here.
//
// Threads: one lane's thread owns the object and every Use; only prepare() uses others meanwhile.
// find() of what is kept allocates nothing, calls nothing and takes no lock.
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
  // False: nobody announces when this memory goes (another device's), so it lasts as long as its
  // Use and is not kept.
  bool watched = true;
};

// How a transport registers; it outlives the Registrations.
class RegistrationBackend {
 public:
  virtual ~RegistrationBackend() = default;
  // Registers [address, address+bytes), whole pages. Code::exhausted: it may succeed once others
  // are removed. Called by several threads at once when RegistrationOptions::threads allows it.
  virtual Result<Registered> add(void* address, std::size_t bytes) = 0;
  virtual void remove(void* native) = 0;
};

struct RegistrationOptions {
  std::size_t limit_bytes = 0;  // registered at once; 0: only the system's limits
  int threads = 1;              // that prepare() may use
};

// What stands and what was done since the object was made; for tools and tests.
struct RegistrationCounts {
  std::size_t kept = 0;       // that find() can answer with
  std::size_t bytes = 0;      // registered, also those that wait for their last use
  std::uint64_t added = 0;    // by the backend
  std::uint64_t evicted = 0;  // idle ones, to make room
  std::uint64_t changed = 0;  // dropped because their pages went
};

class Registrations {
  struct Registration;

 public:
  // The longest piece of a transfer that prepare() promises to find in one registration.
  static constexpr std::size_t kMostPiece = std::size_t{1} << 20;
  // Less is not worth a thread: pinning this takes milliseconds, starting one tens of microseconds.
  static constexpr std::size_t kLeastChunk = std::size_t{64} << 20;

  // Holds a registration while a device uses it: keep it until the work request has completed. Ends
  // on the owner's thread, before the Registrations do.
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

  // `coherence`: whether all changes of memory are announced, or why not. Tests say it themselves.
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
  // Does nothing where the region is not kept.
  Status prepare(const void* address, std::size_t bytes);

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
    std::uint64_t used_at = 0;  // on the owner's count of finds

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
  Result<Registered> add_with_room(const Pages& pages);
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
  Registration* last_ = nullptr;         // that a find() answered with; kept
  std::size_t left_ = 0;                 // registrations that wait for their last use
  std::uint64_t finds_ = 0;
  RegistrationCounts counts_;
};

}  // namespace weft
