// Opening a side: its interface, its memory, and the exchange of what each must know of the other.
#include "tools/weft/wire/side.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "tools/weft/common/rdma_ports.h"
#include "verbs/memory/memory.h"

namespace weft {
namespace {

constexpr std::uint32_t kLeastSlots = 16;  // as the engine's rails
constexpr std::size_t kMostGids = 64;
constexpr int kNapMs = 20;
constexpr int kShortNapMs = 1;  // where the interface cannot promise to wake us

const RdmaPort* find(const std::vector<RdmaPort>& ports, const WireDevice& device) {
  const auto found = std::ranges::find_if(ports, [&](const RdmaPort& port) {
    return device.name.empty() ? port.usable
                               : port.device == device.name && port.port == device.port;
  });
  return found == ports.end() ? nullptr : &*found;
}

// Which of ours reaches one of theirs best, as the transport ranks them.
int choose_gid(const std::vector<RdmaGid>& own, std::span<const GidAddress> theirs) {
  const std::vector<GidPair> ranking = rank_gid_pairs(own, theirs);
  if (ranking.empty() || ranking[0].score < 0) return -1;
  const RdmaGid& best = own[static_cast<std::size_t>(ranking[0].local)];
  return best.kind == GidKind::infiniband ? -1 : best.index;
}

}  // namespace

struct WireSide::Hello {
  std::array<char, kAddressBytes> address{};
  std::uint32_t address_bytes = 0;
  std::int32_t mtu = 0;
  RemoteBuffer target;
  std::uint32_t gid_count = 0;
  std::array<GidAddress, kMostGids> gids{};
};

Result<std::unique_ptr<WireSide>> WireSide::open(Rank self, const WirePlan& plan,
                                                 const WireDevice& device, Line& line,
                                                 const Config& config) {
  std::unique_ptr<WireSide> side(new WireSide(self, line));
  side->path_.device = device;
  if (plan.over_ucx && device.name.empty()) side->path_.device.name = "lo";
  side->patience_ = {wait_policy(2, usable_cores(), config.spin_ns,
                                 config.yield_us < 0 ? -1 : config.yield_us * 1000),
                     config.deadline_ms};
  std::vector<RdmaGid> gids;
  int mtu = 0;
  const std::vector<RdmaPort> ports = plan.over_ucx ? std::vector<RdmaPort>{} : rdma_ports();
  if (const RdmaPort* port = find(ports, device)) {
    if (!port->usable)
      return Status(Code::unavailable, fmt::format("{} port {} cannot be used: {}", port->device,
                                                   port->port, port->reason));
    side->path_.device = {port->device, port->port};
    side->path_.mbit_per_s = port->mbit_per_s;
    side->path_.service_level = config.ib_service_level;
    side->path_.traffic_class = config.ib_traffic_class;
    side->path_.timeout = config.ib_timeout;
    gids = port->gids;
    std::erase_if(gids, [&config](const RdmaGid& gid) {
      return config.ib_gid_index >= 0 && gid.index != config.ib_gid_index;
    });
    mtu = port->packet_bytes;
    if (config.ib_mtu > 0) mtu = std::min(mtu, config.ib_mtu);
  }
  WEFT_RETURN_IF_ERROR(side->take_memory(plan.most_bytes));
  InterfaceOptions options;
  options.channels = kWireChannel + 1;
  options.slots = std::max(std::bit_ceil(plan.depth), kLeastSlots);
  const auto open = plan.over_ucx ? open_wire_ucx : open_wire_ib;
  WEFT_ASSIGN(side->interface_, open(self, options, side->path_.device));
  WEFT_RETURN_IF_ERROR(side->meet(plan, gids, mtu));
  return side;
}

WireSide::~WireSide() {
  interface_.reset();
  deallocate(target_);
  deallocate(source_);
}

Status WireSide::take_memory(std::size_t bytes) {
  WEFT_ASSIGN(void* target, allocate(bytes));
  target_ = static_cast<std::byte*>(target);
  WEFT_ASSIGN(void* source, allocate(bytes));
  source_ = static_cast<std::byte*>(source);
  return {};
}

Status WireSide::meet(const WirePlan& plan, const std::vector<RdmaGid>& gids, int mtu) {
  Hello own;
  const std::string address = interface_->address();
  own.address_bytes = static_cast<std::uint32_t>(address.copy(own.address.data(), kAddressBytes));
  own.mtu = mtu;
  own.target = describe_memory(target_, plan.most_bytes);
  for (const RdmaGid& gid : gids) {
    if (gid.usable && own.gid_count < kMostGids) own.gids[own.gid_count++] = address_of(gid);
  }
  WEFT_RETURN_IF_ERROR(line_.say_value(own));
  WEFT_ASSIGN(const Hello theirs, hear<Hello>("its address"));
  if (theirs.address_bytes > kAddressBytes || theirs.gid_count > kMostGids)
    return Status(Code::mismatch, "the other side's greeting makes no sense");
  remote_ = theirs.target;
  path_.gid_index = choose_gid(gids, std::span(theirs.gids).first(theirs.gid_count));
  path_.mtu = std::min(mtu, theirs.mtu);
  WEFT_ASSIGN(peer_, interface_->connect(1 - self_, {theirs.address.data(), theirs.address_bytes}));
  return {};
}

void WireSide::nap(int fd) {
  const bool safe = interface_->arm();
  interface_->progress();
  const Result<int> events = interface_->descriptor();
  std::array<pollfd, 2> ready{{{fd, POLLIN, 0}, {events.ok() ? *events : -1, POLLIN, 0}}};
  const bool wakes = safe && events.ok() && interface_->flushed();
  ::poll(ready.data(), ready.size(), wakes ? kNapMs : kShortNapMs);
  interface_->disarm();
  interface_->progress();
}

}  // namespace weft
