// verify_local: what can be proved of one rank's plan without the others. Internal to the verifier.
#pragma once

#include <string>

#include "scheduler/plan/plan.h"
#include "scheduler/verify/layout.h"

namespace weft::verifier {

// "rank 3 step 2: …", the form of all faults of one step.
[[nodiscard]] Status fault(Code code, Rank rank, std::size_t step, const std::string& what);

// Checks that every index lies in its list, that a copy has one term, and that no combine takes two
// messages of one edge. The other passes rely on this.
[[nodiscard]] Status check_indices(const Planned& program);

// Checks the memory rules of verify.h: what is read was written before, and what is written is not
// being read.
[[nodiscard]] Status check_memory(const Planned& program, const Layout& layout, Shape shape);

}  // namespace weft::verifier
