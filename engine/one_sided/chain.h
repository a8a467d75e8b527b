// chain: one-sided work at one peer that takes effect in order. If a path of a bond fails in the
// middle, all of it is repeated over another path: the same bytes to the same places.
//
// then() stands wherever the order matters. Most paths keep the order of posting, so everything is
// posted at once. On a path that does not (EndpointProperties::keeps_order), what follows is posted when
// everything before has completed:
//
//   write data, write header │ then │ write done        a path without order: one round trip per part
//
// Where the peer's memory is mapped here, this thread does the work itself, and it has ended when
// advance() returns.
//
// A Chain is used again and again: begin(), add what is to be done, then advance() until it is
// over. Memory that was named stays as it is until then.
//
// Threads: the holder of the lane's token. Lifetime: until all posted work has ended (is_busy()).
#pragma once

#include <weft/deadline.h>

#include <vector>

#include "engine/lane/lane.h"
#include "verbs/transport/transport.h"

namespace weft::one_sided {

// Memory of a peer, as it is named there, and where this process has it mapped; nullptr: nowhere.
struct PeerMemory {
  RemoteBuffer remote;
  std::byte* mapped = nullptr;

  [[nodiscard]] RemoteBuffer part(std::size_t offset, std::size_t bytes) const {
    return {remote.form, remote.word + offset, bytes, remote.region};
  }
};

// Memory of a peer, and the way there.
struct Place {
  Rank rank = kNoRank;
  Endpoint* endpoint = nullptr;
  PeerMemory memory;
};

// Whether a chain is repeated over another path if its path fails. If not, that is its error.
enum class Repeats : std::uint8_t { over_others, never };

// How long work that was posted to a peer may take to end once it has been given up, since the peer has died or
// left. Then the connection is given up, too: only that ends the work.
inline constexpr std::int64_t kEndingNs = 1'000'000'000;

// The error of a peer that did not answer in time.
[[nodiscard]] Status no_answer(Rank rank);

class Chain final : public WorkOwner {
 public:
  // Gives up after so long without an answer; the clock is read only if there is a wait.
  void begin(const Place& place, std::int64_t patience_ns, Repeats repeats = Repeats::over_others);
  void write(const void* local, std::size_t bytes, std::size_t offset) {
    add({WorkKind::write, {static_cast<std::byte*>(const_cast<void*>(local)), bytes}, offset});
  }
  void read(void* local, std::size_t bytes, std::size_t offset) {
    add({WorkKind::read, {static_cast<std::byte*>(local), bytes}, offset});
  }
  // What is added from now on takes effect after everything that was added before.
  void then() { stage_ = works_.size(); }
  // Goes over this rail to the peer (PathChoice::over), and is repeated over whichever works.
  void take_rail(Endpoint& rail) { way_ = &rail; }
  // Another place of the same peer for what is added from now on.
  void go_to(const PeerMemory& memory) { memory_ = memory; }

  // Posts what can be posted. Returns whether anything was.
  bool advance();
  // No more is posted; what was posted is waited for, for kEndingNs at most.
  void give_up(const Status& why);
  void work_ended(const Status& status) override;

  [[nodiscard]] bool is_over() const { return is_over_; }
  [[nodiscard]] bool is_busy() const { return ended_ != posted_; }
  [[nodiscard]] const Status& status() const { return status_; }
  // How often it was repeated, so that bytes of it may still arrive over a path that has failed.
  [[nodiscard]] int repeats() const { return repeats_; }

 private:
  struct Work {
    WorkKind kind = WorkKind::write;
    std::span<std::byte> local;
    std::size_t offset = 0;
    std::size_t stage = 0;  // how many works before it take effect before it
    RemoteBuffer remote{};
    std::byte* mapped = nullptr;
  };

  void add(Work work);
  [[nodiscard]] bool is_mapped() const;
  void copy();
  [[nodiscard]] bool may_post(const Work& work) const;
  [[nodiscard]] Posted post(const Work& work);
  void look_at_end();
  void check_deadline();

  Rank rank_ = kNoRank;
  Endpoint* endpoint_ = nullptr;
  Endpoint* way_ = nullptr;  // where works are posted: the endpoint, or a rail of it
  PeerMemory memory_;
  std::int64_t patience_ns_ = 0;
  std::int64_t deadline_ns_ = 0;  // 0: nothing was waited for yet
  std::vector<Work> works_;
  std::size_t stage_ = 0;  // of the works that are added
  std::size_t posted_ = 0;
  std::size_t ended_ = 0;
  Repeats may_repeat_ = Repeats::over_others;
  int repeats_ = 0;
  bool given_up_ = false;
  bool is_over_ = true;
  Status failure_;  // of the first work that failed since the last beginning
  Status status_;
};

}  // namespace weft::one_sided
