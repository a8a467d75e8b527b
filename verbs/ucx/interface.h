// The classes behind ucx.h. Internal to the module.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "verbs/ucx/batch.h"
#include "verbs/ucx/layout.h"
#include "verbs/ucx/library.h"
#include "verbs/ucx/ucx.h"

namespace weft::ucx {

class UcxEndpoint;
class UcxInterface;

inline constexpr std::size_t kLine = 64;

// Memory for payloads: whole cache lines, not cleared.
struct FreeLines {
  void operator()(std::byte* lines) const { ::operator delete[](lines, std::align_val_t{kLine}); }
};
using Lines = std::unique_ptr<std::byte[], FreeLines>;
[[nodiscard]] Lines make_lines(std::size_t bytes);

// A pool of buffers of one size. The buffer that was given back last is taken first, because it is
// still in the cache. At most as many buffers are in use as there are slots, so a pool needs no
// bound of its own.
class Pool {
 public:
  // `counted` grows by what is allocated.
  Pool(std::size_t bytes, std::size_t& counted) : bytes_(bytes), counted_(counted) {}
  [[nodiscard]] Lines take();
  void give(Lines lines) { free_.push_back(std::move(lines)); }

 private:
  std::size_t bytes_;
  std::size_t& counted_;
  std::vector<Lines> free_;
};

// How many batches an endpoint may have: those that UCX is sending, and the one being filled. When
// UCX is sending all of them, posts answer full. This many hold what a socket does not take at
// once.
inline constexpr std::size_t kBatches = 8;
// While UCX is sending this many batches of an endpoint, the next batch waits until it is full or
// one of them has been sent.
inline constexpr std::size_t kBatchesAhead = 2;
// How many pieces for one peer UCX may hold at a time; the others wait in the endpoint. UCX sends
// what it holds before everything that it is given later. If it held more pieces, our releases
// would wait behind them.
inline constexpr std::size_t kPiecesAhead = 2;

// The id of the one active message that all our messages use.
inline constexpr unsigned kActiveMessage = 0;

[[nodiscard]] std::uint64_t checksum(Address address, std::string_view worker);

// Whether UCX still reads a message of ours. As long as it does, the message counts in
// UcxInterface::sending().
class Pending {
 public:
  explicit operator bool() const { return count_ != nullptr; }
  void begin(std::size_t& count) {
    count_ = &count;
    ++count;
  }
  void end() { --*std::exchange(count_, nullptr); }

 private:
  std::size_t* count_ = nullptr;
};

// The data of an arriving message.
struct Arriving {
  void* data = nullptr;  // in a rendezvous: UCX's descriptor, by which the data are received
  std::size_t bytes = 0;
  bool rendezvous = false;
  bool can_be_kept = false;  // until ucp_am_data_release
};

// A connection of UCX to a peer's interface. It outlives the endpoint that uses it: after an
// endpoint was given up, the next one goes on with its connection.
struct Connection {
  ucp_ep_h native = nullptr;
  ucs_status_t broken = UCS_OK;
  UcxEndpoint* user = nullptr;

  [[nodiscard]] bool is_open() const { return native != nullptr && broken == UCS_OK; }
};

// Messages for one peer that leave together. Batches come from a pool of the interface, so memory
// grows with the batches under way and not with the number of peers.
struct Batch {
  Lines bytes;
  std::size_t used = 0;
  Pending pending;  // UCX reads `bytes`
};

// The way to one interface of a peer. If a message comes from an interface to which we are not
// connected, its endpoint is made as a stranger. A stranger keeps what arrives and cannot send.
// connect() opens the way back.
class UcxEndpoint final : public Endpoint {
 public:
  UcxEndpoint(UcxInterface& interface, Rank peer, std::uint64_t nonce,
              std::uint16_t incarnation = 0);

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] std::uint64_t nonce() const { return nonce_; }
  [[nodiscard]] std::uint16_t incarnation() const { return incarnation_; }
  [[nodiscard]] bool peer_closed() const override {
    return peer_closed_.load(std::memory_order_acquire);
  }
  void abandon(const Status& why) override;
  Posted post(std::uint32_t channel, const WireHeader& header, std::span<const std::byte> payload,
              Payload how) override;
  [[nodiscard]] Notice front(std::uint32_t channel) override;
  void release(std::uint32_t channel) override;
  [[nodiscard]] std::uint64_t arrived(std::uint32_t channel) override;
  [[nodiscard]] std::uint64_t posted(std::uint32_t channel) const override {
    return outgoing_[channel].posted;
  }
  [[nodiscard]] std::uint64_t released(std::uint32_t channel) override;
  [[nodiscard]] std::uint64_t locally_completed(std::uint32_t channel) override;
  Posted post_work(const WorkRequest& work) override;
  [[nodiscard]] WorkState work_state() const override { return order_.state(lingers_); }
  Status import_region_as(std::uint32_t number, std::string_view key) override;
  void drop_region(std::uint32_t number) override { regions_.erase(number); }

  // Setup and teardown (connect.cc, interface.cc).
  //
  // The address that the peer sent in its hello; empty if none came. By it a peer to which the user
  // never connects gets answers and the goodbye.
  [[nodiscard]] const std::string& hello() const { return hello_; }
  void forget_hello() { hello_.clear(); }
  Status open(std::string_view worker_address);
  // Whether the next endpoint may go on with the connection: it works, and UCX touches no memory for
  // this endpoint that is not ours alone.
  [[nodiscard]] bool may_be_followed() const;
  // Whether it was connected and no endpoint can follow it, at least not now.
  [[nodiscard]] bool has_lost_connection() const;
  // The peer has put another endpoint in the place of its end of this one.
  void hear_of_next();
  // Takes over the connection of the endpoint before this one, which may be followed or never had one.
  void follow(UcxEndpoint& before);
  // Nobody uses this endpoint any more: it may go as soon as UCX and poll() need nothing of it.
  void be_forgotten() { forgotten_ = true; }
  [[nodiscard]] bool may_go();
  // Gives back what belongs to the interface.
  void give_back_all();
  void say_goodbye();
  // After say_goodbye(): whether UCX has sent everything, the goodbye included, or never will
  // because the path has failed.
  [[nodiscard]] bool flushed() const { return !flushing_ || !working(); }
  // Whether UCX may still touch memory of the caller, or memory of ours for work of the peer.
  [[nodiscard]] bool holds_memory() const;
  // Closes the connection by force. What is not sent yet is given up. UCX lets go of all memory;
  // closing() is true until it has.
  void disconnect();
  [[nodiscard]] bool closing() const { return closing_; }
  // UCX has reported that the path broke: nothing more is sent on it. What had arrived before is
  // still taken in; then fail() makes failure() report the error.
  void broke();
  void fail();
  void end(const Status& why);

  // Arrivals (deliver.cc). False: the message breaks the protocol.
  [[nodiscard]] bool take_notice(const NoticeMessage& notice, const Arriving& data, bool& taken);
  [[nodiscard]] bool take_credit(const Message& message);
  // Gives back the memory of all notices that were not released, because nobody will read them.
  void drop_pieces();
  [[nodiscard]] bool take_hello(const void* address, std::size_t bytes);
  void take_goodbye() { peer_closed_.store(true, std::memory_order_release); }
  // Adds the releases of which the peer was not told to the batch. False if some found no room.
  bool report_releases();
  [[nodiscard]] bool owes_reports() const { return !unreported_.empty(); }
  // Sends what the batch holds, and our releases with it.
  void flush();

  // One-sided work of the peer (target.cc), which is begun in the order of its places.
  [[nodiscard]] bool take_work(const WorkMessage& work, const Arriving& data, bool& taken);
  // Begins work that has come and had to wait for earlier work.
  void proceed();
  [[nodiscard]] bool has_waiting_work() const { return !waiting_.empty(); }
  void send_answers();
  [[nodiscard]] bool owes_answers() const { return !answers_.empty(); }
  // Whether UCX still moves data between the peer and this memory of ours.
  [[nodiscard]] bool moves(std::span<const std::byte> memory) const;
  // One-sided work of ours (one_sided.cc).
  [[nodiscard]] bool take_answer(const AnswerMessage& answer, const Arriving& data, bool& taken);
  // Moves finished work, oldest first, to the interface's completions. Returns whether any work is
  // left.
  bool collect();
  // Ends, with this status, all work that was not answered.
  void flush_work(const Status& status);

 private:
  // A notice that travels in a message of its own. Its payload is copied when UCX gets it, because
  // UCX lets go of what it has begun to send only by closing the connection.
  struct Piece {
    NoticeMessage message;
    std::span<const std::byte> data;  // the caller's
    Lines copy;                       // from the interface's pool
    Pending pending;                  // UCX reads the message and the copy
  };
  static constexpr std::uint64_t kNoBatch = ~std::uint64_t{0};
  // What a slot sent last. It is small, because a stream of notices uses the slots one after
  // another.
  struct Sent {
    std::uint64_t batch = 0;       // the number of its batch; kNoBatch: it was `piece`
    std::unique_ptr<Piece> piece;  // kept for the slot's next piece
  };
  struct Outgoing {
    std::uint64_t posted = 0;
    std::uint64_t released = 0;
    std::uint64_t arrived = 0;  // how many the peer says have come
    std::uint64_t locally_completed = 0;
    std::unique_ptr<Sent[]> sent;  // one per slot; made at the channel's first use
  };
  struct Arrival {
    bool is_there = false;
    bool is_piece = false;  // larger than a slot's payload
    WireHeader header;
    const std::byte* payload = nullptr;
    void* kept = nullptr;  // UCX's memory with the payload, if it was kept
    Lines copy;            // otherwise: our copy of it
  };
  struct Incoming {
    std::uint64_t next = 0;
    std::uint64_t arrived = 0;           // all notices before this number have come
    std::uint64_t reported = 0;          // the `next` that the peer was told last
    std::uint64_t reported_arrived = 0;  // the `arrived` that the peer was told last
    bool waiting = false;                // listed in unreported_
    std::unique_ptr<Arrival[]> arrivals;
  };
  // One-sided work of ours, until its completion can be polled.
  struct Work {
    WorkMessage message;
    WorkRequest request;
    Status status;
    bool answered = false;
    Pending sending;         // UCX reads the message and request.local
    bool receiving = false;  // UCX writes request.local
    UcxEndpoint* endpoint = nullptr;
  };
  // The answer to one-sided work of the peer that was begun. Answers leave in the order of the
  // work.
  struct Answer {
    AnswerMessage message;
    std::span<const std::byte> place;  // our memory that the work reads or writes
    std::uint32_t sequence = 0;
    std::span<const std::byte> data;
    bool ready = false;
    bool sent = false;
    Pending pending;  // UCX reads the message and the data
    UcxEndpoint* endpoint = nullptr;

    // Whether our memory is still being written or read for this work.
    [[nodiscard]] bool touches_memory() const {
      return !ready || (!data.empty() && (!sent || pending));
    }
  };
  // A place for work of the peer that was not begun. If `is_here`, the work has come and waits for
  // its turn; otherwise it has not come yet.
  struct Waiting {
    bool is_here = false;
    WorkMessage message;
    Arriving data;                // in UCX's memory, or in `copy`
    std::vector<std::byte> copy;  // if UCX's memory could not be kept
  };

  // Whether anything may be sent.
  [[nodiscard]] bool working() const { return is_open() && failure_.ok(); }
  [[nodiscard]] bool is_open() const { return connection_ != nullptr && connection_->is_open(); }
  void begin();
  // Counts memory of this endpoint at the interface.
  void count_bytes(std::size_t bytes);
  [[nodiscard]] Message message(MessageKind kind, std::uint32_t channel,
                                std::uint64_t number) const;
  void tell_received(Message& message) const;
  void count_told(std::uint32_t channel);
  // The slot for the channel's next notice; nullptr for full.
  [[nodiscard]] Sent* next_slot(Outgoing& out);
  // Adds a message to the batch, but leaves out its header. Returns the place for that header;
  // nullptr if there is no room until UCX has sent earlier batches.
  [[nodiscard]] std::byte* append(std::size_t header_bytes, std::span<const std::byte> payload);
  // The batch being filled; nullptr if there is none.
  [[nodiscard]] Batch* filling() const;
  void send_batch();
  // Adds small one-sided work, or the answer to it, to the batch. Returns false if the data are
  // large or there is no room: the message then has to leave alone.
  [[nodiscard]] bool join_batch(const void* header, std::size_t header_bytes,
                                std::span<const std::byte> data);
  // Gives waiting pieces to UCX until it holds `most` of this endpoint's pieces.
  void hand_over_pieces(std::size_t most);
  // Gives back the buffers of pieces and the batches that UCX has sent.
  void collect_pieces();
  void collect_batches();
  bool report(std::uint32_t channel);
  void report_later(std::uint32_t channel);
  void take_payload(Arrival& arrival, const Arriving& data, bool& taken);
  void give_back(Arrival& arrival);
  void send(const void* header, std::size_t header_bytes, std::span<const std::byte> data,
            std::uint32_t flags, Pending& pending);
  using Landed = void (*)(void* request, ucs_status_t status, std::size_t bytes, void* what);
  void receive(void* data, std::byte* into, std::size_t bytes, Landed landed, void* what);
  Posted post_alone(std::uint32_t channel, const WireHeader& header,
                    std::span<const std::byte> payload);
  // UCX's protocol for data of this size: small data travel in the message (eager), large data go
  // straight into the receiver's memory (rendezvous).
  [[nodiscard]] std::uint32_t protocol_for(std::size_t bytes) const;
  void end(Work& work, WorkVerdict verdict);
  // ok, or why work on a region cannot be sent. If it can, `message` names the region to its owner.
  [[nodiscard]] Status name_region(WorkMessage& message, const WorkRequest& request) const;
  [[nodiscard]] static WorkRequest request_of(const WorkMessage& work);
  [[nodiscard]] bool may_begin(const WorkMessage& work, bool rendezvous) const;
  void begin_work(const WorkMessage& work, const Arriving& data, bool& taken);
  [[nodiscard]] WorkVerdict find_place(const WorkMessage& work, std::span<std::byte>& place) const;
  [[nodiscard]] bool keep(const WorkMessage& work, const Arriving& data, bool& taken);
  void free_kept(const Waiting& work);
  void drop_waiting();
  static void landed_write(void* request, ucs_status_t status, std::size_t bytes, void* answer);
  static void landed_read(void* request, ucs_status_t status, std::size_t bytes, void* work);

  UcxInterface& interface_;
  const Library& library_;
  std::uint64_t nonce_;  // of the peer's interface
  std::uint16_t incarnation_;
  std::unique_ptr<Connection> connection_;
  std::atomic<bool> peer_closed_ = false;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  // The batches that UCX still reads, and the one being filled, which has the number `batches_`.
  // Batch number n is at place n modulo kBatches.
  std::array<std::unique_ptr<Batch>, kBatches> batch_;
  std::uint64_t batches_ = 0;
  std::uint64_t batches_sent_ = 0;  // UCX does not read the batches before this number any more
  bool filled_ = false;             // listed in the interface's filled_
  std::vector<std::uint32_t> unreported_;  // channels with releases that the peer does not know of
  std::deque<Piece*> pieces_;              // not given to UCX yet, oldest first
  std::vector<Piece*> held_pieces_;        // given to UCX, which still reads them
  std::deque<Work> work_;
  std::uint64_t first_work_ = 0;  // the number of the oldest in work_
  WorkOrder order_;
  std::uint64_t works_sent_ = 0;
  std::unordered_map<std::uint32_t, RegionKey> regions_;  // of the peer, by number
  bool lingers_ = false;  // the path failed while the peer could still do work of ours
  std::deque<Answer> answers_;
  std::deque<Waiting> waiting_;   // the peer's work not begun yet, by place
  std::uint64_t next_place_ = 0;  // the place of its first
  // The sequence of the peer's work in which one failed. The rest of that sequence is refused.
  std::optional<std::uint32_t> failed_sequence_;
  bool proceeding_ = false;
  std::string hello_;
  Message greeting_;
  Pending greeting_pending_;
  Message goodbye_;
  Pending goodbye_pending_;
  bool flushing_ = false;
  bool closing_ = false;
  bool forgotten_ = false;
  std::size_t counted_bytes_ = 0;
};

class UcxInterface final : public Interface {
 public:
  static Result<std::unique_ptr<Interface>> open(Rank rank, const InterfaceOptions& options,
                                                 const UcxOptions& ucx, AddressResolver resolver);
  ~UcxInterface() override;

  [[nodiscard]] Status link() const override;
  [[nodiscard]] std::string address() const override { return address_; }
  Result<Endpoint*> connect(Rank peer, std::string_view address) override;
  Result<Endpoint*> reconnect(Rank peer, std::string_view address) override;
  void forget(Endpoint& failed) override;
  Result<Region> expose(std::span<std::byte> memory) override;
  void withdraw(std::uint32_t number) override;
  bool progress() override;
  [[nodiscard]] bool flushed() const override {
    return sending_ == 0 && filled_.empty() && reporters_.empty() && stalled_.empty();
  }
  std::size_t poll(std::span<Completion> completions) override;
  Result<Endpoint*> attention() override;
  void sleep(std::int64_t timeout_ns, const std::function<bool()>& ready) override;
  void wake() override;
  [[nodiscard]] Result<int> descriptor() override { return descriptor_; }
  [[nodiscard]] bool arm() override;
  void disarm() override { armed_ = false; }  // what woke us is taken in by progress()
  void close() override;
  [[nodiscard]] std::size_t endpoint_bytes() const override { return endpoint_bytes_; }

  [[nodiscard]] const Library& library() const { return library_; }
  [[nodiscard]] ucp_worker_h worker() const { return worker_; }
  [[nodiscard]] const InterfaceOptions& options() const { return options_; }
  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] std::uint64_t nonce() const { return nonce_; }
  [[nodiscard]] bool closed() const { return closed_; }
  // Bytes of a slot's payload, whole cache lines.
  [[nodiscard]] std::size_t payload_stride() const { return payload_stride_; }
  void count_bytes(std::size_t bytes) { endpoint_bytes_ += bytes; }
  void uncount_bytes(std::size_t bytes) { endpoint_bytes_ -= bytes; }
  // Buffers for payloads that have come: piece_bytes() long for pieces, payload_stride() for
  // others.
  [[nodiscard]] Pool& pool(bool of_pieces) { return of_pieces ? pieces_ : payloads_; }
  // A notice has come, so this turn has news.
  void count_arrival() { ++arrivals_; }
  // A piece has come or was released. Its sender may wait for that, so it is told at the next turn.
  void report_soon() { urgent_ = true; }
  void ask_attention(UcxEndpoint& endpoint) { askers_.push_back(&endpoint); }
  // flush_later(): the endpoint has a batch to send. report_later(): it has releases to report.
  void flush_later(UcxEndpoint& endpoint) { filled_.push_back(&endpoint); }
  void report_later(UcxEndpoint& endpoint) { reporters_.push_back(&endpoint); }
  [[nodiscard]] std::unique_ptr<Batch> take_batch();
  void give_batch(std::unique_ptr<Batch> batch) { free_batches_.push_back(std::move(batch)); }
  [[nodiscard]] bool armed() const { return armed_; }
  [[nodiscard]] std::size_t batch_bytes() const { return batch_bytes_; }
  // How many messages UCX still reads.
  [[nodiscard]] std::size_t& sending() { return sending_; }
  void fail_later(UcxEndpoint& endpoint) { failing_.push_back(&endpoint); }
  // The stranger waits for answers. The next turn connects to it, at the address in its hello.
  void answer_later(UcxEndpoint& stranger);
  [[nodiscard]] std::string_view own_address() const { return address_; }
  [[nodiscard]] Completions& completions() { return completions_; }
  // The region of ours with this number; nullptr if it is not exposed.
  [[nodiscard]] const std::span<std::byte>* exposed(std::uint64_t number) const;
  // The endpoint has work of its peer that has to wait for earlier work. Every turn tries to begin
  // it.
  void proceed_later(UcxEndpoint& endpoint);
  // Waits, with a bound, until UCX has let go of a disconnected endpoint's memory.
  void wait_closed(const UcxEndpoint& endpoint);
  void let_go(const UcxEndpoint& endpoint);
  // The endpoint has one-sided work, whose ends poll() collects.
  void collect_later(UcxEndpoint& endpoint);

 private:
  UcxInterface(Rank rank, const InterfaceOptions& options, const UcxOptions& ucx,
               const Library& library, AddressResolver resolver);
  // Listens at this port; 0: at one that the kernel chooses. False: the port is taken.
  Result<bool> listen(const UcxOptions& ucx, std::uint16_t port);
  Status listen_within(const UcxOptions& ucx);
  Status open_context(const UcxOptions& ucx, std::uint16_t port);
  Status open_worker();
  void make_address(std::string_view worker);
  void connect_stranger(UcxEndpoint& stranger);
  // The endpoint of the message's sender; an unknown sender, or one that has connected anew, becomes
  // a stranger. nullptr if its rank is another one than before, or if there are too many strangers.
  UcxEndpoint* sender_of(const Message& message);
  // Puts the endpoint of this incarnation in the place of `known`, which is kept until it may go.
  void replace(std::unique_ptr<UcxEndpoint>& known, std::uint16_t incarnation);
  void drop_forgotten();
  void unlist(UcxEndpoint* endpoint);
  [[nodiscard]] bool meant_for_us(const Message& message, std::size_t header_bytes) const;
  // Delivers one message; false if it is refused. A batch is delivered message by message.
  bool deliver(const void* header, std::size_t header_bytes, const Arriving& data, bool& taken);
  void deliver_batch(std::span<const std::byte> batch);
  bool refuse(const char* why);
  static ucs_status_t on_message(void* self, const void* header, std::size_t header_bytes,
                                 void* data, std::size_t bytes, const ucp_am_recv_param_t* param);
  void report_releases();
  void flush_batches();
  void answer_strangers();
  void fail_broken();
  void proceed_stalled();
  void warn_once(const Status& status);
  void wait_for_event(std::int64_t timeout_ns);
  // Makes progress, and sleeps in between, until `done` is true or the deadline has passed. Returns
  // whether `done` is true.
  bool drain(const std::function<bool()>& done, const Deadline& deadline);
  [[nodiscard]] bool answered_all();

  Rank rank_;
  InterfaceOptions options_;
  std::size_t payload_stride_;
  std::string device_;
  AddressResolver resolver_;
  const Library& library_;
  pid_t process_;
  std::uint64_t nonce_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;
  Address fields_;  // the fixed part of our address
  std::string address_;
  // The newest endpoint to each interface of a peer, by its nonce. They stay, because users may
  // still hold one whose peer has opened another interface.
  std::unordered_map<std::uint64_t, std::unique_ptr<UcxEndpoint>> known_;
  std::vector<std::unique_ptr<UcxEndpoint>> replaced_;  // earlier ones, until they may go
  UcxEndpoint* last_sender_ = nullptr;
  std::size_t strangers_ = 0;  // how many of them are not connected
  std::deque<UcxEndpoint*> askers_;
  std::vector<UcxEndpoint*> filled_;     // endpoints with a batch to send
  std::vector<UcxEndpoint*> flushing_;   // those that this turn serves
  std::vector<UcxEndpoint*> reporters_;  // endpoints with releases to report
  std::vector<std::unique_ptr<Batch>> free_batches_;
  std::size_t batch_bytes_;
  // When let_go() last waited in vain for a path; 0 if its last wait succeeded.
  std::int64_t stuck_ns_ = 0;
  std::size_t sending_ = 0;  // messages that UCX still reads
  std::vector<UcxEndpoint*> failing_;
  std::vector<UcxEndpoint*> unanswered_;
  std::vector<UcxEndpoint*> at_work_;  // with one-sided work outstanding
  std::vector<UcxEndpoint*> stalled_;  // with work of their peers that waits for its turn
  Completions completions_;
  std::unordered_map<std::uint64_t, std::span<std::byte>> exposed_;  // by number
  std::size_t endpoint_bytes_ = 0;
  Pool payloads_;
  Pool pieces_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t arrivals_told_ = 0;  // how many of them progress() has reported as news
  bool urgent_ = false;              // releases are reported at the next turn
  bool armed_ = false;               // the caller is about to sleep
  std::uint32_t busy_calls_ = 0;
  std::uint32_t idle_calls_ = 0;
  bool warned_ = false;
  bool closed_ = false;
};

}  // namespace weft::ucx
