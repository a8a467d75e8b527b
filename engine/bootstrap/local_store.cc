// local_store: the store of ranks that are threads of one process. All ranks call one Board under
// one lock, and its replies go straight to the rank concerned.
//
// Lock order: first the table's lock, then a client's. A client never holds its own lock while it
// calls the table.
#include <fmt/format.h>

#include "engine/bootstrap/store_client.h"

namespace weft {
namespace {

class LocalStore;

// The Board and the stores that use it. The stores share it, so it outlives the last of them.
class LocalTable : public Board::Outbox {
 public:
  explicit LocalTable(int size)
      : seats_(static_cast<std::size_t>(size), nullptr), board_(size, *this) {}

  void sit(Rank rank, LocalStore* store);
  void handle(Rank rank, const BoardRequest& request);
  void vacate(Rank rank);

  void reply(Rank to, const Reply& reply) override;
  void event(Rank to, const StoreEvent& event) override;

 private:
  std::mutex mutex_;
  std::vector<LocalStore*> seats_;
  Board board_;
};

class LocalStore final : public StoreClient {
 public:
  LocalStore(std::shared_ptr<LocalTable> table, Rank rank, int size, Fd event_fd)
      : StoreClient(rank, size, kPutDeadlineMs, std::move(event_fd)), table_(std::move(table)) {
    table_->sit(rank, this);
  }
  ~LocalStore() override { table_->vacate(rank()); }

  using StoreClient::deliver;

 private:
  // A put into the local table is answered before send() returns.
  static constexpr std::int64_t kPutDeadlineMs = 1000;

  Status send(const BoardRequest& request, Deadline) override {
    table_->handle(rank(), request);
    return {};
  }

  std::shared_ptr<LocalTable> table_;
};

void LocalTable::sit(Rank rank, LocalStore* store) {
  const std::lock_guard lock(mutex_);
  seats_[static_cast<std::size_t>(rank)] = store;
  board_.join(rank);
}

void LocalTable::handle(Rank rank, const BoardRequest& request) {
  const std::lock_guard lock(mutex_);
  // Another thread of the rank may have said goodbye meanwhile, which has ended this request, too.
  if (board_.is_present(rank)) board_.handle(rank, request);
}

void LocalTable::vacate(Rank rank) {
  const std::lock_guard lock(mutex_);
  board_.died(rank, "its store was destroyed without goodbye");  // no death if the rank has left
  seats_[static_cast<std::size_t>(rank)] = nullptr;
}

void LocalTable::reply(Rank to, const Reply& reply) {
  if (LocalStore* store = seats_[static_cast<std::size_t>(to)]) store->deliver(reply);
}

void LocalTable::event(Rank to, const StoreEvent& event) {
  if (LocalStore* store = seats_[static_cast<std::size_t>(to)]) store->deliver(event);
}

}  // namespace

Result<std::vector<std::shared_ptr<Store>>> make_local_stores(int n) {
  if (n < 1) return Status(Code::invalid_argument, fmt::format("a job of {} ranks", n));
  auto table = std::make_shared<LocalTable>(n);
  std::vector<std::shared_ptr<Store>> stores;
  for (Rank rank = 0; rank < n; ++rank) {
    WEFT_ASSIGN(Fd event_fd, EventQueue::make_fd());
    stores.push_back(std::make_shared<LocalStore>(table, rank, n, std::move(event_fd)));
  }
  return stores;
}

}  // namespace weft
