// What the verbs of a scripted device hand out: the structures of libibverbs, each with what the
// script needs to know. Internal to the scripted device.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "verbs/ib/library.h"

namespace weft::ib {

class Fabric;

using ScriptedGid = std::array<std::uint8_t, 16>;

struct ScriptedAddress {
  ScriptedGid gid{};
  std::uint32_t kind = IBV_GID_TYPE_ROCE_V2;
  bool operator==(const ScriptedAddress&) const = default;
};

struct ScriptedPort {
  ibv_device device{};
  std::vector<ScriptedAddress> addresses;
};

struct ScriptedContext : ibv_context {
  ScriptedContext() : ibv_context{} {}
  Fabric* fabric = nullptr;
  ScriptedPort* port = nullptr;
  std::deque<ibv_async_event> events;
};

struct ScriptedRegion : ibv_mr {
  ScriptedRegion() : ibv_mr{} {}
  int allowed = 0;
  std::size_t locked = 0;
  std::byte* there = nullptr;  // where the bytes are, if not at `addr`
  void* by_pointer = nullptr;  // it was registered so
};

struct ScriptedCompletions;

struct ScriptedChannel : ibv_comp_channel {
  ScriptedChannel() : ibv_comp_channel{} {}
  std::deque<ScriptedCompletions*> events;
};

struct ScriptedCompletions : ibv_cq {
  ScriptedCompletions() : ibv_cq{} {}
  struct Done {
    ibv_wc completion{};
    std::uint64_t sent = 0;  // how many work requests of its queue pair have ended; 0: a receive
  };
  std::deque<Done> done;
  bool armed = false;
  int unacknowledged = 0;
};

struct ScriptedReceive {
  std::uint64_t id = 0;
  ibv_sge part{};
};

struct ScriptedReceives : ibv_srq {
  ScriptedReceives() : ibv_srq{} {}
  std::size_t most = 0;
  std::deque<ScriptedReceive> waiting;
  std::unordered_set<std::uint64_t> ids;  // of those that wait

  ScriptedReceive take_first() {
    const ScriptedReceive first = waiting.front();
    waiting.pop_front();
    ids.erase(first.id);
    return first;
  }
};

struct ScriptedRoute : ibv_ah {
  ScriptedRoute() : ibv_ah{} {}
  ScriptedAddress sender;
  ScriptedGid receiver{};
};

struct ScriptedSend {
  ibv_send_wr request{};
  std::vector<ibv_sge> parts;
  std::vector<std::byte> inlined;
  std::uint64_t number = 0;
  bool missed = false;  // it has found a receive queue empty before
};

struct ScriptedQueuePair : ibv_qp {
  ScriptedQueuePair() : ibv_qp{} {}
  ibv_qp_cap cap{};
  bool all_signalled = false;
  std::deque<ScriptedSend> sends;
  std::deque<ScriptedReceive> receives;
  std::uint64_t posted = 0;
  std::uint64_t freed = 0;  // by completions that were polled
  std::uint32_t remote_number = 0;
  ScriptedAddress sender;
  ScriptedGid receiver{};
  int unacknowledged = 0;  // events of this queue pair
};

inline Fabric& fabric_of(const ibv_context* context) {
  return *static_cast<const ScriptedContext*>(context)->fabric;
}

// Adds a completion, and an event where one was asked for.
void complete(Fabric& fabric, ibv_cq* queue, const ScriptedCompletions::Done& done);

// The verbs that move bytes, for the table.
int scripted_poll_cq(ibv_cq* queue, int most, ibv_wc* completions);
int scripted_req_notify_cq(ibv_cq* queue, int solicited_only);
int scripted_post_send(ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** bad);
int scripted_post_recv(ibv_qp* pair, ibv_recv_wr* request, ibv_recv_wr** bad);
int scripted_post_srq_recv(ibv_srq* queue, ibv_recv_wr* request, ibv_recv_wr** bad);
// Those that make, change and destroy objects, and those that read events.
void fill_objects(Library& table);
void fill_events(Library& table);
// The events of an object that is destroyed are read by nobody.
void drop_events(ibv_context* context, const void* object);

}  // namespace weft::ib
