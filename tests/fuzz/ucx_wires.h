// ucx_wires: what two ranks say to each other over UCX, with changes on the way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::fuzz {

// Notices, pieces and one-sided work between two interfaces in one thread. The bytes are the seed of
// what is changed.
[[nodiscard]] std::string feed_messages(std::string_view bytes, const std::string& path);
// A job of two ranks, with operations, names, windows and partial groups. No call may crash or wait
// longer than its deadline; errors are what is expected.
[[nodiscard]] std::string feed_job(std::string_view bytes, const std::string& path);
// To begin with.
[[nodiscard]] std::vector<std::string> seeds();

}  // namespace weft::fuzz
