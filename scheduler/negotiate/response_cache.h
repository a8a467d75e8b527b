// response_cache: the names on which the ranks have agreed before. All ranks insert, use and remove
// names in the same order, so their caches are equal without a message.
// Internal to the module.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "scheduler/negotiate/request.h"

namespace weft::negotiate {

class ResponseCache {
 public:
  explicit ResponseCache(std::size_t capacity) : capacity_(capacity) {}

  // The place of the name, if it is there.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
  [[nodiscard]] const NamedRequest& at(std::size_t place) const { return entries_[place].request; }
  [[nodiscard]] bool has(std::size_t place) const { return entries_[place].is_there; }
  // One more than the highest place that was ever used.
  [[nodiscard]] std::size_t places() const { return entries_.size(); }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }

  // The name was used: it is the last to be evicted.
  void use(std::size_t place);
  [[nodiscard]] bool is_full() const { return by_name_.size() == capacity_; }
  // The place of the name that was not used for the longest time. There must be one.
  [[nodiscard]] std::size_t oldest() const { return ages_.front(); }
  // Adds a name, which is not there; the cache is not full.
  void insert(const NamedRequest& request);
  void erase(std::size_t place);

 private:
  struct Entry {
    NamedRequest request;
    bool is_there = false;
    std::list<std::size_t>::iterator age;
  };

  const std::size_t capacity_;
  std::vector<Entry> entries_;
  std::list<std::size_t> ages_;    // places, the oldest first
  std::vector<std::size_t> free_;  // places
  std::unordered_map<std::string, std::size_t> by_name_;
};

}  // namespace weft::negotiate
