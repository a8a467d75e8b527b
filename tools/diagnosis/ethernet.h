// ethernet: what only system calls tell of a network interface of this host: ethtool's ioctls and the
// kernel's DCB messages. The programs of that name are not needed. Internal to the module.
#pragma once

#include <string>

namespace weft::diagnosis {

struct EthernetAnswers {
  int most_mbit_per_s = -1;  // of the modes that it supports
  int pause = -1;            // 1: pause frames are sent or obeyed
  int pfc = -1;              // priorities with priority flow control, a bit each
  std::string driver, firmware;
};
// What the driver does not tell stays unknown.
[[nodiscard]] EthernetAnswers ask_ethernet(const std::string& netdev);

}  // namespace weft::diagnosis
