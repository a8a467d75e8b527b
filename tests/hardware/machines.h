// What the tests of machines share.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "topology/hardware/hardware.h"

namespace weft {

// A machine of eight GPUs and eight network interfaces, in pairs below four PCI switches.
inline std::string eight_gpus() {
  return WEFT_MACHINES "/8gpu-8nic.xml";
}

// A file of this test, gone with it.
class TextFile {
 public:
  explicit TextFile(const std::string& text) {
    char path[] = "/tmp/weft-test-XXXXXX";
    const int descriptor = mkstemp(path);
    EXPECT_GE(descriptor, 0);
    path_ = path;
    std::ofstream(path_) << text;
    if (descriptor >= 0) ::close(descriptor);
  }
  ~TextFile() { std::filesystem::remove(path_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline const Nic& nic(const Machine& machine, std::string_view name) {
  for (const Nic& each : machine.nics) {
    if (each.name() == name) return each;
  }
  ADD_FAILURE() << "no network interface " << name;
  static const Nic none;
  return none;
}

}  // namespace weft
