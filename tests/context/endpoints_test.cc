// What the ranks of a job listen at, as the kernel tells it: docs/security.md lists it, and there is no
// more.
#include <arpa/inet.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>

#include "tests/window/window_job.h"

namespace weft {
namespace {

// The inodes of this process's sockets.
std::set<std::string> own_sockets() {
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string to = std::filesystem::read_symlink(entry.path(), gone).string();
    if (to.starts_with("socket:[")) inodes.insert(to.substr(8, to.size() - 9));
  }
  return inodes;
}

// The rows of a table of /proc/self/net, as words.
std::vector<std::vector<std::string>> rows(const std::string& table) {
  std::vector<std::vector<std::string>> all;
  std::ifstream file("/proc/self/net/" + table);
  std::string line;
  std::getline(file, line);  // the names of the columns
  while (std::getline(file, line)) {
    std::istringstream words(line);
    all.emplace_back(std::istream_iterator<std::string>(words),
                     std::istream_iterator<std::string>());
  }
  return all;
}

// "0100007F" as "127.0.0.1".
std::string address_of(const std::string& hex) {
  const in_addr address{static_cast<in_addr_t>(std::stoul(hex.substr(0, 8), nullptr, 16))};
  std::array<char, INET_ADDRSTRLEN> text{};
  return ::inet_ntop(AF_INET, &address, text.data(), text.size());
}

// Where this process can be called: "tcp 127.0.0.1", "udp 0.0.0.0", "unix @weft-…". Of IPv6, "tcp6".
std::multiset<std::string> listening() {
  constexpr std::size_t kLocal = 1, kState = 3, kInode = 9;
  const std::set<std::string> own = own_sockets();
  std::multiset<std::string> all;
  for (const std::string table : {"tcp", "tcp6", "udp", "udp6"}) {
    for (const auto& row : rows(table)) {
      const bool may_be_called = row.at(kState) == "0A" || table.starts_with("udp");
      if (!may_be_called || !own.contains(row.at(kInode))) continue;
      all.insert(table + (table.ends_with("6") ? "" : " " + address_of(row.at(kLocal))));
    }
  }
  constexpr std::size_t kFlags = 3, kUnixInode = 6, kPath = 7;
  for (const auto& row : rows("unix")) {
    if (row.at(kFlags) != "00010000" || !own.contains(row.at(kUnixInode))) continue;
    all.insert("unix " + (row.size() > kPath ? row[kPath] : "without a name"));
  }
  return all;
}

// What is open while all parts of a context are in use, and was not open before.
std::multiset<std::string> opened_by(
    const std::function<void(const std::function<void(Context&)>&)>& run) {
  const std::multiset<std::string> before = listening();
  std::mutex mutex;
  std::multiset<std::string> during;
  run([&](Context& context) {
    float x = 1, y = 0;
    expect_ok(context.allreduce(in(&x, 1), out(&y, 1)));
    Result<Window> window = context.win_create(out(&x, 1), "w");
    Result<Named> named = context.named();
    ASSERT_TRUE(window.ok() && named.ok());
    expect_ok(named->allreduce("x", in(&x, 1), out(&y, 1)));
    expect_ok(context.barrier());
    {
      const std::lock_guard lock(mutex);
      if (during.empty()) during = listening();
    }
    expect_ok(context.barrier());
    expect_ok(named->end());
  });
  std::multiset<std::string> opened;
  std::ranges::set_difference(during, before, std::inserter(opened, opened.end()));
  return opened;
}

TEST(Endpoints, OfRanksThatShareMemoryAreLocal) {
  Config config = test_config();
  config.transports = {.automatic = false, .shm = true};
  for (const std::string& each : opened_by([&](const auto& body) { run_job(3, body, config); }))
    EXPECT_TRUE(each.starts_with("unix @weft-")) << each;
}

// Each rank has one for each context, lane and interface: the job's, and that of its names.
TEST(Endpoints, OfUcxAreAtTheAddressesOfItsInterfaces) {
  std::size_t ports = 0;
  for (const std::string& each : opened_by([](const auto& body) { run_cluster(2, 2, body); })) {
    if (each.starts_with("unix @weft-")) continue;
    EXPECT_EQ(each, "tcp 127.0.0.1");
    ++ports;
  }
  EXPECT_EQ(ports, 4U);
}

TEST(Endpoints, OfARendezvousAreAtItsAddress) {
  const std::multiset<std::string> before = listening();
  RendezvousOptions options;
  options.job_key = "the key of nobody";
  const auto server = RendezvousServer::start(options).value();
  std::multiset<std::string> opened;
  std::ranges::set_difference(listening(), before, std::inserter(opened, opened.end()));
  EXPECT_EQ(opened, std::multiset<std::string>{"tcp 127.0.0.1"});
}

}  // namespace
}  // namespace weft
