// Notices that have come, and the reports of our releases.
#include "verbs/ucx/receiver.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "verbs/ucx/interface.h"

namespace weft::ucx {

Receiver::Receiver(UcxEndpoint& endpoint)
    : endpoint_(endpoint),
      interface_(endpoint.interface()),
      incoming_(interface_.options().channels) {
  endpoint.count_bytes(incoming_.size() * sizeof(Incoming));
}

bool Receiver::take_notice(const NoticeMessage& notice, const Arriving& data, bool& taken) {
  const std::uint32_t channel = notice.message.channel;
  Incoming& in = incoming_[channel];
  const std::uint32_t slots = interface_.options().slots;
  const bool overstated =
      notice.header.form == PieceForm::payload && notice.header.bytes > data.bytes;
  if (overstated || notice.message.number - in.next >= slots || data.rendezvous ||
      data.bytes > interface_.piece_bytes() || !endpoint_.sender().take_credit(notice.message))
    return false;
  if (in.arrivals == nullptr) [[unlikely]] {
    in.arrivals = std::make_unique<Arrival[]>(slots);
    endpoint_.count_bytes(slots * sizeof(Arrival));
  }
  Arrival& arrival = in.arrivals[notice.message.number & (slots - 1)];
  if (arrival.is_there) return false;
  arrival.header = notice.header;
  arrival.is_there = true;
  arrival.is_piece = data.bytes > interface_.payload_stride();
  take_payload(arrival, data, taken);
  if (arrival.is_piece) {
    report_later(channel);
    interface_.report_soon();
  }
  while (in.arrived - in.next < slots && in.arrivals[in.arrived & (slots - 1)].is_there)
    ++in.arrived;
  interface_.count_arrival();
  if (channel == kControlChannel) interface_.ask_attention(endpoint_);
  return true;
}

// A piece stays in UCX's receive buffer if UCX allows that. All other payloads are copied.
void Receiver::take_payload(Arrival& arrival, const Arriving& data, bool& taken) {
  arrival.payload = nullptr;
  if (data.bytes == 0) return;
  taken = data.can_be_kept && arrival.is_piece;
  if (taken) {
    arrival.kept = data.data;
    arrival.payload = static_cast<const std::byte*>(data.data);
    return;
  }
  arrival.copy = interface_.pool(arrival.is_piece).take();
  std::memcpy(arrival.copy.get(), data.data, data.bytes);
  arrival.payload = arrival.copy.get();
}

void Receiver::give_back(Arrival& arrival) {
  if (arrival.kept != nullptr)
    interface_.library().am_data_release(interface_.worker(), std::exchange(arrival.kept, nullptr));
  if (arrival.copy != nullptr) interface_.pool(arrival.is_piece).give(std::move(arrival.copy));
}

void Receiver::drop_all() {
  for (Incoming& in : incoming_) {
    if (in.arrivals == nullptr) continue;
    for (Arrival& arrival : std::span(in.arrivals.get(), interface_.options().slots))
      give_back(arrival);
  }
}

Notice Receiver::front(std::uint32_t channel) const {
  const Incoming& in = incoming_[channel];
  if (in.arrivals == nullptr) return {};
  const Arrival& arrival = in.arrivals[in.next & (interface_.options().slots - 1)];
  if (!arrival.is_there) return {};
  return {&arrival.header, arrival.payload};
}

// A release is reported at once if half of the slots have become free since the last report.
// Otherwise it is reported with the next batch, or when nothing else moves. So neither a stream nor
// a ping-pong pays a message for each release.
void Receiver::release(std::uint32_t channel) {
  Incoming& in = incoming_[channel];
  const std::uint32_t slots = interface_.options().slots;
  Arrival& arrival = in.arrivals[in.next & (slots - 1)];
  if (arrival.is_piece) interface_.report_soon();
  give_back(arrival);
  arrival.is_there = false;
  ++in.next;
  if (in.next - in.reported >= std::max(slots / 2, 1U) && report(channel)) return;
  report_later(channel);
}

void Receiver::report_later(std::uint32_t channel) {
  if (std::exchange(incoming_[channel].waiting, true)) return;
  if (unreported_.empty()) interface_.report_later(endpoint_);
  unreported_.push_back(channel);
}

bool Receiver::report(std::uint32_t channel) {
  Incoming& in = incoming_[channel];
  const bool known = in.next == in.reported && in.arrived == in.reported_arrived;
  if (known || interface_.closed() || (endpoint_.connected() && !endpoint_.working())) return true;
  if (!endpoint_.connected() && endpoint_.hello().empty()) return true;  // its address is not known
  if (!endpoint_.connected()) {  // its pieces complete by our report
    interface_.answer_later(endpoint_);
    return false;
  }
  std::byte* place = endpoint_.sender().append(sizeof(Message), {});
  if (place == nullptr) return false;
  ::new (place) Message(endpoint_.message(MessageKind::credit, channel, 0));
  count_told(channel);
  if (interface_.armed() && !endpoint_.is_held()) endpoint_.sender().send_batch();
  return true;
}

bool Receiver::report_releases() {
  std::erase_if(unreported_, [this](std::uint32_t channel) {
    if (!report(channel)) return false;
    incoming_[channel].waiting = false;
    return true;
  });
  return unreported_.empty();
}

void Receiver::tell_received(Message& message) const {
  const Incoming& in = incoming_[message.channel];
  message.ahead = static_cast<std::uint16_t>(in.arrived - in.next);
  message.released = in.next;
}

void Receiver::count_told(std::uint32_t channel) {
  Incoming& in = incoming_[channel];
  in.reported = in.next;
  in.reported_arrived = in.arrived;
}

}  // namespace weft::ucx
