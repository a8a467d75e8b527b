// join: joining a rendezvous: connect, answer the server's challenge, and check the server's proof.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "engine/bootstrap/proof.h"
#include "engine/bootstrap/tcp_store.h"
#include "engine/net/net.h"

namespace weft {
namespace {

constexpr int kFirstPauseMs = 1;
constexpr int kLongestPauseMs = 250;

Status with_address(const Address& address, const Status& status) {
  return Status(status.code(), fmt::format("rendezvous {}: {}", address.to_string(), status.text()),
                status.rank());
}

Result<wire::Frame> next_frame(const Fd& socket, wire::FrameReader& reader, Deadline deadline) {
  for (;;) {
    WEFT_ASSIGN(std::optional<wire::Frame> frame, reader.next());
    if (frame) return *std::move(frame);
    WEFT_ASSIGN(const bool readable, net::wait_readable(socket, deadline));
    if (!readable) return Status(Code::timed_out, "somebody listens there but does not answer");
    std::string bytes;
    const Result<net::Flow> flow = net::receive(socket, bytes);
    // The server ended during the handshake. It may have been that of the last job, so another
    // attempt is made.
    if (!flow.ok()) return Status(Code::unavailable, std::string(flow.status().text()));
    if (*flow == net::Flow::ended)
      return Status(Code::unavailable, "the connection was closed at once");
    reader.append(bytes);
  }
}

Status send_hello(const Fd& socket, std::string bytes) {
  // The send buffer of a fresh connection has room for this one small frame.
  const Result<net::Flow> flow = net::send(socket, bytes);
  if (!flow.ok()) return Status(Code::unavailable, std::string(flow.status().text()));
  return {};
}

Result<Joined> shake_hands(Fd socket, const ConnectOptions& options, Deadline deadline) {
  wire::FrameReader reader(wire::kMaxText + 1);
  WEFT_ASSIGN(const wire::Frame first, next_frame(socket, reader, deadline));
  if (first.type == wire::Type::refused) return wire::decode_refused(first);
  WEFT_ASSIGN(const wire::Nonce server_nonce, wire::decode_challenge(first));
  WEFT_ASSIGN(const wire::Nonce nonce, proof::fresh_nonce());
  const proof::Claim claim{options.rank, static_cast<std::uint32_t>(options.size), server_nonce,
                           nonce};
  const wire::Proof ours = proof::make(options.job_key, proof::Side::rank, claim);
  const std::string hello =
      wire::encode_hello({claim.rank, claim.size, options.may_return, nonce, ours});
  WEFT_RETURN_IF_ERROR(send_hello(socket, hello));

  WEFT_ASSIGN(const wire::Frame second, next_frame(socket, reader, deadline));
  if (second.type == wire::Type::refused) return wire::decode_refused(second);
  WEFT_ASSIGN(const wire::Welcome welcome, wire::decode_welcome(second));
  const wire::Proof theirs = proof::make(options.job_key, proof::Side::server, claim);
  if (!proof::equal(theirs, welcome.proof)) {
    return Status(Code::no_permission, "the server does not know the job key");
  }
  // The proofs cover the rank and the size; what else was said is in the keys.
  const wire::SealKeys keys =
      wire::seal_keys(options.job_key,
                      wire::encode_challenge(server_nonce) + hello + wire::encode_welcome(welcome));
  reader.unseal(keys.to_rank);
  return Joined{std::move(socket), std::move(reader), wire::Sealer(keys.to_server),
                welcome.host_rank, welcome.incarnation};
}

Result<Joined> attempt(const ConnectOptions& options, Deadline deadline) {
  WEFT_ASSIGN(Fd socket, net::connect_once(options.address, deadline));
  return shake_hands(std::move(socket), options, deadline);
}

// Waits before the next attempt. There is no event to wait for if a server on another machine is
// not up yet.
void pause(int pause_ms, Deadline deadline) {
  (void)::poll(nullptr, 0, std::min(pause_ms, deadline.left_ms()));
}

}  // namespace

Result<Joined> join_rendezvous(const ConnectOptions& options, Deadline deadline) {
  if (Status status = net::check_loopback(options.address); !status.ok())
    return with_address(options.address, status);
  Status reason;  // the error of the last attempt that did not end only because of the deadline
  for (int pause_ms = kFirstPauseMs;; pause_ms = std::min(2 * pause_ms, kLongestPauseMs)) {
    Result<Joined> joined = attempt(options, deadline);
    if (joined.ok()) return joined;
    const bool was_cut_short = joined.status().code() == Code::timed_out && !reason.ok();
    if (!was_cut_short) reason = joined.status();
    if (reason.code() != Code::unavailable) return with_address(options.address, reason);
    if (deadline.passed()) {
      return with_address(
          options.address,
          Status(Code::timed_out,
                 fmt::format("no way to join until the deadline ({})", reason.text())));
    }
    pause(pause_ms, deadline);
  }
}

}  // namespace weft
