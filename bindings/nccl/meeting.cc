// meeting: the words over TCP.
#include "bindings/nccl/meeting.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/net/net.h"

namespace weft::nccl {
namespace {

constexpr std::size_t kMostBytes = 64 << 10;  // of a word; 32 rails take a tenth
constexpr int kBacklog = 4096;                // strangers that fill it keep the caller out
// How long a caller has from its call until it has shown the cookie, and how many may be at it. A
// caller says all that it has to say right after it has connected.
constexpr std::int64_t kGuestMs = 5'000;
constexpr std::size_t kMostGuests = 64;
// For a host on a network of our own, whose listener is there.
constexpr std::int64_t kConnectMs = 5'000;

struct Hello {
  std::uint64_t magic = Handle::kMagic;
  std::uint64_t cookie = 0;
  std::int32_t device = 0;
  std::uint32_t address_bytes = 0;
};
struct Welcome {
  std::uint64_t magic = Handle::kMagic;
  std::int32_t device = 0;
  std::uint32_t address_bytes = 0;
  std::uint32_t key_bytes = 0;
  std::uint32_t unused = 0;
};

// Both ends' interfaces are of one job, which no other connection has.
std::uint32_t job_of(std::uint64_t cookie) {
  return static_cast<std::uint32_t>(cookie ^ cookie >> 32) | 1;
}

template <typename Word>
std::string bytes_of(const Word& word) {
  return {reinterpret_cast<const char*>(&word), sizeof word};
}

// The word at the front, if it is there with the bytes that follow it; `length(word)` of those.
template <typename Word, typename Length>
Result<bool> whole(const std::string& heard, Word& word, Length length) {
  if (heard.size() < sizeof word) return false;
  std::memcpy(&word, heard.data(), sizeof word);
  if (word.magic != Handle::kMagic || length(word) > kMostBytes)
    return Status(Code::mismatch, "the other end is no Weft plugin of this version");
  return heard.size() >= sizeof word + length(word);
}

// Moves what can be moved. An error if the other end is gone.
Status exchange(const Fd& socket, std::string& to_say, std::string& heard) {
  while (!to_say.empty()) {
    WEFT_ASSIGN(const net::Flow flow, net::send(socket, to_say));
    if (flow != net::Flow::more) break;
  }
  for (;;) {
    WEFT_ASSIGN(const net::Flow flow, net::receive(socket, heard));
    if (flow == net::Flow::more && heard.size() <= kMostBytes) continue;
    if (flow == net::Flow::blocked) return {};
    return Status(Code::peer_left, "the other end hung up before the connection was made");
  }
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open(const Network& network, int device,
                                                 Handle& handle) {
  std::unique_ptr<Listener> listener(new Listener(network, device));
  handle = {};
  Status why = Status(Code::unavailable, "this machine has no IP address for it");
  for (const std::string& address : network.addresses(device)) {
    auto& place = handle.addresses[handle.count];
    if (address.size() >= place.size()) continue;
    Result<Fd> socket = net::listen_on({address, 0}, kBacklog);
    if (!socket.ok()) {
      why = socket.status();
      continue;
    }
    WEFT_ASSIGN(handle.ports[handle.count], net::port_of(*socket));
    address.copy(place.data(), address.size());
    listener->sockets_.push_back(*std::move(socket));
    if (++handle.count == Handle::kMostAddresses) break;
  }
  if (handle.count == 0) return why;
  if (::getrandom(&listener->cookie_, sizeof listener->cookie_, 0) != sizeof listener->cookie_)
    return Status(Code::system, "the kernel gives no random number");
  handle.cookie = listener->cookie_;
  return listener;
}

Result<std::unique_ptr<Receiver>> Listener::accept() {
  WEFT_RETURN_IF_ERROR(take_guests());
  const std::int64_t now = now_ns();
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const Status status = hear(*guest);
    if (status.ok() && guest->receiver != nullptr && guest->to_say.empty()) {
      std::unique_ptr<Receiver> made = std::move(guest->receiver);
      made->link().keep(std::move(guest->socket));
      guests_.erase(guest);
      return made;
    }
    if (status.ok() && (guest->is_known || now < guest->patience_ends_ns)) {
      ++guest;
      continue;
    }
    const bool was_known = guest->is_known;
    guest = guests_.erase(guest);
    if (was_known) return status;
    // The caller that NCCL has sent may come yet.
    warn_once(status.ok() ? Status(Code::timed_out, "it did not say who it is") : status);
  }
  return std::unique_ptr<Receiver>();
}

// A new guest is heard before an older one has to go for it: what NCCL's caller says is mostly there.
Status Listener::take_guests() {
  for (const Fd& socket : sockets_) {
    for (std::size_t taken = 0; taken < kMostGuests; ++taken) {
      Result<Fd> caller = net::accept_one(socket);
      if (!caller.ok() && send_one_away()) continue;  // the system has no descriptor for the next
      WEFT_RETURN_IF_ERROR(caller.status());
      if (!caller->valid()) break;
      Guest& guest =
          guests_.emplace_back(Guest{*std::move(caller), now_ns() + kGuestMs * 1'000'000});
      const Status status = hear(guest);
      if (!status.ok() && !guest.is_known) {
        guests_.pop_back();
        warn_once(status);
      } else if (guests_.size() > kMostGuests) {
        (void)send_one_away();
      }
    }
  }
  return {};
}

// The oldest guest that is not known; false: there is none.
bool Listener::send_one_away() {
  const auto stranger = std::ranges::find(guests_, false, &Guest::is_known);
  if (stranger == guests_.end()) return false;
  guests_.erase(stranger);
  return true;
}

Status Listener::hear(Guest& guest) {
  WEFT_RETURN_IF_ERROR(exchange(guest.socket, guest.to_say, guest.heard));
  if (guest.receiver != nullptr) return {};
  WEFT_RETURN_IF_ERROR(answer(guest));
  return exchange(guest.socket, guest.to_say, guest.heard);
}

// Strangers may come as often as they like; a log has an end.
void Listener::warn_once(const Status& why) {
  if (std::exchange(has_warned_, true)) return;
  log(LogLevel::warning, fmt::format("a call was refused: {}", why.text()));
}

Status Listener::answer(Guest& guest) {
  Hello hello;
  WEFT_ASSIGN(const bool is_whole,
              whole(guest.heard, hello, [](const Hello& word) { return word.address_bytes; }));
  if (guest.heard.size() >= sizeof hello && hello.cookie != cookie_)
    return Status(Code::no_permission, "it does not know the cookie");
  if (!is_whole) return {};
  guest.is_known = true;
  WEFT_ASSIGN(std::unique_ptr<Link> link, Link::open(network_, kReceiver, job_of(cookie_)));
  WEFT_RETURN_IF_ERROR(
      link->connect(guest.heard.substr(sizeof hello, hello.address_bytes), device_, hello.device));
  WEFT_ASSIGN(guest.receiver, Receiver::make(std::move(link)));
  Welcome welcome;
  welcome.device = device_;
  const std::string address = guest.receiver->link().address();
  welcome.address_bytes = static_cast<std::uint32_t>(address.size());
  welcome.key_bytes = static_cast<std::uint32_t>(guest.receiver->board_key().size());
  guest.to_say = bytes_of(welcome) + address + guest.receiver->board_key();
  return {};
}

Result<std::unique_ptr<Caller>> Caller::open(const Network& network, int device,
                                             const Handle& handle) {
  if (handle.magic != Handle::kMagic || handle.count > Handle::kMostAddresses)
    return Status(Code::mismatch, "the handle is not of a Weft plugin of this version");
  std::unique_ptr<Caller> caller(new Caller(device, network.patience_ns()));
  // Before the call: a listener waits only so long for what a caller has to say.
  WEFT_ASSIGN(caller->link_, Link::open(network, kSender, job_of(handle.cookie)));
  std::vector<std::string> reasons;
  for (std::size_t k = 0; k < handle.count && !caller->socket_.valid(); ++k) {
    const std::string host(handle.addresses[k].data(),
                           ::strnlen(handle.addresses[k].data(), handle.addresses[k].size()));
    Result<Fd> socket = net::connect_once({host, handle.ports[k]}, Deadline::after_ms(kConnectMs));
    if (socket.ok())
      caller->socket_ = *std::move(socket);
    else
      reasons.push_back(std::string(socket.status().text()));
  }
  if (!caller->socket_.valid()) {
    return Status(Code::unavailable,
                  fmt::format("the receiver cannot be called: {}", fmt::join(reasons, "; ")));
  }
  Hello hello;
  hello.cookie = handle.cookie;
  hello.device = device;
  const std::string address = caller->link_->address();
  hello.address_bytes = static_cast<std::uint32_t>(address.size());
  caller->to_say_ = bytes_of(hello) + address;
  return caller;
}

Result<std::unique_ptr<Sender>> Caller::advance() {
  WEFT_RETURN_IF_ERROR(exchange(socket_, to_say_, heard_));
  Welcome welcome;
  WEFT_ASSIGN(const bool is_whole, whole(heard_, welcome, [](const Welcome& word) {
                return std::size_t{word.address_bytes} + word.key_bytes;
              }));
  if (!is_whole && now_ns() >= patience_ends_ns_) {
    return Status(Code::timed_out,
                  "the receiver was called and does not answer before the deadline "
                  "(WEFT_DEADLINE_MS)");
  }
  if (!is_whole) return std::unique_ptr<Sender>();
  const std::string address = heard_.substr(sizeof welcome, welcome.address_bytes);
  const std::string key = heard_.substr(sizeof welcome + welcome.address_bytes, welcome.key_bytes);
  WEFT_RETURN_IF_ERROR(link_->connect(address, device_, welcome.device));
  link_->keep(std::move(socket_));
  return Sender::make(std::move(link_), key);
}

}  // namespace weft::nccl
