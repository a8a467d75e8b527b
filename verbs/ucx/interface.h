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

class UcxInterface;

inline constexpr std::size_t kLine = 64;

// Memory for payloads: whole cache lines, not cleared.
struct FreeLines {
  void operator()(std::byte* lines) const { ::operator delete[](lines, std::align_val_t{kLine}); }
};
using Lines = std::unique_ptr<std::byte[], FreeLines>;
[[nodiscard]] Lines make_lines(std::size_t bytes);

// Buffers of one size. What was given back last is taken first: it is still in the cache. In use
// are at most as many as there are slots, so a pool needs no bound of its own.
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

// Batches of one endpoint that are under way or filled. Enough for what a socket does not take at
// once; then posts answer full.
inline constexpr std::size_t kBatches = 8;
// Under way so many, a batch waits until it is full or UCX has sent one.
inline constexpr std::size_t kBatchesAhead = 2;
// Pieces for one peer that UCX may hold. What it holds goes before everything that is sent later,
// also before our releases; so the others wait here.
inline constexpr std::size_t kPiecesAhead = 2;

// The one active message that all of ours are.
inline constexpr unsigned kActiveMessage = 0;

[[nodiscard]] std::uint64_t checksum(Address address, std::string_view worker);

// Whether UCX still reads a message of ours. An interface counts them all.
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

// The data of a message that has come.
struct Arriving {
  void* data = nullptr;  // by rendezvous: UCX's descriptor, to receive it with
  std::size_t bytes = 0;
  bool rendezvous = false;
  bool can_be_kept = false;  // until ucp_am_data_release
};

// Messages for one peer that leave together. The interface has a pool of them, so memory grows with
// what is under way and not with the peers.
struct Batch {
  Lines bytes;
  std::size_t used = 0;
  Pending pending;  // UCX reads it
};

// One peer's interface. It begins as a stranger when a message comes from an interface that we were
// not connected to: it keeps the arrivals, and connect() gives it the way back.
class UcxEndpoint final : public Endpoint {
 public:
  UcxEndpoint(UcxInterface& interface, Rank peer, std::uint64_t nonce);

  [[nodiscard]] Rank peer() const override { return peer_; }
  [[nodiscard]] std::uint64_t nonce() const { return nonce_; }
  [[nodiscard]] bool peer_closed() const override {
    return peer_closed_.load(std::memory_order_acquire);
  }
  [[nodiscard]] const Status& failure() const override { return failure_; }
  void abandon(const Status& why) override;
  [[nodiscard]] bool shares_memory() const override { return false; }
  Posted post_notice(std::uint32_t channel, const WireHeader& header,
                     std::span<const std::byte> payload) override;
  Posted post_piece(std::uint32_t channel, const WireHeader& header,
                    std::span<const std::byte> payload) override;
  [[nodiscard]] Notice front(std::uint32_t channel) override;
  void release(std::uint32_t channel) override;
  [[nodiscard]] std::uint64_t arrived(std::uint32_t channel) override;
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

  // Setup and teardown (connect.cc, interface.cc). The peer's own word of where it is, for answers
  // and for the goodbye if we never connect to it ourselves.
  [[nodiscard]] const std::string& hello() const { return hello_; }
  void forget_hello() { hello_.clear(); }
  Status open(std::string_view worker_address);
  [[nodiscard]] bool connected() const { return connected_; }
  void say_goodbye();
  // Whether everything sent, the goodbye too, is out of our hands.
  [[nodiscard]] bool flushed() const { return !flushing_ || !working(); }
  // Whether UCX may still touch memory of the caller.
  [[nodiscard]] bool holds_memory() const;
  // Gives up what is not sent yet; UCX lets go of all memory. closing() until that is done.
  void disconnect();
  [[nodiscard]] bool closing() const { return closing_; }
  // UCX reported that the path broke: it carries no more, and what had arrived is let in before
  // failure() says so.
  void broke(ucs_status_t status);
  void fail();

  // Arrivals (deliver.cc). False: the message breaks the protocol.
  [[nodiscard]] bool take_notice(const NoticeMessage& notice, const Arriving& data, bool& taken);
  [[nodiscard]] bool take_credit(const Message& message);
  // Gives what pieces came in back to UCX: nobody will read them.
  void drop_pieces();
  [[nodiscard]] bool take_hello(const void* address, std::size_t bytes);
  void take_goodbye() { peer_closed_.store(true, std::memory_order_release); }
  // Puts what the peer does not know of our releases into the batch; false if some found no room.
  bool report_releases();
  [[nodiscard]] bool owes_reports() const { return !unreported_.empty(); }
  // Sends what the batch holds, and our releases with it.
  void flush();

  // One-sided work of the peer (target.cc), which is begun in the order of its places.
  [[nodiscard]] bool take_work(const WorkMessage& work, const Arriving& data, bool& taken);
  // Begins what waited for work before it.
  void proceed();
  [[nodiscard]] bool has_waiting_work() const { return !waiting_.empty(); }
  void send_answers();
  [[nodiscard]] bool owes_answers() const { return !answers_.empty(); }
  // One-sided work of ours (one_sided.cc).
  [[nodiscard]] bool take_answer(const AnswerMessage& answer, const Arriving& data, bool& taken);
  // Moves finished work, oldest first, to the interface's completions; whether any is left.
  bool collect();
  // Ends all work that was not answered.
  void flush_work(const Status& status);

 private:
  // A notice that went alone, with a payload that is the caller's memory.
  struct Piece {
    NoticeMessage message;
    std::span<const std::byte> data;
    Pending pending;  // UCX reads both
  };
  static constexpr std::uint64_t kNoBatch = ~std::uint64_t{0};
  // What a slot sent last. Small: a stream of notices takes one after the other.
  struct Sent {
    std::uint64_t batch = 0;       // the number of its batch, or kNoBatch:
    std::unique_ptr<Piece> piece;  // it was this; kept for the next one
  };
  struct Outgoing {
    std::uint64_t posted = 0;
    std::uint64_t released = 0;
    std::uint64_t arrived = 0;  // those that the peer has, as far as it said
    std::uint64_t settled = 0;
    std::unique_ptr<Sent[]> sent;  // slots; made when the channel is used first
  };
  struct Arrival {
    bool is_there = false;
    bool is_piece = false;  // larger than a slot's payload
    WireHeader header;
    const std::byte* payload = nullptr;
    void* kept = nullptr;  // UCX's memory, in which a piece came
    Lines copy;            // or ours
  };
  struct Incoming {
    std::uint64_t next = 0;
    std::uint64_t arrived = 0;           // up to here all have come
    std::uint64_t reported = 0;          // what the peer knows of `next`
    std::uint64_t reported_arrived = 0;  // … and of `arrived`
    bool waiting = false;                // among the unreported
    std::unique_ptr<Arrival[]> arrivals;
  };
  // One-sided work of ours, until its completion can be polled.
  struct Work {
    WorkMessage message;
    std::uint64_t ticket = 0;
    std::span<std::byte> local;
    std::uint64_t* found = nullptr;
    Status status;
    bool answered = false;
    Pending sending;         // UCX reads the message and `local`
    bool receiving = false;  // UCX writes `local`
    UcxEndpoint* endpoint = nullptr;
  };
  // What we owe for one-sided work of the peer that was begun. Answers leave in the order of the
  // work.
  struct Answer {
    AnswerMessage message;
    WorkRequest work;
    std::uint32_t sequence = 0;
    std::span<const std::byte> data;
    bool ready = false;
    bool sent = false;
    Pending pending;  // UCX reads the message and the data
    UcxEndpoint* endpoint = nullptr;

    // Whether memory of ours is still written or read for it.
    [[nodiscard]] bool touches_memory() const {
      return !ready || (!data.empty() && (!sent || pending));
    }
  };
  // Work of the peer that has come and waits for its turn; an empty place, if it has not come.
  struct Waiting {
    bool is_here = false;
    WorkMessage message;
    Arriving data;                // UCX's memory …
    std::vector<std::byte> copy;  // … or ours
  };

  [[nodiscard]] bool working() const { return native_ != nullptr && broken_ == UCS_OK; }
  [[nodiscard]] Message message(MessageKind kind, std::uint32_t channel,
                                std::uint64_t number) const;
  void tell_received(Message& message) const;
  void count_told(std::uint32_t channel);
  // The slot for the channel's next notice; nullptr for full.
  [[nodiscard]] Sent* next_slot(Outgoing& out) const;
  // Puts a message into the batch, all but its header; where that belongs, or nullptr if there is
  // no room until UCX has sent earlier ones.
  [[nodiscard]] std::byte* append(std::size_t header_bytes, std::span<const std::byte> payload);
  // The batch being filled; nullptr where there is none.
  [[nodiscard]] Batch* filling() const;
  void send_batch();
  // Gives UCX pieces that wait, as long as it holds less than `most`.
  void hand_over_pieces(std::size_t most);
  // Gives back the batches that UCX has sent, oldest first.
  void collect_batches();
  bool report(std::uint32_t channel);
  void report_later(std::uint32_t channel);
  void take_payload(Arrival& arrival, const Arriving& data, bool& taken);
  void give_back(Arrival& arrival);
  void send(const void* header, std::size_t header_bytes, std::span<const std::byte> data,
            std::uint32_t flags, Pending& pending);
  using Landed = void (*)(void* request, ucs_status_t status, std::size_t bytes, void* what);
  void receive(void* data, std::byte* into, std::size_t bytes, Landed landed, void* what);
  Posted post_work(WorkMessage message, std::span<std::byte> local, const RemoteBuffer& remote,
                   std::uint64_t* found, std::uint64_t ticket);
  // Small data in the message itself, large data straight into the receiver's memory.
  [[nodiscard]] std::uint32_t protocol_for(std::size_t bytes) const;
  void end(Work& work, WorkVerdict verdict);
  [[nodiscard]] static WorkRequest request_of(const WorkMessage& work);
  [[nodiscard]] bool may_begin(const WorkMessage& work, bool rendezvous) const;
  void begin_work(const WorkMessage& work, const Arriving& data, bool& taken);
  [[nodiscard]] WorkVerdict admit(const WorkMessage& work, std::byte*& region) const;
  [[nodiscard]] bool keep(const WorkMessage& work, const Arriving& data, bool& taken);
  void free_kept(const Waiting& work);
  void drop_waiting();
  static void landed_write(void* request, ucs_status_t status, std::size_t bytes, void* answer);
  static void landed_read(void* request, ucs_status_t status, std::size_t bytes, void* work);

  UcxInterface& interface_;
  const Library& library_;
  Rank peer_;
  std::uint64_t nonce_;  // of the peer's interface
  ucp_ep_h native_ = nullptr;
  ucs_status_t broken_ = UCS_OK;
  Status failure_;
  std::atomic<bool> peer_closed_ = false;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  // Batches that UCX still reads, and the one being filled, number `batches_`, by their numbers.
  std::array<std::unique_ptr<Batch>, kBatches> batch_;
  std::uint64_t batches_ = 0;
  std::uint64_t batches_sent_ = 0;         // those are out of UCX's hands
  bool filled_ = false;                    // among the interface's filled
  std::vector<std::uint32_t> unreported_;  // channels with releases that the peer does not know of
  std::deque<Piece*> pieces_;              // that UCX has not got yet, oldest first
  std::vector<const Piece*> held_pieces_;  // that it has
  std::deque<Work> work_;
  std::uint64_t first_work_ = 0;  // number of the oldest
  WorkOrder order_;
  std::uint64_t works_sent_ = 0;
  std::deque<Answer> answers_;
  std::deque<Waiting> waiting_;                   // by place …
  std::uint64_t next_place_ = 0;                  // … from this one on
  std::optional<std::uint32_t> failed_sequence_;  // of the peer's work: the rest of it is not done
  bool proceeding_ = false;
  std::string hello_;
  Message greeting_;
  Pending greeting_pending_;
  Message goodbye_;
  Pending goodbye_pending_;
  bool flushing_ = false;
  bool connected_ = false;
  bool closing_ = false;
};

class UcxInterface final : public Interface {
 public:
  static Result<std::unique_ptr<Interface>> open(Rank rank, const InterfaceOptions& options,
                                                 const UcxOptions& ucx, AddressResolver resolver);
  ~UcxInterface() override;

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] Status link() const override;
  [[nodiscard]] std::string address() const override { return address_; }
  Result<Endpoint*> connect(Rank peer, std::string_view address) override;
  [[nodiscard]] RemoteBuffer describe(const void* pointer, std::size_t bytes) const override;
  [[nodiscard]] std::size_t piece_bytes() const override { return piece_bytes_; }
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
  // Buffers for what has come: piece_bytes() long, or payload_stride().
  [[nodiscard]] Pool& pool(bool of_pieces) { return of_pieces ? pieces_ : payloads_; }
  // An arrival became visible; on the control channel its endpoint asks for attention.
  void count_arrival() { ++arrivals_; }
  // A piece came or was released: its sender may wait for that, so it is told soon.
  void report_soon() { urgent_ = true; }
  void ask_attention(UcxEndpoint& endpoint) { askers_.push_back(&endpoint); }
  // The endpoint has something in its batch, or releases to report.
  void flush_later(UcxEndpoint& endpoint) { filled_.push_back(&endpoint); }
  void report_later(UcxEndpoint& endpoint) { reporters_.push_back(&endpoint); }
  [[nodiscard]] std::unique_ptr<Batch> take_batch();
  void give_batch(std::unique_ptr<Batch> batch) { free_batches_.push_back(std::move(batch)); }
  [[nodiscard]] bool armed() const { return armed_; }
  [[nodiscard]] std::size_t batch_bytes() const { return batch_bytes_; }
  // How many messages UCX still reads.
  [[nodiscard]] std::size_t& sending() { return sending_; }
  void fail_later(UcxEndpoint& endpoint) { failing_.push_back(&endpoint); }
  // The stranger is connected, where it said that it is, for the answers that it waits for.
  void answer_later(UcxEndpoint& stranger);
  [[nodiscard]] std::string_view own_address() const { return address_; }
  [[nodiscard]] Completions& completions() { return completions_; }
  // The endpoint has work of its peer that waits for work before it.
  void proceed_later(UcxEndpoint& endpoint);
  // Waits, with a bound, until UCX has let go of a disconnected endpoint's memory.
  void wait_closed(const UcxEndpoint& endpoint);
  void let_go(const UcxEndpoint& endpoint);
  // The endpoint has one-sided work, whose ends poll() collects.
  void collect_later(UcxEndpoint& endpoint);

 private:
  UcxInterface(Rank rank, const InterfaceOptions& options, const UcxOptions& ucx,
               const Library& library, AddressResolver resolver);
  Status open_context(const UcxOptions& ucx);
  Status open_worker();
  void make_address(std::string_view worker);
  void connect_stranger(UcxEndpoint& stranger);
  // The endpoint that a message came from; a stranger is remembered. nullptr: there is no place.
  UcxEndpoint* sender_of(const Message& message);
  [[nodiscard]] bool meant_for_us(const Message& message, std::size_t header_bytes) const;
  // One message; false if it is not good. A batch is delivered message by message.
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
  // Progress until `done` or until the deadline, asleep in between; whether it was done.
  template <typename Predicate>
  bool drain(Predicate done, const Deadline& deadline);
  [[nodiscard]] bool answered_all();

  Rank rank_;
  InterfaceOptions options_;
  std::size_t piece_bytes_;
  std::size_t payload_stride_;
  std::string device_;
  std::string name_;
  AddressResolver resolver_;
  const Library& library_;
  pid_t process_;
  std::uint64_t nonce_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;
  Address fields_;  // of our address
  std::string address_;
  // All that ever were, by the peer's nonce: users may still hold those that a peer has replaced.
  std::unordered_map<std::uint64_t, std::unique_ptr<UcxEndpoint>> known_;
  UcxEndpoint* last_sender_ = nullptr;
  std::size_t strangers_ = 0;  // of them not connected
  std::deque<UcxEndpoint*> askers_;
  std::vector<UcxEndpoint*> filled_;     // with a batch to send
  std::vector<UcxEndpoint*> flushing_;   // of them, in this turn
  std::vector<UcxEndpoint*> reporters_;  // with releases to report
  std::vector<std::unique_ptr<Batch>> free_batches_;
  std::size_t batch_bytes_;
  std::int64_t stuck_ns_ = 0;  // when a path that was given up could not end what it was writing
  std::size_t sending_ = 0;    // messages that UCX still reads
  std::vector<UcxEndpoint*> failing_;
  std::vector<UcxEndpoint*> unanswered_;
  std::vector<UcxEndpoint*> at_work_;  // with one-sided work outstanding
  std::vector<UcxEndpoint*> stalled_;  // with work of their peers that waits for its turn
  Completions completions_;
  std::size_t endpoint_bytes_ = 0;
  Pool payloads_;
  Pool pieces_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t arrivals_told_ = 0;  // of them, those that a turn has answered for
  bool urgent_ = false;              // a piece is among what is to be reported
  bool armed_ = false;               // the caller is about to sleep
  std::uint32_t busy_calls_ = 0;
  std::uint32_t idle_calls_ = 0;
  bool warned_ = false;
  bool closed_ = false;
};

}  // namespace weft::ucx
