// agenda: which of the flows under way ends first. Internal to the module.
//
// A heap of numbers, which the caller gives, ordered by time. The time of a number may change. Each
// node has four children, so that the heap of a million flows is ten levels deep.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace weft::simulator {

class Agenda {
 public:
  void reserve(std::size_t numbers) {
    if (numbers > place_.size()) place_.resize(numbers, kAbsent);
  }
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] double time() const { return heap_.front().time; }
  [[nodiscard]] std::uint32_t front() const { return heap_.front().number; }

  // Adds the number, or gives it another time.
  void set(std::uint32_t number, double time) {
    std::uint32_t place = place_[number];
    if (place == kAbsent) {
      place = static_cast<std::uint32_t>(heap_.size());
      heap_.push_back({time, number});
      place_[number] = place;
      return up(place);
    }
    const double before = heap_[place].time;
    heap_[place].time = time;
    time < before ? up(place) : down(place);
  }

  void pop() {
    place_[heap_.front().number] = kAbsent;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (heap_.empty()) return;
    put(0, last);
    down(0);
  }

 private:
  static constexpr std::uint32_t kAbsent = ~std::uint32_t{0};
  struct Entry {
    double time;
    std::uint32_t number;
  };

  void put(std::uint32_t place, Entry entry) {
    heap_[place] = entry;
    place_[entry.number] = place;
  }
  void up(std::uint32_t place) {
    const Entry entry = heap_[place];
    while (place > 0 && entry.time < heap_[(place - 1) / 4].time) {
      put(place, heap_[(place - 1) / 4]);
      place = (place - 1) / 4;
    }
    put(place, entry);
  }
  void down(std::uint32_t place) {
    const Entry entry = heap_[place];
    const auto size = static_cast<std::uint32_t>(heap_.size());
    for (std::uint32_t first = 4 * place + 1; first < size; first = 4 * place + 1) {
      const std::uint32_t last = std::min(first + 4, size);
      std::uint32_t least = first;
      for (std::uint32_t child = first + 1; child < last; ++child)
        if (heap_[child].time < heap_[least].time) least = child;
      if (heap_[least].time >= entry.time) break;
      put(place, heap_[least]);
      place = least;
    }
    put(place, entry);
  }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> place_;  // by number
};

}  // namespace weft::simulator
