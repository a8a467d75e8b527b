// runs: the memory of an operand or a message, which may be in several runs of bytes. A set of fused
// tensors is an operand of many runs: each tensor is read where it is, and its result is written to
// where it belongs.
//
//   Runs:    [ 8 KiB at a ][ 4 KiB at b ][ 64 KiB at c ]
//   Cursor:                      ^ data(), left() = 3 KiB
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace weft {

struct Run {
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

// A place in runs. A value; the runs must live as long.
class Cursor {
 public:
  Cursor() = default;
  // One run, whose end the user of the cursor knows.
  explicit Cursor(const std::byte* data)
      : data_(const_cast<std::byte*>(data)), left_(std::numeric_limits<std::uint64_t>::max()) {}
  // `skip` bytes behind the beginning of the runs, which have more than that.
  Cursor(std::span<const Run> runs, std::uint64_t skip) : next_(runs) {
    enter();
    while (skip >= left_) {
      skip -= left_;
      enter();
    }
    advance(skip);
  }

  // nullptr: there is no memory.
  [[nodiscard]] std::byte* data() const { return data_; }
  // The bytes that lie together from data() on.
  [[nodiscard]] std::uint64_t left() const { return left_; }
  // At most left() bytes.
  void advance(std::uint64_t bytes) {
    if (data_ == nullptr) return;
    data_ += bytes;
    left_ -= bytes;
    if (left_ == 0 && !next_.empty()) enter();
  }

 private:
  void enter() {
    data_ = next_.front().data;
    left_ = next_.front().bytes;
    next_ = next_.subspan(1);
  }

  std::byte* data_ = nullptr;
  std::uint64_t left_ = std::numeric_limits<std::uint64_t>::max();
  std::span<const Run> next_;
};

// The memory of an operand. A value; a list of runs must live as long. Plans write outputs only, so
// an input is never written.
class Runs {
 public:
  Runs() = default;
  Runs(const void* one)
      : one_(static_cast<const std::byte*>(one)) {}  // NOLINT(google-explicit-constructor)
  // None of the runs is empty.
  explicit Runs(std::span<const Run> list) : list_(list) {}

  [[nodiscard]] bool is_one() const { return list_.empty(); }
  [[nodiscard]] bool is_null() const { return is_one() && one_ == nullptr; }
  [[nodiscard]] Cursor at(std::uint64_t offset) const {
    return is_one() ? Cursor(one_ + offset) : Cursor(list_, begin_ + offset);
  }
  // What follows these bytes.
  [[nodiscard]] Runs behind(std::uint64_t bytes) const {
    Runs rest = *this;
    if (one_ != nullptr) rest.one_ += bytes;
    rest.begin_ += bytes;
    return rest;
  }

 private:
  const std::byte* one_ = nullptr;
  std::span<const Run> list_;
  std::uint64_t begin_ = 0;  // of the operand in the list
};

}  // namespace weft
