// Backlog: a queue for the data path. Its memory grows to the most items that ever waited and is
// kept, so that a steady stream allocates nothing (a std::deque takes and gives back a block for
// every few items). Not thread safe.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace weft {

template <typename Item>
class Backlog {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] Item& front() { return (*this)[0]; }
  // The item before which `place` others wait. The next push() may move it.
  [[nodiscard]] Item& operator[](std::size_t place) {
    return items_[(first_ + place) & (items_.size() - 1)];
  }
  // Adds an item at the end.
  Item& push() {
    if (size_ == items_.size()) grow();
    Item& last = (*this)[size_++];
    last = Item();
    return last;
  }
  // Removes the oldest item. What that item owns is freed only when its place is used again, so a
  // caller releases it before.
  void pop() {
    ++first_;
    --size_;
  }

 private:
  static constexpr std::size_t kFewest = 16;  // a power of two, as the size always is

  void grow() {
    std::vector<Item> more(items_.empty() ? kFewest : 2 * items_.size());
    for (std::size_t place = 0; place < size_; ++place) more[place] = std::move((*this)[place]);
    items_ = std::move(more);
    first_ = 0;
  }

  std::vector<Item> items_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace weft
