// Sender: what a connection sends to the peer: notices, pieces, and controls, which need no slot.
//
// A notice is copied into our image of the peer's ring when it is posted, and written to the peer's
// ring at the next turn, many with one doorbell. A piece is read from the caller's memory where
// that can be registered, and else copied, too. The peer's receive queue has places for `window`
// messages of ours; what finds none waits here.
//
// Owner: an IbEndpoint, in whose lane everything here runs; an object lives as long as its
// endpoint. Invariants, for each channel: released <= locally completed <= posted, and released <=
// sent <= posted <= released + slots; at most `window` messages are at the peer that it has not
// taken out. Internal to the module.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "verbs/ib/queues.h"
#include "verbs/memory/memory.h"

namespace weft::ib {

class Sender {
 public:
  explicit Sender(IbEndpoint& endpoint);

  Posted post(std::uint32_t channel, const WireHeader& header, std::span<const std::byte> payload,
              RingKind ring);
  [[nodiscard]] std::uint64_t posted(std::uint32_t channel) const {
    return outgoing_[channel].posted;
  }
  [[nodiscard]] std::uint64_t released(std::uint32_t channel);
  [[nodiscard]] std::uint64_t locally_completed(std::uint32_t channel);
  void say(const Control& control);
  void say_goodbye();

  // Takes from the greeting how many messages the peer's receive queue takes, and where its Words
  // lie.
  void set_peer(const Greeting& greeting);
  // Sends what waits, as far as there is room here and at the peer.
  void pump();
  [[nodiscard]] bool waits_to_go() const { return !controls_.empty() || !waiting_.empty(); }
  [[nodiscard]] bool has_window() const { return messages_ - peer_received_ < window_; }
  // Looks at the word that the peer writes without a message.
  void look_at_window();
  // Gives the memory back that is only needed for sending.
  void end();

  // What the peer says of what it has taken.
  [[nodiscard]] bool has_channel(std::uint32_t channel) const { return channel < outgoing_.size(); }
  void take_released(std::uint32_t channel, std::uint32_t released);
  void take_received(std::uint32_t received);
  // False: it breaks the protocol.
  [[nodiscard]] bool take_grant(const Control& grant);

 private:
  // A ring of ours in the peer's memory.
  struct Remote {
    enum class State : std::uint8_t { unknown, asked, granted, refused };
    State state = State::unknown;
    std::uint32_t until_asked =
        0;  // of a ring that was refused: pieces until it is asked for again
    std::uint32_t key = 0;
    std::uint64_t address = 0;
  };
  struct Sent {
    RingKind ring = RingKind::notices;
    std::uint32_t bytes = 0;          // of the payload
    const std::byte* lent = nullptr;  // the payload, if it is read from the caller's memory
    bool is_of_device = false;        // which is another device's
    std::uint64_t number = 0;         // of its work request; 0: not handed over yet
    std::optional<Registrations::Use> use;
  };
  struct Outgoing {
    std::uint64_t posted = 0;
    std::uint64_t sent = 0;  // handed to the device
    std::uint64_t released = 0;
    std::uint64_t locally_completed = 0;
    bool waiting = false;  // among `waiting_`
    std::array<Remote, kRings> remote;
    std::array<Buffer, kRings> local;  // copies, laid out like the peer's rings
    std::unique_ptr<Sent[]> slots;
  };

  [[nodiscard]] Status make_copy(Outgoing& out, RingKind ring);
  [[nodiscard]] Status copy_in(std::byte* to, std::span<const std::byte> payload);
  [[nodiscard]] bool lend(std::span<const std::byte> payload, Sent& sent);
  void wait_to_go(std::uint32_t channel);
  void pump_channels();
  void pump_channel(std::uint32_t channel, PostList& list);
  void ask_for_ring(Remote& remote, std::uint32_t channel, RingKind ring);
  [[nodiscard]] bool is_granted(Remote& remote, std::uint32_t channel, RingKind ring);
  [[nodiscard]] bool choose_ring(Outgoing& out, Sent& sent, std::uint32_t channel);
  void write_notice(Outgoing& out, std::uint32_t channel, PostList& list);
  void write_payload(const Outgoing& out, const Sent& sent, std::uint32_t channel,
                     std::size_t place, PostList& list);
  void pump_controls();
  void report_received();

  IbEndpoint& endpoint_;
  IbInterface& interface_;
  Queues& queues_;
  std::uint64_t words_ = 0;  // where the peer's Words are
  std::uint32_t words_key_ = 0;
  std::uint32_t window_ = 0;
  std::uint32_t messages_ = 0;       // messages sent that take a place in the peer's receive queue
  std::uint32_t peer_received_ = 0;  // how many of them the peer has taken out
  std::uint64_t controls_sent_ = 0;
  std::vector<std::uint64_t>
      control_numbers_;  // work request that reads each place of Scratch::said
  std::vector<Outgoing> outgoing_;
  std::vector<std::uint32_t> waiting_;  // channels with notices to go out
  Backlog<Control> controls_;           // to go out
};

}  // namespace weft::ib
