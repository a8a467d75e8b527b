// seal: records of a secretstream.
#include "engine/bootstrap/seal.h"

#include <sodium/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "engine/bootstrap/bootstrap.h"

namespace weft::wire {
namespace {

constexpr std::size_t kHeader = crypto_secretstream_xchacha20poly1305_HEADERBYTES;
constexpr std::size_t kMore = crypto_secretstream_xchacha20poly1305_ABYTES;
constexpr std::size_t kLength = 4;

unsigned char* bytes_of(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}
const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string length_of(std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < kLength; ++i) text += static_cast<char>(bytes >> (8 * i) & 0xff);
  return text;
}

std::size_t length_at(std::string_view text) {
  std::size_t bytes = 0;
  for (std::size_t i = kLength; i-- > 0;) bytes = bytes << 8 | static_cast<std::uint8_t>(text[i]);
  return bytes;
}

SealKey key_for(std::string_view job_key, std::string_view direction, std::string_view said) {
  SealKey key{};
  const std::string proof = key_proof(
      job_key, "weft rendezvous seal " + std::string(direction) + " " + std::string(said));
  std::ranges::copy(proof, key.begin());
  return key;
}

}  // namespace

SealKeys seal_keys(std::string_view job_key, std::string_view said) {
  return {key_for(job_key, "to the server", said), key_for(job_key, "to the rank", said)};
}

Sealer::Sealer(const SealKey& key) : header_(kHeader, '\0') {
  // Once per process, and thread safe. What fails then fails here, too: there are no random numbers.
  invariant(sodium_init() >= 0, "libsodium has begun");
  crypto_secretstream_xchacha20poly1305_init_push(&state_, bytes_of(header_), key.data());
}

std::string Sealer::seal(std::string_view bytes) {
  std::string record = std::exchange(header_, {}) + length_of(bytes.size() + kMore);
  const std::size_t begin = record.size();
  record.resize(begin + bytes.size() + kMore);
  crypto_secretstream_xchacha20poly1305_push(&state_, bytes_of(record) + begin, nullptr,
                                             bytes_of(bytes), bytes.size(), nullptr, 0, 0);
  return record;
}

Result<std::optional<std::string>> Opener::next() {
  const Status unsealed(Code::no_permission,
                        "the connection carried bytes that the other side has not sealed");
  if (!has_begun_) {
    if (buffer_.size() < kHeader) return std::optional<std::string>();
    has_begun_ = true;
    if (crypto_secretstream_xchacha20poly1305_init_pull(
            &state_, bytes_of(std::string_view(buffer_)), key_.data()) != 0)
      return unsealed;
    buffer_.erase(0, kHeader);
  }
  if (buffer_.size() < kLength) return std::optional<std::string>();
  const std::size_t length = length_at(buffer_);
  if (length < kMore || length > most_ + kMore) return unsealed;
  if (buffer_.size() < kLength + length) return std::optional<std::string>();
  std::string opened(length - kMore, '\0');
  unsigned char tag = 0;
  if (crypto_secretstream_xchacha20poly1305_pull(&state_, bytes_of(opened), nullptr, &tag,
                                                 bytes_of(std::string_view(buffer_)) + kLength,
                                                 length, nullptr, 0) != 0)
    return unsealed;
  buffer_.erase(0, kLength + length);
  return std::optional<std::string>(std::move(opened));
}

}  // namespace weft::wire
