// HMAC-SHA256 by libsodium over: protocol version, side, rank, size, server nonce, rank nonce.
#include "engine/bootstrap/proof.h"

#include <fmt/format.h>
#include <sodium/crypto_auth_hmacsha256.h>
#include <sodium/utils.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "engine/bootstrap/bootstrap.h"

namespace weft {
namespace proof {

Result<wire::Nonce> fresh_nonce() {
  wire::Nonce nonce{};
  // Once the kernel's random source is ready, getrandom() returns up to 256 bytes in one piece and
  // is not interrupted.
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    return system_error("getrandom", errno);
  }
  return nonce;
}

wire::Proof make(std::string_view job_key, Side side, const Claim& claim) {
  std::string message = fmt::format("weft rendezvous {} {} {} {} ", wire::kVersion,
                                    side == Side::rank ? "rank" : "server", claim.rank, claim.size);
  message.append(claim.server_nonce.begin(), claim.server_nonce.end());
  message.append(claim.rank_nonce.begin(), claim.rank_nonce.end());
  const std::string bytes = key_proof(job_key, message);
  wire::Proof result{};
  std::ranges::copy(bytes, result.begin());
  return result;
}

bool equal(const wire::Proof& a, const wire::Proof& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace proof

std::string key_proof(std::string_view key, std::string_view text) {
  const auto bytes = [](std::string_view of) {
    return reinterpret_cast<const unsigned char*>(of.data());
  };
  static_assert(crypto_auth_hmacsha256_BYTES == std::tuple_size_v<wire::Proof>);
  std::string result(crypto_auth_hmacsha256_BYTES, '\0');
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes(key), key.size());
  crypto_auth_hmacsha256_update(&state, bytes(text), text.size());
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(result.data()));
  return result;
}

bool same_proof(std::string_view a, std::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<std::string> make_job_key() {
  WEFT_ASSIGN(const wire::Nonce random, proof::fresh_nonce());
  std::string key;
  for (const std::uint8_t byte : random) key += fmt::format("{:02x}", byte);
  return key;
}

}  // namespace weft
