// Routes: the address handles of datagrams, one for each pair of addresses. To make one, the kernel
// looks up the neighbor, which takes a second if nobody answers. So a background call makes it, and
// the lane goes on. A route that may have changed is used until there is another. Internal to the
// module.
//
// Threads: the owner's thread calls all functions. The answers come from the background thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "verbs/device/device.h"
#include "verbs/ib/background_calls.h"
#include "verbs/ib/objects.h"

namespace weft::ib {

class Routes {
 public:
  // From an address of ours to one of a peer.
  struct Way {
    int gid_index = -1;
    std::uint16_t lid = 0;  // of the peer's port
    GidBytes own{};
    GidBytes peer{};
    auto operator<=>(const Way&) const = default;
  };
  using Attributes = std::function<ibv_ah_attr(const Way&)>;

  // `told` is called by the background thread when there is an answer to be taken.
  Routes(const Library& library, ibv_pd* domain, BackgroundCalls& background, std::string name,
         Attributes attributes, std::function<void()> told);

  // The handle of a way. nullptr: it is being looked up. Not ok: why the last lookup failed; the
  // way is looked up again later.
  [[nodiscard]] Result<ibv_ah*> find(const Way& way);
  [[nodiscard]] bool has_answers() const { return has_answers_.load(std::memory_order_acquire); }
  void take_answers();
  // The peer may have another card by now, so its routes are looked up again.
  void mistrust(const GidBytes& peer);
  // No datagram is under way: handles that were replaced are needed no more.
  void drop_old() { old_.clear(); }

 private:
  struct Route {
    Owned<ibv_ah> handle;
    bool asked = false;
    bool doubtful = false;
    int refusals = 0;  // in a row
    Status why;
    std::int64_t again_ns = 0;  // when it may be asked for again
  };
  struct Answer {
    Way way;
    Owned<ibv_ah> handle;
    Status status;
    std::int64_t took_ns = 0;
  };

  void ask(const Way& way, const Route& route);

  const Library& library_;
  ibv_pd* domain_;
  BackgroundCalls& background_;
  std::string name_;
  Attributes attributes_;
  std::function<void()> told_;
  std::map<Way, Route> routes_;
  std::vector<Owned<ibv_ah>> old_;
  std::mutex mutex_;
  std::vector<Answer> answers_;
  std::atomic<bool> has_answers_ = false;
};

}  // namespace weft::ib
