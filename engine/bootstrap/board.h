// Board: the meaning of a Store, as a state machine. Requests and deaths go in; replies and events
// come out through an Outbox. It has no thread, socket or clock, so the in-process store, the TCP
// server and the tests all use it.
//
// Only one thread at a time may call it: the local table has a lock, the server has one loop. Its
// functions call the Outbox, which must not call the Board.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/bootstrap/bootstrap.h"

namespace weft {

using RequestId = std::uint32_t;  // chosen by the rank; its reply has the same id

struct BoardRequest {
  enum class Kind : std::uint8_t { put, take_back, get, fence, give_up, leave };
  Kind kind;
  RequestId id;         // of this request; give_up: of the get or fence that is given up
  Rank from = kNoRank;  // get: the rank that will put the key
  std::string key;
  std::string value;  // put: the value; leave: why the rank could not take part, if it could not
};

struct Reply {
  RequestId id;
  Status status;
  std::string value;  // get: the value that was put
};

class Board {
 public:
  class Outbox {
   public:
    virtual ~Outbox() = default;
    virtual void reply(Rank to, const Reply& reply) = 0;
    virtual void event(Rank to, const StoreEvent& event) = 0;
  };

  // `outbox` outlives the board.
  Board(int size, Outbox& outbox);

  // ok, or why this rank may not join. `unavailable`: it may join later, because it has left, and
  // the board starts anew when all other ranks have left, too; or because it returns, and its predecessor is
  // there as far as is known.
  [[nodiscard]] Status may_join(Rank rank, bool returns = false) const;
  // Adds a rank for which may_join() is ok. It gets an event for each rank that is gone already or has returned.
  // If it returns, the others get an event.
  void join(Rank rank);
  // How often the rank's number had been given before, once it has joined.
  [[nodiscard]] int next_incarnation(Rank rank) const;
  // Handles a request of a rank that has joined. Exactly one reply follows, now or later. A give_up
  // has no reply of its own: it ends the request that it names, which gets its reply.
  void handle(Rank rank, BoardRequest request);
  // The rank has ended without goodbye, or will never join. If it is gone already, only the end of
  // its process is noted.
  void died(Rank rank, const std::string& reason);
  // The rank has proved that it knows the job's key, but cannot join. It will never come, so waits
  // for it end with the reason. Ignored if the rank is present or gone.
  void refused(Rank rank, const std::string& reason);
  // A process without the job's key was refused. That proves nothing about a rank, so no wait ends.
  // A later error about a rank that never joined repeats the text. Only a few texts are kept.
  void note_stranger(std::string what);

  [[nodiscard]] bool is_present(Rank rank) const;
  // Whether all ranks have left. The next rank that joins finds an empty board.
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] int present() const { return present_; }
  // Ranks that have neither joined nor died.
  [[nodiscard]] int expected() const;

 private:
  enum class Seat : std::uint8_t { expected, present, left, died };
  struct Member {
    Seat seat = Seat::expected;
    int incarnation = 0;
    std::string reason;                               // left or died: how, as a text
    std::string failure;                              // left: why it could not take part
    bool was_refused = false;                         // died: because it could not join
    std::string end;                                  // left: how its process has ended since
    std::optional<RequestId> fence;                   // the request with which it is in the fence
    std::unordered_map<RequestId, std::string> gets;  // the keys of its waiting gets
  };
  struct Waiter {
    Rank rank;
    RequestId id;
    Rank from;
  };

  void put(Rank rank, BoardRequest&& request);
  void take_back(Rank rank, const BoardRequest& request);
  void get(Rank rank, const BoardRequest& request);
  void fence(Rank rank, RequestId id);
  void give_up(Rank rank, RequestId id);
  void leave(Rank rank, const BoardRequest& request);

  Member& member(Rank rank) { return members_[static_cast<std::size_t>(rank)]; }
  const Member& member(Rank rank) const { return members_[static_cast<std::size_t>(rank)]; }
  bool in_range(Rank rank) const { return rank >= 0 && rank < size(); }
  int size() const { return static_cast<int>(members_.size()); }

  void answer(Rank rank, RequestId id, Status status) {
    outbox_.reply(rank, {id, std::move(status), {}});
  }
  Status check_put(const BoardRequest& request) const;
  std::optional<Status> gone(Rank rank) const;
  StoreEvent event_of(Rank rank) const;
  void go(Rank rank, Seat seat, const std::string& reason);
  [[nodiscard]] Status not_yet(Rank rank) const;
  void start_anew();
  [[nodiscard]] int in_fences() const;
  void release_fence(const Status& status);
  void release_gets(const std::string& key, const std::string& value);
  void fail_gets_from(Rank rank, const Status& status);
  void forget_waits_of(Rank rank);
  [[nodiscard]] std::string strangers() const;
  Status missing_in_fence() const;
  Status missing_for_get(Rank from, const std::string& key) const;

  Outbox& outbox_;
  std::vector<Member> members_;
  int present_ = 0;
  int in_fence_ = 0;
  std::vector<Rank> gone_in_order_;  // the first one is often the cause of the others
  std::vector<std::string> strangers_;
  std::size_t stored_bytes_ = 0;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::vector<Waiter>> waiting_;
};

}  // namespace weft
