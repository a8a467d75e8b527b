// See program.h.
#include "examples/regression/program.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace regression {

int program(int argc, char** argv, const char* name, Arguments presets,
            weft::Status (*run)(const Arguments& arguments)) {
  Arguments arguments = std::move(presets);
  if (argc > 1) arguments.path = argv[1];
  if (argc > 2) arguments.graph = argv[2];
  if (argc > 3) arguments.iterations = std::strtoul(argv[3], nullptr, 10);
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
