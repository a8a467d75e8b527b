// spread: one large write or read over all rails to a peer at once, piece by piece. A rail takes the
// next piece when it has room for one, so fast rails carry more. Rails keep no order among them: who
// needs one waits for the end.
//
// The end of a write says that the peer's processor sees all of it. A completion alone does not say
// that of writes by another device, so a small read follows the last piece of each rail: no device
// answers a read before it has made its earlier writes visible. Where a device keeps no order, its
// completions say it.
//
// If a rail fails, the whole has failed, and the caller repeats it over one path.
//
// Threads: the holder of the lane's token. Lifetime: until all posted work has ended (is_over()).
#pragma once

#include <deque>
#include <span>

#include "engine/one_sided/chain.h"

namespace weft::one_sided {

// The rail to the peer with the least one-sided work under way, or the least so far; nullptr if only one leads there.
// For work that needs an order and so stays on one rail, beside other such work.
[[nodiscard]] Endpoint* freest_rail(Endpoint& to);

class Spread {
 public:
  // Smaller data gain nothing.
  static constexpr std::size_t kLeast = std::size_t{1} << 20;

  // Begins if the data are large and several rails lead to the peer; else returns false.
  bool begin(WorkKind kind, const Place& place, std::span<std::byte> local, std::size_t offset,
             std::int64_t patience_ns);
  bool advance();
  void give_up(const Status& why);
  [[nodiscard]] bool is_over() const;
  // Once it is over.
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  // The work of one rail.
  struct Rail final : WorkOwner {
    Rail(Spread& owner, Endpoint& to) : whole(owner), endpoint(to) {}
    void work_ended(const Status& status) override;

    Spread& whole;
    Endpoint& endpoint;
    int under_way = 0;
    bool has_written = false;  // and no read has followed yet
    std::uint64_t seen = 0;    // what that read brings
  };

  [[nodiscard]] bool post_next(Rail& rail);
  [[nodiscard]] bool confirm(Rail& rail);

  void check_deadline();

  WorkKind kind_ = WorkKind::write;
  Place place_;
  std::span<std::byte> local_;
  std::size_t offset_ = 0;
  std::size_t begun_ = 0;  // bytes
  std::deque<Rail> rails_;
  std::int64_t patience_ns_ = 0;
  std::int64_t deadline_ns_ = 0;  // 0: nothing was waited for yet
  Status status_;
};

}  // namespace weft::one_sided
