// crc32c: by tables, and by the processor's instruction.
//
// A CRC is linear. So the checksum of three blocks in a row follows from those of the blocks: that of what
// came before is moved on by as many zero bytes as the next block has, and the two are added (xor). Tables
// move a checksum on by the two lengths of block that are used.
#include "engine/digest/crc32c.h"

#include <array>
#include <cstring>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace weft {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // the lowest bit is the highest power

// A linear function of 32 bits, by what it makes of each bit.
using Matrix = std::array<std::uint32_t, 32>;

constexpr std::uint32_t times(const Matrix& matrix, std::uint32_t value) {
  std::uint32_t sum = 0;
  for (std::size_t bit = 0; bit < matrix.size(); ++bit)
    if ((value >> bit & 1) != 0) sum ^= matrix[bit];
  return sum;
}

// Moves a checksum on by so many zero bytes, a power of two.
constexpr Matrix zeros(std::size_t bytes) {
  Matrix matrix{kPolynomial};
  for (std::size_t bit = 1; bit < matrix.size(); ++bit) matrix[bit] = 1U << (bit - 1);
  for (std::size_t bits = 1; bits < 8 * bytes; bits *= 2) {
    Matrix square{};
    for (std::size_t bit = 0; bit < square.size(); ++bit) square[bit] = times(matrix, matrix[bit]);
    matrix = square;
  }
  return matrix;
}

// The same function by byte: [b][v] is what it makes of v in byte b.
using ByteTables = std::array<std::array<std::uint32_t, 256>, 4>;

constexpr ByteTables tables_of(const Matrix& matrix) {
  ByteTables tables{};
  for (std::size_t byte = 0; byte < tables.size(); ++byte)
    for (std::uint32_t value = 0; value < 256; ++value)
      tables[byte][value] = times(matrix, value << (8 * byte));
  return tables;
}

// Eight bytes at once: [k][v] is the byte v followed by k zero bytes.
constexpr std::array<std::array<std::uint32_t, 256>, 8> kSlices = [] {
  std::array<std::array<std::uint32_t, 256>, 8> slices{};
  const Matrix one = zeros(1);
  for (std::uint32_t value = 0; value < 256; ++value) {
    slices[0][value] = times(one, value);
    for (std::size_t k = 1; k < slices.size(); ++k)
      slices[k][value] = times(one, slices[k - 1][value]);
  }
  return slices;
}();

std::uint64_t word_at(const std::byte* data) {
  std::uint64_t word = 0;
  std::memcpy(&word, data, sizeof word);
  return word;
}

// What a step makes of the next eight bytes, or of one. Both begin with the checksum of what came before,
// inverted, as the definition has it.
struct ByTables {
  static std::uint32_t eight(std::uint32_t crc, std::uint64_t word) {
    word ^= crc;
    std::uint32_t sum = 0;
    for (std::size_t k = 0; k < kSlices.size(); ++k) sum ^= kSlices[k][word >> (56 - 8 * k) & 255];
    return sum;
  }
  static std::uint32_t one(std::uint32_t crc, std::byte byte) {
    return kSlices[0][(crc ^ static_cast<std::uint32_t>(byte)) & 255] ^ crc >> 8;
  }
};

template <class Step>
std::uint32_t one_stream(std::uint32_t crc, const std::byte* data, std::size_t bytes) {
  for (; bytes >= 8; bytes -= 8, data += 8) crc = Step::eight(crc, word_at(data));
  for (; bytes != 0; --bytes, ++data) crc = Step::one(crc, *data);
  return crc;
}

#if defined(__x86_64__) || defined(__aarch64__)

#if defined(__x86_64__)
// In assembly, because a compiler has the intrinsic only in functions for such processors, into which it
// inlines no others.
struct ByInstruction {
  static std::uint32_t eight(std::uint32_t crc, std::uint64_t word) {
    std::uint64_t sum = crc;
    asm("crc32q %1, %0" : "+r"(sum) : "rm"(word));
    return static_cast<std::uint32_t>(sum);
  }
  static std::uint32_t one(std::uint32_t crc, std::byte byte) {
    asm("crc32b %1, %0" : "+r"(crc) : "rm"(byte));
    return crc;
  }
};

bool has_instruction() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("sse4.2") != 0;
}
#else
struct ByInstruction {
  static std::uint32_t eight(std::uint32_t crc, std::uint64_t word) {
    asm(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    return crc;
  }
  static std::uint32_t one(std::uint32_t crc, std::byte byte) {
    const auto value = static_cast<std::uint32_t>(byte);
    asm(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(value));
    return crc;
  }
};

bool has_instruction() {
  constexpr unsigned long kCrc32 = 1UL << 7;  // HWCAP_CRC32 of Linux
  return (getauxval(AT_HWCAP) & kCrc32) != 0;
}
#endif

// The checksum moved on by the length of the tables.
std::uint32_t moved(const ByteTables& tables, std::uint32_t crc) {
  return tables[0][crc & 255] ^ tables[1][crc >> 8 & 255] ^ tables[2][crc >> 16 & 255] ^
         tables[3][crc >> 24];
}

// As many triples of blocks as there are. Joining two blocks takes as long as about 40 bytes.
template <std::size_t kBlock>
std::uint32_t three_streams(std::uint32_t crc, const std::byte*& data, std::size_t& bytes) {
  static constexpr ByteTables kTables = tables_of(zeros(kBlock));
  for (; bytes >= 3 * kBlock; bytes -= 3 * kBlock, data += 3 * kBlock) {
    std::uint32_t second = 0, third = 0;
    for (std::size_t at = 0; at < kBlock; at += 8) {
      crc = ByInstruction::eight(crc, word_at(data + at));
      second = ByInstruction::eight(second, word_at(data + kBlock + at));
      third = ByInstruction::eight(third, word_at(data + 2 * kBlock + at));
    }
    crc = moved(kTables, moved(kTables, crc) ^ second) ^ third;
  }
  return crc;
}

std::uint32_t by_instruction(std::uint32_t crc, const std::byte* data, std::size_t bytes) {
  crc = three_streams<4096>(crc, data, bytes);
  crc = three_streams<256>(crc, data, bytes);
  return one_stream<ByInstruction>(crc, data, bytes);
}

#else

bool has_instruction() {
  return false;
}
std::uint32_t by_instruction(std::uint32_t crc, const std::byte* data, std::size_t bytes) {
  return one_stream<ByTables>(crc, data, bytes);
}

#endif

}  // namespace

std::uint32_t crc32c_portable(const void* data, std::size_t bytes, std::uint32_t seed) {
  return ~one_stream<ByTables>(~seed, static_cast<const std::byte*>(data), bytes);
}

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t seed) {
  static const bool kHasInstruction = has_instruction();
  if (!kHasInstruction) return crc32c_portable(data, bytes, seed);
  return ~by_instruction(~seed, static_cast<const std::byte*>(data), bytes);
}

}  // namespace weft
