// A store whose events are told otherwise; all else is as in the store behind it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "engine/bootstrap/bootstrap.h"

namespace weft {

class StoreOfEvents : public Store {
 public:
  explicit StoreOfEvents(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  [[nodiscard]] Rank rank() const override { return store_->rank(); }
  [[nodiscard]] int size() const override { return store_->size(); }
  [[nodiscard]] int incarnation() const override { return store_->incarnation(); }
  Status put(std::string key, std::string bytes) override {
    return store_->put(std::move(key), std::move(bytes));
  }
  Status take_back(const std::string& key) override { return store_->take_back(key); }
  Result<std::string> get_from(Rank from, const std::string& key, Deadline deadline) override {
    return store_->get_from(from, key, deadline);
  }
  Status fence(Deadline deadline) override { return store_->fence(deadline); }
  Status goodbye(Deadline deadline) override { return store_->goodbye(deadline); }
  [[nodiscard]] int event_fd() const override { return store_->event_fd(); }

 protected:
  const std::shared_ptr<Store> store_;
};

}  // namespace weft
