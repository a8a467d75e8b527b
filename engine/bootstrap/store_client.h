// StoreClient: the common part of the TCP store and the local store. It turns calls into requests,
// keeps those that wait for a reply, and queues events. The derived class only sends requests.
//
// Any thread may call. Replies and events are delivered by the thread that receives them: the TCP
// store's own thread, or in the local store the thread of any rank. One mutex guards everything. It
// is never held while a request is sent.
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
  Status take_back(const std::string& key) override;
  [[nodiscard]] Result<std::string> get_from(Rank from, const std::string& key,
                                             Deadline deadline) override;
  Status fence(Deadline deadline) override;
  Status goodbye(Deadline deadline) override;
  [[nodiscard]] int event_fd() const override { return events_.fd(); }
  [[nodiscard]] std::optional<StoreEvent> next_event() override { return events_.next(); }

 protected:
  StoreClient(Rank rank, int size, std::int64_t put_deadline_ms, Fd event_fd);

  // Sends a request. After an error, no reply will come.
  virtual Status send(const BoardRequest& request, Deadline deadline) = 0;

  void deliver(const Reply& reply);
  void deliver(const StoreEvent& event);
  // Called when nothing more can be received: all waits, now and later, end with `why`.
  void break_off(const Status& why);

 private:
  // Sends a request and waits for its reply. At the deadline gives the request up; the reply then
  // names the ranks that are missing.
  Reply ask(BoardRequest request, Deadline deadline);
  std::optional<Reply> await(RequestId id, Deadline deadline);

  const Rank rank_;
  const int size_;
  const std::int64_t put_deadline_ms_;
  EventQueue events_;
  std::mutex mutex_;
  std::condition_variable delivered_;
  RequestId last_id_ = 0;
  std::map<RequestId, std::optional<Reply>> open_;  // requests, with the reply once it has come
  Status broken_;
  bool left_ = false;
  // When the first request was sent that the rendezvous did not answer, if nothing has come since; else 0.
  std::int64_t silent_since_ns_ = 0;
};

}  // namespace weft
