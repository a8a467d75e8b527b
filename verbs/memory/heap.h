// Heap: the one shared segment of this process, and the allocator over it. Internal to the module.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "verbs/memory/descriptor_server.h"
#include "verbs/memory/extents.h"
#include "verbs/memory/memory.h"
#include "verbs/memory/space.h"

namespace weft {

inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint64_t kCacheLine = 64;
// Requests from here up get whole huge pages of their own; smaller ones share arenas of one huge
// page.
inline constexpr std::uint64_t kLargeRequest = std::uint64_t{1} << 20;

// The first cache line of every heap: what a peer checks after mapping it.
struct HeapMark {
  static constexpr std::uint64_t kMagic = 0x57454654'48454150;  // "WEFTHEAP"
  std::uint64_t magic;
  std::uint64_t nonce;
  std::atomic<std::uint64_t> board;  // offset of the heap's board; 0: it has none yet
};

class Heap {
 public:
  static Result<std::unique_ptr<Heap>> open(const HeapOptions& options);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  Result<void*> allocate(std::size_t bytes);
  // Addresses without pages. deallocate() gives them back.
  Result<void*> reserve(std::size_t bytes);
  Result<std::byte*> board();
  void deallocate(void* pointer);
  // Called at the beginning and at the end of a HeapHold.
  void hold(std::uint64_t offset, std::uint64_t bytes);
  void let_go(std::uint64_t offset, std::uint64_t bytes);

  [[nodiscard]] const HeapIdentity& identity() const { return identity_; }
  // Called once, before the identity is announced.
  void start_descriptor_server() { weft::start_descriptor_server(identity_); }
  [[nodiscard]] HeapUsage usage();
  [[nodiscard]] std::byte* base() const { return base_; }

 private:
  // What an allocation took, and how much of that lies on huge pages of its own.
  struct Block {
    std::uint64_t bytes;
    std::uint64_t huge;
    bool has_pages = true;
  };

  // A huge page that is held.
  struct Held {
    int holds = 0;
    bool is_kept = false;  // no block has it: only its holds keep its pages
  };

  Heap() = default;
  // Maps a file of as much address space as is asked for, or as can be had.
  Status map_file();
  [[nodiscard]] Status no_room(std::uint64_t bytes) const;
  // Gives the pages of a range that is not used back to the kernel, except those that are held.
  void give_back(std::uint64_t offset, std::uint64_t bytes);
  // The range is used again: clears those of its pages that are held.
  void clear_held(std::uint64_t offset, std::uint64_t bytes);
  // The pages of a range, step by step. Returns how many bytes of it lie on huge pages.
  Result<std::uint64_t> take_pages(std::uint64_t offset, std::uint64_t bytes);
  [[nodiscard]] Status check_group(std::uint64_t bytes) const;
  Status commit(std::uint64_t offset, std::uint64_t bytes);
  // Asks the kernel to put a range, which is not used yet, on huge pages. Returns how many bytes it
  // did: all or none. The others are left to commit().
  std::uint64_t take_huge_pages(std::uint64_t offset, std::uint64_t bytes);
  Result<std::uint64_t> take_small(std::uint64_t bytes);

  HeapOptions options_;
  std::string backing_;  // "memfd", or the directory of its file
  HeapIdentity identity_;
  std::byte* base_ = nullptr;
  std::mutex mutex_;
  Extents large_;                                    // whole huge pages
  Extents small_;                                    // parts of arenas, one huge page each
  std::unordered_map<std::uint64_t, Block> blocks_;  // by offset
  std::map<std::uint64_t, Held> held_;               // by the offset of the huge page
  std::uint64_t allocated_ = 0;
  std::uint64_t huge_ = 0;
};

}  // namespace weft
