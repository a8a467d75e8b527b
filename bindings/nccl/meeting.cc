// meeting: the words over TCP.
#include "bindings/nccl/meeting.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/random.h>

#include <cstring>

#include "engine/net/net.h"

namespace weft::nccl {
namespace {

constexpr std::size_t kMostBytes = 64 << 10;  // of a word; 32 rails take a tenth
constexpr int kBacklog = 64;
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
  Result<Fd> socket = net::listen_on({"::", 0}, kBacklog);
  if (!socket.ok()) socket = net::listen_on({"0.0.0.0", 0}, kBacklog);
  WEFT_RETURN_IF_ERROR(socket.status());
  listener->socket_ = *std::move(socket);
  if (::getrandom(&listener->cookie_, sizeof listener->cookie_, 0) != sizeof listener->cookie_)
    return Status(Code::system, "the kernel gives no random number");
  handle = {};
  handle.cookie = listener->cookie_;
  WEFT_ASSIGN(handle.port, net::port_of(listener->socket_));
  for (const std::string& address : network.addresses()) {
    auto& place = handle.addresses[handle.count];
    if (address.size() >= place.size()) continue;
    address.copy(place.data(), address.size());
    if (++handle.count == Handle::kMostAddresses) break;
  }
  return listener;
}

Result<std::unique_ptr<Receiver>> Listener::accept() {
  if (!caller_.valid()) {
    WEFT_ASSIGN(caller_, net::accept_one(socket_));
    if (!caller_.valid()) return std::unique_ptr<Receiver>();
  }
  Status status = exchange(caller_, to_say_, heard_);
  if (status.ok() && receiver_ == nullptr) status = answer();
  if (status.ok()) status = exchange(caller_, to_say_, heard_);
  if (!status.ok()) {
    // Whoever it was: the caller that NCCL has sent may come yet.
    const bool was_known = receiver_ != nullptr;
    caller_.reset();
    heard_.clear();
    to_say_.clear();
    receiver_.reset();
    if (was_known) return status;
    log(LogLevel::warning, fmt::format("a call was refused: {}", status.text()));
    return std::unique_ptr<Receiver>();
  }
  if (receiver_ == nullptr || !to_say_.empty()) return std::unique_ptr<Receiver>();
  receiver_->link().keep(std::move(caller_));
  return std::move(receiver_);
}

Status Listener::answer() {
  Hello hello;
  WEFT_ASSIGN(const bool is_whole,
              whole(heard_, hello, [](const Hello& word) { return word.address_bytes; }));
  if (!is_whole) return {};
  if (hello.cookie != cookie_) return Status(Code::no_permission, "it does not know the cookie");
  WEFT_ASSIGN(std::unique_ptr<Link> link, Link::open(network_, kReceiver, job_of(cookie_)));
  WEFT_RETURN_IF_ERROR(
      link->connect(heard_.substr(sizeof hello, hello.address_bytes), device_, hello.device));
  WEFT_ASSIGN(receiver_, Receiver::make(std::move(link)));
  Welcome welcome;
  welcome.device = device_;
  const std::string address = receiver_->link().address();
  welcome.address_bytes = static_cast<std::uint32_t>(address.size());
  welcome.key_bytes = static_cast<std::uint32_t>(receiver_->board_key().size());
  to_say_ = bytes_of(welcome) + address + receiver_->board_key();
  return {};
}

Result<std::unique_ptr<Caller>> Caller::open(const Network& network, int device,
                                             const Handle& handle) {
  if (handle.magic != Handle::kMagic || handle.count > Handle::kMostAddresses)
    return Status(Code::mismatch, "the handle is not of a Weft plugin of this version");
  std::unique_ptr<Caller> caller(new Caller(device));
  std::vector<std::string> reasons;
  for (std::size_t k = 0; k < handle.count && !caller->socket_.valid(); ++k) {
    const std::string host(handle.addresses[k].data(),
                           ::strnlen(handle.addresses[k].data(), handle.addresses[k].size()));
    Result<Fd> socket = net::connect_once({host, handle.port}, Deadline::after_ms(kConnectMs));
    if (socket.ok())
      caller->socket_ = *std::move(socket);
    else
      reasons.push_back(std::string(socket.status().text()));
  }
  if (!caller->socket_.valid()) {
    return Status(Code::unavailable,
                  fmt::format("the receiver cannot be called: {}", fmt::join(reasons, "; ")));
  }
  WEFT_ASSIGN(caller->link_, Link::open(network, kSender, job_of(handle.cookie)));
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
  if (!is_whole) return std::unique_ptr<Sender>();
  const std::string address = heard_.substr(sizeof welcome, welcome.address_bytes);
  const std::string key = heard_.substr(sizeof welcome + welcome.address_bytes, welcome.key_bytes);
  WEFT_RETURN_IF_ERROR(link_->connect(address, device_, welcome.device));
  link_->keep(std::move(socket_));
  return Sender::make(std::move(link_), key);
}

}  // namespace weft::nccl
