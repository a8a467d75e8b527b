// What `weft perf wire` understands, what it asks of perftest, and what it reads in its tables.
#include <gtest/gtest.h>

#include <algorithm>

#include "tools/weft/wire/options.h"
#include "tools/weft/wire/perftest.h"

namespace weft {
namespace {

Result<WireOptions> understood(WireArguments asked) {
  EXPECT_TRUE(fit_settings(asked, Config{}).empty());
  return understand(asked);
}

TEST(WireOptions, EachOperationHasUsualSizesAndDepth) {
  const Result<WireOptions> write = understood(WireArguments{});
  ASSERT_TRUE(write.ok());
  EXPECT_EQ(write->depth, 128U);
  EXPECT_FALSE(write->is_latency());
  const Result<WireOptions> atomic = understood({.op = "atomic"});
  ASSERT_TRUE(atomic.ok());
  EXPECT_EQ(atomic->sizes, std::vector<std::size_t>{8});
  EXPECT_TRUE(atomic->is_latency());
  EXPECT_FALSE(atomic->is_ping_pong());
  EXPECT_TRUE(understood({.op = "write", .depth = 1})->is_ping_pong());
}

TEST(WireOptions, DevicesHavePorts) {
  const Result<WireOptions> options = understood({.device = "mlx5_0:2"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->device.name, "mlx5_0");
  EXPECT_EQ(options->peer_device.port, 2);
  EXPECT_EQ(understood({.device = "a", .peer_device = "b"})->peer_device.name, "b");
}

// Typed options go before them, which is said.
TEST(WireOptions, TheUsersSettingsHold) {
  Config config;
  ASSERT_TRUE(config.set("WEFT_TRANSPORTS", "ucx").ok());
  ASSERT_TRUE(config.set("WEFT_INTERFACES", "eth1,eth2").ok());
  WireArguments nothing;
  EXPECT_TRUE(fit_settings(nothing, config).empty());
  EXPECT_EQ(nothing.transport, "ucx");
  EXPECT_EQ(nothing.device, "eth1");
  WireArguments typed{.transport = "ib", .device = "mlx5_0"};
  EXPECT_EQ(fit_settings(typed, config),
            (std::vector<std::string>{"--transport ib overrides WEFT_TRANSPORTS=ucx",
                                      "--device mlx5_0 overrides WEFT_INTERFACES=eth1,eth2"}));
  EXPECT_EQ(typed.transport, "ib");
}

struct Wrong {
  WireArguments arguments;
  const char* named;
};

TEST(WireOptions, ErrorsNameTheOption) {
  const Wrong wrongs[] = {
      {{.op = "push"}, "--op push"},
      {{.sizes = "8,12Q"}, "--sizes: '12Q'"},
      {{.sizes = "0"}, "--sizes 0"},
      {{.op = "atomic", .sizes = "16"}, "--sizes 16"},
      {{.depth = -1}, "--depth -1"},
      {{.depth = 513}, "--depth 513"},
      {{.depth = 4, .list = 5}, "--list 5"},
      {{.transport = "pigeons"}, "--transport pigeons"},
      {{.device = "mlx5_0:x"}, "--device mlx5_0:x"},
      {{.peer_device = "b", .peer = "host:1"}, "--peer-device"},
      {{.peer = "host:1", .listen = "1"}, "--listen and --peer"},
      {{.listen = "70000"}, "--listen 0.0.0.0:70000"},
      {{.listen = "nowhere"}, "--listen 0.0.0.0:nowhere"},
      {{.peer = "host"}, "--peer host"},
      {{.rounds = 0}, "--rounds 0"},
      {{.against = "nobody"}, "--against nobody"},
      {{.transport = "ucx", .against = "perftest"}, "--against perftest"},
  };
  for (const Wrong& wrong : wrongs) {
    const Result<WireOptions> options = understood(wrong.arguments);
    ASSERT_FALSE(options.ok()) << wrong.named;
    EXPECT_EQ(options.status().code(), Code::invalid_argument);
    EXPECT_NE(options.status().text().find(wrong.named), std::string_view::npos)
        << options.status().text();
  }
}

TEST(WirePerftest, MeasuresTheSameTask) {
  WireTask task;
  task.depth = 64;
  task.list = 16;
  task.iterations = 100;
  task.bytes = 65536;
  const WirePath path{{"rx_h0r0", 1}, 1, 4096, 10'000};
  EXPECT_EQ(perftest_command(task, path, 7000, "10.0.0.2"),
            (std::vector<std::string>{"ib_write_bw", "-d", "rx_h0r0", "-i",   "1",       "-p",
                                      "7000",        "-n", "100",     "-F",   "-u",      "18",
                                      "-x",          "1",  "-m",      "4096", "-s",      "65536",
                                      "-t",          "64", "-l",      "16",   "10.0.0.2"}));
  WirePath told = path;
  told.service_level = 3;
  told.traffic_class = 104;
  told.timeout = 20;
  const std::vector<std::string> words = perftest_command(task, told, 7000, "");
  for (const auto& [option, value] :
       {std::pair{"-S", "3"}, std::pair{"--tclass", "104"}, std::pair{"-u", "20"}}) {
    const auto found = std::ranges::find(words, option);
    ASSERT_NE(found, words.end()) << option;
    EXPECT_EQ(*std::next(found), value);
  }
  task.depth = 1;
  for (const auto& [op, program] :
       {std::pair{WireOp::write, "ib_write_lat"}, std::pair{WireOp::read, "ib_read_lat"},
        std::pair{WireOp::notice, "ib_send_lat"}, std::pair{WireOp::atomic, "ib_atomic_lat"}}) {
    task.op = op;
    EXPECT_EQ(perftest_program(task), program);
  }
}

TEST(WirePerftest, TablesAreRead) {
  const Result<PerftestFigure> bandwidth = perftest_figure(
      " Mtu : 4096[B]\n #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   "
      "MsgRate[Mpps]\n 65536      100              14.91              13.29  \t\t   0.000213\n",
      false);
  ASSERT_TRUE(bandwidth.ok());
  EXPECT_EQ(bandwidth->average_mib, 13.29);
  const std::string head =
      " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
      "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n";
  const Result<PerftestFigure> latency = perftest_figure(
      head + " 8  500  111.28  960.37  131.96   \t 156.93  \t81.84  \t\t487.67  \t\t960.37 \n",
      true);
  ASSERT_TRUE(latency.ok());
  EXPECT_EQ(latency->typical_us, 131.96);
  for (const char* row : {"", " 8  657  inf  inf  inf  inf  -nan  inf  inf\n"}) {
    EXPECT_EQ(perftest_figure(head + row, true).status().code(), Code::mismatch) << row;
  }
}

}  // namespace
}  // namespace weft
