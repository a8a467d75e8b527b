// listener -> caller: greeting, random number
// caller -> listener: random number, proof
// listener -> caller: '+' and its own proof, or '-' and nothing of use
#include "tools/weft/wire/meet.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/net/net.h"

namespace weft {
namespace {

constexpr std::string_view kGreeting = "weft perf wire 3\n";  // counts changes of what is said
constexpr std::size_t kRandomBytes = 64;                      // as make_job_key() has them
constexpr std::size_t kProofBytes = 32;
constexpr std::size_t kMostCallers = 16;  // at a time; the oldest makes room
constexpr int kMostTold = 16;             // of those that are dropped
constexpr int kBacklog = 4096;            // strangers that fill it keep the caller out
constexpr int kRetryMs = 100;

std::string proof_of(std::string_view key, std::string_view side, std::string_view listener,
                     std::string_view caller) {
  return key_proof(key, fmt::format("weft perf wire {} {} {}", side, listener, caller));
}

Status foreign(const std::string& who) {
  return Status(Code::mismatch, who + " is no `weft perf wire` of this version");
}

// All of a short message; a connection that has just begun takes it at once.
Status send_all(const Fd& socket, std::string bytes) {
  WEFT_ASSIGN(const net::Flow flow, net::send(socket, bytes));
  if (bytes.empty() && flow != net::Flow::ended) return {};
  return Status(Code::peer_died, "the other side takes nothing");
}

struct Caller {
  Fd socket;
  Deadline patience;
  std::string from;
  std::string random;  // ours
  std::string heard;
};

Result<Caller> greet(Fd socket) {
  Caller caller{std::move(socket), Deadline::after_ms(kCallerMs), "", "", ""};
  caller.from = net::peer_host(caller.socket);
  WEFT_ASSIGN(caller.random, make_job_key());
  WEFT_RETURN_IF_ERROR(send_all(caller.socket, std::string(kGreeting) + caller.random));
  return caller;
}

// Whether it has proved that it knows the key; nothing yet: false. An error ends it.
Result<bool> hear(Caller& caller, std::string_view key) {
  WEFT_ASSIGN(const net::Flow flow, net::receive(caller.socket, caller.heard));
  if (flow == net::Flow::ended) return Status(Code::peer_died, "went away");
  if (caller.heard.size() < kRandomBytes + kProofBytes) {
    if (caller.patience.passed()) return Status(Code::timed_out, "is silent");
    return false;
  }
  if (caller.heard.size() > kRandomBytes + kProofBytes) return foreign("it");
  const std::string theirs = caller.heard.substr(0, kRandomBytes);
  const std::string wanted = proof_of(key, "caller", caller.random, theirs);
  if (!same_proof(wanted, caller.heard.substr(kRandomBytes))) {
    (void)send_all(caller.socket, '-' + std::string(kProofBytes, '\0'));
    return Status(Code::no_permission, "knows another WEFT_JOB_KEY");
  }
  const std::string own = proof_of(key, "listener", caller.random, theirs);
  WEFT_RETURN_IF_ERROR(send_all(caller.socket, '+' + own));
  return true;
}

// Until the door or a caller has something to say, or one of them has waited long enough.
void wait(const Fd& door, const std::vector<Caller>& callers, Deadline deadline) {
  std::vector<pollfd> ready{{door.get(), POLLIN, 0}};
  int left_ms = deadline.left_ms();
  for (const Caller& caller : callers) {
    ready.push_back({caller.socket.get(), POLLIN, 0});
    left_ms = std::min(left_ms, caller.patience.left_ms());
  }
  ::poll(ready.data(), ready.size(), left_ms);
}

Result<std::string> receive_all(const Fd& socket, std::size_t bytes, Deadline deadline,
                                const std::string& who) {
  std::string heard;
  while (heard.size() < bytes) {
    WEFT_ASSIGN(const bool readable, net::wait_readable(socket, deadline));
    if (!readable) return Status(Code::timed_out, who + " does not answer");
    WEFT_ASSIGN(const net::Flow flow, net::receive(socket, heard));
    if (flow == net::Flow::ended) return Status(Code::peer_died, who + " went away");
  }
  return heard.size() == bytes ? Result<std::string>(std::move(heard)) : foreign(who);
}

Result<Fd> prove(Fd socket, const std::string& who, std::string_view key, Deadline deadline) {
  WEFT_ASSIGN(const std::string greeting,
              receive_all(socket, kGreeting.size() + kRandomBytes, deadline, who));
  if (!greeting.starts_with(kGreeting)) return foreign(who);
  const std::string theirs = greeting.substr(kGreeting.size());
  WEFT_ASSIGN(const std::string random, make_job_key());
  const std::string own = proof_of(key, "caller", theirs, random);
  WEFT_RETURN_IF_ERROR(send_all(socket, random + own));
  WEFT_ASSIGN(const std::string reply, receive_all(socket, 1 + kProofBytes, deadline, who));
  const std::string wanted = proof_of(key, "listener", theirs, random);
  if (reply[0] == '+' && same_proof(wanted, reply.substr(1))) return socket;
  return Status(Code::no_permission, who + " knows another WEFT_JOB_KEY");
}

}  // namespace

Result<Fd> await_caller(const Address& address, std::string_view key, Deadline deadline,
                        const Tell& tell) {
  WEFT_ASSIGN(const Fd door, net::listen_on(address, kBacklog));
  tell(fmt::format("listening on {} for {:.0f} s", address.to_string(), deadline.left_ms() / 1e3));
  std::vector<Caller> callers;
  int told = 0;
  while (!deadline.passed()) {
    wait(door, callers, deadline);
    WEFT_ASSIGN(Fd came, net::accept_one(door));
    if (came.valid()) {
      Result<Caller> greeted = greet(std::move(came));
      if (greeted.ok()) callers.push_back(*std::move(greeted));
      if (callers.size() > kMostCallers) callers.erase(callers.begin());
    }
    for (std::size_t i = 0; i < callers.size();) {
      const Result<bool> proved = hear(callers[i], key);
      if (proved.ok() && *proved) return std::move(callers[i].socket);
      if (proved.ok()) {
        ++i;
        continue;
      }
      if (++told <= kMostTold)
        tell(fmt::format("a caller from {} {}", callers[i].from, proved.status().text()));
      if (told == kMostTold) tell("more callers that are dropped are not told of");
      callers.erase(callers.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return Status(Code::timed_out,
                fmt::format("--listen {}: nobody came who knows the key", address.to_string()));
}

Result<Fd> call_listener(const Address& address, std::string_view key, Deadline deadline,
                         const Tell& tell) {
  const std::string who = address.to_string();
  for (bool is_told = false;; is_told = true) {
    Result<Fd> socket = net::connect_once(address, deadline);
    if (socket.ok()) return prove(*std::move(socket), who, key, deadline);
    const std::string why(socket.status().text());
    if (socket.status().code() != Code::unavailable) return socket.status();
    if (deadline.passed()) return Status(Code::timed_out, fmt::format("--peer {}: {}", who, why));
    if (!is_told) tell(fmt::format("{}; trying again for {:.0f} s", why, deadline.left_ms() / 1e3));
    ::poll(nullptr, 0, std::min(kRetryMs, deadline.left_ms()));
  }
}

}  // namespace weft
