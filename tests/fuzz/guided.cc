// One parser for libFuzzer.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/fuzz/parsers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using weft::fuzz::Parser;
  static const Parser* parser = weft::fuzz::parser_of(WEFT_PARSER);
  static const std::string path = fmt::format("/tmp/weft-fuzz-" WEFT_PARSER "-{}", getpid());
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  std::ofstream(path, std::ios::binary) << text;
  const std::string wrong = parser->feed(text, path);
  if (wrong.empty()) return 0;
  std::fprintf(stderr, "%s\n", wrong.c_str());
  std::abort();
}
