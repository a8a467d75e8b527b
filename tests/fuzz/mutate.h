// mutate: a text that a parser half knows. Equal seeds give equal texts, on every machine.
#pragma once

#include <random>
#include <string>
#include <vector>

namespace weft::fuzz {

// One of the corpus with up to eight changes: bits, bytes, numbers, repeated and missing pieces,
// pieces of others.
[[nodiscard]] std::string mutated(const std::vector<std::string>& corpus, std::mt19937_64& random);

}  // namespace weft::fuzz
