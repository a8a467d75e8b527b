// Who knows the job's key. Each side proves it over both sides' fresh random numbers, so a recorded
// proof is of no use later; the two sides' labels differ, so one's proof cannot be sent back as the
// other's. Pure functions but for the kernel's random source.
#pragma once

#include <string_view>

#include "engine/bootstrap/wire.h"

namespace weft::proof {

enum class Side : std::uint8_t { rank, server };

// What both sides agree on when they use this connection.
struct Claim {
  Rank rank;
  std::uint32_t size;
  wire::Nonce server_nonce;
  wire::Nonce rank_nonce;
};

[[nodiscard]] Result<wire::Nonce> fresh_nonce();
[[nodiscard]] Result<wire::Proof> make(std::string_view job_key, Side side, const Claim& claim);
// In time that does not depend on where the two differ.
[[nodiscard]] bool equal(const wire::Proof& a, const wire::Proof& b);

}  // namespace weft::proof
