// The classes behind ib.h. Internal to the module.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "verbs/device/device.h"
#include "verbs/ib/answers.h"
#include "verbs/ib/ib.h"
#include "verbs/ib/layout.h"
#include "verbs/ib/objects.h"
#include "verbs/ib/registrar.h"
#include "verbs/ib/routes.h"

namespace weft::ib {

class IbInterface;
class IbEndpoint;

[[nodiscard]] std::uint64_t checksum(Address address);
// The device of that name, or why it cannot be opened.
[[nodiscard]] Result<Owned<ibv_context>> open_named(const Library& library,
                                                    const std::string& name);
// The addresses that port `number` of a device has, each with whether it can be used.
[[nodiscard]] Result<std::vector<RdmaGid>> read_gids(const Library& library, ibv_context* context,
                                                     int number);

// A reliable queue pair and what is under way on it. Work requests are numbered from 1 on, and the
// number is their wr_id; a completion of number n ends all up to n, so few need one of their own.
struct Queue {
  Owned<ibv_qp> pair;
  std::uint32_t first_packet = 0;
  std::uint64_t posted = 0;
  std::uint64_t retired = 0;
  std::uint32_t unsignalled = 0;  // since the last that will have a completion
};

// Work requests of one queue pair that are handed over by one call, with one doorbell.
class PostList {
 public:
  static constexpr std::size_t kMost = 16;
  static constexpr std::size_t kMostParts = 2;

  [[nodiscard]] bool full() const { return count_ == kMost; }
  [[nodiscard]] std::size_t count() const { return count_; }
  // The next, zeroed but for its place in the list and its gather list.
  ibv_send_wr& add();
  ibv_sge& part(ibv_send_wr& request, const void* data, std::size_t bytes, std::uint32_t key);
  ibv_send_wr* first() { return requests_.data(); }
  ibv_send_wr& last() { return requests_[count_ - 1]; }
  void clear() { count_ = 0; }

 private:
  std::array<ibv_send_wr, kMost> requests_;
  std::array<std::array<ibv_sge, kMostParts>, kMost> parts_;
  std::size_t count_ = 0;
};

// An endpoint's own small things that the device reads or writes.
struct Scratch {
  static constexpr std::size_t kControls = 16;
  static constexpr std::size_t kSwaps = 128;

  Words words;                                           // the peer writes them
  alignas(kLine) std::uint32_t received = 0;             // on its way to the peer's words
  alignas(kLine) std::array<Control, kControls> said{};  // on their way
  std::array<std::uint64_t, kSwaps> found{};             // by compare-and-swaps under way
};

// One peer's interface. It begins as a stranger when a Greeting comes from an interface that we
// were not connected to; connect() then gives it out.
class IbEndpoint final : public Endpoint {
 public:
  IbEndpoint(IbInterface& interface, Rank peer, std::uint64_t nonce, std::uint32_t incarnation);
  ~IbEndpoint() override;

  [[nodiscard]] Rank peer() const override { return peer_; }
  [[nodiscard]] bool peer_closed() const override {
    return peer_closed_.load(std::memory_order_acquire);
  }
  [[nodiscard]] const Status& failure() const override { return failure_; }
  void abandon(const Status& why) override;
  [[nodiscard]] bool connected() const override { return peer_ready_; }
  [[nodiscard]] bool shares_memory() const override { return false; }
  Posted post_notice(std::uint32_t channel, const WireHeader& header,
                     std::span<const std::byte> payload) override;
  Posted post_piece(std::uint32_t channel, const WireHeader& header,
                    std::span<const std::byte> payload) override;
  void expect_pieces(std::span<const std::byte> memory) override;
  [[nodiscard]] Notice front(std::uint32_t channel) override;
  void release(std::uint32_t channel) override;
  [[nodiscard]] std::uint64_t arrived(std::uint32_t channel) override {
    return incoming_[channel].arrived;
  }
  [[nodiscard]] std::uint64_t posted(std::uint32_t channel) const override {
    return outgoing_[channel].posted;
  }
  [[nodiscard]] std::uint64_t released(std::uint32_t channel) override;
  [[nodiscard]] std::uint64_t settled(std::uint32_t channel) override;
  [[nodiscard]] const Status& process_access() const override;
  [[nodiscard]] const std::byte* view(const RemoteBuffer&) override { return nullptr; }
  Status read_now(std::span<std::byte> local, const RemoteBuffer& remote) override;
  Posted post_write(std::span<const std::byte> local, const RemoteBuffer& remote,
                    std::uint64_t ticket) override;
  Posted post_read(std::span<std::byte> local, const RemoteBuffer& remote,
                   std::uint64_t ticket) override;
  Posted post_compare_swap(const RemoteBuffer& remote, std::uint64_t expected,
                           std::uint64_t desired, std::uint64_t* found,
                           std::uint64_t ticket) override;
  [[nodiscard]] bool at_work() const override { return order_.at_work(); }

  // Connecting (connect.cc, greet.cc).
  Status prepare();
  Status aim(const Address& address);
  // The same peer's interface again, to where the failed endpoint was connected.
  void aim_like(const IbEndpoint& failed);
  // The pair of addresses that worked for it is tried first.
  void prefer_pair_of(const IbEndpoint& failed);
  // What the peer says of its addresses.
  void know(const Address& address);
  // Which pairs may reach the peer: when our addresses or the peer's became known.
  void rank_pairs();
  [[nodiscard]] std::uint32_t incarnation() const { return incarnation_; }
  [[nodiscard]] std::uint64_t nonce() const { return nonce_; }
  // After a failure: nobody asks anything of it any more; once its work was told, it may go.
  void be_forgotten() { forgotten_ = true; }
  [[nodiscard]] bool forgotten() const { return forgotten_; }
  void say_dropped();
  [[nodiscard]] bool may_go() const { return forgotten_ && !at_work_; }
  [[nodiscard]] bool given_out() const { return given_out_; }
  void give_out() { given_out_ = true; }
  void lead(std::int64_t now);
  void take_greeting(const Greeting& greeting);
  [[nodiscard]] bool connecting() const {
    return level_ != Level::confirmed && failure_.ok() && !peer_closed();
  }
  [[nodiscard]] std::string path() const;

  // What goes out (post.cc).
  void pump();
  [[nodiscard]] bool waits_to_go() const {
    return failure_.ok() && (!controls_.empty() || !waiting_.empty() || works_ahead());
  }
  [[nodiscard]] bool starved();
  [[nodiscard]] bool lacks_window() const { return peer_ready_ && !has_window(); }
  void retire(std::size_t queue, std::uint64_t number);
  [[nodiscard]] bool idle() const;
  void say_goodbye();

  // What comes in (deliver.cc). False: the message breaks the protocol.
  [[nodiscard]] bool take_notice(const Immediate& immediate);
  [[nodiscard]] bool take_control(const Control& control);
  void count_received();
  void report_releases();
  [[nodiscard]] bool owes_reports() const { return !unreported_.empty(); }

  // A path that broke (interface.cc).
  void broke(const ibv_wc& completion);
  void fail(const Status& why);
  [[nodiscard]] std::int64_t next_ns() const { return next_ns_; }

  // Whether it was not among those to be served at the next turn; now it is.
  [[nodiscard]] bool enlist() { return !std::exchange(enlisted_, true); }
  void delist() { enlisted_ = false; }

  // One-sided work (one_sided.cc).
  bool collect();
  void flush_work(const Status& status);
  void return_window();

 private:
  // A ring of ours in the peer's memory.
  struct Remote {
    enum class State : std::uint8_t { unknown, asked, granted };
    State state = State::unknown;
    std::uint32_t key = 0;
    std::uint64_t address = 0;
  };
  struct Sent {
    RingKind ring = RingKind::notices;
    std::uint32_t bytes = 0;          // of the payload
    const std::byte* lent = nullptr;  // the payload is the caller's memory until …
    std::uint64_t number = 0;         // … this work request has ended; 0: not handed over yet
    std::optional<Registrations::Use> use;
  };
  struct Outgoing {
    std::uint64_t posted = 0;
    std::uint64_t sent = 0;  // handed to the device
    std::uint64_t released = 0;
    std::uint64_t settled = 0;
    bool waiting = false;  // among `waiting_`
    std::array<Remote, kRings> remote;
    std::array<Buffer, kRings> local;  // copies, laid out like the peer's rings
    std::unique_ptr<Sent[]> slots;
  };
  // A pair of addresses, as it is set in a route.
  struct RoutePair {
    int gid_index = -1;  // ours
    GidKind kind = GidKind::infiniband;
    GidBytes own{};
    GidBytes peer{};
    bool operator==(const RoutePair&) const = default;
  };
  struct Incoming {
    std::uint64_t next = 0;  // to be released
    std::uint64_t arrived = 0;
    std::uint64_t reported = 0;  // what the peer knows of `next`
    bool waiting = false;        // among `unreported_`
    std::array<Buffer, kRings> rings;
    std::unique_ptr<RingKind[]> slots;  // which ring each arrival lies in
  };
  struct Work {
    WorkRequest request;
    std::uint64_t ticket = 0;
    std::span<std::byte> local;
    std::uint64_t begun = 0;  // bytes in work requests
    std::uint64_t last = 0;   // number of the last work request, on queue pair 0
    std::uint64_t expected = 0;
    std::uint64_t desired = 0;
    std::uint64_t* found = nullptr;         // of a compare-and-swap, whose `local` is in scratch
    std::uint32_t key = 0;                  // of `local`
    std::optional<Registrations::Use> use;  // of `local`, if that is the caller's
    Status status;
  };
  struct Chunk {
    bool asked = false;
    bool known = false;
    std::uint32_t key = 0;  // known and 0: not in the heap
    std::uint64_t address = 0;
  };

  // post.cc
  Posted post(std::uint32_t channel, const WireHeader& header, std::span<const std::byte> payload,
              RingKind ring);
  [[nodiscard]] Status make_copy(Outgoing& out, RingKind ring);
  [[nodiscard]] Status copy_in(std::byte* to, std::span<const std::byte> payload);
  [[nodiscard]] bool lend(std::span<const std::byte> payload, Sent& sent);
  void wait_to_go(std::uint32_t channel);
  void pump_channels();
  void pump_channel(std::uint32_t channel, PostList& list);
  void ask_for_ring(Remote& remote, std::uint32_t channel, RingKind ring);
  void write_notice(Outgoing& out, std::uint32_t channel, PostList& list);
  void pump_controls();
  void report_received();
  [[nodiscard]] bool has_room(std::size_t queue, std::size_t more) const;
  [[nodiscard]] bool has_window() const;
  void finish(Queue& queue, ibv_send_wr& request, std::size_t bytes, bool wanted);
  void hand_over(std::size_t queue, PostList& list);
  // The control channel has the first for itself where there are several: what is asked about a path
  // is not to wait behind the pieces on it.
  [[nodiscard]] std::size_t queue_of(std::uint32_t channel) const {
    const std::size_t others = queues_.size() - 1;
    return channel == kControlChannel || others == 0 ? 0 : 1 + (channel - 1) % others;
  }
  void take_released(std::uint32_t channel, std::uint32_t released);
  void take_received(std::uint32_t received);
  void say(const Control& control);

  // greet.cc
  [[nodiscard]] Greeting addressed(Level level) const;
  void greet(std::int64_t now);
  void join(const Greeting& greeting);
  void confirm();
  [[nodiscard]] bool leads() const;
  [[nodiscard]] RoutePair route_of(const GidPair& pair) const;
  [[nodiscard]] RoutePair route_back(const Greeting& greeting) const;
  [[nodiscard]] bool knows_way(const RoutePair& pair, std::uint16_t lid) const;
  [[nodiscard]] bool may_answer(const Greeting& greeting);
  void answer_along(const Greeting& greeting);
  [[nodiscard]] bool gives_up_for(const Greeting& greeting);
  void move_on(const Greeting& greeting);
  [[nodiscard]] Status to_init(Queue& queue);
  [[nodiscard]] Status to_ready(const Greeting& greeting);

  // deliver.cc
  [[nodiscard]] bool grant(const Control& want);
  [[nodiscard]] bool take_grant(const Control& grant);

  // one_sided.cc
  [[nodiscard]] Work* new_work(const WorkRequest& request, std::uint64_t ticket);
  Posted post_work(Work& work);
  [[nodiscard]] Status admit(Work& work) const;
  [[nodiscard]] Status name_local(Work& work) const;
  [[nodiscard]] Scratch& scratch() const { return *reinterpret_cast<Scratch*>(scratch_.data()); }
  [[nodiscard]] bool works_ahead() const { return begun_ < works_.size(); }
  void pump_works();
  void flush_behind(const Status& why);
  [[nodiscard]] bool must_wait(WorkKind kind) const;
  [[nodiscard]] bool begin(Work& work, PostList& list);
  [[nodiscard]] const Chunk* chunk_at(std::uint64_t word);
  void add_part(Work& work, const Chunk& chunk, PostList& list);
  void hand_over_works(PostList& list);
  [[nodiscard]] bool take_exposed(const Control& control);
  [[nodiscard]] std::uint64_t retired_whole() const;

  IbInterface& interface_;
  const Library& library_;
  Rank peer_;
  std::uint64_t nonce_;  // of the peer's interface
  std::uint32_t incarnation_;
  Status failure_;
  std::atomic<bool> peer_closed_ = false;
  bool given_out_ = false;  // by connect()
  bool forgotten_ = false;  // by whom it was given to

  // The conversation.
  Level level_ = Level::asking;       // what we say of ourselves
  bool peer_ready_ = false;           // the peer is connected to our queue pairs, and stays so
  std::uint32_t choice_ = 0;          // of the pair of addresses that our queue pairs use
  std::vector<RoutePair> refuted_;    // that were chosen before
  std::vector<GidPair> candidates_;   // address pairs, best first
  std::vector<WireGid> peer_gids_;    // that `candidates_` count
  std::uint32_t peer_datagrams_ = 0;  // its queue pair for Greetings
  std::uint16_t peer_lid_ = 0;
  std::uint32_t attempts_ = 0;
  std::int64_t next_ns_ = 0;   // when to greet again
  std::int64_t asked_ns_ = 0;  // since when what was to be said waits for its way; 0: it does not
  std::optional<Greeting> heard_;  // … and so does what came
  RoutePair pair_;                 // in use, or being tried

  std::vector<Queue> queues_;
  Buffer scratch_;  // one Scratch
  std::uint64_t words_ = 0;
  std::uint32_t words_key_ = 0;
  std::uint32_t window_ = 0;         // messages that we may have in the peer's receive queue
  std::uint32_t granted_ = 0;        // … the peer in ours
  std::uint32_t reserved_ = 0;       // of that, not returned yet
  std::uint32_t messages_ = 0;       // sent that take a place there
  std::uint32_t peer_received_ = 0;  // of them taken out
  std::uint32_t received_ = 0;       // of the peer's
  std::uint32_t received_reported_ = 0;
  std::uint64_t controls_sent_ = 0;
  std::array<std::uint64_t, Scratch::kControls> control_numbers_{};  // work request that reads each

  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  std::vector<std::uint32_t> waiting_;     // channels with notices to go out
  std::vector<std::uint32_t> unreported_;  // channels with releases that the peer does not know
  Backlog<Control> controls_;              // to go out
  Backlog<Work> works_;
  std::size_t begun_ = 0;           // of them wholly handed to the device
  std::size_t swaps_ = 0;           // of them compare-and-swaps …
  std::uint64_t swaps_posted_ = 0;  // … and of all that ever were
  bool at_work_ = false;            // there are some whose end was not collected
  WorkOrder order_;
  std::uint64_t last_fetch_ = 0;  // work request of the last read or atomic operation
  bool enlisted_ = false;
  std::map<std::uint64_t, Chunk> chunks_;  // of the peer's heap
  std::uint64_t touched_ = 0;              // the chunk that was looked for last …
  Chunk* last_chunk_ = nullptr;            // … and what is known of it
  std::uint64_t heap_bytes_ = 0;           // known with the first chunk
};

class IbInterface final : public Interface {
 public:
  // `library` outlives the interface: this host's, or a test's.
  static Result<std::unique_ptr<Interface>> open(const Library& library, Rank rank,
                                                 const InterfaceOptions& options,
                                                 const IbOptions& ib, AddressResolver resolver);
  ~IbInterface() override;

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] Status link() const override;
  [[nodiscard]] std::string path_to(const Endpoint& endpoint) const override;
  [[nodiscard]] std::string address() const override;
  Result<Endpoint*> connect(Rank peer, std::string_view address) override;
  [[nodiscard]] Endpoint* heard_from(Rank peer, std::string_view address) override;
  [[nodiscard]] bool reconnects() const override { return true; }
  Result<Endpoint*> reconnect(Rank peer, std::string_view address) override;
  void forget(Endpoint& failed) override;
  [[nodiscard]] RemoteBuffer describe(const void* pointer, std::size_t bytes) const override;
  [[nodiscard]] std::size_t piece_bytes() const override { return ib_.piece_bytes; }
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
  [[nodiscard]] const ibv_port_attr& port() const { return port_; }
  [[nodiscard]] const ibv_device_attr& device() const { return device_attributes_; }
  [[nodiscard]] int reads_answered() const;
  [[nodiscard]] int reads_asked(int answered) const;
  [[nodiscard]] ibv_pd* domain() const { return domain_.get(); }
  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] std::uint64_t nonce() const { return fields_.nonce; }
  [[nodiscard]] const Address& fields() const { return fields_; }
  [[nodiscard]] const std::vector<RdmaGid>& gids() const { return gids_; }
  [[nodiscard]] bool closed() const { return closed_; }
  [[nodiscard]] bool armed() const { return armed_; }
  [[nodiscard]] std::uint32_t inline_bytes() const { return inline_bytes_; }
  [[nodiscard]] std::size_t slot_bytes(RingKind ring) const {
    return ring == RingKind::pieces ? piece_stride_ : notice_stride_;
  }
  [[nodiscard]] std::size_t most_payload(RingKind ring) const {
    return slot_bytes(ring) - kPayloadAt;
  }
  Result<Buffer> make_buffer(std::size_t bytes, int access);
  Result<Owned<ibv_qp>> make_pair();
  // Of the caller's memory.
  [[nodiscard]] Registrations& registrations() { return *registrations_; }
  void add_queue(std::uint32_t number, IbEndpoint& endpoint, std::size_t index);
  void remove_queue(std::uint32_t number) { queues_.erase(number); }
  // One that is not in use any more; once this returns, the device is done with all memory.
  void bury(Owned<ibv_qp> pair);
  // Places in the send completion queue: every work request may need one.
  [[nodiscard]] bool has_completions(std::size_t more) const {
    return sending_ + more <= send_depth_;
  }
  // From here on every work request gets a completion of its own: if those that have none were ever
  // all that is under way, no place would come back.
  [[nodiscard]] bool has_few_completions() const { return sending_ >= send_depth_ / 2; }
  void count_sending(std::size_t more) { sending_ += more; }
  void count_retired(std::size_t less) { sending_ -= less; }
  // How many messages a new peer may have in our receive queue; 0 if there is no place for more.
  [[nodiscard]] std::uint32_t grant_window();
  void return_window(std::uint32_t window) { returned_ += window; }
  // The endpoint has something to send at the next turn; or waits for the peer to take what it has.
  void pump_later(IbEndpoint& endpoint);
  void connect_later(IbEndpoint& endpoint);
  void report_later(IbEndpoint& endpoint) { reporters_.push_back(&endpoint); }
  void report_soon() { urgent_ = true; }
  void count_arrival() { ++arrivals_; }
  void ask_attention(IbEndpoint& endpoint) { askers_.push_back(&endpoint); }
  // Sends a datagram over a pair of addresses; a pair that the kernel cannot resolve is an error.
  // False: its way is not known yet.
  Result<bool> send_greeting(const Greeting& greeting, int gid_index, std::uint32_t datagrams,
                             std::uint16_t lid);
  [[nodiscard]] Routes& routes() { return *routes_; }
  [[nodiscard]] Greeting new_greeting() const;
  // Ours, equal in what both must have equal, and over addresses that we have.
  [[nodiscard]] bool meant_for_us(const Greeting& greeting) const;
  // The largest packet that we take, as verbs count them.
  [[nodiscard]] ibv_mtu mtu() const;
  // Of our own address; -1: we have none like that.
  [[nodiscard]] int gid_index_of(const GidBytes& gid, GidKind kind) const;
  // Whether bytes of the caller may be read by the processor: inside of work requests.
  [[nodiscard]] bool only_host_memory() const { return !ib_.device_memory.exporter; }
  // A chunk of our heap for a peer to reach; 0: not in the heap.
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
  struct Exposed {
    HeapHold pages;
    Owned<ibv_mr> region;  // ends first
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
  Status fill_receives(std::uint32_t from, std::uint32_t count);

  // greet.cc
  void take_datagram(const ibv_wc& completion);
  IbEndpoint* greeted_by(const Greeting& greeting);
  void drop_stranger(IbEndpoint& endpoint);
  void answer(const Greeting& greeting, Level level);
  Result<IbEndpoint*> make_stranger(Rank peer, std::uint64_t nonce, std::uint32_t incarnation);
  // The endpoint of that nonce becomes one of the past.
  void replace(std::uint64_t nonce);
  void unlist(IbEndpoint* endpoint);
  void drop_forgotten();
  Status give_datagram(std::uint64_t place);
  Status prepare_datagrams();
  void revive_datagrams();
  [[nodiscard]] bool is_stale(const ibv_wc& completion) const;
  [[nodiscard]] bool may_revive_datagrams(std::size_t arrivals, std::size_t ends) const;
  void datagram_failed(const ibv_wc& completion, const char* what);
  void lead_greetings();

  // sleep.cc
  void pump_all();
  void report_releases();
  void look_for_events();
  bool set_alarm();
  void take_event(ibv_event_type type, std::uint32_t queue_pair);
  void look_at_port();
  void leave_device();
  void wait_for_event(std::int64_t timeout_ns);
  // Turns until `done` or until the deadline, asleep in between.
  void drain(const std::function<bool()>& done, const Deadline& deadline);

  Rank rank_;
  InterfaceOptions options_;
  IbOptions ib_;
  std::string name_;
  AddressResolver resolver_;
  const Library& library_;
  pid_t process_;
  std::size_t notice_stride_;
  std::size_t piece_stride_;
  Address fields_;
  std::vector<RdmaGid> gids_;
  ibv_device_attr device_attributes_{};
  ibv_port_attr port_{};
  std::uint32_t inline_bytes_ = 0;
  std::size_t send_depth_ = 0;
  std::uint32_t receive_depth_ = 0;

  Owned<ibv_context> context_;
  Owned<ibv_pd> domain_;
  std::unique_ptr<Registrar> registrar_;
  std::unique_ptr<Registrations> registrations_;
  Owned<ibv_comp_channel> channel_;
  Owned<ibv_cq> arrivals_queue_;
  Owned<ibv_cq> sends_queue_;
  Buffer receive_memory_;
  Owned<ibv_srq> receives_;
  Buffer datagram_memory_;
  Owned<ibv_qp> datagrams_;
  std::unique_ptr<Errands> errands_;
  std::unique_ptr<Routes> routes_;
  std::map<std::uint64_t, Exposed> exposed_;  // chunks of our heap
  Fd woken_;
  Fd alarm_;  // when something is to be said again
  Fd descriptor_;

  // All that ever were, by the peer's nonce: users may still hold those that a peer has replaced.
  std::unordered_map<std::uint64_t, std::unique_ptr<IbEndpoint>> known_;
  std::vector<std::unique_ptr<IbEndpoint>> replaced_;  // that failed and were connected again
  std::unordered_map<std::uint32_t, Owner> queues_;    // by queue pair number
  std::size_t strangers_ = 0;                          // of them not given out
  std::uint32_t windows_ = 0;                          // granted to all peers
  std::uint32_t returned_ = 0;  // of that, once the arrivals' queue has been empty
  std::size_t sending_ = 0;
  std::uint32_t datagram_life_ = 0;  // of the queue pair; a failure ends it
  bool datagrams_failed_ = false;
  std::int64_t datagrams_again_ns_ = 0;  // when to try to revive it, then
  std::uint64_t datagrams_sent_ = 0;
  std::uint64_t datagrams_retired_ = 0;
  std::vector<std::uint32_t> free_receives_;  // buffers to be given back to the device
  std::vector<IbEndpoint*> pumping_;          // with something to send
  std::vector<IbEndpoint*> served_;           // of the turn that is taken
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
  bool urgent_ = false;  // releases that the peer waits for
  bool armed_ = false;
  bool is_gone_ = false;            // the device
  Backlog<ibv_wc> early_arrivals_;  // fetched from the queue and not taken
  std::set<std::string> warned_;
  bool closed_ = false;
};

}  // namespace weft::ib
