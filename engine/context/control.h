// control: what ranks say to each other beside operations, on the control channel: a question whether
// the peer takes part in an operation, and the failure of a context. Internal to the module.
#pragma once

#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/context/peers.h"
#include "engine/lane/lane.h"

namespace weft {

// Belongs to the holder of the lane's token.
class Control {
 public:
  struct Identity {
    std::uint32_t job = 0;
    std::uint16_t context = 0;
  };
  Control(const Config& config, Identity identity, Lane& lane, Peers& peers)
      : config_(config), identity_(identity), lane_(lane), peers_(peers) {}

  // Answers what peers have asked. The failure that they tell of, or that an answer shows; ok: none.
  [[nodiscard]] Status listen();
  // Asks every peer that the operation of the slot waits for whether this rank is its peer, too.
  void ask_missing(LaneSlot& slot);
  // A notice on the channel of an operation that is over here, or has no edge from its sender: the
  // ranks disagree about the operation, for example about its root. `mismatch`, or ok: none.
  [[nodiscard]] Status find_stray() const;
  // Tells every peer that this context has failed.
  void tell_failure(const Status& status);

 private:
  [[nodiscard]] Status listen_to(Contact& contact);
  [[nodiscard]] Status answer(Contact& contact, const WireHeader& header);
  [[nodiscard]] Status no_edge(const std::string& what, bool sends, Rank peer) const;
  [[nodiscard]] static Status compare(const LaneSlot* slot, const WireHeader& header, Rank from,
                                      const std::string& what);
  [[nodiscard]] WireHeader header_of(NoticeKind kind) const;

  const Config& config_;
  const Identity identity_;
  Lane& lane_;
  Peers& peers_;
  std::vector<Execution::Missing> missing_;  // scratch
};

}  // namespace weft
