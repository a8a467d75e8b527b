// parsers: all that reads what users wrote, or what ranks send to agree on names, each as one
// function of bytes. It must return, soon, whatever the bytes are; what it says must name the file,
// or the sender. Used by a driver of our own under every
// compiler, and by libFuzzer where there is Clang.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weft::fuzz {

struct Parser {
  std::string_view name;  // of its folder in corpus/, too
  // Lets the bytes go through it; empty, or what is wrong with its answer. `path` is a file that
  // holds the bytes.
  std::string (*feed)(std::string_view bytes, const std::string& path);
};

[[nodiscard]] std::span<const Parser> parsers();
// Null: there is none of that name.
[[nodiscard]] const Parser* parser_of(std::string_view name);

}  // namespace weft::fuzz
