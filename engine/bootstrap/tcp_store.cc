// tcp_store: the thread that serves a rank's rendezvous connection.
#include "engine/bootstrap/tcp_store.h"

#include <fmt/format.h>
#include <poll.h>

#include <array>
#include <cerrno>

#include "engine/net/net.h"

namespace weft {
namespace {

// How long the rank that hosts the rendezvous waits, when it leaves, for ranks that have not
// joined.
constexpr std::int64_t kLatecomersMs = 2000;

}  // namespace

TcpStore::TcpStore(const ConnectOptions& options, Joined joined, Fd event_fd, Fd wake)
    : StoreClient(options.rank, options.size, options.put_deadline_ms, std::move(event_fd)),
      server_name_(options.address.to_string()),
      joined_(std::move(joined)),
      wake_(std::move(wake)) {}

Result<std::shared_ptr<TcpStore>> TcpStore::open(const ConnectOptions& options, Joined joined) {
  WEFT_ASSIGN(Fd event_fd, EventQueue::make_fd());
  WEFT_ASSIGN(Fd wake, net::make_wake_fd());
  std::shared_ptr<TcpStore> store(
      new TcpStore(options, std::move(joined), std::move(event_fd), std::move(wake)));
  WEFT_ASSIGN(store->thread_, start_thread("weft-store", [raw = store.get()] { raw->run(); }));
  return store;
}

TcpStore::~TcpStore() {
  stop_ = true;
  net::wake(wake_);
  thread_.join();
}

Status TcpStore::send(const BoardRequest& request, Deadline) {
  const std::string frame = wire::encode_request(request);
  {
    const std::lock_guard lock(outgoing_mutex_);
    outgoing_.append(joined_.sealer.seal(frame));
  }
  net::wake(wake_);
  return {};
}

Status TcpStore::goodbye(Deadline deadline) {
  WEFT_RETURN_IF_ERROR(StoreClient::goodbye(deadline));
  if (server_ == nullptr) return {};
  return server_->wait_until_empty(deadline, Deadline::after_ms(kLatecomersMs));
}

void TcpStore::run() {
  while (!stop_) {
    if (const Status status = turn(); !status.ok()) return lose(status);
  }
}

Status TcpStore::turn() {
  const short events = sending_.empty() ? POLLIN : POLLIN | POLLOUT;
  std::array<pollfd, 2> fds{pollfd{joined_.socket.get(), events, 0},
                            pollfd{wake_.get(), POLLIN, 0}};
  // Frames may have arrived together with the welcome. poll() does not report these, because they
  // are in the reader already, so read() comes first.
  WEFT_RETURN_IF_ERROR(read());
  if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return system_error("poll", errno);
  if (fds[1].revents != 0) {
    net::clear_wake(wake_);
    const std::lock_guard lock(outgoing_mutex_);
    sending_.append(outgoing_);
    outgoing_.clear();
  }
  return write();
}

Status TcpStore::read() {
  for (;;) {
    WEFT_ASSIGN(const std::optional<wire::Frame> frame, joined_.reader.next());
    if (frame) {
      WEFT_RETURN_IF_ERROR(take_frame(*frame));
      continue;
    }
    std::string bytes;
    WEFT_ASSIGN(const net::Flow flow, net::receive(joined_.socket, bytes));
    if (flow == net::Flow::ended) return Status(Code::closed, "it closed the connection");
    if (flow == net::Flow::blocked) return {};
    joined_.reader.append(bytes);
  }
}

Status TcpStore::write() {
  WEFT_ASSIGN([[maybe_unused]] const net::Flow flow, net::send(joined_.socket, sending_));
  return {};
}

Status TcpStore::take_frame(const wire::Frame& frame) {
  if (frame.type == wire::Type::reply) {
    WEFT_ASSIGN(const Reply reply, wire::decode_reply(frame));
    deliver(reply);
    return {};
  }
  if (frame.type == wire::Type::event) {
    WEFT_ASSIGN(const StoreEvent event, wire::decode_event(frame));
    if (event.rank < 0 || event.rank >= size())
      return Status(Code::mismatch, "it told of a rank that is none");
    deliver(event);
    return {};
  }
  return wire::decode_refused(frame);  // always an error, which ends the connection
}

// Called when the connection to the server has ended. If the server was in the process of another
// rank, that rank has died, too, and the server can no longer report it.
void TcpStore::lose(const Status& why) {
  const Rank host = joined_.host_rank;
  const std::string reason = fmt::format("the rendezvous {} is gone: {}", server_name_, why.text());
  if (host == kNoRank || host == rank()) {
    deliver(StoreEvent{StoreEvent::Kind::lost, kNoRank, reason});
    return break_off(Status(Code::closed, reason));
  }
  deliver(StoreEvent{StoreEvent::Kind::died, host, reason});
  break_off(Status(Code::peer_died, fmt::format("rank {} died: {}", host, reason), host));
}

}  // namespace weft
