// OneSided: one-sided work of ours. An active message cannot do it alone, so the target's lane does
// it when the message comes, and answers (target.h). By the answer the origin knows what became of
// its work.
//
// Owner: a UcxEndpoint, in whose lane everything here runs; an object lives as long as its endpoint.
// Internal to the module.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <span>
#include <string_view>
#include <unordered_map>

#include "verbs/ucx/layout.h"
#include "verbs/ucx/objects.h"

namespace weft::ucx {

class UcxInterface;

class OneSided {
 public:
  explicit OneSided(UcxEndpoint& endpoint);

  Posted post(const WorkRequest& request);
  [[nodiscard]] WorkState state() const { return order_.state(lingers_); }
  Status import_region(std::uint32_t number, std::string_view keys);
  void drop_region(std::uint32_t number) { regions_.erase(number); }
  // False: the answer breaks the protocol. Sets `taken` if UCX has to keep the data for us.
  [[nodiscard]] bool take_answer(const AnswerMessage& answer, const Arriving& data, bool& taken);
  // Sends what was posted before both ends had greeted.
  void send_waiting();
  // Moves finished work, oldest first, to the interface's completions. Returns whether any work is
  // left.
  bool collect();
  // Ends, with this status, all work that was not answered.
  void flush(const Status& status);
  // Whether UCX may still touch memory of the caller.
  [[nodiscard]] bool holds_memory() const;
  // Whether poll() has told the ends of all work.
  [[nodiscard]] bool is_over() {
    give_back_copies();
    return work_.empty() && !order_.at_work() && copies_.empty();
  }

 private:
  // One-sided work of ours, until its completion can be polled.
  struct Work {
    WorkMessage message;
    WorkRequest request;
    Status status;
    bool answered = false;
    bool waits = false;      // not sent yet: the endpoints have not greeted
    Pending sending;         // UCX reads the message and request.local, by a rendezvous
    bool receiving = false;  // UCX writes request.local
    OneSided* owner = nullptr;
  };
  // What UCX still reads of work that may have ended.
  struct Copy {
    WorkMessage message;
    Lines data;  // from the interface's pool, or null
    Pending pending;
  };
  void send(Work& work);
  void send_copy(const WorkMessage& message, std::span<const std::byte> data);
  void give_back_copies();
  void end(Work& work, WorkVerdict verdict);
  // ok, or why work on a region cannot be sent. If it can, `message` names the region to its owner.
  [[nodiscard]] Status name_region(WorkMessage& message, const WorkRequest& request) const;
  static void landed_read(void* request, ucs_status_t status, std::size_t bytes, void* work);

  UcxEndpoint& endpoint_;
  UcxInterface& interface_;
  std::deque<Work> work_;
  std::list<Copy> copies_;
  std::uint64_t first_work_ = 0;  // the number of the oldest in work_
  WorkOrder order_;
  std::uint64_t works_sent_ = 0;
  std::unordered_map<std::uint32_t, RegionKey> regions_;  // of the peer, by number
  bool lingers_ = false;  // the path failed while the peer could still do work of ours
};

}  // namespace weft::ucx
