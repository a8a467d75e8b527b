// This machine, whatever it is.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

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

// A socket that listens in the place of X server `display`, without a file; -1 if there is one.
int listen_as_display(char display) {
  const std::string name = std::string("/tmp/.X11-unix/X") + display;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (bind(server, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
      listen(server, 1) == 0)
    return server;
  close(server);
  return -1;
}

// Whether this process has connected to the socket. Others with hwloc, such as Slurm's, may have, too.
bool have_we_asked(int server) {
  for (int asker; (asker = accept4(server, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
    ucred peer{};
    socklen_t size = sizeof peer;
    const bool is_known = getsockopt(asker, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    close(asker);
    if (is_known && peer.pid == getpid()) return true;
  }
  return false;
}

// hwloc's plugin for GPUs with a display asks X servers 0 to 9. The test is one of them.
TEST(ThisMachine, IsReadWithoutItsDisplays) {
  int server = -1;
  for (char display = '9'; server < 0 && display >= '0'; --display)
    server = listen_as_display(display);
  ASSERT_GE(server, 0) << "all ten displays are in use";
  EXPECT_TRUE(discover_machine().ok());
  EXPECT_FALSE(have_we_asked(server)) << "a display was asked";
  close(server);
}

}  // namespace
}  // namespace weft
