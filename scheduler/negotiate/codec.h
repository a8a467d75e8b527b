// codec: the bytes of control messages. Numbers are written in groups of seven bits (LEB128), since
// most are small; text and lists begin with their length. A Reader does not trust what it reads:
// after a length, number or value that cannot be, it is broken, and reads zeros.
// Internal to the module and to scheduler/match.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/negotiate/request.h"

namespace weft::negotiate {

class Writer {
 public:
  Writer& number(std::uint64_t value);
  Writer& text(std::string_view value);
  Writer& bytes(std::span<const std::byte> value);
  Writer& request(const NamedRequest& request);
  Writer& shape(std::span<const std::size_t> shape);
  // Room for so many bytes, to be filled by the caller before the next call.
  [[nodiscard]] std::byte* room(std::size_t bytes);
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  // A number that is at most `most`.
  [[nodiscard]] std::uint64_t number(std::uint64_t most = ~std::uint64_t{0});
  [[nodiscard]] std::string text(std::size_t most_bytes);
  [[nodiscard]] std::span<const std::byte> bytes(std::size_t count);
  [[nodiscard]] NamedRequest request(int ranks);
  [[nodiscard]] std::vector<std::size_t> shape();
  // The code of an error.
  [[nodiscard]] Code code();
  // A length of a list whose entries have at least so many bytes each.
  [[nodiscard]] std::size_t length(std::size_t least_bytes = 1);

  [[nodiscard]] std::span<const std::byte> rest() const { return rest_; }
  [[nodiscard]] bool is_broken() const { return is_broken_; }
  // Whether everything was read, and nothing was wrong.
  [[nodiscard]] bool is_good() const { return !is_broken_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool is_broken_ = false;
};

}  // namespace weft::negotiate
