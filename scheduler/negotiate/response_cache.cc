// response_cache: see the header.
#include "scheduler/negotiate/response_cache.h"

#include <string>
#include <utility>

namespace weft::negotiate {

std::optional<std::size_t> ResponseCache::find(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

void ResponseCache::use(std::size_t place) {
  ages_.splice(ages_.end(), ages_, entries_[place].age);
}

void ResponseCache::insert(const NamedRequest& request) {
  std::size_t place = entries_.size();
  if (free_.empty()) {
    entries_.emplace_back();
  } else {
    place = free_.back();
    free_.pop_back();
  }
  Entry& entry = entries_[place];
  entry.request = request;
  entry.is_there = true;
  entry.age = ages_.insert(ages_.end(), place);
  by_name_.emplace(request.name, place);
}

void ResponseCache::erase(std::size_t place) {
  Entry& entry = entries_[place];
  by_name_.erase(entry.request.name);
  ages_.erase(entry.age);
  entry.is_there = false;
  free_.push_back(place);
}

}  // namespace weft::negotiate
