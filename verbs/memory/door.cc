// Both sides of the door: the owner's thread, and the guest's one question.
#include "verbs/memory/door.h"

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
constexpr std::int64_t kGuestMs = 1'000;   // for a guest's question to come
constexpr std::size_t kMostGuests = 256;   // whose question is waited for; each holds a descriptor
constexpr int kMostTaken = 64;             // in one go, before those that wait are looked at again
constexpr std::int64_t kAnswerMs = 2'000;  // for the owner's answer, on a loaded machine
constexpr int kPauseMs = 100;              // after accept() failed for lack of descriptors

struct Question {
  HeapTicket ticket;
  std::int32_t descriptor;
  std::int32_t version;
};
constexpr std::int32_t kDoorVersion = 1;

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

// Takes the same time whatever part of the ticket is right, so that the time tells a guest nothing.
bool is_equal(const HeapTicket& a, const HeapTicket& b) {
  return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0;
}

// Space for up to two descriptors beside a message's one byte.
struct Parcel {
  char byte = 'y';
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};

  Parcel() {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  Parcel(const Parcel&) = delete;
  Parcel& operator=(const Parcel&) = delete;
};

bool send_descriptors(const Fd& socket, const std::array<int, 2>& descriptors, std::size_t count) {
  Parcel parcel;
  parcel.message.msg_controllen = CMSG_SPACE(count * sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(header), descriptors.data(), count * sizeof(int));
  return sendmsg(socket.get(), &parcel.message, MSG_NOSIGNAL) == 1;
}

// The owner's side. Never destroyed: its thread sleeps until the process ends.
class Door {
 public:
  explicit Door(int heap_file) : offered_{heap_file} {}

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
  // A guest whose question has not come yet.
  struct Guest {
    Fd socket;
    std::int64_t patience_ends_ns = 0;
  };

  void run();
  void wait() const;
  // Takes those who have come; false: the system has no descriptor for the next one.
  bool take_guests();
  // Answers the guest's question, if it has come; whether the guest is done with.
  bool admit(Fd& guest);
  void answer(Fd& guest, const Question& question);

  HeapTicket ticket_{};
  Fd listener_;
  std::deque<Guest> guests_;  // oldest first
  Fd self_;                   // our pidfd; invalid where the kernel gives none
  std::vector<Fd> watchers_;  // without it: connections whose hang-up tells guests of our end
  std::mutex mutex_;          // guards offered_
  std::vector<int> offered_;
  Thread thread_;
};

Status Door::open(HeapIdentity& identity) {
  if (getrandom(ticket_.data(), sizeof ticket_, 0) != sizeof ticket_)
    return system_error("drawing the door's ticket", errno);
  listener_ = Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_.valid()) return system_error("a local socket", errno);
  const Name name = name_of(identity);
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name.address), name.bytes) != 0 ||
      listen(listener_.get(), kBacklog) != 0) {
    return system_error("listening on a local socket", errno);
  }
  self_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0U)));
  WEFT_ASSIGN(thread_, start_thread("weft-door", [this] { run(); }));
  identity.ticket = ticket_;
  return {};
}

void Door::run() {
  for (;;) {
    wait();
    std::erase_if(guests_, [this, now = now_ns()](Guest& guest) {
      return admit(guest.socket) || guest.patience_ends_ns <= now;
    });
    if (take_guests()) continue;
    if (!guests_.empty()) guests_.pop_front();
    (void)poll(nullptr, 0, kPauseMs);
  }
}

void Door::wait() const {
  std::vector<pollfd> all{{listener_.get(), POLLIN, 0}};
  for (const Guest& guest : guests_) all.push_back({guest.socket.get(), POLLIN, 0});
  const int timeout_ms =
      guests_.empty() ? -1 : Deadline::at_ns(guests_.front().patience_ends_ns).left_ms();
  (void)poll(all.data(), all.size(), timeout_ms);
}

// A guest of ours has asked before it is accepted here, so it waits behind nobody.
bool Door::take_guests() {
  for (int taken = 0; taken < kMostTaken; ++taken) {
    Fd guest(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!guest.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
    if (!is_our_user(guest) || admit(guest)) continue;
    guests_.push_back({std::move(guest), Deadline::after_ms(kGuestMs).ns()});
    if (guests_.size() > kMostGuests) guests_.pop_front();
  }
  return true;
}

bool Door::admit(Fd& guest) {
  Question question{};
  const ssize_t got = recv(guest.get(), &question, sizeof question, 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
  if (got == sizeof question) answer(guest, question);
  return true;
}

void Door::answer(Fd& guest, const Question& question) {
  if (!is_equal(question.ticket, ticket_) || question.version != kDoorVersion) return;
  {
    const std::lock_guard lock(mutex_);  // so that nobody closes the descriptor before it is sent
    if (std::ranges::find(offered_, question.descriptor) == offered_.end()) return;
    if (!send_descriptors(guest, {question.descriptor, self_.get()}, self_.valid() ? 2 : 1)) return;
  }
  if (self_.valid()) return;
  std::erase_if(watchers_, [](const Fd& other) {
    pollfd hung_up{other.get(), 0, 0};
    return poll(&hung_up, 1, 0) > 0;
  });
  watchers_.push_back(std::move(guest));
}

Door*& process_door() {
  static Door* instance = nullptr;
  return instance;
}

Status not_reached(const HeapIdentity& identity, std::string_view why) {
  return Status(Code::unavailable, fmt::format("process {} does not hand out its shared memory: {}",
                                               identity.process, why));
}

Result<Fd> at_the_door(const HeapIdentity& identity) {
  if (identity.ticket == HeapTicket{})
    return not_reached(identity, "it could open no local socket");
  Fd door(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!door.valid()) return not_reached(identity, system_error("a local socket", errno).text());
  set_patience(door, kAnswerMs);
  const Name name = name_of(identity);
  if (connect(door.get(), reinterpret_cast<const sockaddr*>(&name.address), name.bytes) == 0)
    return door;
  if (errno != ECONNREFUSED) return not_reached(identity, system_error("connecting", errno).text());
  if (identity.network_space == this_network_space())
    return Status(Code::peer_died, fmt::format("process {} has ended", identity.process));
  return not_reached(identity,
                     "it is in another network namespace, where local sockets do not reach");
}

// The descriptors in the answer; at most two, as a Parcel has room for no more.
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

void open_door(HeapIdentity& identity) {
  auto* door = new Door(identity.file);
  const Status status = door->open(identity);
  if (status.ok()) {
    process_door() = door;
    return;
  }
  log(LogLevel::debug, fmt::format("no door to the shared heap: {}", status.text()));
  delete door;
}

void offer_at_door(int descriptor) {
  if (Door* door = process_door()) door->offer(descriptor);
}

void withdraw_from_door(int descriptor) {
  if (Door* door = process_door()) door->withdraw(descriptor);
}

Result<Handed> knock(const HeapIdentity& identity, int descriptor) {
  WEFT_ASSIGN(Fd door, at_the_door(identity));
  if (!is_our_user(door)) return not_reached(identity, "it belongs to another user");
  const Question question{identity.ticket, descriptor, kDoorVersion};
  if (send(door.get(), &question, sizeof question, MSG_NOSIGNAL) != sizeof question)
    return not_reached(identity, system_error("asking for a descriptor", errno).text());
  Parcel parcel;
  const ssize_t got = recvmsg(door.get(), &parcel.message, MSG_CMSG_CLOEXEC);
  if (got < 0) return not_reached(identity, system_error("waiting for a descriptor", errno).text());
  std::vector<Fd> received = received_descriptors(parcel.message);
  if (got == 0 || received.empty()) return not_reached(identity, "it refused, as to a stranger");
  Handed handed{std::move(received[0]), {}};
  handed.life = received.size() > 1 ? std::move(received[1]) : std::move(door);
  return handed;
}

}  // namespace weft
