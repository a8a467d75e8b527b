// See program.h.
#include "examples/regression/program.h"

#include <charconv>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>

namespace regression {
namespace {

// 0 if the word is no number.
std::size_t number_of(std::string_view word) {
  std::size_t number = 0;
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && rest == word.data() + word.size() ? number : 0;
}

}  // namespace

int program(int argc, char** argv, const char* name, Arguments presets,
            weft::Status (*run)(const Arguments& arguments)) {
  Arguments arguments = std::move(presets);
  if (argc > 1) arguments.path = argv[1];
  if (argc > 2) arguments.graph = argv[2];
  if (argc > 3) arguments.iterations = number_of(argv[3]);
  if (argc < 2 || argc > 4 || arguments.iterations == 0) {
    std::fprintf(stderr,
                 "usage: weft run -n RANKS -- %s examples/data/diabetes.csv [GRAPH [ITERATIONS]]\n",
                 name);
    return 2;
  }
  const weft::Status done = run(arguments);
  if (!done.ok()) std::fprintf(stderr, "%s: %s\n", name, done.to_string().c_str());
  return done.ok() ? 0 : 1;
}

}  // namespace regression
