// parsers: all that reads what users wrote, or what other processes send, each as one function of
// bytes. It must return, soon, whatever the bytes are; what it says must name the file, or the
// sender. parsers.cc has those that take bytes from a file or a message, wires.cc those that take
// them from a socket. Used by a driver of our own under every compiler, and by libFuzzer where there
// is Clang.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::fuzz {

struct Parser {
  std::string_view name;  // of its folder in corpus/, too
  // Lets the bytes go through it; empty, or what is wrong with its answer. `path` is a file that
  // holds the bytes.
  std::string (*feed)(std::string_view bytes, const std::string& path);
  // Well-formed bytes to begin with, where files would be of one version. Null: they are in corpus/.
  std::vector<std::string> (*corpus)() = nullptr;
};

[[nodiscard]] std::span<const Parser> parsers();
// Null: there is none of that name.
[[nodiscard]] const Parser* parser_of(std::string_view name);

}  // namespace weft::fuzz
