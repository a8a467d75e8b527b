// Everything that takes bytes from a socket, each fed through a socket of its own: the kernel cuts and
// joins the bytes as it does in a job. Every so often somebody who is entitled to it asks for service,
// too, and has to get it.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "engine/bootstrap/tcp_store.h"
#include "engine/net/net.h"
#include "tests/fuzz/parsers.h"
#include "tools/weft/wire/line.h"
#include "tools/weft/wire/meet.h"
#include "verbs/memory/memory.h"

#ifdef HAS_UCX
#include "bindings/nccl/meeting.h"
#include "tests/fuzz/ucx_wires.h"
#endif

namespace weft::fuzz {
namespace {

constexpr const char* kKey = "the key of a job in a test";
constexpr int kRoundsOfService = 64;  // after so many, somebody who may asks for service

Deadline patient() {
  return Deadline::after_ms(20'000);
}

// Whether it is time for a round of service.
bool is_due() {
  static int rounds = 0;
  return ++rounds % kRoundsOfService == 0;
}

Fd knock(const Address& address) {
  return net::connect_once(address, patient()).value();
}

// All of it, unless the other side has had enough.
void say(const Fd& socket, std::string bytes) {
  while (!bytes.empty()) {
    const Result<net::Flow> flow = net::send(socket, bytes);
    if (!flow.ok()) return;
    pollfd one{socket.get(), POLLOUT, 0};
    if (*flow == net::Flow::blocked && ::poll(&one, 1, patient().left_ms()) != 1) return;
  }
}

// What the other side says until it closes; nothing if it never does.
std::optional<std::string> hear_all(const Fd& socket) {
  std::string heard;
  for (;;) {
    const Result<net::Flow> flow = net::receive(socket, heard);
    if (!flow.ok() || *flow == net::Flow::ended) return heard;
    if (*flow == net::Flow::more) continue;
    const Result<bool> readable = net::wait_readable(socket, patient());
    if (!readable.ok() || !*readable) return std::nullopt;
  }
}

std::optional<std::string> tell(const Fd& socket, std::string_view bytes) {
  say(socket, std::string(bytes));
  ::shutdown(socket.get(), SHUT_WR);
  return hear_all(socket);
}

RendezvousOptions server_of(int size) {
  RendezvousOptions options;
  options.size = size;
  options.job_key = kKey;
  return options;
}

ConnectOptions rank_of(const Address& address, Rank rank, int size) {
  return {address, rank, size, kKey, 20'000};
}

// A process without the key at the rendezvous. The job of one rank comes and goes meanwhile.
std::string feed_stranger(std::string_view bytes, const std::string&) {
  static const auto server = RendezvousServer::start(server_of(1)).value();
  const std::optional<std::string> heard = tell(knock(server->address()), bytes);
  if (!heard) return "the server neither answered nor closed";
  wire::FrameReader reader(wire::kMaxBody);
  reader.append(*heard);
  for (;;) {
    const Result<std::optional<wire::Frame>> frame = reader.next();
    if (!frame.ok() || !frame->has_value()) break;
    if ((*frame)->type != wire::Type::challenge && (*frame)->type != wire::Type::refused)
      return "a stranger was let in";
  }
  if (!is_due()) return "";
  const auto store = connect_store(rank_of(server->address(), 0, 1), patient());
  if (!store.ok()) return store.status().to_string();
  const bool serves = (*store)->put("k", "v").ok() && (*store)->goodbye(patient()).ok();
  return serves ? "" : "the rank that knows the key was not served";
}

std::string request(BoardRequest::Kind kind, RequestId id, std::string key, std::string value) {
  return wire::encode_request({kind, id, 1, std::move(key), std::move(value)});
}

std::vector<std::string> requests() {
  using Kind = BoardRequest::Kind;
  return {request(Kind::put, 1, "k", "v") + request(Kind::get, 2, "k", ""),
          request(Kind::get, 3, "never", "") + request(Kind::give_up, 3, "", ""),
          request(Kind::fence, 4, "", "") + request(Kind::give_up, 4, "", ""),
          request(Kind::put, 5, std::string(200, 'k'), std::string(5000, 'v')),
          request(Kind::leave, 6, "", "a reason"),
          wire::encode_hello({0, 1, false, {}, {}}),
          wire::encode_challenge({}),
          "GET / HTTP/1.1\r\nHost: x\r\n\r\n"};
}

// A rank that has joined, and then says this.
std::string feed_member(std::string_view bytes, const std::string&) {
  const auto server = RendezvousServer::start(server_of(2)).value();
  const auto good = connect_store(rank_of(server->address(), 0, 2), patient());
  if (!good.ok()) return good.status().to_string();
  {
    Joined odd = join_rendezvous(rank_of(server->address(), 1, 2), patient()).value();
    // Every second one has lost its connection to somebody without the keys.
    static bool is_sealed = false;
    is_sealed = !is_sealed;
    if (!tell(odd.socket, is_sealed ? odd.sealer.seal(bytes) : std::string(bytes)))
      return "the server neither answered nor closed";
  }
  const bool has_put = (*good)->put("own", "x").ok();
  const Result<std::string> got = (*good)->get("own", patient());
  if (!has_put || !got.ok() || *got != "x") return "the other rank was not served";
  pollfd event{(*good)->event_fd(), POLLIN, 0};
  if (::poll(&event, 1, patient().left_ms()) != 1) return "nobody noticed that the rank has gone";
  const std::optional<StoreEvent> told = (*good)->next_event();
  return told && told->rank == 1 ? "" : "another rank is said to have gone";
}

// What sits at the rendezvous' port says this to a rank that wants to join.
std::string feed_server(std::string_view bytes, const std::string&) {
  static const Fd listener = net::listen_on({"127.0.0.1", 0}, 64).value();
  static const Address address{"127.0.0.1", net::port_of(listener).value()};
  std::atomic<bool> is_over = false;
  std::thread impostor([&] {
    while (!is_over) {
      (void)net::wait_readable(listener, Deadline::after_ms(5));
      const Result<Fd> caller = net::accept_one(listener);
      if (caller.ok() && caller->valid()) (void)tell(*caller, bytes);
    }
  });
  const Result<std::shared_ptr<Store>> store =
      connect_store(rank_of(address, 1, 2), Deadline::after_ms(3));
  is_over = true;
  impostor.join();
  if (store.ok()) return "a rank joined a server that does not know the key";
  const bool is_named = store.status().text().find(address.to_string()) != std::string_view::npos;
  return is_named ? "" : "an error that does not name the server: " + store.status().to_string();
}

std::vector<std::string> greetings() {
  return {wire::encode_challenge({}) + wire::encode_welcome({kNoRank, 0, {}}),
          wire::encode_refused(Status(Code::mismatch, "another job")), "SSH-2.0-OpenSSH_9.2\r\n"};
}

// The server of a rank that has joined answers with this.
std::string feed_answers(std::string_view bytes, const std::string&) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return "no pair of sockets";
  const Fd server(ends[0]);
  const wire::SealKeys keys = wire::seal_keys(kKey, "what was said");
  Joined joined{Fd(ends[1]), wire::FrameReader(wire::kMaxBody), wire::Sealer(keys.to_server)};
  joined.reader.unseal(keys.to_rank);
  const auto store = TcpStore::open(rank_of({"127.0.0.1", 1}, 1, 3), std::move(joined)).value();
  std::thread peer([&] {
    (void)net::wait_readable(server, patient());  // the request
    static bool is_sealed = false;
    is_sealed = !is_sealed;
    say(server, is_sealed ? wire::Sealer(keys.to_rank).seal(bytes) : std::string(bytes));
    ::shutdown(server.get(), SHUT_WR);
  });
  const Deadline deadline = Deadline::after_ms(5'000);
  (void)store->get_from(0, "k", patient());
  peer.join();
  if (deadline.passed()) return "a get that waited for a server that has gone";
  while (const std::optional<StoreEvent> event = store->next_event()) {
    if (event->rank != kNoRank && (event->rank < 0 || event->rank > 2))
      return "a rank that is none";
  }
  return "";
}

std::vector<std::string> answers() {
  return {wire::encode_reply({1, {}, "value"}),
          wire::encode_reply({1, Status(Code::peer_died, "rank 2 died", 2), {}}),
          wire::encode_event({StoreEvent::Kind::left, 2, "said goodbye", 0}) +
              wire::encode_reply({1, {}, ""}),
          wire::encode_refused(Status(Code::mismatch, "no"))};
}

Fd knock_at_heap(const HeapIdentity& identity) {
  sockaddr_un server{};
  server.sun_family = AF_UNIX;
  const std::string name = fmt::format("weft-{:016x}", identity.nonce);
  std::memcpy(server.sun_path + 1, name.data(), name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&server), bytes) != 0)
    socket.reset();
  return socket;
}

// A process of this user at the descriptor server. It gets the heap's file or nothing.
std::string feed_descriptors(std::string_view bytes, const std::string&) {
  static const HeapIdentity identity = heap_identity().value();
  const Fd socket = knock_at_heap(identity);
  if (!socket.valid()) return "the descriptor server is gone";
  (void)::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  ::shutdown(socket.get(), SHUT_WR);
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  pollfd answer{socket.get(), POLLIN, 0};
  if (::poll(&answer, 1, patient().left_ms()) != 1) return "a client is kept waiting";
  (void)::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr) return "";
  std::array<int, 2> got{-1, -1};
  std::memcpy(got.data(), CMSG_DATA(header), std::min(header->cmsg_len - CMSG_LEN(0), sizeof got));
  const Fd file(got[0]), life(got[1]);
  struct stat own {
  }, given{};
  (void)::fstat(identity.file, &own);
  (void)::fstat(file.get(), &given);
  return own.st_ino == given.st_ino ? "" : "a descriptor that was not offered";
}

// With the right ticket, as a peer sends it.
std::vector<std::string> descriptor_requests() {
  const HeapIdentity identity = heap_identity().value();
  std::string request(24, '\0');
  std::memcpy(request.data(), &identity.ticket, 16);
  std::memcpy(request.data() + 16, &identity.file, 4);
  request[20] = 1;  // the version
  return {request, std::string(24, '\0')};
}

// The listening side of weft perf wire, until a caller with the key ends it.
class WireListener {
 public:
  WireListener()
      : thread_([this] {
          result_ = await_caller(address_, kKey, Deadline::after_ms(3'600'000),
                                 [](const std::string&) {});
        }) {}
  ~WireListener() { (void)end(); }
  // Whether somebody who knows the key gets in.
  bool end() {
    if (!thread_.joinable()) return true;
    const Result<Fd> line = call_listener(address_, kKey, patient(), [](const std::string&) {});
    thread_.join();
    return line.ok() && result_.ok();
  }
  [[nodiscard]] const Address& address() const { return address_; }

 private:
  static Address free_address() {
    const Fd probe = net::listen_on({"127.0.0.1", 0}, 1).value();
    return {"127.0.0.1", net::port_of(probe).value()};
  }

  const Address address_ = free_address();
  Result<Fd> result_ = Status(Code::unavailable, "not yet");
  std::thread thread_;
};

std::string feed_wire_listener(std::string_view bytes, const std::string&) {
  static std::optional<WireListener> listener(std::in_place);
  Result<Fd> caller = Status(Code::unavailable, "not yet");
  const Deadline deadline = patient();
  while (!caller.ok() && !deadline.passed())
    caller = net::connect_once(listener->address(), deadline);
  if (!caller.ok()) return "the listener is gone";
  if (!tell(*caller, bytes)) return "the listener neither answered nor closed";
  if (!is_due()) return "";
  if (!listener->end()) return "the caller who knows the key was not served";
  listener.emplace();
  return "";
}

std::vector<std::string> wire_callers() {
  return {std::string(96, 'x'), std::string(64, 'r')};
}

std::string feed_wire_caller(std::string_view bytes, const std::string&) {
  static const Fd listener = net::listen_on({"127.0.0.1", 0}, 64).value();
  static const Address address{"127.0.0.1", net::port_of(listener).value()};
  std::thread impostor([&] {
    (void)net::wait_readable(listener, patient());
    const Result<Fd> caller = net::accept_one(listener);
    if (caller.ok() && caller->valid()) (void)tell(*caller, bytes);
  });
  const Result<Fd> line = call_listener(address, kKey, patient(), [](const std::string&) {});
  impostor.join();
  return line.ok() ? "a listener without the key was believed" : "";
}

std::vector<std::string> wire_greetings() {
  return {"weft perf wire 3\n" + std::string(64, 'a') + '+' + std::string(32, 'b'),
          "weft perf wire 2\n"};
}

// What the two sides tell each other after that.
std::string feed_line(std::string_view bytes, const std::string&) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return "no sockets";
  Line line{Fd(ends[0])};
  {
    const Fd peer(ends[1]);
    say(peer, std::string(bytes.substr(0, 32'768)));
  }
  for (;;) {
    const Deadline deadline = patient();
    const Result<std::string> heard = line.hear("something", deadline, Line::wait);
    // The other side may also tell of an error, of any code.
    if (!heard.ok()) return deadline.passed() ? "a line that waits" : "";
    if (heard->size() > bytes.size()) return "more than was said";
  }
}

std::string on_line(char kind, std::string_view message) {
  const auto length = static_cast<std::uint32_t>(message.size() + 1);
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + kind + std::string(message);
}

std::vector<std::string> lines() {
  return {on_line('=', "hello") + on_line('=', ""), on_line('!', "\x05why"),
          on_line('=', std::string(2000, 'm'))};
}

#ifdef HAS_UCX
const nccl::Network& network() {
  static const auto opened = nccl::Network::open().value();
  return *opened;
}

Fd call(const nccl::Handle& handle) {
  return knock({handle.addresses[0].data(), handle.ports[0]});
}

// Strangers at the listener of the plugin for NCCL. The caller that NCCL sends gets in.
std::string feed_nccl_listener(std::string_view bytes, const std::string&) {
  static nccl::Handle handle;
  static auto listener = nccl::Listener::open(network(), 0, handle).value();
  const Fd stranger = call(handle);
  // Every second one has listened on the network, and knows the cookie.
  std::string said(bytes);
  static bool knows = false;
  if ((knows = !knows) && said.size() >= 16) std::memcpy(said.data() + 8, &handle.cookie, 8);
  say(stranger, said);
  ::shutdown(stranger.get(), SHUT_WR);
  const Result<std::unique_ptr<nccl::Receiver>> taken = listener->accept();
  if (taken.ok() && *taken != nullptr) return "a stranger was taken for the caller";
  if (!is_due()) return "";
  const auto caller = nccl::Caller::open(network(), 0, handle).value();
  const Deadline deadline = patient();
  std::unique_ptr<nccl::Sender> sender;
  std::unique_ptr<nccl::Receiver> receiver;
  while (sender == nullptr || receiver == nullptr) {
    if (deadline.passed()) return "the caller that knows the cookie was not served";
    if (sender == nullptr) {
      Result<std::unique_ptr<nccl::Sender>> made = caller->advance();
      if (!made.ok()) return "the caller was not served: " + made.status().to_string();
      sender = *std::move(made);
    }
    if (receiver != nullptr) continue;
    Result<std::unique_ptr<nccl::Receiver>> made = listener->accept();
    if (made.ok()) receiver = *std::move(made);
  }
  std::thread other([&sender] { sender.reset(); });  // each waits for the other
  receiver.reset();
  other.join();
  return "";
}

std::vector<std::string> nccl_hellos() {
  std::string hello("WEFTNET2\0\0\0\0\0\0\0\0\0\0\0\0\x08\0\0\0addresss", 32);
  return {hello, hello.substr(0, 24)};
}

// What sits at the port of NCCL's handle answers the caller with this.
std::string feed_nccl_caller(std::string_view bytes, const std::string&) {
  static nccl::Handle handle;
  static auto listener = nccl::Listener::open(network(), 0, handle).value();
  static const Fd impostor = net::listen_on({"127.0.0.1", 0}, 64).value();
  nccl::Handle forged = handle;
  forged.count = 1;
  forged.ports[0] = net::port_of(impostor).value();
  Result<std::unique_ptr<nccl::Caller>> caller = nccl::Caller::open(network(), 0, forged);
  if (!caller.ok()) return caller.status().to_string();
  const Fd socket = net::accept_one(impostor).value();
  say(socket, std::string(bytes));
  ::shutdown(socket.get(), SHUT_WR);
  const Deadline deadline = patient();
  for (;;) {
    const Result<std::unique_ptr<nccl::Sender>> sender = (*caller)->advance();
    if (!sender.ok()) return "";
    if (*sender != nullptr) return "an address that is none was taken";
    if (deadline.passed()) return "a caller that waits for who has hung up";
  }
}

std::vector<std::string> nccl_welcomes() {
  std::string welcome("WEFTNET2\0\0\0\0\x08\0\0\0\x08\0\0\0\0\0\0\0addresssboardkey", 40);
  return {welcome, welcome.substr(0, 24)};
}
#endif

}  // namespace

std::span<const Parser> parsers() {
  static constexpr std::array kWires{
      Parser{"stranger", feed_stranger, requests},
      Parser{"member", feed_member, requests},
      Parser{"server", feed_server, greetings},
      Parser{"answers", feed_answers, answers},
      Parser{"descriptors", feed_descriptors, descriptor_requests},
      Parser{"wire_listener", feed_wire_listener, wire_callers},
      Parser{"wire_caller", feed_wire_caller, wire_greetings},
      Parser{"line", feed_line, lines},
#ifdef HAS_UCX
      Parser{"nccl_listener", feed_nccl_listener, nccl_hellos},
      Parser{"nccl_caller", feed_nccl_caller, nccl_welcomes},
      Parser{"messages", feed_messages, seeds},
      Parser{"job", feed_job, seeds},
#endif
  };
  return kWires;
}

const Parser* parser_of(std::string_view name) {
  const auto found = std::ranges::find(parsers(), name, &Parser::name);
  return found == parsers().end() ? nullptr : &*found;
}

}  // namespace weft::fuzz
