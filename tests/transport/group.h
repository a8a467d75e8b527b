// Group: a few ranks of one job in this process, each with its own interface; and the small actions
// of which the conformance tests are made. Not thread safe: one thread owns all interfaces, until
// run() gives each to a thread of its own.
#pragma once

#include <sched.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <vector>

#include "tests/transport/transports.h"

namespace weft {

// How long a test waits for what must happen; the only way to reach it is a bug.
inline constexpr std::int64_t kPatienceMs = 90'000;

// The value, or an exception that fails the test with the Status.
template <typename T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().to_string());
  return std::move(result).value();
}

// Yields until `done` or until patience ends; whether it was done.
template <typename Predicate>
bool eventually(Predicate done) {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (!done()) {
    if (deadline.passed()) return false;
    sched_yield();
  }
  return true;
}

// The same for the owner of an interface, who drives it: on some transports nothing shows, and
// nothing of ours leaves, unless its owner lets it.
template <typename Predicate>
bool eventually(Interface& driven, Predicate done) {
  return eventually([&] {
    driven.progress();
    return done();
  });
}

inline InterfaceOptions small_options() {
  InterfaceOptions options;
  options.channels = 3;
  options.slots = 4;
  options.payload_bytes = 1001;  // no multiple of anything
  options.job = 7;
  options.context = 1;
  options.machine = 42;
  return options;
}

// Notice number `n` of a stream: its header and its payload follow from the number, so a receiver
// can check both.
WireHeader numbered_header(std::uint32_t n);
std::vector<std::byte> numbered_payload(std::uint32_t n, std::size_t bytes);
// Whether the notice is number `n` with `bytes` of payload, in every field that the transport
// carries for us.
testing::AssertionResult is_number(const Notice& notice, std::uint32_t n, std::size_t bytes);

// Waits for one completion of an interface whose peers have other owners.
Completion wait_completion(Interface& interface);

class Group {
 public:
  explicit Group(const TransportFactory& transport, int ranks,
                 const InterfaceOptions& options = small_options());
  ~Group();  // closes all, side by side
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  [[nodiscard]] Interface& at(Rank rank) { return *interfaces_.at(rank); }
  // The endpoint of `from` to `to`.
  [[nodiscard]] Endpoint& link(Rank from, Rank to) {
    return *must(at(from).connect(to, at(to).address()));
  }
  // Opens one more interface, in place of the one that `rank` had, which stays as it is in
  // `replaced`.
  void open(Rank rank);

  // Waits as the owner of all interfaces, also of those that were replaced.
  template <typename Predicate>
  bool eventually(Predicate done) {
    return weft::eventually([&] {
      progress();
      return done();
    });
  }
  // Waits for one completion of the rank's work. Of what was just posted, alone.
  Completion wait_completion(Rank rank);
  // Runs `body` for every rank in a thread that owns the rank's interface, and goes on driving it
  // until all bodies have ended: others may still need it. Every link is made before.
  void run(const std::function<void(Rank)>& body);
  // Closes one rank's interface while the owners of the others drive theirs.
  void close(Rank rank);

 private:
  void progress();

  const TransportFactory transport_;
  const InterfaceOptions options_;
  std::map<Rank, std::unique_ptr<Interface>> interfaces_;
  std::vector<std::unique_ptr<Interface>> replaced_;
};

}  // namespace weft
