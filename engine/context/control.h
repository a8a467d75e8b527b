// control: the notices of the control channel, which belong to no operation. A query asks a peer
// whether it takes part in an operation. A failure notice says that a context has failed, and why.
// Internal to the module.
#pragma once

#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/context/peers.h"
#include "engine/lane/lane.h"

namespace weft {

class LiveRails;

// Belongs to the holder of the lane's token.
class Control {
 public:
  struct Identity {
    std::uint32_t job = 0;
    std::uint16_t context = 0;
  };
  // `rails`: who hears of rails; null on side lanes.
  Control(const Config& config, Identity identity, Lane& lane, Peers& peers, LiveRails* rails)
      : config_(config), identity_(identity), lane_(lane), peers_(peers), rails_(rails) {}

  // Reads the control notices that have arrived. Returns an error if a peer reports a failure, or
  // if a query shows that the peer and this rank disagree about an operation.
  [[nodiscard]] Status listen();
  // Sends a query to every peer for which the slot's operation waits: does the peer have an edge
  // with this rank, too?
  void ask_missing(LaneSlot& slot);
  // Looks for a notice of an operation that is over on this rank, or that has no edge with the
  // notice's sender: on all channels, or on the one of a slot. Such a notice means that the ranks
  // disagree about the operation, for example about its root: `mismatch`. ok: there is none.
  [[nodiscard]] Status find_unmatched() const;
  [[nodiscard]] Status find_unmatched(const LaneSlot& slot) const;
  // Tells every peer that this context has failed.
  void tell_failure(const Status& status);

 private:
  [[nodiscard]] Status listen_to(PeerConnection& connection);
  [[nodiscard]] Status answer(PeerConnection& connection, const WireHeader& header);
  [[nodiscard]] Status no_edge(const std::string& what, bool sends, Rank peer) const;
  [[nodiscard]] static Status compare(const LaneSlot* slot, const WireHeader& header, Rank from,
                                      const std::string& what);
  [[nodiscard]] WireHeader header_of(NoticeKind kind) const;

  const Config& config_;
  const Identity identity_;
  Lane& lane_;
  Peers& peers_;
  LiveRails* const rails_;
  std::vector<Execution::Missing> missing_;  // scratch
  bool is_deaf_ = false;  // a rank that asked for attention could not be reached; said once
};

}  // namespace weft
