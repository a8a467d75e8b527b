// Messages that arrive at the interface: whose they are, and which part of an endpoint takes them.
// Every message is checked before it changes anything: peers are not trusted with indices, sizes or
// addresses.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "verbs/ucx/interface.h"

namespace weft::ucx {
namespace {

// The largest number of strangers: interfaces that have sent to us and to which we are not
// connected. No job has more, so more would be an attack. Each stranger costs a few kilobytes.
constexpr std::size_t kMostStrangers = 16'384;

// Whether incarnation a comes after b; they wrap around.
bool is_newer(std::uint16_t a, std::uint16_t b) {
  return static_cast<std::int16_t>(static_cast<std::uint16_t>(a - b)) > 0;
}

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
         message.to == nonce_ && message.channel < options_.channels;
}

UcxEndpoint* UcxInterface::sender_of(const Message& message) {
  const auto rank = static_cast<Rank>(message.rank);
  if (last_sender_ != nullptr && last_sender_->nonce() == message.from &&
      last_sender_->peer() == rank && last_sender_->incarnation() == message.incarnation)
    return last_sender_;
  const auto found = known_.find(message.from);
  if (found == known_.end()) {
    if (strangers_ == kMostStrangers) return nullptr;
    ++strangers_;
    auto stranger = std::make_unique<UcxEndpoint>(*this, rank, message.from, message.incarnation);
    return known_.emplace(message.from, std::move(stranger)).first->second.get();
  }
  UcxEndpoint& known = *found->second;
  if (known.peer() != rank) return nullptr;
  if (!is_newer(message.incarnation, known.incarnation())) return last_sender_ = &known;
  known.hear_of_next();
  if (!known.has_lost_connection()) replace(found->second, message.incarnation);
  return found->second.get();
}

ucs_status_t UcxInterface::on_message(void* self, const void* header, std::size_t header_bytes,
                                      void* data, std::size_t bytes,
                                      const ucp_am_recv_param_t* param) {
  const auto has = [param](std::uint64_t flag) { return (param->recv_attr & flag) != 0; };
  const Arriving arriving{data, bytes, has(UCP_AM_RECV_ATTR_FLAG_RNDV),
                          has(UCP_AM_RECV_ATTR_FLAG_DATA)};
  auto* interface = static_cast<UcxInterface*>(self);
  bool taken = false;
  if (header_bytes == 0 && !arriving.rendezvous) {
    interface->deliver_batch({static_cast<const std::byte*>(data), bytes});
  } else {
    interface->deliver(header, header_bytes, arriving, taken);
  }
  return taken ? UCS_INPROGRESS : UCS_OK;
}

bool UcxInterface::refuse(const char* why) {
  warn_once(Status(Code::mismatch, fmt::format("{}: a message was dropped: {}", name_, why)));
  return false;
}

// After a bad message the rest of the batch is dropped: if the length of the bad message is wrong,
// the next message is not where it seems to be.
void UcxInterface::deliver_batch(std::span<const std::byte> batch) {
  BatchReader reader(batch);
  bool taken = false;
  while (const auto entry = reader.next()) {
    auto* payload = const_cast<std::byte*>(entry->payload.data());  // only a rendezvous writes it
    const Arriving part{payload, entry->payload.size()};
    if (!deliver(entry->header.data(), entry->header.size(), part, taken)) return;
  }
  if (reader.broken()) refuse("it is a batch that is cut or has other messages in it");
}

// Sets `taken` if UCX has to keep the data for us after this call; otherwise UCX frees them.
bool UcxInterface::deliver(const void* header, std::size_t header_bytes, const Arriving& data,
                           bool& taken) {
  if (header_bytes < sizeof(Message)) return refuse("it is too short");
  const auto message = decoded<Message>(header);
  if (!meant_for_us(message, header_bytes)) return refuse("it is not of this job and interface");
  UcxEndpoint* from = sender_of(message);
  if (from == nullptr) return refuse("its sender is not who it says, or one stranger too many");
  if (message.kind == MessageKind::hello) from->hear_greeting(message);
  // What still comes for an endpoint that was given up or followed is dropped.
  if (!from->failure().ok() || from->incarnation() != message.incarnation) return true;
  bool good = false;
  switch (message.kind) {
    case MessageKind::notice:
      good = from->receiver().take_notice(decoded<NoticeMessage>(header), data, taken);
      break;
    case MessageKind::credit:
      good = from->sender().take_credit(message);
      break;
    case MessageKind::hello:
      good = !data.rendezvous && from->take_hello(data.data, data.bytes);
      break;
    case MessageKind::goodbye:
      from->take_goodbye();
      good = true;
      break;
    case MessageKind::write:
    case MessageKind::read:
    case MessageKind::compare_swap:
      good = from->target().take_work(decoded<WorkMessage>(header), data, taken);
      break;
    case MessageKind::answer:
      good = from->one_sided().take_answer(decoded<AnswerMessage>(header), data, taken);
      break;
  }
  return good || refuse(fmt::format("rank {} breaks the protocol", message.rank).c_str());
}

}  // namespace weft::ucx
