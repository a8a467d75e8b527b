// LeftOut: what a reader does not take into its Machine, for Machine::left_out, and what a correction
// adds to it. Things of one reason are one phrase: "0000:03:00.0, 0000:04:00.0 (a display of the
// server's own)". Internal to the module; one thread at a time.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::hardware {

class LeftOut {
 public:
  void add(std::string_view reason, std::string thing);
  // In the order in which the reasons came.
  [[nodiscard]] std::vector<std::string> phrases() const;

 private:
  struct Reason {
    std::string text;
    std::vector<std::string> things;  // the first few
    std::size_t count = 0;            // of all
  };
  std::vector<Reason> reasons_;
};

}  // namespace weft::hardware
