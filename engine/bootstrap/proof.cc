// HMAC-SHA256 by OpenSSL over: protocol version, side, rank, size, server nonce, rank nonce.
#include "engine/bootstrap/proof.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
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

Result<wire::Proof> make(std::string_view job_key, Side side, const Claim& claim) {
  std::string message = fmt::format("weft rendezvous {} {} {} {} ", wire::kVersion,
                                    side == Side::rank ? "rank" : "server", claim.rank, claim.size);
  message.append(claim.server_nonce.begin(), claim.server_nonce.end());
  message.append(claim.rank_nonce.begin(), claim.rank_nonce.end());
  WEFT_ASSIGN(const std::string bytes, key_proof(job_key, message));
  wire::Proof result{};
  std::ranges::copy(bytes, result.begin());
  return result;
}

bool equal(const wire::Proof& a, const wire::Proof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace proof

Result<std::string> key_proof(std::string_view key, std::string_view text) {
  std::string result(std::tuple_size_v<wire::Proof>, '\0');
  unsigned int length = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(result.data()), &length) == nullptr ||
      length != result.size()) {
    return Status(Code::unavailable, "libcrypto does not compute HMAC-SHA256");
  }
  return result;
}

bool same_proof(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<std::string> make_job_key() {
  WEFT_ASSIGN(const wire::Nonce random, proof::fresh_nonce());
  std::string key;
  for (const std::uint8_t byte : random) key += fmt::format("{:02x}", byte);
  return key;
}

}  // namespace weft
