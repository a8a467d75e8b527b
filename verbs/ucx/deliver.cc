// The receiving side of the data path. Every message is checked before it changes anything: peers
// are not trusted with indices, sizes or addresses.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/ucx/interface.h"

namespace weft::ucx {
namespace {

// Ranks that an edge index can name.
constexpr std::uint32_t kMostRanks = 65'536;
// Interfaces that spoke to us and were not connected yet. More is not a job, it is an attack; each
// costs a few kilobytes.
constexpr std::size_t kMostStrangers = 16'384;
// Pieces that come from one peer at a time, in bytes, but at least two pieces. Fewer leave the
// connection idle while the next one's request travels behind what we send; more come interleaved,
// and their buffers push each other out of the caches: 16 of 1 MiB move 2.6 GB/s where 2 move 3.5.
constexpr std::size_t kBytesAtOnce = std::size_t{2} << 20;

template <typename Header>
Header decoded(const void* bytes) {
  Header header;
  std::memcpy(&header, bytes, sizeof header);
  return header;
}

}  // namespace

bool UcxInterface::meant_for_us(const Message& message, std::size_t header_bytes) const {
  return message.version == kWireVersion && header_bytes == header_bytes_of(message.kind) &&
         message.job == options_.job && message.context == options_.context &&
         message.to == nonce_ && message.rank < kMostRanks && message.channel < options_.channels;
}

UcxEndpoint* UcxInterface::sender_of(const Message& message) {
  const auto found = known_.find(message.from);
  const auto rank = static_cast<Rank>(message.rank);
  if (found != known_.end()) return found->second->peer() == rank ? found->second.get() : nullptr;
  if (strangers_ == kMostStrangers) return nullptr;
  ++strangers_;
  auto stranger = std::make_unique<UcxEndpoint>(*this, rank, message.from);
  return known_.emplace(message.from, std::move(stranger)).first->second.get();
}

ucs_status_t UcxInterface::on_message(void* self, const void* header, std::size_t header_bytes,
                                      void* data, std::size_t bytes,
                                      const ucp_am_recv_param_t* param) {
  const bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  auto* interface = static_cast<UcxInterface*>(self);
  bool taken = false;
  if (header_bytes == 0 && !rendezvous) {
    interface->deliver_batch({static_cast<const std::byte*>(data), bytes});
  } else {
    interface->deliver(header, header_bytes, data, bytes, rendezvous, taken);
  }
  return taken ? UCS_INPROGRESS : UCS_OK;
}

bool UcxInterface::refuse(const char* why) {
  warn_once(Status(Code::mismatch, fmt::format("{}: a message was dropped: {}", name_, why)));
  return false;
}

// What is behind a bad message is not looked at: it need not be where it seems.
void UcxInterface::deliver_batch(std::span<const std::byte> batch) {
  BatchReader reader(batch);
  bool taken = false;
  while (const auto entry = reader.next()) {
    auto* payload = const_cast<std::byte*>(entry->payload.data());  // only a rendezvous writes it
    if (!deliver(entry->header.data(), entry->header.size(), payload, entry->payload.size(), false,
                 taken))
      return;
  }
  if (reader.broken()) refuse("it is a batch that is cut or has other messages in it");
}

// `taken` says that UCX keeps the data of a rendezvous for us; else it drops what was not received.
bool UcxInterface::deliver(const void* header, std::size_t header_bytes, void* data,
                           std::size_t bytes, bool rendezvous, bool& taken) {
  if (header_bytes < sizeof(Message)) return refuse("it is too short");
  const auto message = decoded<Message>(header);
  if (!meant_for_us(message, header_bytes)) return refuse("it is not of this job and interface");
  UcxEndpoint* from = sender_of(message);
  if (from == nullptr) return refuse("its sender is not who it says, or one stranger too many");
  if (!from->failure().ok()) return true;  // given up: what it still delivers is not looked at
  bool good = false;
  switch (message.kind) {
    case MessageKind::notice:
      good = from->take_notice(decoded<NoticeMessage>(header), data, bytes, rendezvous, taken);
      break;
    case MessageKind::credit:
      good = from->take_credit(message);
      break;
    case MessageKind::hello:
      good = !rendezvous && from->take_hello(data, bytes);
      break;
    case MessageKind::goodbye:
      from->take_goodbye();
      good = true;
      break;
    case MessageKind::write:
    case MessageKind::read:
    case MessageKind::compare_swap:
      good = from->take_work(decoded<WorkMessage>(header), data, bytes, rendezvous, taken);
      break;
    case MessageKind::answer:
      good = from->take_answer(decoded<AnswerMessage>(header), data, bytes, rendezvous, taken);
      break;
  }
  return good || refuse(fmt::format("rank {} breaks the protocol", message.rank).c_str());
}

bool UcxEndpoint::take_hello(const void* address, std::size_t bytes) {
  if (bytes > kAddressBytes) return false;
  hello_.assign(static_cast<const char*>(address), bytes);
  if (interface_.closed()) interface_.answer_later(*this);
  return true;
}

bool UcxEndpoint::take_credit(const Message& message) {
  Outgoing& out = outgoing_[message.channel];
  // Messages may overtake each other: an older count is no error and says nothing new.
  if (message.released > out.posted) return false;
  out.released = std::max(out.released, message.released);
  return true;
}

bool UcxEndpoint::take_notice(const NoticeMessage& notice, void* data, std::size_t bytes,
                              bool rendezvous, bool& taken) {
  Incoming& in = incoming_[notice.message.channel];
  const std::uint32_t slots = interface_.options().slots;
  const std::size_t most = rendezvous ? interface_.piece_bytes() : interface_.payload_stride();
  const bool overstated = notice.header.form == PieceForm::payload && notice.header.bytes > bytes;
  if (overstated || notice.message.number - in.next >= slots || bytes > most ||
      !take_credit(notice.message))
    return false;
  if (in.arrivals == nullptr) [[unlikely]] {
    in.arrivals = std::make_unique<Arrival[]>(slots);
    in.payloads = make_lines(slots * interface_.payload_stride());
    interface_.count_bytes(slots * (sizeof(Arrival) + interface_.payload_stride()));
  }
  const std::size_t slot = notice.message.number & (slots - 1);
  Arrival& arrival = in.arrivals[slot];
  if (arrival.stage != Stage::empty) return false;
  arrival.endpoint = this;
  arrival.control = notice.message.channel == kControlChannel;
  arrival.header = notice.header;
  arrival.stage = Stage::coming;
  if (rendezvous) {
    taken = true;
    announced_.push_back({&arrival, data, bytes});
    admit();
    return true;
  }
  std::byte* copy = in.payloads.get() + slot * interface_.payload_stride();
  if (bytes != 0) std::memcpy(copy, data, bytes);
  arrival.payload = copy;
  show(arrival);
  return true;
}

// Lets UCX move the data of a rendezvous; `landed` is called when that ended, maybe before this
// returns.
void UcxEndpoint::receive(void* data, std::byte* into, std::size_t bytes, Landed landed,
                          void* what) {
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.cb.recv_am = landed;
  how.user_data = what;
  const ucs_status_ptr_t request =
      library_.am_recv_data(interface_.worker(), data, into, bytes, &how);
  if (!UCS_PTR_IS_PTR(request)) landed(nullptr, UCS_PTR_RAW_STATUS(request), bytes, what);
}

// A piece may land before receive() returns; the loop here goes on then, and not a deeper one.
void UcxEndpoint::admit() {
  if (std::exchange(admitting_, true)) return;
  const std::size_t most = std::max<std::size_t>(2, kBytesAtOnce / interface_.piece_bytes());
  while (coming_ < most && !announced_.empty()) {
    const Announced next = announced_.front();
    announced_.pop_front();
    next.arrival->piece = interface_.take_piece();
    next.arrival->payload = next.arrival->piece.get();
    ++coming_;
    receive(next.data, next.arrival->piece.get(), next.bytes, landed_piece, next.arrival);
  }
  admitting_ = false;
}

void UcxEndpoint::refuse_waiting() {
  for (const Announced& one : std::exchange(announced_, {}))
    library_.am_data_release(interface_.worker(), one.data);
}

// A piece that did not land stays unseen; its path is broken and says so itself.
void UcxEndpoint::landed_piece(void* request, ucs_status_t status, std::size_t, void* what) {
  auto& arrival = *static_cast<Arrival*>(what);
  UcxEndpoint& endpoint = *arrival.endpoint;
  if (request != nullptr) endpoint.library_.request_free(request);
  --endpoint.coming_;
  if (status == UCS_OK) endpoint.show(arrival);
  endpoint.admit();
}

void UcxEndpoint::show(Arrival& arrival) {
  arrival.stage = Stage::whole;
  interface_.count_arrival();
  if (arrival.control) interface_.ask_attention(*this);
}

Notice UcxEndpoint::front(std::uint32_t channel) {
  const Incoming& in = incoming_[channel];
  if (in.arrivals == nullptr) return {};
  const Arrival& arrival = in.arrivals[in.next & (interface_.options().slots - 1)];
  if (arrival.stage != Stage::whole) return {};
  return {&arrival.header, arrival.payload};
}

std::uint64_t UcxEndpoint::arrived(std::uint32_t channel) {
  const Incoming& in = incoming_[channel];
  if (in.arrivals == nullptr) return 0;
  const std::uint32_t slots = interface_.options().slots;
  std::uint64_t count = in.next;
  while (count - in.next < slots && in.arrivals[count & (slots - 1)].stage == Stage::whole) ++count;
  return count;
}

Lines UcxInterface::take_piece() {
  if (pieces_.empty()) {
    endpoint_bytes_ += piece_bytes_;
    return make_lines(piece_bytes_);
  }
  Lines piece = std::move(pieces_.back());
  pieces_.pop_back();
  return piece;
}

}  // namespace weft::ucx
