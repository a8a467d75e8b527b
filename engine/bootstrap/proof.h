// proof: how rank and server prove to each other that they know the job's key. A proof covers fresh
// random numbers of both sides, so a recorded proof is of no use later. It also covers the side, so
// neither side can send the other's proof back as its own. Pure functions, except fresh_nonce().
#pragma once

#include <string_view>

#include "engine/bootstrap/wire.h"

namespace weft::proof {

enum class Side : std::uint8_t { rank, server };

// The values that a proof covers besides the side.
struct Claim {
  Rank rank;
  std::uint32_t size;
  wire::Nonce server_nonce;
  wire::Nonce rank_nonce;
};

[[nodiscard]] Result<wire::Nonce> fresh_nonce();
[[nodiscard]] wire::Proof make(std::string_view job_key, Side side, const Claim& claim);
// Compares in a time that does not depend on where the two differ.
[[nodiscard]] bool equal(const wire::Proof& a, const wire::Proof& b);

}  // namespace weft::proof
