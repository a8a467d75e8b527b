// The receiving side of the data path. Notices stay where the device wrote them.
#include "verbs/ib/receiver.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "verbs/ib/endpoint.h"
#include "verbs/ib/interface.h"

namespace weft::ib {

Receiver::Receiver(IbEndpoint& endpoint)
    : endpoint_(endpoint),
      interface_(endpoint.interface()),
      incoming_(interface_.options().channels) {}

std::uint32_t Receiver::reserve() {
  granted_ = reserved_ = interface_.grant_window();
  return granted_;
}

void Receiver::give_back() {
  interface_.return_window(std::exchange(reserved_, 0));
}

std::uint32_t Receiver::tell_released(std::uint32_t channel) {
  Incoming& in = incoming_[channel];
  in.reported = in.next;
  return static_cast<std::uint32_t>(in.next);
}

// Notices of a channel come over one queue pair, so in order.
bool Receiver::take_notice(const Immediate& immediate) {
  const std::uint32_t slots = interface_.options().slots;
  const auto ring = static_cast<std::size_t>(immediate.ring);
  if (immediate.channel >= incoming_.size() || ring >= kRings) return false;
  Incoming& in = incoming_[immediate.channel];
  const bool is_apart = immediate.ring == RingKind::device;
  if (!has_ring(in, immediate.ring) || (is_apart && !has_ring(in, RingKind::notices)) ||
      in.arrived - in.next >= slots || immediate.slot != (in.arrived & (slots - 1)))
    return false;
  const std::byte* slot = head_of(in, immediate.ring, immediate.slot);
  Prefix prefix;
  std::memcpy(&prefix, slot + kPrefixAt, sizeof prefix);
  WireHeader header;
  std::memcpy(&header, slot + kHeaderAt, sizeof header);
  if (prefix.number != static_cast<std::uint32_t>(in.arrived) ||
      prefix.bytes > interface_.most_payload(immediate.ring) ||
      (header.form == PieceForm::payload && header.bytes > prefix.bytes) ||
      (is_apart && (header.form != PieceForm::payload || (header.flags & kFlagDeviceMemory) == 0)))
    return false;
  in.slots[immediate.slot] = immediate.ring;
  ++in.arrived;
  endpoint_.sender().take_released(immediate.channel, prefix.released);
  endpoint_.sender().take_received(prefix.received);
  interface_.count_arrival();
  if (immediate.channel == kControlChannel) interface_.ask_attention(endpoint_);
  return true;
}

const std::byte* Receiver::head_of(const Incoming& in, RingKind ring, std::size_t place) const {
  if (ring == RingKind::device) ring = RingKind::notices;
  return in.rings[static_cast<std::size_t>(ring)].data() + place * interface_.slot_bytes(ring);
}

void Receiver::make_receive_buffer(Incoming& in) {
  const DeviceMemory& device = interface_.ib().device_memory;
  const std::size_t bytes = interface_.options().slots * interface_.slot_bytes(RingKind::device);
  no_landing_ = [&]() -> Status {
    if (!device.receive_buffer) return Status(Code::unavailable, "this process has no such memory");
    WEFT_ASSIGN(DeviceMemory::ReceiveBuffer made, device.receive_buffer(bytes));
    WEFT_ASSIGN(in.receive_buffer_share, interface_.expose_device({made.address, bytes}));
    in.receive_buffer = std::move(made);
    ++receive_buffers_;
    return {};
  }();
}

std::string Receiver::receive_buffers() const {
  if (!no_landing_.ok())
    return fmt::format("what comes from GPUs arrives at the host: {}", no_landing_.text());
  return receive_buffers_ == 0 ? "" : "what comes from GPUs arrives in GPU memory";
}

// If the ring cannot be made, the peer gets an answer, too, because it would wait for it for ever.
bool Receiver::grant(const Control& want) {
  const auto ring = static_cast<std::size_t>(want.ring);
  if (want.channel >= incoming_.size() || ring >= kRings) return false;
  Incoming& in = incoming_[want.channel];
  const std::uint32_t slots = interface_.options().slots;
  Control answer = want;
  answer.kind = ControlKind::grant;
  if (want.ring == RingKind::device) {
    if (in.receive_buffer.owner == nullptr)
      make_receive_buffer(in);  // without one the peer sends to the host
    if (in.receive_buffer.owner != nullptr) {
      answer.address = reinterpret_cast<std::uintptr_t>(in.receive_buffer.address);
      answer.key = in.receive_buffer_share->region->rkey;
    }
    endpoint_.sender().say(answer);
    return true;
  }
  if (!in.rings[ring]) {
    Result<Buffer> made = interface_.make_buffer(slots * interface_.slot_bytes(want.ring),
                                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!made.ok()) {
      interface_.warn_once(made.status());
      endpoint_.sender().say(answer);
      return true;
    }
    in.rings[ring] = std::move(made).value();
    if (in.slots == nullptr) in.slots = std::make_unique<RingKind[]>(slots);
  }
  answer.address = in.rings[ring].address();
  answer.key = in.rings[ring].rkey();
  endpoint_.sender().say(answer);
  return true;
}

Notice Receiver::front(std::uint32_t channel) const {
  const Incoming& in = incoming_[channel];
  if (in.next == in.arrived) return {};
  const std::size_t place = in.next & (interface_.options().slots - 1);
  const RingKind ring = in.slots[place];
  const std::byte* const head = head_of(in, ring, place);
  const std::byte* const payload =
      ring == RingKind::device ? in.receive_buffer.address + place * interface_.slot_bytes(ring)
                               : head + kPayloadAt;
  return {reinterpret_cast<const WireHeader*>(head + kHeaderAt), payload};
}

// A release is reported with our next notice on the channel. If half of the slots have become free
// since the last report, it is reported at the next turn; else when nothing else moves.
void Receiver::release(std::uint32_t channel) {
  Incoming& in = incoming_[channel];
  ++in.next;
  if (!endpoint_.failure().ok()) return;  // nobody to tell
  const std::uint32_t slots = interface_.options().slots;
  if (in.next - in.reported >= std::max(slots / 2, 1U)) interface_.report_soon();
  if (!std::exchange(in.waiting, true)) {
    if (unreported_.empty()) interface_.report_later(endpoint_);
    unreported_.push_back(channel);
  }
  if (!interface_.armed()) return;
  report_releases();
  endpoint_.pump();
}

void Receiver::report_releases() {
  if (!endpoint_.failure().ok()) return unreported_.clear();
  Control report;
  for (const std::uint32_t channel : unreported_) {
    Incoming& in = incoming_[channel];
    in.waiting = false;
    if (in.reported == in.next) continue;
    if (report.count == Control::kReleases) {
      endpoint_.sender().say(report);
      report = {};
    }
    report.releases[report.count++] = {static_cast<std::uint16_t>(channel), 0,
                                       static_cast<std::uint32_t>(in.next)};
    in.reported = in.next;
  }
  unreported_.clear();
  if (report.count != 0 && endpoint_.failure().ok()) endpoint_.sender().say(report);
}

}  // namespace weft::ib
