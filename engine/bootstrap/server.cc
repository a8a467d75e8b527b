// server: the server's thread, with the sockets and the clock for a Reception. It is one epoll
// loop, which wakes only if something arrives or can be sent, or if the time of a connection is
// over.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

#include "engine/bootstrap/reception.h"
#include "engine/net/net.h"

namespace weft {
namespace {

constexpr ConnectionId kListenerId = 0;
constexpr ConnectionId kWakeId = 1;
constexpr ConnectionId kFirstConnection = 2;
// How many connections more than there are ranks may be waiting to join. If there are more, or the
// system has no descriptor for the next, the oldest is closed, so that strangers that send nothing
// cannot keep the ranks out.
constexpr std::size_t kStrangers = 64;
constexpr int kMostTaken = 64;  // connections in one go, before those that are there are read again
constexpr std::int64_t kAcceptPauseMs = 100;  // after accept() failed for lack of descriptors

}  // namespace

class RendezvousServer::Loop {
 public:
  explicit Loop(const RendezvousOptions& options) : options_(options), reception_(options) {}
  ~Loop();

  Status open();
  [[nodiscard]] const Address& address() const { return address_; }
  void declare_dead(Rank rank, std::string reason);
  Status wait_until_empty(Deadline deadline, Deadline latecomers);

 private:
  struct Connection {
    Fd socket;
    std::int64_t patience_ends_ns;  // when it is closed if it has not joined, or is closing
    bool wants_to_send = false;
    bool half_closed = false;
  };

  void run();
  void turn();
  int next_timeout_ms() const;
  void take_connections();
  void take_declarations();
  void read(ConnectionId id);
  void write(ConnectionId id);
  void settle();
  void close(ConnectionId id, const std::string& reason);
  void close_impatient();
  bool make_room();
  void restart_patience(ConnectionId id);
  Status watch(int fd, ConnectionId id, std::uint32_t events, int operation) const;

  const RendezvousOptions options_;
  Address address_;
  Reception reception_;
  Fd listener_;
  Fd wake_;
  Fd epoll_;
  ConnectionId next_id_ = kFirstConnection;
  std::map<ConnectionId, Connection> connections_;
  std::set<ConnectionId> waiting_;    // connections that have not joined, or are closing
  std::int64_t accept_again_ns_ = 0;  // 0: accepting

  std::mutex mutex_;  // guards what follows, shared with other threads
  std::vector<std::pair<Rank, std::string>> declarations_;
  int present_ = 0;
  int expected_ = options_.size;
  std::condition_variable present_changed_;
  std::atomic<bool> stop_{false};
  Thread thread_;
};

Status RendezvousServer::Loop::open() {
  if (options_.size < 1)
    return Status(Code::invalid_argument, "a rendezvous for less than one rank");
  if (options_.job_key.empty())
    return Status(Code::invalid_argument, "a rendezvous without a job key");
  WEFT_ASSIGN(listener_, net::listen_on({options_.bind_host, options_.port}, SOMAXCONN));
  WEFT_ASSIGN(const std::uint16_t port, net::port_of(listener_));
  address_ = {options_.bind_host, port};
  WEFT_ASSIGN(wake_, net::make_wake_fd());
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return system_error("epoll_create", errno);
  WEFT_RETURN_IF_ERROR(watch(listener_.get(), kListenerId, EPOLLIN, EPOLL_CTL_ADD));
  WEFT_RETURN_IF_ERROR(watch(wake_.get(), kWakeId, EPOLLIN, EPOLL_CTL_ADD));
  WEFT_ASSIGN(thread_, start_thread("weft-server", [this] { run(); }));
  return {};
}

RendezvousServer::Loop::~Loop() {
  if (!thread_.joinable()) return;
  stop_ = true;
  net::wake(wake_);
  thread_.join();
}

Status RendezvousServer::Loop::watch(int fd, ConnectionId id, std::uint32_t events,
                                     int operation) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0)
    return system_error("epoll_ctl", errno);
  return {};
}

void RendezvousServer::Loop::run() {
  while (!stop_) turn();
}

void RendezvousServer::Loop::turn() {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), next_timeout_ms());
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const ConnectionId id = event.data.u64;
    if (id == kListenerId) {
      take_connections();
    } else if (id == kWakeId) {
      take_declarations();
    } else if (connections_.contains(id)) {  // it may have been closed earlier in this turn
      if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read(id);
      if ((event.events & EPOLLOUT) != 0 && connections_.contains(id)) write(id);
    }
  }
  close_impatient();
  settle();
}

int RendezvousServer::Loop::next_timeout_ms() const {
  std::int64_t first = accept_again_ns_;
  for (const ConnectionId id : waiting_) {
    const std::int64_t ends = connections_.at(id).patience_ends_ns;
    if (first == 0 || ends < first) first = ends;
  }
  return first == 0 ? -1 : Deadline::at_ns(first).left_ms();
}

void RendezvousServer::Loop::take_connections() {
  for (int taken = 0; taken < kMostTaken; ++taken) {
    Result<Fd> socket = net::accept_one(listener_);
    if (!socket.ok() && make_room()) continue;
    if (!socket.ok()) {
      log(LogLevel::warning,
          fmt::format("rendezvous {}: {}", address_.to_string(), socket.status().text()));
      accept_again_ns_ = Deadline::after_ms(kAcceptPauseMs).ns();
      (void)watch(listener_.get(), kListenerId, 0, EPOLL_CTL_MOD);
      return;
    }
    if (!socket->valid()) return;
    const ConnectionId id = next_id_++;
    if (!watch(socket->get(), id, EPOLLIN, EPOLL_CTL_ADD).ok()) continue;
    if (!reception_.open(id, net::peer_host(*socket)).ok()) continue;
    connections_.emplace(id, Connection{*std::move(socket), 0});
    restart_patience(id);
    if (waiting_.size() > static_cast<std::size_t>(options_.size) + kStrangers) (void)make_room();
  }
}

// Closes the connection that has waited longest. Returns false if none waits.
bool RendezvousServer::Loop::make_room() {
  while (!waiting_.empty()) {
    const ConnectionId oldest = *waiting_.begin();
    if (reception_.stage(oldest) != Reception::Stage::joined) {
      close(oldest, "pushed out by newer connections");
      return true;
    }
    waiting_.erase(oldest);  // it joined in this turn
  }
  return false;
}

void RendezvousServer::Loop::restart_patience(ConnectionId id) {
  connections_.at(id).patience_ends_ns = Deadline::after_ms(options_.handshake_ms).ns();
  waiting_.insert(id);
}

void RendezvousServer::Loop::take_declarations() {
  net::clear_wake(wake_);
  std::vector<std::pair<Rank, std::string>> declarations;
  {
    const std::lock_guard lock(mutex_);
    declarations.swap(declarations_);
  }
  for (const auto& [rank, reason] : declarations) reception_.declare_dead(rank, reason);
}

void RendezvousServer::Loop::read(ConnectionId id) {
  std::string bytes;
  const Result<net::Flow> flow = net::receive(connections_.at(id).socket, bytes);
  if (!flow.ok()) return close(id, std::string(flow.status().text()));
  if (*flow == net::Flow::ended) return close(id, "its connection ended without goodbye");
  reception_.received(id, bytes);
}

void RendezvousServer::Loop::write(ConnectionId id) {
  if (reception_.is_overrun(id)) return close(id, "it does not read what it asks for");
  Connection& connection = connections_.at(id);
  std::string& output = reception_.output(id);
  const Result<net::Flow> flow = net::send(connection.socket, output);
  if (!flow.ok()) return close(id, std::string(flow.status().text()));
  if (connection.wants_to_send != !output.empty()) {
    connection.wants_to_send = !output.empty();
    (void)watch(connection.socket.get(), id, EPOLLIN | (connection.wants_to_send ? EPOLLOUT : 0U),
                EPOLL_CTL_MOD);
  }
  if (reception_.stage(id) != Reception::Stage::closing || !output.empty() ||
      connection.half_closed)
    return;
  // If bytes are unread here, close() would reset the connection, and the other side could lose the
  // last frame, which gives the reason. Therefore only the sending half is closed now. The
  // connection is closed when the other side closes it, or after a time.
  connection.half_closed = true;
  (void)::shutdown(connection.socket.get(), SHUT_WR);
}

// Sends the output of this turn. Closing a connection may produce more output, because the others
// get an event. The loop ends because every round closes connections or produces no output.
void RendezvousServer::Loop::settle() {
  for (auto touched = reception_.take_touched(); !touched.empty();
       touched = reception_.take_touched()) {
    for (const ConnectionId id : touched) {
      if (!connections_.contains(id)) continue;
      const Reception::Stage stage = reception_.stage(id);
      if (stage == Reception::Stage::joined) waiting_.erase(id);
      if (stage == Reception::Stage::closing && !waiting_.contains(id)) restart_patience(id);
      write(id);
    }
  }
  const std::lock_guard lock(mutex_);
  if (present_ == reception_.present() && expected_ == reception_.expected()) return;
  present_ = reception_.present();
  expected_ = reception_.expected();
  present_changed_.notify_all();
}

void RendezvousServer::Loop::close(ConnectionId id, const std::string& reason) {
  waiting_.erase(id);
  connections_.erase(id);
  reception_.ended(id, reason);
}

void RendezvousServer::Loop::close_impatient() {
  const std::int64_t now = now_ns();
  const std::set<ConnectionId> waiting = waiting_;
  for (const ConnectionId id : waiting) {
    if (reception_.stage(id) == Reception::Stage::joined) {
      waiting_.erase(id);  // it joined in this turn
    } else if (connections_.at(id).patience_ends_ns <= now) {
      close(id, "it did not join in time");
    }
  }
  if (accept_again_ns_ != 0 && accept_again_ns_ <= now) {
    accept_again_ns_ = 0;
    (void)watch(listener_.get(), kListenerId, EPOLLIN, EPOLL_CTL_MOD);
  }
}

void RendezvousServer::Loop::declare_dead(Rank rank, std::string reason) {
  {
    const std::lock_guard lock(mutex_);
    declarations_.emplace_back(rank, std::move(reason));
  }
  net::wake(wake_);
}

Status RendezvousServer::Loop::wait_until_empty(Deadline deadline, Deadline latecomers) {
  const auto at = [](std::int64_t ns) {
    return std::chrono::steady_clock::time_point{std::chrono::nanoseconds(ns)};
  };
  std::unique_lock lock(mutex_);
  (void)present_changed_.wait_until(lock, at(std::min(deadline.ns(), latecomers.ns())),
                                    [&] { return expected_ == 0; });
  if (present_changed_.wait_until(lock, at(deadline.ns()), [&] { return present_ == 0; }))
    return {};
  return Status(Code::timed_out, fmt::format("{} ranks have not left the job", present_));
}

RendezvousServer::RendezvousServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
RendezvousServer::~RendezvousServer() = default;

Result<std::unique_ptr<RendezvousServer>> RendezvousServer::start(
    const RendezvousOptions& options) {
  auto loop = std::make_unique<Loop>(options);
  WEFT_RETURN_IF_ERROR(loop->open());
  return std::unique_ptr<RendezvousServer>(new RendezvousServer(std::move(loop)));
}

const Address& RendezvousServer::address() const {
  return loop_->address();
}
void RendezvousServer::declare_dead(Rank rank, std::string reason) {
  loop_->declare_dead(rank, std::move(reason));
}
Status RendezvousServer::wait_until_empty(Deadline deadline, Deadline latecomers) {
  return loop_->wait_until_empty(deadline, latecomers);
}

}  // namespace weft
