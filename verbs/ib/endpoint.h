// IbEndpoint: the connection to one peer's interface. Its parts are the protocol that connects
// (Conversation), the queue pairs (Queues), what is sent (Sender), what has come (Receiver) and
// one-sided work (OneSided).
//
// An endpoint begins as a stranger when a Greeting comes from an interface to which we are not
// connected; connect() then gives it out. Owner: the IbInterface, in whose lane everything here
// runs. An endpoint lives as long as the interface, or until it has failed, was forgotten and
// poll() has collected the ends of its work. Invariants: failure() never becomes ok again, and
// after it no queue pair is left; the peer is connected to our queue pairs once connected(), and
// nothing is sent before. Internal to the module.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "verbs/ib/conversation.h"
#include "verbs/ib/one_sided.h"
#include "verbs/ib/queues.h"
#include "verbs/ib/receiver.h"
#include "verbs/ib/sender.h"

namespace weft::ib {

// An endpoint's small memory that the device reads or writes.
struct Scratch {
  static constexpr std::size_t kControls = 16;
  static constexpr std::size_t kSwaps = 128;

  Words words;                                           // the peer writes them
  alignas(kLine) std::uint32_t received = 0;             // on its way to the peer's words
  alignas(kLine) std::array<Control, kControls> said{};  // controls on their way to the peer
  std::array<std::uint64_t, kSwaps> found{};             // by compare-and-swaps under way
};

class IbEndpoint final : public Endpoint, private Conversation::Side {
 public:
  IbEndpoint(IbInterface& interface, Rank peer, std::uint64_t nonce, std::uint32_t incarnation);
  ~IbEndpoint() override;

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool peer_closed() const override {
    return peer_closed_.load(std::memory_order_acquire);
  }
  void abandon(const Status& why) override { fail(why); }
  Posted post(std::uint32_t channel, const WireHeader& header, std::span<const std::byte> payload,
              Payload how) override;
  Status expect_pieces(std::span<const std::byte> memory, PieceMemory where) override;
  Status copy_payload(std::span<std::byte> to, const Notice& notice) override;
  [[nodiscard]] Notice front(std::uint32_t channel) override { return receiver_.front(channel); }
  void release(std::uint32_t channel) override { receiver_.release(channel); }
  [[nodiscard]] std::uint64_t arrived(std::uint32_t channel) override {
    return receiver_.arrived(channel);
  }
  [[nodiscard]] std::uint64_t posted(std::uint32_t channel) const override {
    return sender_.posted(channel);
  }
  [[nodiscard]] std::uint64_t released(std::uint32_t channel) override {
    return sender_.released(channel);
  }
  [[nodiscard]] std::uint64_t locally_completed(std::uint32_t channel) override {
    return sender_.locally_completed(channel);
  }
  Posted post_work(const WorkRequest& work) override { return works_.post(work); }
  [[nodiscard]] WorkState work_state() const override { return works_.state(); }
  Status import_region_as(std::uint32_t number, std::string_view key) override {
    return works_.import_region(number, key);
  }
  void drop_region(std::uint32_t number) override { works_.drop_region(number); }

  // For the endpoint's parts.
  [[nodiscard]] IbInterface& interface() const { return interface_; }
  [[nodiscard]] Queues& queues() { return queues_; }
  [[nodiscard]] Sender& sender() { return sender_; }
  [[nodiscard]] Receiver& receiver() { return receiver_; }
  [[nodiscard]] Scratch& scratch() const { return *reinterpret_cast<Scratch*>(scratch_.data()); }
  [[nodiscard]] std::uint32_t scratch_key() const { return scratch_.lkey(); }

  // Connecting. Makes the memory and the queue pairs that every connection needs.
  Status prepare();
  // Finds out from the peer's address over which pairs of GIDs the peer may be reached.
  // set_peer_gids() only keeps the peer's.
  Status resolve_addresses(const Address& address);
  void set_peer_gids(const Address& address);
  // For a new endpoint to the same interface: like resolve_addresses(), with what the failed
  // endpoint knew.
  void take_addresses_of(const IbEndpoint& failed);
  // The pair of addresses that worked for the failed endpoint is tried first.
  void prefer_pair_of(const IbEndpoint& failed);
  // Finds out which pairs of addresses may reach the peer. Called when our addresses or the peer's
  // have become known or have changed.
  void rank_pairs();
  void send_due(std::int64_t now);
  void take_greeting(const Greeting& greeting);
  [[nodiscard]] bool connecting() const { return !conversation_.is_confirmed() && !is_over(); }
  [[nodiscard]] std::int64_t next_ns() const { return conversation_.next_ns(); }
  [[nodiscard]] std::uint32_t incarnation() const { return incarnation_; }
  [[nodiscard]] std::uint64_t nonce() const { return nonce_; }
  [[nodiscard]] std::string path() const;

  // Whether connect() has given the endpoint to the user.
  [[nodiscard]] bool given_out() const { return given_out_; }
  void give_out() { given_out_ = true; }
  // After a failure: the user does not need the endpoint any more. It goes once poll() has
  // collected the ends of its work (may_go()).
  void be_forgotten() { forgotten_ = true; }
  [[nodiscard]] bool forgotten() const { return forgotten_; }
  void say_dropped();
  [[nodiscard]] bool may_go() const { return forgotten_ && !works_.is_listed(); }

  // What goes out.
  void pump();
  [[nodiscard]] bool waits_to_go() const {
    return failure_.ok() && (sender_.waits_to_go() || works_.waits_to_go());
  }
  // Whether it waits for places in the peer's receive queue, after a look at what the peer wrote.
  [[nodiscard]] bool starved();
  [[nodiscard]] bool lacks_window() const { return connected_ && !sender_.has_window(); }
  void retire(std::size_t queue, std::uint64_t number);
  // Nothing waits, and all that will have a completion has had it.
  [[nodiscard]] bool idle() const { return !waits_to_go() && queues_.idle(); }
  void say_goodbye();

  // What comes in. False: the message breaks the protocol.
  [[nodiscard]] bool take_notice(const Immediate& immediate) {
    return receiver_.take_notice(immediate);
  }
  [[nodiscard]] bool take_control(const Control& control);
  void count_received();
  void report_releases() { receiver_.report_releases(); }
  bool collect() { return works_.collect(); }
  void flush_work(const Status& status) { works_.flush(status); }

  // A path that broke.
  void broke(const ibv_wc& completion);
  void fail(const Status& why) override;

  // Lists the endpoint for the next turn. True if it was not listed already.
  [[nodiscard]] bool enlist() { return !std::exchange(enlisted_, true); }
  void delist() { enlisted_ = false; }

 private:
  // Conversation::Side
  [[nodiscard]] RoutePair route_back(const Greeting& greeting) const override;
  Result<bool> knows_way(const RoutePair& pair, const PeerPort& port) override;
  Result<bool> greet() override;
  [[nodiscard]] Status connect(const Greeting& greeting, bool anew) override;
  void confirmed() override;
  [[nodiscard]] bool is_over() const override { return !failure_.ok() || peer_closed(); }
  void warn(const Status& status) override;

  [[nodiscard]] Greeting addressed(Level level) const;
  // Like addressed(), with our queue pairs and the place where we keep Words for the peer.
  [[nodiscard]] Greeting introduction(Level level) const;
  Result<bool> send(const Greeting& greeting);

  IbInterface& interface_;
  std::uint64_t nonce_;  // of the peer's interface
  std::uint32_t incarnation_;
  std::atomic<bool> peer_closed_ = false;
  bool given_out_ = false;  // by connect()
  bool forgotten_ = false;  // by the user
  bool enlisted_ = false;

  std::vector<WireGid> peer_gids_;
  Conversation conversation_;
  Buffer scratch_;  // one Scratch
  Queues queues_;
  Receiver receiver_;
  Sender sender_;
  OneSided works_;
};

}  // namespace weft::ib
