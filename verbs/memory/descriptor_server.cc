// Both sides of the descriptor server: the owner's thread, and the client's one request.
#include "verbs/memory/descriptor_server.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

namespace weft {
namespace {

constexpr int kBacklog = 4096;             // the kernel takes less where net.core.somaxconn says so
constexpr std::int64_t kClientMs = 1'000;  // for a client's request to come
constexpr std::size_t kMostClients = 256;  // whose request is waited for; each holds a descriptor
constexpr int kMostTaken = 64;             // in one go, before those that wait are looked at again
constexpr std::int64_t kAnswerMs = 2'000;  // for the owner's answer, on a loaded machine
constexpr int kPauseMs = 100;              // after accept() failed for lack of descriptors

struct Request {
  HeapTicket ticket;
  std::int32_t descriptor;
  std::int32_t version;
};
constexpr std::int32_t kProtocolVersion = 1;

struct Name {
  sockaddr_un address{};
  socklen_t bytes = 0;
};
Name name_of(const HeapIdentity& identity) {
  Name name;
  name.address.sun_family = AF_UNIX;
  const std::string text = fmt::format("weft-{:016x}", identity.nonce);
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());  // [0] is 0: an abstract name
  name.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

void set_patience(const Fd& socket, std::int64_t ms) {
  const timeval bound{ms / 1'000, ms % 1'000 * 1'000};
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound);
}

// Whether the kernel says that the other end is a process of our own user.
bool is_our_user(const Fd& socket) {
  ucred other{};
  socklen_t bytes = sizeof other;
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &other, &bytes) == 0 &&
         other.uid == geteuid();
}

// Takes the same time whatever part of the ticket is right, so that the time tells a client
// nothing.
bool is_equal(const HeapTicket& a, const HeapTicket& b) {
  return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0;
}

// Space for up to two descriptors beside a message's one byte.
struct DescriptorMessage {
  char byte = 'y';
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr header{};

  DescriptorMessage() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  DescriptorMessage(const DescriptorMessage&) = delete;
  DescriptorMessage& operator=(const DescriptorMessage&) = delete;
};

bool send_descriptors(const Fd& socket, const std::array<int, 2>& descriptors, std::size_t count) {
  DescriptorMessage message;
  message.header.msg_controllen = CMSG_SPACE(count * sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&message.header);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(header), descriptors.data(), count * sizeof(int));
  return sendmsg(socket.get(), &message.header, MSG_NOSIGNAL) == 1;
}

// The owner's side. Never destroyed: its thread sleeps until the process ends.
class DescriptorServer {
 public:
  explicit DescriptorServer(int heap_file) : offered_{heap_file} {}

  Status open(HeapIdentity& identity);
  void offer(int descriptor) {
    const std::lock_guard lock(mutex_);
    offered_.push_back(descriptor);
  }
  void withdraw(int descriptor) {
    const std::lock_guard lock(mutex_);
    std::erase(offered_, descriptor);
  }

 private:
  // A client whose request has not come yet.
  struct Client {
    Fd socket;
    std::int64_t patience_ends_ns = 0;
  };

  void run();
  void wait() const;
  // Takes those who have come; false: the system has no descriptor for the next one.
  bool accept_clients();
  // Answers the client's request, if it has come; whether the client is done with.
  bool serve(Fd& client);
  void answer(Fd& client, const Request& request);

  HeapTicket ticket_{};
  Fd listener_;
  std::deque<Client> clients_;  // oldest first
  Fd self_;                     // our pidfd; invalid where the kernel gives none
  std::vector<Fd> watchers_;    // without it: connections whose hang-up tells clients of our end
  std::mutex mutex_;            // guards offered_
  std::vector<int> offered_;
  Thread thread_;
};

Status DescriptorServer::open(HeapIdentity& identity) {
  if (getrandom(ticket_.data(), sizeof ticket_, 0) != sizeof ticket_)
    return system_error("drawing the ticket of the descriptor server", errno);
  listener_ = Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_.valid()) return system_error("a local socket", errno);
  const Name name = name_of(identity);
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name.address), name.bytes) != 0 ||
      listen(listener_.get(), kBacklog) != 0) {
    return system_error("listening on a local socket", errno);
  }
  self_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0U)));
  WEFT_ASSIGN(thread_, start_thread("weft-descriptor", [this] { run(); }));
  identity.ticket = ticket_;
  return {};
}

void DescriptorServer::run() {
  for (;;) {
    wait();
    std::erase_if(clients_, [this, now = now_ns()](Client& client) {
      return serve(client.socket) || client.patience_ends_ns <= now;
    });
    if (accept_clients()) continue;
    if (!clients_.empty()) clients_.pop_front();
    (void)poll(nullptr, 0, kPauseMs);
  }
}

void DescriptorServer::wait() const {
  std::vector<pollfd> all{{listener_.get(), POLLIN, 0}};
  for (const Client& client : clients_) all.push_back({client.socket.get(), POLLIN, 0});
  const int timeout_ms =
      clients_.empty() ? -1 : Deadline::at_ns(clients_.front().patience_ends_ns).left_ms();
  (void)poll(all.data(), all.size(), timeout_ms);
}

// A client of ours has asked before it is accepted here, so it waits behind nobody.
bool DescriptorServer::accept_clients() {
  for (int taken = 0; taken < kMostTaken; ++taken) {
    Fd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
    if (!is_our_user(client) || serve(client)) continue;
    clients_.push_back({std::move(client), Deadline::after_ms(kClientMs).ns()});
    if (clients_.size() > kMostClients) clients_.pop_front();
  }
  return true;
}

bool DescriptorServer::serve(Fd& client) {
  Request request{};
  const ssize_t got = recv(client.get(), &request, sizeof request, 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
  if (got == sizeof request) answer(client, request);
  return true;
}

void DescriptorServer::answer(Fd& client, const Request& request) {
  if (!is_equal(request.ticket, ticket_) || request.version != kProtocolVersion) return;
  {
    const std::lock_guard lock(mutex_);  // so that nobody closes the descriptor before it is sent
    if (std::ranges::find(offered_, request.descriptor) == offered_.end()) return;
    if (!send_descriptors(client, {request.descriptor, self_.get()}, self_.valid() ? 2 : 1)) return;
  }
  if (self_.valid()) return;
  std::erase_if(watchers_, [](const Fd& other) {
    pollfd hung_up{other.get(), 0, 0};
    return poll(&hung_up, 1, 0) > 0;
  });
  watchers_.push_back(std::move(client));
}

DescriptorServer*& process_server() {
  static DescriptorServer* instance = nullptr;
  return instance;
}

Status not_reached(const HeapIdentity& identity, std::string_view why) {
  return Status(Code::unavailable, fmt::format("process {} does not hand out its shared memory: {}",
                                               identity.process, why));
}

Result<Fd> connect_to_server(const HeapIdentity& identity) {
  if (identity.ticket == HeapTicket{})
    return not_reached(identity, "it could open no local socket");
  Fd server(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!server.valid()) return not_reached(identity, system_error("a local socket", errno).text());
  set_patience(server, kAnswerMs);
  const Name name = name_of(identity);
  if (connect(server.get(), reinterpret_cast<const sockaddr*>(&name.address), name.bytes) == 0)
    return server;
  if (errno != ECONNREFUSED) return not_reached(identity, system_error("connecting", errno).text());
  if (identity.network_space == this_network_space())
    return Status(Code::peer_died, fmt::format("process {} has ended", identity.process));
  return not_reached(identity,
                     "it is in another network namespace, where local sockets do not reach");
}

// The descriptors in the answer; at most two, as a DescriptorMessage has room for no more.
std::vector<Fd> received_descriptors(msghdr& message) {
  std::vector<Fd> received;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof descriptor);
      received.emplace_back(descriptor);
    }
  }
  return received;
}

}  // namespace

void start_descriptor_server(HeapIdentity& identity) {
  auto* server = new DescriptorServer(identity.file);
  const Status status = server->open(identity);
  if (status.ok()) {
    process_server() = server;
    return;
  }
  log(LogLevel::debug, fmt::format("no descriptor server for the shared heap: {}", status.text()));
  delete server;
}

void offer_descriptor(int descriptor) {
  if (DescriptorServer* server = process_server()) server->offer(descriptor);
}

void withdraw_descriptor(int descriptor) {
  if (DescriptorServer* server = process_server()) server->withdraw(descriptor);
}

Result<ReceivedDescriptor> request_descriptor(const HeapIdentity& identity, int descriptor) {
  WEFT_ASSIGN(Fd server, connect_to_server(identity));
  if (!is_our_user(server)) return not_reached(identity, "it belongs to another user");
  const Request request{identity.ticket, descriptor, kProtocolVersion};
  if (send(server.get(), &request, sizeof request, MSG_NOSIGNAL) != sizeof request)
    return not_reached(identity, system_error("asking for a descriptor", errno).text());
  DescriptorMessage message;
  const ssize_t got = recvmsg(server.get(), &message.header, MSG_CMSG_CLOEXEC);
  if (got < 0) return not_reached(identity, system_error("waiting for a descriptor", errno).text());
  std::vector<Fd> descriptors = received_descriptors(message.header);
  if (got == 0 || descriptors.empty()) return not_reached(identity, "it refused, as to a stranger");
  ReceivedDescriptor received{std::move(descriptors[0]), {}};
  received.life = descriptors.size() > 1 ? std::move(descriptors[1]) : std::move(server);
  return received;
}

}  // namespace weft
