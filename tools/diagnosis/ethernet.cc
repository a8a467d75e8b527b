// ethtool's ioctls (linux/ethtool.h), and RTM_GETDCB (linux/dcbnl.h) for priority flow control.
#include "tools/diagnosis/ethernet.h"

#include <linux/dcbnl.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "verbs/base/base.h"

namespace weft::diagnosis {
namespace {

constexpr int kAnswerMs = 500;

bool ask(const Fd& socket, const std::string& netdev, void* command) {
  ifreq request{};
  netdev.copy(request.ifr_name, sizeof request.ifr_name - 1);
  request.ifr_data = static_cast<char*>(command);
  return ::ioctl(socket.get(), SIOCETHTOOL, &request) == 0;
}

// Modes by their number (enum ethtool_link_mode_bit_indices): those from `first` to `last` are of one rate.
struct Modes {
  int first, last, mbit_per_s;
};
constexpr std::array kModes{
    Modes{1, 1, 10},        Modes{3, 3, 100},       Modes{5, 5, 1'000},     Modes{12, 12, 10'000},
    Modes{15, 15, 2'500},   Modes{17, 17, 1'000},   Modes{18, 20, 10'000},  Modes{21, 22, 20'000},
    Modes{23, 26, 40'000},  Modes{27, 30, 56'000},  Modes{31, 33, 25'000},  Modes{34, 35, 50'000},
    Modes{36, 39, 100'000}, Modes{40, 40, 50'000},  Modes{41, 41, 1'000},   Modes{42, 46, 10'000},
    Modes{47, 47, 2'500},   Modes{48, 48, 5'000},   Modes{52, 56, 50'000},  Modes{57, 61, 100'000},
    Modes{62, 66, 200'000}, Modes{69, 73, 400'000}, Modes{75, 79, 100'000}, Modes{80, 84, 200'000},
    Modes{85, 89, 400'000}, Modes{93, 98, 800'000},
};

int most_of(std::span<const std::uint32_t> supported) {
  int most = -1;
  for (const Modes& modes : kModes) {
    for (int bit = modes.first; bit <= modes.last; ++bit) {
      const auto word = static_cast<std::size_t>(bit / 32);
      if (word < supported.size() && (supported[word] >> (bit % 32) & 1U) != 0)
        most = std::max(most, modes.mbit_per_s);
    }
  }
  return most;
}

// The kernel says first how many words a set of modes has. The sets stand behind the head.
int most_mbit_per_s(const Fd& socket, const std::string& netdev) {
  constexpr std::size_t kHead = sizeof(ethtool_link_settings) / sizeof(std::uint32_t);
  constexpr std::size_t kMostWords = 127;
  std::array<std::uint32_t, kHead + 3 * kMostWords> settings{};
  const auto ask_with = [&](int words) {
    ethtool_link_settings head{};
    head.cmd = ETHTOOL_GLINKSETTINGS;
    head.link_mode_masks_nwords = static_cast<std::int8_t>(words);
    std::memcpy(settings.data(), &head, sizeof head);
    if (!ask(socket, netdev, settings.data())) return 0;
    std::memcpy(&head, settings.data(), sizeof head);
    return static_cast<int>(head.link_mode_masks_nwords);
  };
  const int words = -ask_with(0);
  if (words <= 0 || words > static_cast<int>(kMostWords) || ask_with(words) != words) return -1;
  return most_of(std::span(settings).subspan(kHead, static_cast<std::size_t>(words)));
}

struct DcbRequest {
  nlmsghdr head;
  dcbmsg body;
  rtattr attribute;
  std::array<char, IFNAMSIZ> name;
};

// The attribute of this type among those that fill the bytes; empty: there is none.
std::span<const char> attribute(std::span<const char> bytes, unsigned type) {
  while (bytes.size() >= sizeof(rtattr)) {
    rtattr head{};
    std::memcpy(&head, bytes.data(), sizeof head);
    if (head.rta_len < sizeof head || head.rta_len > bytes.size()) break;
    if ((head.rta_type & NLA_TYPE_MASK) == type)
      return bytes.subspan(sizeof head, head.rta_len - sizeof head);
    bytes = bytes.subspan(std::min<std::size_t>(RTA_ALIGN(head.rta_len), bytes.size()));
  }
  return {};
}

int priority_flow_control(const std::string& netdev) {
  const Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  DcbRequest request{};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = RTM_GETDCB;
  request.head.nlmsg_flags = NLM_F_REQUEST;
  request.body.cmd = DCB_CMD_IEEE_GET;
  request.attribute.rta_len = RTA_LENGTH(IFNAMSIZ);
  request.attribute.rta_type = DCB_ATTR_IFNAME;
  netdev.copy(request.name.data(), IFNAMSIZ - 1);
  const timeval patience{0, kAnswerMs * 1000};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::send(socket.get(), &request, sizeof request, 0) < 0) return -1;
  std::array<char, 16384> answer{};
  const ssize_t got = ::recv(socket.get(), answer.data(), answer.size(), 0);
  constexpr std::size_t kHead = NLMSG_LENGTH(sizeof(dcbmsg));
  nlmsghdr head{};
  if (got < static_cast<ssize_t>(kHead)) return -1;
  std::memcpy(&head, answer.data(), sizeof head);
  if (head.nlmsg_type == NLMSG_ERROR) return -1;
  const auto all =
      std::span<const char>(answer).subspan(kHead, static_cast<std::size_t>(got) - kHead);
  const auto pfc = attribute(attribute(all, DCB_ATTR_IEEE), DCB_ATTR_IEEE_PFC);
  if (pfc.size() < sizeof(ieee_pfc)) return -1;
  ieee_pfc told{};
  std::memcpy(&told, pfc.data(), sizeof told);
  return told.pfc_en;
}

}  // namespace

EthernetAnswers ask_ethernet(const std::string& netdev) {
  EthernetAnswers told;
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return told;
  told.most_mbit_per_s = most_mbit_per_s(socket, netdev);
  ethtool_pauseparam pause{};
  pause.cmd = ETHTOOL_GPAUSEPARAM;
  if (ask(socket, netdev, &pause)) told.pause = pause.rx_pause != 0 || pause.tx_pause != 0 ? 1 : 0;
  ethtool_drvinfo driver{};
  driver.cmd = ETHTOOL_GDRVINFO;
  if (ask(socket, netdev, &driver)) {
    told.driver.assign(driver.driver, ::strnlen(driver.driver, sizeof driver.driver));
    told.firmware.assign(driver.fw_version, ::strnlen(driver.fw_version, sizeof driver.fw_version));
  }
  told.pfc = priority_flow_control(netdev);
  return told;
}

}  // namespace weft::diagnosis
