// Status: the outcome of an operation, as a value. Result<T>: a value or the Status that explains
// its absence. A Status that is not ok carries a code, a sentence that names the thing at fault,
// and the rank concerned if there is one. A Status does not change, and copies share their text. An
// ok Status is one null pointer, so it costs the hot path nothing.
#pragma once

#include <weft/export.h>
#include <weft/invariant.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace WEFT_PUBLIC weft {

// A process (or a thread) of the job: 0 … size-1.
using Rank = std::int32_t;
inline constexpr Rank kNoRank = -1;

enum class Code : std::uint8_t {
  ok,
  invalid_argument,  // the caller asked for something that has no meaning
  mismatch,          // two ranks disagree: an edge, a size, a type, the order of operations
  timed_out,         // a deadline passed; the text says who was waited for
  peer_died,         // a rank ended without closing its context
  peer_left,         // a rank closed its context while it was still needed
  no_permission,     // the kernel or the job's credential refused
  exhausted,         // memory, shared memory, file descriptors
  unavailable,       // the device, library or service is not here
  closed,            // the object was closed or has failed before
  system,            // an unexpected answer of the operating system, text included
  corrupted,         // data are not what a rank sent, or results differ that must be equal
};
inline constexpr Code kLastCode = Code::corrupted;

// "invalid_argument", "timed_out", …: the name used in messages, JSON and bindings.
[[nodiscard]] std::string_view name(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(Code code, std::string text, Rank rank = kNoRank)
      : state_(std::make_shared<const State>(State{code, rank, std::move(text)})) {
    invariant(code != Code::ok, "an error Status needs an error code");
  }

  [[nodiscard]] bool ok() const { return state_ == nullptr; }
  [[nodiscard]] Code code() const { return ok() ? Code::ok : state_->code; }
  // The rank at fault, or kNoRank.
  [[nodiscard]] Rank rank() const { return ok() ? kNoRank : state_->rank; }
  // The sentence alone; empty when ok.
  [[nodiscard]] std::string_view text() const {
    return ok() ? std::string_view{} : std::string_view{state_->text};
  }
  // "timed_out: rank 3 did not …", or "ok".
  [[nodiscard]] std::string to_string() const;

 private:
  struct State {
    Code code;
    Rank rank;
    std::string text;
  };
  std::shared_ptr<const State> state_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {  // NOLINT
    invariant(!std::get<1>(state_).ok(), "a Result without a value needs an error");
  }

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  [[nodiscard]] Status status() const { return ok() ? Status{} : std::get<1>(state_); }
  [[nodiscard]] T& value() & {
    invariant(ok(), "value() of a failed Result");
    return std::get<0>(state_);
  }
  [[nodiscard]] const T& value() const& {
    invariant(ok(), "value() of a failed Result");
    return std::get<0>(state_);
  }
  [[nodiscard]] T&& value() && {
    invariant(ok(), "value() of a failed Result");
    return std::get<0>(std::move(state_));
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace weft
