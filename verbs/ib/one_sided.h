// OneSided: writes, reads and compare-and-swaps of one connection, which the peer's device does
// without the peer's time. The peer's heap is reached chunk by chunk; only the first touch of a
// chunk asks the peer's lane to register it. A region is reached by the rkey in its key, without
// any question.
//
// What was posted since the last turn goes to the device in lists, all on queue pair 0 and so in
// order. On a reliable queue pair a completion says that all requests before it have ended and
// their data have landed. So few requests have a completion: large ones, the last of a list, and
// one in every quarter of the queue.
//
// Owner: an IbEndpoint, in whose lane everything here runs; an object lives as long as its
// endpoint. Invariants: work is begun and ended in the order of posting; work behind a failure is
// never begun (WorkOrder). Internal to the module.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "verbs/ib/queues.h"
#include "verbs/memory/memory.h"

namespace weft::ib {

class OneSided {
 public:
  explicit OneSided(IbEndpoint& endpoint);

  Posted post(const WorkRequest& request);

  // Whether there is work that was not handed to the device.
  [[nodiscard]] bool waits_to_go() const { return begun_ < works_.size(); }
  void pump();
  // Moves what has ended to the interface's completions. Returns whether any work is left.
  bool collect();
  // Whether work waits for collect().
  [[nodiscard]] bool is_listed() const { return is_listed_; }
  [[nodiscard]] WorkState state() const { return order_.state(lingers_); }
  Status import_region(std::uint32_t number, std::string_view keys);
  void drop_region(std::uint32_t number) { regions_.erase(number); }
  // Ends with this status all work that the device has not completed well.
  void flush(const Status& status);
  // The peer's answer about a chunk. False: it breaks the protocol.
  [[nodiscard]] bool take_exposed(const Control& control);

 private:
  struct Work {
    WorkRequest request;               // `local` of a compare-and-swap is in scratch
    std::uint64_t begun = 0;           // bytes in work requests
    std::uint64_t region_address = 0;  // of a region: where the work begins at the peer
    std::uint32_t region_key = 0;
    std::uint64_t last = 0;                 // number of the last work request, on queue pair 0
    std::uint32_t key = 0;                  // of request.local
    std::optional<Registrations::Use> use;  // of request.local, if that is the caller's
    Status status;

    [[nodiscard]] bool is_swap() const { return request.kind == WorkKind::compare_swap; }
    [[nodiscard]] std::span<std::byte> local() const { return {request.local, request.bytes}; }
  };
  struct Chunk {
    bool asked = false;
    bool known = false;
    std::uint32_t key = 0;  // known and 0: not in the heap, or not registered
    std::uint64_t address = 0;
  };

  [[nodiscard]] Status admit(Work& work) const;
  [[nodiscard]] Status admit_place(Work& work) const;
  [[nodiscard]] Status name_local(Work& work) const;
  void flush_behind(const Status& why);
  [[nodiscard]] bool begin(Work& work, PostList& list);
  [[nodiscard]] bool begin_in_region(Work& work, PostList& list);
  [[nodiscard]] const Chunk* chunk_at(std::uint64_t word);
  [[nodiscard]] bool has_room(PostList& list);
  // `address`, with `key`, is where the rest of the work lies at the peer, at most `most` bytes.
  void add_part(Work& work, std::uint64_t address, std::uint32_t key, std::uint64_t most,
                PostList& list);
  [[nodiscard]] bool must_wait(WorkKind kind) const;
  void hand_over(PostList& list);
  [[nodiscard]] std::uint64_t retired() const;

  IbEndpoint& endpoint_;
  IbInterface& interface_;
  Queues& queues_;
  Backlog<Work> works_;
  std::size_t begun_ = 0;           // how many of works_ the device has completely
  std::size_t swaps_ = 0;           // compare-and-swaps in works_
  std::uint64_t swaps_posted_ = 0;  // compare-and-swaps ever posted
  bool is_listed_ = false;          // among those whose ends poll() collects
  WorkOrder order_;
  std::uint64_t last_fetch_ = 0;           // work request of the last read or atomic operation
  std::map<std::uint64_t, Chunk> chunks_;  // of the peer's heap
  std::uint64_t touched_ = 0;              // the number of the chunk that was looked for last
  Chunk* last_chunk_ = nullptr;            // what is known of that chunk
  std::uint64_t heap_bytes_ = 0;           // known with the first chunk
  std::unordered_map<std::uint32_t, RegionKey> regions_;  // of the peer, by number
  bool lingers_ = false;  // the path failed while the device had work that the peer's may still do
};

}  // namespace weft::ib
