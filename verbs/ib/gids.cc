// The addresses of our own port, by one question to the driver. sysfs would have three files for
// each of a thousand places.
#include <fmt/core.h>
#include <net/if.h>

#include <algorithm>
#include <cstring>

#include "verbs/ib/interface.h"

namespace weft::ib {
namespace {

GidKind kind_of(const ibv_gid_entry& entry) {
  switch (entry.gid_type) {
    case IBV_GID_TYPE_ROCE_V1:
      return GidKind::roce_v1;
    case IBV_GID_TYPE_ROCE_V2:
      return GidKind::roce_v2;
    default:
      return GidKind::infiniband;
  }
}

RdmaGid gid_of(const ibv_gid_entry& entry) {
  RdmaGid gid;
  gid.index = static_cast<int>(entry.gid_index);
  std::memcpy(gid.bytes.data(), entry.gid.raw, gid.bytes.size());
  gid.kind = kind_of(entry);
  std::array<char, IF_NAMESIZE> name{};
  if (entry.ndev_ifindex != 0 && if_indextoname(entry.ndev_ifindex, name.data()) != nullptr)
    gid.netdev = name.data();
  return gid;
}

}  // namespace

Result<std::vector<RdmaGid>> read_gids(const Library& library, ibv_context* context, int number) {
  // Those that are set, of all ports of the device; the call takes no more than 64 KiB of places.
  constexpr std::size_t kMost = 2000;
  std::vector<ibv_gid_entry> table(kMost);
  const auto count =
      library.query_gid_table(context, table.data(), table.size(), 0, sizeof(ibv_gid_entry));
  WEFT_RETURN_IF_ERROR(check_count(static_cast<int>(count),
                                   fmt::format("asking {} for the addresses (GIDs) of its ports",
                                               library.get_device_name(context->device))));
  table.resize(static_cast<std::size_t>(count));
  RdmaSources sources;
  sources.addresses = interface_addresses();
  std::vector<RdmaGid> gids;
  for (const ibv_gid_entry& entry : table) {
    if (entry.port_num == static_cast<std::uint32_t>(number))
      gids.push_back(judged(gid_of(entry), sources));
  }
  return gids;
}

namespace {

// Verbs number the packet sizes: 256 bytes is 1, 512 is 2, and so on.
int packet_bytes(ibv_mtu mtu) {
  return mtu < IBV_MTU_256 || mtu > IBV_MTU_4096 ? 0 : 128 << mtu;
}

Result<RdmaAnswers> answers_of(const std::string& device, int port) {
  WEFT_ASSIGN(const Library* const table, library());
  WEFT_ASSIGN(const Owned<ibv_context> context, open_named(*table, device));
  RdmaAnswers answers;
  WEFT_ASSIGN(answers.gids, read_gids(*table, context.get(), port));
  ibv_port_attr attributes{};
  if (table->query_port(context.get(), static_cast<std::uint8_t>(port), &attributes) == 0)
    answers.packet_bytes = packet_bytes(attributes.active_mtu);
  return answers;
}

RdmaAnswers ask_driver(const std::string& device, int port) {
  Result<RdmaAnswers> answers = answers_of(device, port);
  if (answers.ok()) return std::move(answers).value();
  return {{}, 0, std::string(answers.status().text())};
}

}  // namespace

}  // namespace weft::ib

namespace weft {

std::vector<RdmaPort> discover_ib_ports() {
  RdmaSources sources;
  sources.addresses = interface_addresses();
  sources.driver = ib::ask_driver;
  return discover_rdma_ports(sources);
}

}  // namespace weft
