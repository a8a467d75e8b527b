// Board: the meaning of a Store, as a state machine. Requests and deaths go in; replies and events
// come out through an Outbox. No thread, socket or clock in it, so the in-process store, the TCP
// server and the tests all run this one piece.
//
// Owned and called by one thread at a time (the local table's lock, the server's loop). Calls the
// Outbox from inside its own functions; the Outbox must not call back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/bootstrap/bootstrap.h"

namespace weft {

using RequestId = std::uint32_t;  // chosen by the rank; names the reply

struct BoardRequest {
  enum class Kind : std::uint8_t { put, get, fence, give_up, leave };
  Kind kind;
  RequestId id;         // of this request; for give_up: of the get or fence that is given up
  Rank from = kNoRank;  // get: who will put it
  std::string key;
  std::string value;  // put: what; leave: why, if the rank could not take part
};

struct Reply {
  RequestId id;
  Status status;
  std::string value;  // get: what was put
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

  // May this rank join? An error names why not; unavailable: not yet, since others have not left
  // what this rank has left.
  [[nodiscard]] Status may_join(Rank rank) const;
  // It joins (may_join said yes), and is told who is gone already.
  void join(Rank rank);
  // A joined rank asks. Exactly one reply follows, now or later; a give_up has none of its own but
  // ends the request that it names.
  void handle(Rank rank, BoardRequest request);
  // The rank has ended without goodbye, or will never come. Ignored when it is gone already.
  void died(Rank rank, const std::string& reason);
  // The rank has proved that it belongs to the job and cannot join, so it will never come: the
  // others learn why. Ignored when the rank is there, or gone.
  void refused(Rank rank, const std::string& reason);
  // Somebody without the job's key was refused. That proves nothing, so nobody's wait ends; but an
  // error that names a missing rank repeats it, up to a bound.
  void note_stranger(std::string what);

  [[nodiscard]] bool is_present(Rank rank) const;
  // All ranks were here and have left. The next that joins finds the board as it was at first.
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] int present() const { return present_; }
  // Ranks that have neither joined nor died.
  [[nodiscard]] int expected() const;

 private:
  enum class Seat : std::uint8_t { expected, present, left, died };
  struct Member {
    Seat seat = Seat::expected;
    std::string reason;                               // how it went
    std::string failure;                              // left: since it could not take part
    bool was_refused = false;                         // died: as it could not join
    std::string end;                                  // of its process, after it had left
    std::optional<RequestId> fence;                   // it is in the fence, and asked with this id
    std::unordered_map<RequestId, std::string> gets;  // gets that wait, and their keys
  };
  struct Waiter {
    Rank rank;
    RequestId id;
    Rank from;
  };

  void put(Rank rank, BoardRequest request);
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
  std::vector<Rank> gone_in_order_;  // the first is the cause of the others more often than not
  std::vector<std::string> strangers_;
  std::size_t stored_bytes_ = 0;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::vector<Waiter>> waiting_;
};

}  // namespace weft
