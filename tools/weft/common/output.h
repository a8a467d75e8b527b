// What the ranks print, on its way to the terminal. A Tagger cuts one rank's stream into lines and
// puts the rank before each; a Sink holds what waits to be written to one of our own streams. Both
// are values of the job's loop, which is the only thread that touches them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

// A longer line comes out in pieces of this size: a rank that prints no newline must not fill our
// memory.
inline constexpr std::size_t kMaxLine = 16 << 10;

class Tagger {
 public:
  explicit Tagger(std::string tag) : tag_(std::move(tag)) {}
  // Appends to `out` the lines that `bytes` complete.
  void feed(std::string_view bytes, std::string& out);
  // The stream has ended: a last line without its newline gets one.
  void end(std::string& out);

 private:
  void emit(std::string_view line, std::string& out);
  std::string tag_;
  std::string partial_;
};

class Sink {
 public:
  explicit Sink(int fd) : fd_(fd) {}
  [[nodiscard]] int fd() const { return fd_; }
  // While this is false, whoever fills the sink stops reading: the ranks' pipes then hold them
  // back.
  [[nodiscard]] bool has_room() const { return pending.size() < kRoom; }
  // Writes some of what is pending, without blocking if poll(2) has just said POLLOUT. Returns 0, or
  // once the errno that ends the stream: EPIPE when the reader has gone, ENOSPC, and so on. Nothing
  // is written after that.
  [[nodiscard]] int flush();

  std::string pending;

 private:
  static constexpr std::size_t kRoom = 256 << 10;
  int fd_;  // ours by inheritance, not owned
  bool is_broken_ = false;
};

}  // namespace weft
