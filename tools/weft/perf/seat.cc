// Keys are numbered words: "perf/17" by rank 0 for all, "perf/18/3" by rank 3 for rank 0.
#include "tools/weft/perf/seat.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <new>

namespace weft {
namespace {

// Longer than any trial, also one of a peer, so that only a lost rank takes so long.
constexpr std::int64_t kPatienceMs = 180'000;

// Floors work in whole cache lines, whatever the tensor's size.
std::size_t whole_lines(std::size_t bytes) {
  return (bytes + 63) / 64 * 64 + 64;
}

}  // namespace

Result<std::unique_ptr<Seat>> Seat::take(Store& store) {
  std::unique_ptr<Seat> seat(new Seat(store));
  constexpr std::size_t kControl = sizeof(Meeting::Shared);
  WEFT_ASSIGN(seat->memory_, allocate(kControl + sizeof(FloorBoard)));
  auto* bytes = static_cast<std::byte*>(seat->memory_);
  auto* shared = new (bytes) Meeting::Shared{};
  auto* board = new (bytes + kControl) FloorBoard{};
  WEFT_ASSIGN(seat->control_, seat->show(shared, kControl));
  WEFT_ASSIGN(seat->boards_, seat->show(board, sizeof(FloorBoard)));
  seat->meeting_ = std::make_unique<Meeting>(
      *reinterpret_cast<Meeting::Shared*>(seat->control_.sights()[0].mapped), store.size(),
      oversubscribed(store.size()));
  return seat;
}

Seat::~Seat() {
  deallocate(memory_);
}

std::string Seat::next_key() {
  return fmt::format("perf/{}", words_++);
}

Result<int> Seat::announce(int number) {
  const std::string key = next_key();
  if (leads()) {
    WEFT_RETURN_IF_ERROR(store_.put(key, std::to_string(number)));
    return number;
  }
  WEFT_ASSIGN(const std::string text, store_.get_from(0, key, Deadline::after_ms(kPatienceMs)));
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Result<std::vector<std::string>> Seat::gather(std::string mine) {
  const std::string key = next_key();
  std::vector<std::string> all;
  if (!leads()) {
    WEFT_RETURN_IF_ERROR(store_.put(fmt::format("{}/{}", key, rank()), std::move(mine)));
    return all;
  }
  all.push_back(std::move(mine));
  for (Rank other = 1; other < size(); ++other) {
    WEFT_ASSIGN(std::string text, store_.get_from(other, fmt::format("{}/{}", key, other),
                                                  Deadline::after_ms(kPatienceMs)));
    all.push_back(std::move(text));
  }
  return all;
}

Result<Segments> Seat::show(const void* mine, std::size_t bytes) {
  return Segments::exchange(store_, next_key(), mine, bytes, Deadline::after_ms(kPatienceMs));
}

Result<bool> Seat::can_read(const Segments& shown, std::string& why) {
  const Status own = shown.check_readable();
  WEFT_ASSIGN(const std::vector<std::string> reasons,
              gather(own.ok() ? std::string() : std::string(own.text())));
  const auto is_given = [](const std::string& reason) { return !reason.empty(); };
  const auto reason = std::ranges::find_if(reasons, is_given);
  if (reason != reasons.end()) why = *reason;
  WEFT_ASSIGN(const int readable, announce(reason == reasons.end() ? 1 : 0));
  return readable != 0;
}

Result<Tensor> Tensor::make(std::size_t bytes, bool is_private) {
  bytes = whole_lines(bytes);
  if (!is_private) {
    WEFT_ASSIGN(void* shared, allocate(bytes));
    return Tensor(shared, false);
  }
  void* own = std::aligned_alloc(64, bytes);
  if (own == nullptr) return Status(Code::exhausted, fmt::format("no memory for {} bytes", bytes));
  std::memset(own, 0, bytes);
  return Tensor(own, true);
}

Tensor::~Tensor() {
  if (is_private_) {
    std::free(data_);
  } else {
    deallocate(data_);
  }
}

Result<Tensors> Tensors::make(Seat& seat, DataType type, std::size_t count,
                              std::size_t output_count, bool is_private) {
  const std::size_t x_bytes = count * size_of(type);
  const std::size_t y_bytes = output_count * size_of(type);
  WEFT_ASSIGN(Tensor x, Tensor::make(x_bytes, is_private));
  WEFT_ASSIGN(Tensor y, Tensor::make(y_bytes, is_private));
  WEFT_ASSIGN(Segments inputs, seat.show(x.data(), x_bytes));
  WEFT_ASSIGN(Segments outputs, seat.show(y.data(), y_bytes));
  return Tensors{std::move(x), std::move(y), count, std::move(inputs), std::move(outputs)};
}

}  // namespace weft
