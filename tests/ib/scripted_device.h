// A scripted device: RDMA verbs as plain functions over this process's memory, for tests of
// verbs/ib. It is no driver and no emulation of one: it knows what verbs/ib uses, moves bytes
// between queue pairs of this process, and does what a test tells it to, refusals and losses
// included.
//
// Everything happens within the verb that causes it (posting moves the bytes), so one thread sees
// the same order each time; hold() keeps work back. It also checks: what a device's user must never
// do (overflow a queue, name memory that is not registered, destroy what is in use) is recorded in
// violations(), and leaks() tells what was not destroyed.
//
// Threads: one mutex guards all of it. Lifetime: a Fabric outlives the interfaces over it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/ib/scripted_objects.h"

namespace weft::ib {

// What the devices of a fabric can do.
struct ScriptedLimits {
  int max_cqe = 1 << 16;
  std::uint16_t lid = 0;  // of every port
  std::uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
  int max_srq_wr = 1 << 15;
  std::uint32_t max_qp_wr = 1 << 14;
  std::uint32_t max_inline = 256;
  std::size_t memlock = ~std::size_t{0};  // bytes of all pinned registrations together
  std::uint32_t on_demand = 0;            // what reliable connections do on demand
  int reads_answered = 16;                // at a time, on a queue pair
  int reads_asked = 16;
  ibv_atomic_cap atomics = IBV_ATOMIC_HCA;
};

// A datagram on its way, before it is delivered.
struct ScriptedDatagram {
  ScriptedGid sender{};
  ScriptedGid receiver{};
  std::uint32_t kind = IBV_GID_TYPE_ROCE_V2;
  std::uint32_t queue_pair = 0;  // that takes it
  std::vector<std::byte> bytes;
};
enum class Fate : std::uint8_t { deliver, drop, twice, later };

// One work request of a reliable queue pair, before it is done.
struct ScriptedWork {
  std::string device;
  std::uint32_t queue_pair = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  std::size_t bytes = 0;
  bool inlined = false;
  bool fenced = false;
};

// A dma-buf as it was registered.
struct ScriptedDmaBuf {
  int fd = -1;
  std::uint64_t offset = 0;
  std::uint64_t address = 0;
  std::size_t bytes = 0;
};

class Fabric {
 public:
  Fabric();
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // The table; its devices are those of the fabric that was made, or named by use(), last.
  static const Library& library();
  void use();

  // 10.0.<network>.<host> for each of `networks`, as RoCE v2.
  void add_device(const std::string& name, int host, const std::vector<int>& networks = {0});
  static ScriptedGid gid(int network, int host);
  // Each address of a device is there as RoCE v1, too, and before the one of v2.
  void add_version_1(const std::string& device);
  // What a device does with its queue pairs for datagrams when it cannot send one.
  void end_datagrams(const std::string& device);
  // The device's addresses are others now; its users are told.
  void change_gids(const std::string& device, const std::vector<ScriptedGid>& gids);

  // From the call number `after` on, the next `times` calls of the verb answer with this error.
  void refuse(const std::string& verb, int error, int after = 0, int times = 1 << 30);
  void allow() { refusals_.clear(); }
  // How often a verb was called.
  [[nodiscard]] int calls(const std::string& verb) { return calls_[verb]; }
  // Work requests and datagrams wait until they are let go.
  void hold(bool held);
  void deliver_later_ones(bool newest_first);
  void deliver(const ScriptedDatagram& datagram);
  void set_port(ibv_port_state state) { port_ = state; }
  // Of the device or its port; of the queue pair, or of a queue of it.
  void raise(const std::string& device, ibv_event_type event, int port = 1);
  void raise(std::uint32_t queue_pair, ibv_event_type event);
  [[nodiscard]] std::vector<std::uint32_t> reliable_pairs(const std::string& device);
  // In the device's shared receive queue.
  [[nodiscard]] std::size_t receives_waiting(const std::string& device);

  // What lives: "3 mr, 1 qp", empty if nothing does; and what should never have happened.
  [[nodiscard]] std::string leaks();
  [[nodiscard]] std::string violations();
  void violated(const std::string& what) { violations_.insert(what); }

  ScriptedLimits limits;
  std::function<Fate(const ScriptedDatagram&)> datagrams;
  std::function<ibv_wc_status(const ScriptedWork&)> works;
  std::function<void()> routes;                 // while a neighbor is looked up
  std::uint64_t receives_missed = 0;            // messages that found a shared receive queue empty
  std::uint64_t signalled = 0;                  // work requests that asked for a completion
  std::size_t locked = 0;                       // bytes pinned
  std::vector<ibv_qp_attr> connected, sending;  // how queue pairs came to receive, and to send
  std::vector<ScriptedDmaBuf> dma_bufs;

  // For the verbs (scripted_objects.cc, scripted_wire.cc); the mutex is theirs to take.
  static Fabric& current();
  [[nodiscard]] int refused(const char* verb);
  void born(const char* kind) { ++alive_[kind]; }
  void died(const char* kind) { --alive_[kind]; }
  void run();
  void start(ScriptedQueuePair& pair);
  bool notify(ScriptedContext& context, const ibv_async_event& event);
  std::recursive_mutex mutex;
  std::vector<std::unique_ptr<ScriptedPort>> ports;
  std::set<ScriptedContext*> contexts;
  std::unordered_map<std::uint32_t, ScriptedRegion*> regions;  // by key
  std::map<std::uint32_t, ScriptedQueuePair*> pairs;           // by number
  std::uint32_t next_number = 17;
  std::uint32_t next_key = 0x1000;
  [[nodiscard]] ibv_port_state port() const { return port_; }

 private:
  struct Refusal {
    int error = 0;
    int after = 0;
    int times = 0;
  };
  enum class Step : std::uint8_t { done, waits, ended };

  // scripted_wire.cc
  Step step(ScriptedQueuePair& pair);
  void send_datagram(ScriptedQueuePair& pair, ScriptedSend& send);
  [[nodiscard]] ScriptedQueuePair* peer_of(const ScriptedQueuePair& pair);
  ibv_wc_status move(ScriptedQueuePair& pair, ScriptedSend& send, ScriptedQueuePair& peer);
  ibv_wc_status take(ScriptedQueuePair& peer, const ScriptedSend& send,
                     const std::vector<std::byte>& bytes);
  bool gather(ScriptedQueuePair& pair, const ScriptedSend& send, std::vector<std::byte>& bytes);
  bool scatter(ScriptedQueuePair& pair, const ScriptedSend& send, const std::byte* from);
  void end(ScriptedQueuePair& pair, ibv_wc_status status);
  void refuse_peer(ScriptedQueuePair& peer);
  [[nodiscard]] std::byte* reach(const ibv_pd* domain, std::uint32_t key, std::uint64_t address,
                                 std::size_t bytes, int access);

  std::map<std::string, Refusal> refusals_;
  std::map<std::string, int> calls_;
  std::map<std::string, int> alive_;
  std::set<std::string> violations_;
  std::vector<ScriptedDatagram> later_;
  std::set<std::uint32_t> busy_;  // queue pairs with work to be done
  bool held_ = false;
  bool running_ = false;
  ibv_port_state port_ = IBV_PORT_ACTIVE;
};

}  // namespace weft::ib
