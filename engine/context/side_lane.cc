// side_lane: starting, connecting, closing.
#include "engine/context/side_lane.h"

#include <utility>

namespace weft {
namespace {

LaneOptions beside(Lane& home, LaneOptions options,
                   std::function<Status(BoundCall& part)> connect) {
  options.home = &home;
  options.connect = std::move(connect);
  return options;
}

}  // namespace

SideLane::SideLane(const LaneSurroundings& around, AddressBook addresses,
                   const LaneOptions& options, std::unique_ptr<Interface> interface,
                   TraceRing& trace)
    : around_(around),
      lane_(beside(around.home, options, [this](BoundCall& part) { return connect(part); }),
            std::move(interface), trace, around.membership, failures_),
      peers_(around.config, std::move(addresses), lane_.interface(), around.rails,
             around.membership, Peers::Watching::others_do),
      control_(around.config, around.identity, lane_, peers_, nullptr),
      failures_(around.config, around.rank_map, lane_, control_, nullptr, around.membership,
                around.first_failure) {}

Status SideLane::start() {
  WEFT_RETURN_IF_ERROR(peers_.addresses().tell(lane_.interface().address()));
  return lane_.start_thread();
}

Status SideLane::connect(BoundCall& part) {
  for (std::vector<PeerConnection*>* peers : {&part.in, &part.out}) {
    for (PeerConnection*& peer : *peers) {
      WEFT_ASSIGN(peer, peers_.connection(peer->rank));
    }
  }
  return {};
}

void SideLane::close() {
  lane_.close([this] {
    failures_.fail(Status(Code::closed, "the context was closed", around_.config.rank));
  });
}

}  // namespace weft
