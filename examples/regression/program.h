// program: the command line that the programs of this folder share.
//   PROGRAM SAMPLES.csv [GRAPH [ITERATIONS]]
#pragma once

#include <weft/status.h>

#include <cstddef>
#include <string>

namespace regression {

struct Arguments {
  std::string path;   // of the samples
  std::string graph;  // its name, as in weft::make_graph
  std::size_t iterations = 0;
};

// The exit status of main(): 0 or 1 as `run` succeeds or fails, with its error printed; 2, with the
// usage, if the words are not as above. What they leave out is as in `presets`.
int program(int argc, char** argv, const char* name, Arguments presets,
            weft::Status (*run)(const Arguments& arguments));

}  // namespace regression
