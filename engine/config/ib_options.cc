// What the settings say of RDMA.
#include "engine/config/config.h"
#include "verbs/ib/ib.h"

namespace weft {

IbOptions ib_options(const Config& config) {
  IbOptions ib;
  ib.gid_index = config.ib_gid_index;
  ib.queue_pairs = static_cast<std::uint32_t>(config.ib_queue_pairs);
  ib.mtu = config.ib_mtu;
  ib.traffic_class = config.ib_traffic_class;
  ib.service_level = config.ib_service_level;
  ib.udp_source_port = config.ib_udp_source_port;
  ib.timeout = config.ib_timeout;
  ib.retries = config.ib_retries;
  ib.rnr_timer = config.ib_rnr_timer;
  ib.receive_depth = static_cast<std::uint32_t>(config.ib_receive_depth);
  ib.memory_hooks = config.memory_hooks;
  return ib;
}

}  // namespace weft
