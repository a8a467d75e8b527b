// UcxEndpoint: the way to one interface of a peer. Its parts are what is sent (Sender), what has come
// (Receiver), one-sided work of ours (OneSided) and of the peer (Target).
//
// If a message comes from an interface to which we are not connected, its endpoint is made as a
// stranger. A stranger keeps what arrives and cannot send. connect() opens the way back. Owner: the
// UcxInterface, in whose lane everything here runs. Internal to the module.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "verbs/ucx/one_sided.h"
#include "verbs/ucx/receiver.h"
#include "verbs/ucx/sender.h"
#include "verbs/ucx/target.h"

namespace weft::ucx {

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
              Payload how) override {
    return sender_.post(channel, header, payload, how);
  }
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
  Posted post_work(const WorkRequest& work) override { return one_sided_.post(work); }
  [[nodiscard]] WorkState work_state() const override { return one_sided_.state(); }
  Status import_region_as(std::uint32_t number, std::string_view key) override {
    return one_sided_.import_region(number, key);
  }
  void drop_region(std::uint32_t number) override { one_sided_.drop_region(number); }

  // The address that the peer sent in its hello; empty if none came. By it a peer to which the user
  // never connects gets answers and the goodbye.
  [[nodiscard]] const std::string& hello() const { return hello_; }
  [[nodiscard]] bool take_hello(const void* address, std::size_t bytes);
  // Also of a hello of an earlier endpoint: it tells how far the connection is, which goes on.
  void hear_greeting(const Message& hello);
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
  // Tries to send the hellos. When both ends have asked for their connections, sends what has waited
  // for that.
  void greet();
  // The goodbye leaves behind all that was posted, when that may leave.
  void say_goodbye();
  // After say_goodbye(): whether UCX has sent everything, the goodbye included, or never will
  // because the path has failed.
  [[nodiscard]] bool flushed() const { return (!flushing_ && !parts_) || !working(); }
  // Whether UCX may still touch memory of the caller, or memory of ours for work of the peer.
  [[nodiscard]] bool holds_memory() const;
  // Whether the peer may still ask for its connection of UCX. The answer leaves over ours. If that is
  // closed, UCX makes another one for the answer, and aborts the process if that fails.
  [[nodiscard]] bool may_be_asked() const;
  [[nodiscard]] bool has_open_question() const { return bool(greeting_pending_); }
  // Closes the connection by force. What is not sent yet is given up. UCX lets go of all memory;
  // closing() is true until it has.
  void disconnect();
  [[nodiscard]] bool closing() const { return closing_; }
  // UCX has reported that the path broke: nothing more is sent on it. What had arrived before is
  // still taken in; then fail() makes failure() report the error.
  void broke();
  void fail();
  void end(const Status& why);

  void take_goodbye() { peer_closed_.store(true, std::memory_order_release); }
  // Gives back the memory of all that has come and nobody will read.
  void drop_arrivals();

  // For the endpoint's parts.
  [[nodiscard]] UcxInterface& interface() const { return interface_; }
  [[nodiscard]] Sender& sender() { return sender_; }
  [[nodiscard]] Receiver& receiver() { return receiver_; }
  [[nodiscard]] OneSided& one_sided() { return one_sided_; }
  [[nodiscard]] Target& target() { return target_; }
  // Whether anything may be sent.
  [[nodiscard]] bool working() const { return is_open() && failure_.ok(); }
  // Whether what is sent has to wait until both ends have asked for their connections.
  [[nodiscard]] bool is_held() const { return working() && !connection_->has_greeted; }
  [[nodiscard]] Message message(MessageKind kind, std::uint32_t channel,
                                std::uint64_t number) const;
  // The header and the data must stay as they are while `pending` is true. `attributes`: more of
  // UCX's for the call.
  void send(const void* header, std::size_t header_bytes, std::span<const std::byte> data,
            std::uint32_t flags, Pending& pending, std::uint32_t attributes = 0);
  // The same, if all of it can leave for UCX at once: it then reads the header and the data no more.
  [[nodiscard]] bool send_at_once(const void* header, std::size_t header_bytes,
                                  std::span<const std::byte> data);
  // UCX's protocol for data of this size: small data travel in the message (eager), large data go
  // straight into the receiver's memory (rendezvous).
  [[nodiscard]] std::uint32_t protocol_for(std::size_t bytes) const;
  // Lets UCX move the data of a rendezvous. `landed` is called when that has ended, perhaps before
  // this function returns.
  using Landed = void (*)(void* request, ucs_status_t status, std::size_t bytes, void* what);
  void receive(void* data, std::byte* into, std::size_t bytes, Landed landed, void* what);
  // Counts memory of this endpoint at the interface.
  void count_bytes(std::size_t bytes);

 private:
  [[nodiscard]] bool is_open() const { return connection_ != nullptr && connection_->is_open(); }
  void begin();
  void send_hello(std::uint32_t attributes);
  void try_hello();
  void part();

  UcxInterface& interface_;
  const Library& library_;
  std::uint64_t nonce_;  // of the peer's interface
  std::uint16_t incarnation_;
  std::unique_ptr<Connection> connection_;
  std::atomic<bool> peer_closed_ = false;
  std::string hello_;
  Message greeting_;
  Pending greeting_pending_;
  Message goodbye_;
  Pending goodbye_pending_;
  bool peer_has_greeted_ = false;
  bool peer_has_asked_ = false;  // for its connection of UCX, or never will
  bool says_goodbye_ = false;
  bool parts_ = false;  // the goodbye waits
  bool flushing_ = false;
  bool closing_ = false;
  bool forgotten_ = false;
  std::size_t counted_bytes_ = 0;
  Sender sender_;
  Receiver receiver_;
  OneSided one_sided_;
  Target target_;
};

}  // namespace weft::ucx
