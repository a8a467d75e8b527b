// IbInterface: one port of one RDMA device, and all connections over it. It owns the completion
// queues and the shared receive queue; it finds out whose each completion is; and it remembers which
// endpoints have something to do at the next turn. What a connection does is in endpoint.h. The open
// device and what is registered with it belong to all interfaces of the process that use it
// (shared_device.h).
//
// Threads: one lane, as in verbs/transport; wake() and the answers to lookups (Routes) come from
// others. Invariants: the completion queues are as long as what may ever wait in them, so neither
// overflows; the windows granted to peers never exceed the shared receive queue. Internal to the
// module.
#pragma once

#include <sys/types.h>

#include <deque>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "verbs/device/device.h"
#include "verbs/ib/caller_memory.h"
#include "verbs/ib/datagrams.h"
#include "verbs/ib/endpoint.h"
#include "verbs/ib/ib.h"
#include "verbs/ib/routes.h"
#include "verbs/ib/shared_device.h"
#include "verbs/ib/verbs_errors.h"

namespace weft::ib {

[[nodiscard]] std::uint64_t checksum(Address address);
// The addresses that port `number` of a device has, each with whether it can be used.
[[nodiscard]] Result<std::vector<RdmaGid>> read_gids(const Library& library, ibv_context* context,
                                                     int number);

class IbInterface final : public Interface {
 public:
  // `library` outlives the interface: this host's, or a test's.
  static Result<std::unique_ptr<Interface>> open(const Library& library, Rank rank,
                                                 const InterfaceOptions& options,
                                                 const IbOptions& ib, AddressResolver resolver);
  ~IbInterface() override;

  [[nodiscard]] Status link() const override;
  [[nodiscard]] std::string address() const override;
  Result<Endpoint*> connect(Rank peer, std::string_view address) override;
  [[nodiscard]] Endpoint* heard_from(Rank peer, std::string_view address) override;
  Result<Endpoint*> reconnect(Rank peer, std::string_view address) override;
  void forget(Endpoint& failed) override;
  Result<Region> expose(std::span<std::byte> memory) override;
  void withdraw(std::uint32_t number) override { exposed_.erase(number); }
  bool progress() override;
  [[nodiscard]] bool flushed() const override;
  std::size_t poll(std::span<Completion> completions) override;
  Result<Endpoint*> attention() override;
  void sleep(std::int64_t timeout_ns, const std::function<bool()>& ready) override;
  void wake() override;
  [[nodiscard]] Result<int> descriptor() override { return descriptor_.get(); }
  [[nodiscard]] bool arm() override;
  void disarm() override;
  void close() override;
  [[nodiscard]] std::size_t endpoint_bytes() const override { return endpoint_bytes_; }

  [[nodiscard]] const Library& library() const { return library_; }
  [[nodiscard]] const InterfaceOptions& options() const { return options_; }
  [[nodiscard]] const IbOptions& ib() const { return ib_; }
  [[nodiscard]] const ibv_device_attr& device() const { return device_->attributes(); }
  [[nodiscard]] int reads_answered() const;
  [[nodiscard]] int reads_asked(int answered) const;
  [[nodiscard]] std::uint64_t nonce() const { return fields_.nonce; }
  [[nodiscard]] const std::vector<RdmaGid>& gids() const { return gids_; }
  [[nodiscard]] bool closed() const { return closed_; }
  [[nodiscard]] bool armed() const { return armed_; }
  [[nodiscard]] std::uint32_t inline_bytes() const { return inline_bytes_; }
  [[nodiscard]] std::size_t slot_bytes(RingKind ring) const {
    return ring == RingKind::notices ? notice_stride_ : piece_stride_;
  }
  [[nodiscard]] std::size_t most_payload(RingKind ring) const {
    return slot_bytes(ring) - kPayloadAt;
  }
  Result<Buffer> make_buffer(std::size_t bytes, int access);
  Result<Owned<ibv_qp>> make_pair();
  // What could not be registered, for people.
  [[nodiscard]] std::string memory_exceptions() const { return device_->registrar().exceptions(); }
  // The registrations of the caller's memory that this lane remembers.
  [[nodiscard]] Registrations& registrations() { return *registrations_; }
  // The registration of this memory. If no more can be pinned, the other lanes are asked to give up
  // what they do not use, so that a later request may succeed.
  [[nodiscard]] Result<Registrations::Use> registered(std::span<const std::byte> memory) {
    Result<Registrations::Use> use = registrations_->find(memory.data(), memory.size());
    if (!use.ok() && use.status().code() == Code::exhausted) [[unlikely]]
      events_->ask_for_room();
    return use;
  }
  void add_queue(std::uint32_t number, IbEndpoint& endpoint, std::size_t index);
  void remove_queue(std::uint32_t number) { queues_.erase(number); }
  // Destroys a queue pair that is not in use any more, perhaps by a background call. Once this
  // returns, the device is done with all memory.
  void destroy_later(Owned<ibv_qp> pair);
  // Whether the send completion queue has places for so many more work requests: each may need one.
  [[nodiscard]] bool has_completions(std::size_t more) const {
    return sending_ + more <= send_depth_;
  }
  // Whether every work request has to get a completion of its own from now on. If all requests
  // under way had none, their places would never come back.
  [[nodiscard]] bool has_few_completions() const { return sending_ >= send_depth_ / 2; }
  void count_sending(std::size_t more) { sending_ += more; }
  void count_retired(std::size_t less) { sending_ -= less; }
  // How many messages a new peer may have in our receive queue; 0 if there is no place for more.
  [[nodiscard]] std::uint32_t grant_window();
  void return_window(std::uint32_t window) { returned_ += window; }
  // The endpoint is pumped at the next turn.
  void pump_later(IbEndpoint& endpoint);
  void connect_later(IbEndpoint& endpoint);
  void report_later(IbEndpoint& endpoint) { reporters_.push_back(&endpoint); }
  void report_soon() { urgent_ = true; }
  void count_arrival() { ++arrivals_; }
  void ask_attention(IbEndpoint& endpoint) { askers_.push_back(&endpoint); }
  // A route from an address of ours to one of a peer.
  [[nodiscard]] ibv_ah_attr route(int gid_index, const GidBytes& to, std::uint16_t lid) const;
  // Sends a datagram over a pair of addresses. It is an error if the kernel cannot resolve the
  // pair. False: its route is not known yet.
  Result<bool> send_greeting(const Greeting& greeting, int gid_index, std::uint32_t datagrams,
                             std::uint16_t lid);
  [[nodiscard]] Routes& routes() { return *routes_; }
  [[nodiscard]] Greeting new_greeting() const;
  // Whether the greeting is for this interface, equals it in what both must have equal, and came
  // over an address that we have.
  [[nodiscard]] bool meant_for_us(const Greeting& greeting) const;
  // The largest packet that we take, as verbs count them.
  [[nodiscard]] ibv_mtu mtu() const;
  // The index of an address of ours; -1: we have no such address.
  [[nodiscard]] int gid_index_of(const GidBytes& gid, GidKind kind) const;
  // Whether this is host memory for sure, so that the processor may copy it into work requests.
  [[nodiscard]] bool is_host(const void* address) const {
    const DeviceMemory& device = ib_.device_memory;
    return !device.exporter || (device.has && !device.has(address));
  }
  // The key of a region of ours that has these bytes; nothing: there is none. For memory of another
  // device, whose registration would else end with each use.
  [[nodiscard]] std::optional<std::uint32_t> exposed_key(std::span<const std::byte> memory) const;
  // Memory of another device, registered for peers.
  [[nodiscard]] Result<std::shared_ptr<const ExposedMemory>> expose_device(
      std::span<std::byte> memory) {
    return memory_->expose(memory);
  }
  // The answer to a peer that asks for a chunk of our heap.
  [[nodiscard]] Control expose(std::uint64_t chunk);
  [[nodiscard]] Completions& completions() { return completions_; }
  // The endpoint has one-sided work, whose ends poll() collects.
  void collect_later(IbEndpoint& endpoint) { at_work_.push_back(&endpoint); }
  void warn_once(const Status& status);

 private:
  // Completions looked at in one turn: a lane has other interfaces too.
  static constexpr int kAtOnce = 32;

  struct Owner {
    IbEndpoint* endpoint = nullptr;
    std::size_t index = 0;
  };

  IbInterface(Rank rank, const InterfaceOptions& options, const IbOptions& ib,
              const Library& library, AddressResolver resolver);
  Status open_device();
  Status open_port();
  Status open_queues();
  Status open_datagrams();
  Status open_events();
  void make_address();
  [[nodiscard]] Result<std::vector<RdmaGid>> usable_gids() const;
  void look_for_gids();

  // deliver.cc
  std::size_t take_early_arrivals(std::span<ibv_wc> completions);
  void fetch_arrivals();
  std::size_t take_messages();
  void take_message(const ibv_wc& completion);
  std::size_t take_completions();
  Status give_receives();

  // greet.cc
  void take_datagram(const ibv_wc& completion);
  IbEndpoint* greeted_by(const Greeting& greeting);
  void drop_stranger(IbEndpoint& endpoint);
  void answer(const Greeting& greeting, Level level);
  Result<IbEndpoint*> make_stranger(Rank peer, std::uint64_t nonce, std::uint32_t incarnation);
  // Moves the endpoint of that nonce to replaced_, or destroys it if it was never given out.
  void replace(std::uint64_t nonce);
  void unlist(IbEndpoint* endpoint);
  void drop_forgotten();
  void revive_datagrams(std::size_t arrivals, std::size_t ends);
  void datagram_failed(const ibv_wc& completion, const char* what);
  void send_due_greetings();

  // progress.cc
  void pump_all();
  void report_releases();

  // sleep.cc
  void look_for_events();
  bool set_alarm();
  void take_event(ibv_event_type type, std::uint32_t queue_pair);
  void look_at_port();
  void leave_device();
  void wait_for_event(std::int64_t timeout_ns);
  // Takes turns, and sleeps in between, until `done` is true or the deadline has passed.
  void drain(const std::function<bool()>& done, const Deadline& deadline);

  Rank rank_;
  InterfaceOptions options_;
  IbOptions ib_;
  AddressResolver resolver_;
  const Library& library_;
  pid_t process_;
  std::size_t notice_stride_;
  std::size_t piece_stride_;
  Address fields_;
  std::vector<RdmaGid> gids_;
  ibv_port_attr port_{};
  std::uint32_t inline_bytes_ = 0;
  std::size_t send_depth_ = 0;
  std::uint32_t receive_depth_ = 0;

  std::shared_ptr<SharedDevice> device_;
  struct ExposedRegion {
    std::span<const std::byte> memory;
    std::shared_ptr<const ExposedMemory> share;
  };
  std::unordered_map<std::uint32_t, ExposedRegion> exposed_;
  Fd woken_;
  std::unique_ptr<DeviceEvents::Listener> events_;
  std::unique_ptr<CallerMemory> memory_;
  std::unique_ptr<Registrations> registrations_;
  Owned<ibv_comp_channel> channel_;
  Owned<ibv_cq> arrivals_queue_;
  Owned<ibv_cq> sends_queue_;
  Buffer receive_memory_;
  Owned<ibv_srq> receives_;
  Datagrams datagrams_;
  std::unique_ptr<BackgroundCalls> background_;
  std::unique_ptr<Routes> routes_;
  Fd alarm_;  // ends a sleep at the time of set_alarm()
  Fd descriptor_;

  // The endpoints by the nonce of the peer's interface. Those that were given out stay, because
  // users may still hold one whose peer has opened another interface.
  std::unordered_map<std::uint64_t, std::unique_ptr<IbEndpoint>> known_;
  std::vector<std::unique_ptr<IbEndpoint>> replaced_;  // that failed and were connected again
  std::unordered_map<std::uint32_t, Owner> queues_;    // by queue pair number
  std::size_t strangers_ = 0;                          // how many of known_ are not given out
  std::uint32_t windows_ = 0;                          // granted to all peers
  std::uint32_t returned_ = 0;  // of windows_: free once the arrivals' queue is found empty
  std::size_t sending_ = 0;
  std::vector<std::uint32_t> free_receives_;  // buffers to be given back to the device
  std::vector<IbEndpoint*> pumping_;          // with something to send
  std::vector<IbEndpoint*> served_;           // those that the present turn serves
  std::vector<IbEndpoint*> starved_;          // that wait for places at the peer
  std::vector<IbEndpoint*> blocked_;          // that wait for an answer or a completion
  std::vector<IbEndpoint*> connecting_;
  std::vector<IbEndpoint*> reporters_;
  std::vector<IbEndpoint*> at_work_;
  std::deque<IbEndpoint*> askers_;
  Completions completions_;
  std::size_t endpoint_bytes_ = 0;
  std::uint64_t arrivals_ = 0;
  std::uint32_t turns_ = 0;
  std::uint32_t busy_turns_ = 0;
  std::uint32_t idle_turns_ = 0;
  bool urgent_ = false;  // a peer may wait for releases
  bool armed_ = false;
  bool is_gone_ = false;            // the device is gone
  Backlog<ibv_wc> early_arrivals_;  // fetched from the queue and not taken
  std::set<std::string> warned_;
  bool closed_ = false;
};

}  // namespace weft::ib
