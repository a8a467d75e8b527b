// StoreClient: what the two kinds of Store share. It turns calls into requests, keeps those that
// wait for a reply, and queues events behind a descriptor. A kind of Store adds only how a request
// travels.
//
// Any thread calls; replies and events are delivered by whoever receives them (the reader thread of
// the TCP store, another rank's thread in the local store). One mutex guards all of it and is never
// held while a request travels.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

#include "engine/bootstrap/board.h"
#include "engine/bootstrap/event_queue.h"

namespace weft {

class StoreClient : public Store {
 public:
  [[nodiscard]] Rank rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  Status put(std::string key, std::string bytes) override;
  [[nodiscard]] Result<std::string> get_from(Rank from, const std::string& key,
                                             Deadline deadline) override;
  Status fence(Deadline deadline) override;
  Status goodbye(Deadline deadline) override;
  [[nodiscard]] int event_fd() const override { return events_.fd(); }
  [[nodiscard]] std::optional<StoreEvent> next_event() override { return events_.next(); }

 protected:
  StoreClient(Rank rank, int size, std::int64_t put_deadline_ms, Fd event_fd);

  // Sends a request on its way; an error means that it will have no reply.
  virtual Status send(const BoardRequest& request, Deadline deadline) = 0;

  void deliver(const Reply& reply);
  void deliver(const StoreEvent& event);
  // Nothing will be received any more: all waits, now and later, end with `why`.
  void break_off(const Status& why);

 private:
  // A request and its reply; ended by the deadline with an answer that names who is missing.
  Reply ask(BoardRequest request, Deadline deadline);
  std::optional<Reply> await(RequestId id, Deadline deadline);

  const Rank rank_;
  const int size_;
  const std::int64_t put_deadline_ms_;
  EventQueue events_;
  std::mutex mutex_;
  std::condition_variable delivered_;
  RequestId last_id_ = 0;
  std::map<RequestId, std::optional<Reply>> open_;  // asked, and the reply once it is there
  Status broken_;
  bool left_ = false;
};

}  // namespace weft
