// reception: admits and refuses connections, and passes frames on to the Board.
#include "engine/bootstrap/reception.h"

#include <fmt/format.h>

#include "engine/bootstrap/proof.h"

namespace weft {
namespace {

// The most bytes of unread replies. A rank with more has stopped reading, and the server would have
// to keep them in memory.
constexpr std::size_t kMaxBacklog = 2 * kMaxStoreWaits * kMaxStoreValue;

}  // namespace

Reception::Reception(const RendezvousOptions& options)
    : options_(options), board_(options.size, *this) {}

Status Reception::open(ConnectionId id, std::string from) {
  WEFT_ASSIGN(const wire::Nonce nonce, proof::fresh_nonce());
  Session& session = sessions_[id];
  session.from = std::move(from);
  session.nonce = nonce;
  send(id, session, wire::encode_challenge(nonce));
  return {};
}

void Reception::received(ConnectionId id, std::string_view bytes) {
  Session& session = sessions_.at(id);
  if (session.stage == Stage::closing) return;
  session.reader.append(bytes);
  while (session.stage != Stage::closing && !is_overrun(id)) {
    const Result<std::optional<wire::Frame>> frame = session.reader.next();
    if (!frame.ok()) return refuse(id, session, frame.status());
    if (!frame->has_value()) return;
    take_frame(id, session, **frame);
  }
}

void Reception::take_frame(ConnectionId id, Session& session, const wire::Frame& frame) {
  if (session.stage == Stage::stranger) return greet(id, session, frame);
  Result<BoardRequest> request = wire::decode_request(frame);
  if (!request.ok()) return refuse(id, session, request.status());
  const bool leaves = request->kind == BoardRequest::Kind::leave;
  board_.handle(session.rank, std::move(request).value());
  if (!leaves) return;
  seats_.erase(session.rank);
  session.stage = Stage::closing;
}

void Reception::greet(ConnectionId id, Session& session, const wire::Frame& frame) {
  const Result<wire::Hello> hello = wire::decode_hello(frame);
  if (!hello.ok()) return refuse(id, session, hello.status());
  const Result<wire::Welcome> welcome = admit(session, *hello);
  if (!welcome.ok()) return refuse(id, session, welcome.status());
  session.stage = Stage::joined;
  session.rank = hello->rank;
  seats_[hello->rank] = id;
  const std::string words = wire::encode_welcome(*welcome);
  send(id, session, words);
  const wire::SealKeys keys = wire::seal_keys(
      options_.job_key, wire::encode_challenge(session.nonce) + wire::encode_hello(*hello) + words);
  session.reader.unseal(keys.to_server);
  session.sealer.emplace(keys.to_rank);
  board_.join(hello->rank);
}

Result<wire::Welcome> Reception::admit(const Session& session, const wire::Hello& hello) {
  const proof::Claim claim{hello.rank, hello.size, session.nonce, hello.nonce};
  const wire::Proof expected = proof::make(options_.job_key, proof::Side::rank, claim);
  // The key is checked first, so that a process without it learns nothing about the job.
  if (!proof::equal(expected, hello.proof)) {
    board_.note_stranger(fmt::format(
        "a process at {} that took itself for rank {} was refused: it has another WEFT_JOB_KEY",
        session.from, hello.rank));
    return Status(
        Code::no_permission,
        "the job key is not this job's: WEFT_JOB_KEY differs, or another job uses this address");
  }
  if (hello.size != static_cast<std::uint32_t>(options_.size)) {
    Status other_size(Code::mismatch, fmt::format("rank {} expects {} ranks; this job has {}",
                                                  hello.rank, hello.size, options_.size));
    board_.refused(hello.rank,
                   fmt::format("{} (it came from {})", other_size.text(), session.from));
    return other_size;
  }
  WEFT_RETURN_IF_ERROR(board_.may_join(hello.rank, hello.may_return));
  if (options_.host_rank != kNoRank && board_.is_over()) {
    return Status(Code::unavailable, "this rendezvous ends with its job; the next one may follow");
  }
  const wire::Proof ours = proof::make(options_.job_key, proof::Side::server, claim);
  return wire::Welcome{options_.host_rank, board_.next_incarnation(hello.rank), ours};
}

void Reception::refuse(ConnectionId id, Session& session, const Status& why) {
  const bool was_joined = session.stage == Stage::joined;
  session.stage = Stage::closing;
  send(id, session, wire::encode_refused(why));
  if (!was_joined) return;
  seats_.erase(session.rank);
  board_.died(session.rank, fmt::format("its connection carried {}", why.text()));
}

void Reception::ended(ConnectionId id, const std::string& reason) {
  const auto session = sessions_.extract(id);
  touched_.erase(id);
  if (session.mapped().stage != Stage::joined) return;
  seats_.erase(session.mapped().rank);
  board_.died(session.mapped().rank, reason);
}

void Reception::declare_dead(Rank rank, const std::string& reason) {
  const auto seat = seats_.find(rank);
  if (seat != seats_.end()) {
    sessions_.at(seat->second).stage = Stage::closing;
    touched_.insert(seat->second);
    seats_.erase(seat);
  }
  board_.died(rank, reason);
}

void Reception::send(ConnectionId id, Session& session, std::string_view bytes) {
  session.output.append(session.sealer ? session.sealer->seal(bytes) : std::string(bytes));
  touched_.insert(id);
}

void Reception::reply(Rank to, const Reply& reply) {
  send_to(to, wire::encode_reply(reply));
}
void Reception::event(Rank to, const StoreEvent& event) {
  send_to(to, wire::encode_event(event));
}

void Reception::send_to(Rank to, std::string_view bytes) {
  const auto seat = seats_.find(to);
  if (seat == seats_.end()) return;  // the rank's connection is closing
  send(seat->second, sessions_.at(seat->second), bytes);
}

bool Reception::is_overrun(ConnectionId id) const {
  return sessions_.at(id).output.size() > kMaxBacklog;
}

}  // namespace weft
