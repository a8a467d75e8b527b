// A host that never says goodbye to Weft: its context is a static object, made in main and destroyed
// while the process exits, after the static objects of the libraries that came later. At WEFT_LOG=debug
// the end of a context logs.
#include <cstdio>
#include <memory>

#include "engine/context/context.h"

namespace {

std::unique_ptr<weft::Context> context;

}  // namespace

int main() {
  auto opened = weft::Context::from_environment();
  if (!opened.ok()) {
    std::fprintf(stderr, "%s\n", opened.status().to_string().c_str());
    return 1;
  }
  context = *std::move(opened);
  const weft::Status met = context->barrier();
  if (!met.ok()) std::fprintf(stderr, "%s\n", met.to_string().c_str());
  return met.ok() ? 0 : 1;
}
