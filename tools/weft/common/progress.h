// Progress: a line on the terminal of whoever waits long, written over again and again. Nothing is
// written where standard error is no terminal, or in the first second. Not for several threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

class Progress {
 public:
  explicit Progress(std::string_view command);  // "weft predict"
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  // Shown if the last one is a while ago: cheap enough for inner loops.
  void say(std::string_view text);
  // Before anything else is written to the terminal.
  void clear();

 private:
  std::string command_;
  bool is_terminal_;
  bool is_shown_ = false;
  std::int64_t next_ns_;
};

}  // namespace weft
