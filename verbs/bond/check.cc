// The invariants of a bond after every turn, whatever its networks do. The simulations check them.
#include <algorithm>

#include "verbs/bond/interface.h"

namespace weft::bond {

void BondInterface::check() const {
  for (const auto& [rank, endpoint] : endpoints_) endpoint->check();
}

void BondEndpoint::check() const {
  std::size_t missing = 0;
  std::vector<std::uint64_t> backlog(paths_.size());
  std::vector<std::uint32_t> pieces(paths_.size());
  for (const Channel& state : channels_) {
    for (std::uint64_t n = state.released; n < state.posted; ++n) {
      const Sent& sent = state.sent[n % state.sent.size()];
      invariant(!(sent.taken && sent.missing), "what the peer took is not missing");
      invariant(!sent.missing || sent.locally_completed, "what is missing is under way nowhere");
      missing += sent.missing ? 1 : 0;
      if (sent.locally_completed) continue;
      backlog[sent.path] += sent.payload.size();
      pieces[sent.path] += sent.how == Payload::lent ? 1 : 0;
    }
  }
  invariant(missing == missing_, "what is missing is counted");
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    check_path(p);
    invariant(paths_[p].flow.backlog == backlog[p],
              "a backlog is what was posted and not locally completed");
    invariant(paths_[p].flow.pieces == pieces[p], "pieces under way are counted");
  }
}

void BondEndpoint::check_path(std::size_t index) const {
  const Path& path = paths_[index];
  const bool is_waiting = path.state() == PathState::lost || path.state() == PathState::counted;
  invariant(path.endpoint != nullptr, "a path has an endpoint");
  if (path.live()) {
    invariant(path.generation.now == path.generation.lived, "a live path lives in its generation");
    invariant(!path.comeback.wanted, "a live path is not sought");
    invariant(failure_.ok(), "a failed endpoint has no live path");
  } else {
    invariant(!path.endpoint->failure().ok() || path.returning(),
              "the connection of a path that was given up was abandoned");
  }
  if (path.returning())
    invariant(path.generation.now != path.generation.lived, "a return has a generation of its own");
  if (path.resolved())
    invariant(path.flow.backlog == 0 && path.flow.pieces == 0, "a counted path owes nothing");
  invariant(!path.lingers || (!path.live() && !path.resolved()),
            "only what the peer has not closed may linger");
  if (is_fenced(index)) {
    invariant(is_waiting, "a fence ends with the connection that it was about");
    for (const Channel& state : channels_)
      invariant(state.taken[index] <= state.bound[index], "nothing is taken behind a fence");
  }
}

}  // namespace weft::bond
