// This machine, whatever it is.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string_view>

#include "tests/hardware/machines.h"

namespace weft {
namespace {

TEST(ThisMachine, HasCoresAndMemory) {
  const Result<Machine> machine = discover_machine();
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_GE(machine->threads, 1);
  EXPECT_GT(machine->memory_bytes, std::uint64_t{1} << 20);
  EXPECT_FALSE(machine->nodes.empty());
  EXPECT_EQ(machine->source, "this machine");
}

// hwloc's plugin for GPUs with a display asks X servers 0 to 9; this test is number 9.
TEST(ThisMachine, IsReadWithoutItsDisplays) {
  constexpr std::string_view kDisplay = "/tmp/.X11-unix/X9";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, kDisplay.data(), kDisplay.size());  // a name without a file
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + kDisplay.size());
  const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  ASSERT_GE(server, 0);
  if (bind(server, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(server, 1) != 0) {
    close(server);
    GTEST_SKIP() << "this machine has a display 9";
  }
  EXPECT_TRUE(discover_machine().ok());
  EXPECT_LT(accept4(server, nullptr, nullptr, SOCK_CLOEXEC), 0) << "a display was asked";
  close(server);
}

}  // namespace
}  // namespace weft
