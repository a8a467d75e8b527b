// meet: how the commands of two machines find each other, and prove that they belong together. Both
// know a key, WEFT_JOB_KEY or one that the listening side makes and shows. Each proves it by HMAC-SHA256
// over fresh random numbers of both sides; the key itself is never sent. All waits have a bound.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "engine/config/config.h"
#include "verbs/base/base.h"

namespace weft {

// A caller that has not proved by then that it knows the key is dropped.
inline constexpr std::int64_t kCallerMs = 5'000;

// What is going on, for people: a line each time.
using Tell = std::function<void(const std::string& line)>;

// Listens, and returns the first connection whose caller knows the key. The others are dropped; none
// holds up another.
[[nodiscard]] Result<Fd> await_caller(const Address& address, std::string_view key,
                                      Deadline deadline, const Tell& tell);
// Connects to a side that listens, tried again while there is none. `no_permission`: it knows another
// key.
[[nodiscard]] Result<Fd> call_listener(const Address& address, std::string_view key,
                                       Deadline deadline, const Tell& tell);

}  // namespace weft
