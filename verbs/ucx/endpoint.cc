// An endpoint: its connection, what it sends and receives over it, and its end.
#include "verbs/ucx/endpoint.h"

#include <fmt/core.h>

#include <utility>

#include "verbs/ucx/interface.h"

namespace weft::ucx {
namespace {

// File descriptors that must be free before an endpoint is made. UCX 1.13 aborts the process if an
// endpoint cannot open its socket, or a second socket that it uses for a moment to query the
// kernel. The other descriptors are a reserve for connections of other peers, which UCX's thread
// may accept meanwhile.
constexpr int kEndpointDescriptors = 8;

// The number of a hello before which UCX asks for its connection, if it ever does.
constexpr std::uint64_t kAsks = 1;

const Status& no_access() {
  // Never destroyed: a static context may be the last that uses it.
  static const Status& none =
      *new Status(Code::unavailable, "over UCX no rank reads the private memory of another");
  return none;
}

// Called by UCX when it no longer reads what was sent. Errors are ignored here, because UCX reports
// them to the endpoint, too (broke()).
void let_go(void* request, ucs_status_t, void* pending) {
  static_cast<Pending*>(pending)->end();
  (*library())->request_free(request);
}

}  // namespace

UcxEndpoint::UcxEndpoint(UcxInterface& interface, Rank peer, std::uint64_t nonce,
                         std::uint16_t incarnation)
    : Endpoint({.peer = peer, .work_needs_peer = true, .process_access = no_access()}, false),
      interface_(interface),
      library_(interface.library()),
      nonce_(nonce),
      incarnation_(incarnation),
      sender_(*this),
      receiver_(*this),
      one_sided_(*this),
      target_(*this) {}

std::string UcxEndpoint::describe() const {
  return std::string(interface_.name());
}

void UcxEndpoint::count_bytes(std::size_t bytes) {
  counted_bytes_ += bytes;
  interface_.count_bytes(bytes);
}

void UcxEndpoint::follow(UcxEndpoint& before) {
  hello_ = before.hello_;
  peer_has_greeted_ = before.peer_has_greeted_;
  peer_has_asked_ = before.peer_has_asked_;
  connection_ = std::move(before.connection_);
  if (connection_ != nullptr) connection_->user = this;
}

void UcxEndpoint::hear_of_next() {
  if (!failure_.ok()) return;
  end(Status(Code::unavailable,
             fmt::format("rank {} over {}: the peer connects anew", peer(), interface_.name()),
             peer()));
}

// One-sided work of the peer may have come before this end was connected. Its answers leave here,
// right after the hello.
Status UcxEndpoint::open(std::string_view worker_address) {
  if (is_open()) {
    begin();
    return {};
  }
  WEFT_RETURN_IF_ERROR(
      check_descriptors(fmt::format("connecting to rank {} over {}", peer(), interface_.name()),
                        kEndpointDescriptors));
  connection_ = std::make_unique<Connection>();
  connection_->user = this;
  ucp_ep_params_t how{};
  how.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                   UCP_EP_PARAM_FIELD_ERR_HANDLER;
  how.address = reinterpret_cast<const ucp_address_t*>(worker_address.data());
  how.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  how.err_handler.cb = [](void* self, ucp_ep_h, ucs_status_t status) {
    auto* connection = static_cast<Connection*>(self);
    if (!connection->is_open()) return;
    connection->broken = status;
    connection->user->broke();
  };
  how.err_handler.arg = connection_.get();
  (void)take_words();  // discards what UCX logged before
  const ucs_status_t status = library_.ep_create(interface_.worker(), &how, &connection_->native);
  if (status != UCS_OK) {
    connection_ = nullptr;
    return ucx_error(fmt::format("connecting to rank {} over {}", peer(), interface_.name()),
                     status, peer());
  }
  begin();
  return {};
}

// With its first message that cannot leave at once, UCX asks the peer for a connection. If the peer
// dies before the answer is out, and this answer is the first that UCX sends to it, UCX 1.13 aborts
// the process that answers. Therefore UCX gets nothing but hellos until both ends have asked. The
// first hello is sent if it can leave at once, so UCX asks nothing for it. The first hello of the peer
// shows that its connection takes answers.
void UcxEndpoint::begin() {
  connected_ = true;
  greeting_ = message(MessageKind::hello, kControlChannel, 0);
  if (!interface_.greets_first()) connection_->has_greeted = true;
  if (!connection_->has_greeted) {
    interface_.greet_later(*this);
    return greet();
  }
  greeting_.number = kAsks;
  send_hello(0);
  if (target_.owes_answers()) target_.send_answers();
}

void UcxEndpoint::send_hello(std::uint32_t attributes) {
  const std::string_view own = interface_.own_address();
  send(&greeting_, sizeof greeting_, std::as_bytes(std::span(own)), UCP_AM_SEND_FLAG_EAGER,
       greeting_pending_, attributes);
}

bool UcxEndpoint::send_at_once(const void* header, std::size_t header_bytes,
                               std::span<const std::byte> data) {
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
  how.flags = UCP_AM_SEND_FLAG_EAGER;
  const ucs_status_ptr_t sent = library_.am_send(connection_->native, kActiveMessage, header,
                                                 header_bytes, data.data(), data.size(), &how);
  const ucs_status_t status = UCS_PTR_STATUS(sent);
  if (status == UCS_OK || status == UCS_ERR_NO_RESOURCE) return status == UCS_OK;
  connection_->broken = status;
  broke();
  return false;
}

void UcxEndpoint::try_hello() {
  const auto own = std::as_bytes(std::span(interface_.own_address()));
  connection_->is_hello_out = send_at_once(&greeting_, sizeof greeting_, own);
}

// When both have greeted, a second hello makes UCX ask for its connection. UCX sends that hello behind
// the question, and holds it back until the peer has answered. So when the second hello of the peer is
// here, UCX owes it no answer any more that could wait behind what fills the socket.
void UcxEndpoint::greet() {
  if (!is_held()) return;
  if (!connection_->is_hello_out) try_hello();
  if (!is_held() || !connection_->is_hello_out || !peer_has_greeted_) return;
  if (!std::exchange(connection_->has_asked, true)) {
    greeting_.number = kAsks;
    send_hello(UCP_OP_ATTR_FLAG_NO_IMM_CMPL);
  }
  if (!is_held() || !peer_has_asked_) return;
  connection_->has_greeted = true;
  if (target_.owes_answers()) target_.send_answers();
  one_sided_.send_waiting();
  sender_.flush();
  if (parts_) part();
}

bool UcxEndpoint::may_be_asked() const {
  return is_open() && interface_.greets_first() && connection_->is_hello_out && !peer_has_asked_;
}

void UcxEndpoint::hear_greeting(const Message& hello) {
  peer_has_greeted_ = true;
  peer_has_asked_ |= hello.number == kAsks;
}

// The peer waits for our hello, too.
bool UcxEndpoint::take_hello(const void* address, std::size_t bytes) {
  if (bytes > kAddressBytes) return false;
  hello_.assign(static_cast<const char*>(address), bytes);
  if (!connected()) interface_.answer_later(*this);
  return true;
}

Message UcxEndpoint::message(MessageKind kind, std::uint32_t channel, std::uint64_t number) const {
  Message made;
  made.kind = kind;
  made.context = interface_.options().context;
  made.job = interface_.options().job;
  made.from = interface_.nonce();
  made.to = nonce_;
  made.rank = static_cast<std::uint16_t>(interface_.rank());
  made.incarnation = incarnation_;
  made.channel = static_cast<std::uint16_t>(channel);
  made.number = number;
  receiver_.tell_received(made);
  return made;
}

void UcxEndpoint::send(const void* header, std::size_t header_bytes,
                       std::span<const std::byte> data, std::uint32_t flags, Pending& pending,
                       std::uint32_t attributes) {
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                     UCP_OP_ATTR_FIELD_FLAGS | attributes;
  how.flags = flags;
  how.cb.send = let_go;
  how.user_data = &pending;
  pending.begin(interface_.sending());  // let_go() may be called before am_send() returns
  const ucs_status_ptr_t request = library_.am_send(connection_->native, kActiveMessage, header,
                                                    header_bytes, data.data(), data.size(), &how);
  if (UCS_PTR_IS_PTR(request)) return;
  pending.end();
  if (!UCS_PTR_IS_ERR(request)) return;
  connection_->broken = UCS_PTR_STATUS(request);
  broke();
}

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

std::uint32_t UcxEndpoint::protocol_for(std::size_t bytes) const {
  return bytes > interface_.eager_work_bytes() ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
}

bool UcxEndpoint::may_be_followed() const {
  return is_open() && !holds_memory();
}

bool UcxEndpoint::has_lost_connection() const {
  return connection_ != nullptr && !may_be_followed();
}

bool UcxEndpoint::may_go() {
  const bool has_connection = connection_ != nullptr && connection_->native != nullptr;
  return sender_.is_over() && forgotten_ && !has_connection && !closing_ && !flushing_ &&
         !greeting_pending_ && !goodbye_pending_ && !holds_memory() && target_.is_over() &&
         one_sided_.is_over();
}

void UcxEndpoint::drop_arrivals() {
  receiver_.drop_all();
  target_.drop_waiting();
}

void UcxEndpoint::give_back_all() {
  drop_arrivals();
  sender_.give_back();
  interface_.uncount_bytes(counted_bytes_);
}

bool UcxEndpoint::holds_memory() const {
  return one_sided_.holds_memory() || target_.holds_memory();
}

void UcxEndpoint::broke() {
  interface_.fail_later(*this);
}

void UcxEndpoint::fail() {
  if (!failure_.ok()) return;
  const std::string path = fmt::format("rank {} over {}", peer(), interface_.name());
  (void)take_words();  // discards what UCX logged before
  end(peer_closed() ? Status(Code::peer_left, path + ": it closed its interface", peer())
                    : ucx_error("the path to " + path + " failed", connection_->broken, peer()));
}

// Nothing more is sent or taken.
void UcxEndpoint::end(const Status& why) {
  failure_ = why;
  one_sided_.flush(why);
  sender_.flush();  // what waited is dropped
  if (target_.owes_answers()) target_.send_answers();
  target_.drop_waiting();
}

void UcxEndpoint::say_goodbye() {
  if (std::exchange(says_goodbye_, true)) return;
  parts_ = true;
  if (!is_held()) part();
}

void UcxEndpoint::part() {
  parts_ = false;
  if (!working()) return;
  sender_.hand_over_all();
  goodbye_ = message(MessageKind::goodbye, kControlChannel, 0);
  send(&goodbye_, sizeof goodbye_, {}, UCP_AM_SEND_FLAG_EAGER, goodbye_pending_);
  flushing_ = true;
  const ucp_request_param_t how = until_finished(&flushing_, 0);
  if (working() && UCS_PTR_IS_PTR(library_.ep_flush(connection_->native, &how))) return;
  flushing_ = false;
}

void UcxEndpoint::disconnect() {
  if (connection_ == nullptr || connection_->native == nullptr) return;
  closing_ = true;
  const ucp_request_param_t how = until_finished(&closing_, UCP_EP_CLOSE_FLAG_FORCE);
  const ucp_ep_h native = std::exchange(connection_->native, nullptr);
  if (!UCS_PTR_IS_PTR(library_.ep_close(native, &how))) closing_ = false;
  sender_.flush();  // sends nothing: what waited is dropped
}

// A connection that works is kept for the next endpoint, unless UCX may still touch memory. It then
// gets a moment to finish what it is writing before it is closed. If UCX 1.13 is cut off in the
// middle of a write, it leaves a connection behind that can end the process: when the peer closes
// its end while this connection can be written to.
void UcxEndpoint::abandon(const Status& why) {
  if (is_open() && holds_memory()) interface_.let_go(*this);
  if (failure_.ok()) end(why);
  if (may_be_followed()) return;
  disconnect();
  interface_.wait_closed(*this);
}

}  // namespace weft::ucx
