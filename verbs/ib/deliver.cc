// The receiving side of the data path. Every message is checked before it changes anything: peers
// are not trusted with indices and sizes. Notices stay where the device wrote them.
#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/ib/interface.h"

namespace weft::ib {
namespace {

// Receive buffers are given back so many at a time.
constexpr std::size_t kGiveBack = 16;

}  // namespace

// Whether a completion is a datagram's is known by its queue pair.
std::size_t IbInterface::take_messages() {
  std::array<ibv_wc, kAtOnce> completions;
  const std::uint32_t returned = returned_;
  const std::size_t early = take_early_arrivals(completions);
  const int count = early != 0
                        ? static_cast<int>(early)
                        : library_.poll_cq(arrivals_queue_.get(), kAtOnce, completions.data());
  if (count < 0) [[unlikely]] {
    warn_once(counted(count, name_ + ": its receive completions"));
    return 0;
  }
  // Nothing is left in the queue of peers whose windows came back before it was found empty.
  if (early == 0 && count < kAtOnce) {
    windows_ -= returned;
    returned_ -= returned;
  }
  for (int c = 0; c < count; ++c) {
    const ibv_wc& completion = completions[static_cast<std::size_t>(c)];
    if (completion.qp_num != datagrams_->qp_num) {
      take_message(completion);
    } else if (is_stale(completion)) {
      continue;
    } else if (completion.status == IBV_WC_SUCCESS) {
      take_datagram(completion);
    } else {
      datagram_failed(completion, "receiving a datagram");
    }
  }
  if (free_receives_.size() >= kGiveBack || (count == 0 && !free_receives_.empty())) {
    if (const Status given = give_receives(); !given.ok()) warn_once(given);
  }
  return static_cast<std::size_t>(count);
}

std::size_t IbInterface::take_early_arrivals(std::span<ibv_wc> completions) {
  std::size_t count = 0;
  for (; count < completions.size() && !early_arrivals_.empty(); early_arrivals_.pop())
    completions[count++] = early_arrivals_.front();
  return count;
}

// Drivers remove the completions of a queue pair that is reset, and with them would go the places of
// the receive queue that they name: what has come is fetched before.
void IbInterface::fetch_arrivals() {
  std::array<ibv_wc, kAtOnce> completions;
  for (std::uint32_t most = receive_depth_; most != 0;) {  // each took a place, but for datagrams
    const int count = library_.poll_cq(arrivals_queue_.get(), kAtOnce, completions.data());
    if (count <= 0) return;
    for (const ibv_wc& completion : std::span(completions).first(static_cast<std::size_t>(count)))
      early_arrivals_.push() = completion;
    most -= std::min(most, static_cast<std::uint32_t>(count));
  }
}

void IbInterface::take_message(const ibv_wc& completion) {
  const auto found = queues_.find(completion.qp_num);
  IbEndpoint* from = found == queues_.end() ? nullptr : found->second.endpoint;
  const bool good = completion.status == IBV_WC_SUCCESS;
  if (completion.wr_id < receive_depth_)
    free_receives_.push_back(static_cast<std::uint32_t>(completion.wr_id));
  if (from == nullptr) return;  // a path that has ended
  if (!good) return from->broke(completion);
  bool taken = false;
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    taken = from->take_notice(decode(ntohl(completion.imm_data)));
  } else if (completion.byte_len == sizeof(Control)) {
    Control control;
    std::memcpy(&control, receive_memory_.data() + completion.wr_id * kReceiveBytes,
                sizeof control);
    taken = from->take_control(control);
  }
  from->count_received();
  if (taken) return;
  from->fail(Status(Code::mismatch, fmt::format("{}: it breaks the protocol", from->path()),
                    from->peer()));
}

std::size_t IbInterface::take_completions() {
  std::array<ibv_wc, kAtOnce> completions;
  const int count = library_.poll_cq(sends_queue_.get(), kAtOnce, completions.data());
  if (count < 0) [[unlikely]] {
    warn_once(counted(count, name_ + ": its send completions"));
    return 0;
  }
  for (int c = 0; c < count; ++c) {
    const ibv_wc& completion = completions[static_cast<std::size_t>(c)];
    if (completion.qp_num == datagrams_->qp_num) {
      if (is_stale(completion)) continue;
      ++datagrams_retired_;
      if (completion.status != IBV_WC_SUCCESS) datagram_failed(completion, "sending a datagram");
      continue;
    }
    const auto found = queues_.find(completion.qp_num);
    if (found == queues_.end()) continue;
    const Owner owner = found->second;
    if (completion.status != IBV_WC_SUCCESS) {
      // The first that fails says that those before it have ended well.
      if (completion.status != IBV_WC_WR_FLUSH_ERR)
        owner.endpoint->retire(owner.index, completion.wr_id - 1);
      owner.endpoint->broke(completion);
    } else {
      owner.endpoint->retire(owner.index, completion.wr_id);
    }
  }
  return static_cast<std::size_t>(count);
}

Status IbInterface::give_receives() {
  std::array<ibv_recv_wr, kGiveBack> requests;
  std::array<ibv_sge, kGiveBack> parts;
  while (!free_receives_.empty()) {
    const std::size_t count = std::min(kGiveBack, free_receives_.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t place = free_receives_[free_receives_.size() - 1 - i];
      parts[i] = {receive_memory_.address() + place * kReceiveBytes, kReceiveBytes,
                  receive_memory_.lkey()};
      requests[i] = {place, i + 1 < count ? &requests[i + 1] : nullptr, &parts[i], 1};
    }
    ibv_recv_wr* bad = nullptr;
    const Status given = answered(library_.post_srq_recv(receives_.get(), requests.data(), &bad),
                                  name_ + ": buffers for its shared receive queue");
    // Those before `bad` were taken.
    const std::ptrdiff_t taken = given.ok() ? std::ptrdiff_t(count) : bad - requests.data();
    free_receives_.resize(free_receives_.size() - static_cast<std::size_t>(taken));
    WEFT_RETURN_IF_ERROR(given);
  }
  return {};
}

// What comes over the queue pairs was sent by a peer that has confirmed, whatever datagram was lost.
void IbEndpoint::count_received() {
  if (!peer_ready_) [[unlikely]]
    confirm();
  ++received_;
  if (received_ - received_reported_ >= granted_ / 2) interface_.pump_later(*this);
}

// Notices of a channel come over one queue pair, so in order.
bool IbEndpoint::take_notice(const Immediate& immediate) {
  const std::uint32_t slots = interface_.options().slots;
  const auto ring = static_cast<std::size_t>(immediate.ring);
  if (immediate.channel >= incoming_.size() || ring >= kRings) return false;
  Incoming& in = incoming_[immediate.channel];
  if (!in.rings[ring] || in.arrived - in.next >= slots ||
      immediate.slot != (in.arrived & (slots - 1)))
    return false;
  const std::byte* slot =
      in.rings[ring].data() + immediate.slot * interface_.slot_bytes(immediate.ring);
  Prefix prefix;
  std::memcpy(&prefix, slot + kPrefixAt, sizeof prefix);
  WireHeader header;
  std::memcpy(&header, slot + kHeaderAt, sizeof header);
  if (prefix.number != static_cast<std::uint32_t>(in.arrived) ||
      prefix.bytes > interface_.most_payload(immediate.ring) ||
      (header.form == PieceForm::payload && header.bytes > prefix.bytes))
    return false;
  in.slots[immediate.slot] = immediate.ring;
  ++in.arrived;
  take_released(immediate.channel, prefix.released);
  take_received(prefix.received);
  interface_.count_arrival();
  if (immediate.channel == kControlChannel) interface_.ask_attention(*this);
  return true;
}

bool IbEndpoint::take_control(const Control& control) {
  if (control.version != kWireVersion) return false;
  take_received(control.received);
  switch (control.kind) {
    case ControlKind::releases:
      if (control.count > Control::kReleases) return false;
      for (std::size_t r = 0; r < control.count; ++r) {
        if (control.releases[r].channel >= outgoing_.size()) return false;
        take_released(control.releases[r].channel, control.releases[r].released);
      }
      return true;
    case ControlKind::goodbye:
      peer_closed_.store(true, std::memory_order_release);
      return_window();  // what it sent has arrived
      return true;
    case ControlKind::want:
      return grant(control);
    case ControlKind::grant:
      return take_grant(control);
    case ControlKind::expose:
      say(interface_.expose(control.chunk));
      return true;
    case ControlKind::exposed:
      return take_exposed(control);
  }
  return false;
}

// A ring that we cannot make is answered, too: the peer would wait for it for ever.
bool IbEndpoint::grant(const Control& want) {
  const auto ring = static_cast<std::size_t>(want.ring);
  if (want.channel >= incoming_.size() || ring >= kRings) return false;
  Incoming& in = incoming_[want.channel];
  const std::uint32_t slots = interface_.options().slots;
  if (!in.rings[ring]) {
    Result<Buffer> made = interface_.make_buffer(slots * interface_.slot_bytes(want.ring),
                                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!made.ok()) {
      interface_.warn_once(made.status());
      Control none = want;
      none.kind = ControlKind::grant;
      say(none);
      return true;
    }
    in.rings[ring] = std::move(made).value();
    if (in.slots == nullptr) in.slots = std::make_unique<RingKind[]>(slots);
  }
  Control answer = want;
  answer.kind = ControlKind::grant;
  answer.address = in.rings[ring].address();
  answer.key = in.rings[ring].rkey();
  say(answer);
  return true;
}

bool IbEndpoint::take_grant(const Control& grant) {
  const auto ring = static_cast<std::size_t>(grant.ring);
  if (grant.channel >= outgoing_.size() || ring >= kRings) return false;
  Remote& remote = outgoing_[grant.channel].remote[ring];
  if (remote.state != Remote::State::asked) return false;
  if (grant.address == 0) {
    fail(Status(Code::exhausted, path() + ": the peer has no memory that it can register for it",
                peer_));
    return true;
  }
  remote = {Remote::State::granted, grant.key, grant.address};
  interface_.pump_later(*this);
  return true;
}

Notice IbEndpoint::front(std::uint32_t channel) {
  const Incoming& in = incoming_[channel];
  if (in.next == in.arrived) return {};
  const std::size_t place = in.next & (interface_.options().slots - 1);
  const RingKind ring = in.slots[place];
  const std::byte* slot =
      in.rings[static_cast<std::size_t>(ring)].data() + place * interface_.slot_bytes(ring);
  return {reinterpret_cast<const WireHeader*>(slot + kHeaderAt), slot + kPayloadAt};
}

// Reports go with the next notice of the channel; soon when half of the slots are free again and the
// peer does not know; else when nothing else moves.
void IbEndpoint::release(std::uint32_t channel) {
  Incoming& in = incoming_[channel];
  ++in.next;
  if (!failure_.ok()) return;  // nobody to tell
  const std::uint32_t slots = interface_.options().slots;
  if (in.next - in.reported >= std::max(slots / 2, 1U)) interface_.report_soon();
  if (!std::exchange(in.waiting, true)) {
    if (unreported_.empty()) interface_.report_later(*this);
    unreported_.push_back(channel);
  }
  if (!interface_.armed()) return;
  report_releases();
  pump();
}

void IbEndpoint::report_releases() {
  if (!failure_.ok()) return unreported_.clear();
  Control report;
  for (const std::uint32_t channel : unreported_) {
    Incoming& in = incoming_[channel];
    in.waiting = false;
    if (in.reported == in.next) continue;
    if (report.count == Control::kReleases) {
      say(report);
      report = {};
    }
    report.releases[report.count++] = {static_cast<std::uint16_t>(channel), 0,
                                       static_cast<std::uint32_t>(in.next)};
    in.reported = in.next;
  }
  unreported_.clear();
  if (report.count != 0 && failure_.ok()) say(report);
}

}  // namespace weft::ib
