// Opening over devices that refuse or offer less: an error names the device and what was tried,
// and nothing leaks.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "tests/ib/pair.h"

namespace weft::ib {
namespace {

struct Refusal {
  const char* verb;
  int after;         // calls that succeed before
  const char* part;  // of the error
};

void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.verb << " after " << refusal.after;
}

class IbOpenRefused : public testing::TestWithParam<Refusal> {};
INSTANTIATE_TEST_SUITE_P(
    All, IbOpenRefused,
    testing::Values(
        Refusal{"open_device", 0, "opening"}, Refusal{"query_device", 0, "asking"},
        Refusal{"query_port", 0, "port"}, Refusal{"query_gid_table", 0, "addresses"},
        Refusal{"alloc_pd", 0, "protection domain"},
        Refusal{"create_comp_channel", 0, "completion channel"},
        Refusal{"create_cq", 0, "completion queue"}, Refusal{"create_cq", 1, "completion queue"},
        Refusal{"create_srq", 0, "shared receive queue"}, Refusal{"reg_mr", 0, "registering"},
        Refusal{"reg_mr", 1, "registering"}, Refusal{"post_srq_recv", 0, "shared receive queue"},
        Refusal{"post_srq_recv", 100, "shared receive queue"},
        Refusal{"create_qp:datagrams", 0, "queue pair"}, Refusal{"modify_qp:init", 0, "queue pair"},
        Refusal{"modify_qp:rtr", 0, "queue pair"}, Refusal{"modify_qp:rts", 0, "queue pair"},
        Refusal{"post_recv", 0, "datagrams"}, Refusal{"post_recv", 5, "datagrams"}));

TEST_P(IbOpenRefused, IsAnErrorThatNamesTheDevice) {
  for (const int error : {EIO, EPERM, ENOMEM}) {
    Ranks ranks(1);
    ranks.fabric.refuse(GetParam().verb, error, GetParam().after);
    const Status status = ranks.try_open(0).status();
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.text().find("scripted0"), std::string_view::npos) << status.to_string();
    EXPECT_NE(status.text().find(GetParam().part), std::string_view::npos) << status.to_string();
    EXPECT_EQ(ranks.fabric.leaks(), "");
    ranks.fabric.allow();
    EXPECT_TRUE(ranks.try_open(0).ok()) << "an error leaves nothing behind";
  }
}

TEST(IbOpen, WithoutAListOfDevices) {
  Ranks ranks(1);
  ranks.fabric.refuse("get_device_list", ENOSYS);
  EXPECT_NE(ranks.try_open(0).status().text().find("listing RDMA devices"), std::string_view::npos);
}

TEST(IbOpen, ADeviceThatIsNotThereIsToldWithThoseThatAre) {
  Ranks ranks(2);
  IbOptions other;
  other.device = "mlx5_9";
  const Status status =
      IbInterface::open(Fabric::library(), 0, ranks.options, other, nullptr).status();
  EXPECT_EQ(status.code(), Code::unavailable);
  for (const char* part : {"mlx5_9", "scripted0", "scripted1"})
    EXPECT_NE(status.text().find(part), std::string_view::npos) << status.to_string();
}

// The hooks that would see other memory go are the host's to ask for: with them this call fails.
TEST(IbOpen, LeavesTheFunctionsOfTheCLibraryAlone) {
  Ranks ranks(1);
  ASSERT_TRUE(ranks.try_open(0).ok());
  const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const memory =
      mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  void* const second = static_cast<std::byte*>(memory) + bytes;
  EXPECT_EQ(mremap(memory, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, second), second)
      << errno_text(errno);
  munmap(second, bytes);
}

// As when a context is split while a cable is out.
TEST(IbOpen, ACableThatIsOutIsToldByTheLinkAndUsedOnceItIsIn) {
  Ranks ranks(2);
  ranks.fabric.set_port(IBV_PORT_DOWN);
  ranks.open_all();
  EXPECT_EQ(ranks.at(0).link().code(), Code::unavailable);
  ranks.fabric.set_port(IBV_PORT_ACTIVE);
  EXPECT_TRUE(ranks.at(0).link().ok());
  ranks.meet(0, 1);
}

TEST(IbOpen, AnInfinibandPortThatIsDown) {
  Ranks ranks(1);
  ranks.fabric.set_port(IBV_PORT_DOWN);
  ranks.fabric.limits.link_layer = IBV_LINK_LAYER_INFINIBAND;
  const Status status = ranks.try_open(0).status();
  EXPECT_EQ(status.code(), Code::unavailable);
  EXPECT_NE(status.text().find("scripted0/1: the port is not active"), std::string_view::npos);
}

TEST(IbOpen, AGidThatIsNotThere) {
  Ranks ranks(1);
  ranks.ib.gid_index = 3;
  const Status status = ranks.try_open(0).status();
  EXPECT_EQ(status.code(), Code::unavailable);
  EXPECT_NE(status.text().find("GID 3"), std::string_view::npos) << status.to_string();
}

// Everything works with the least that a device may offer.
void expect_traffic(Ranks& ranks) {
  ranks.open_all();
  ranks.meet(0, 1);
  for (std::uint32_t n = 1; n < 200; ++n) {
    ASSERT_TRUE(ranks.eventually([&] { return ranks.post(0, 1, n, n); }));
    ASSERT_TRUE(ranks.receive(0, 1, n, n));
  }
  const std::vector<std::byte> piece = numbered_payload(200, ranks.at(0).piece_bytes());
  ASSERT_EQ(ranks.link(0, 1).post_piece(1, numbered_header(200), piece), Posted::posted);
  ASSERT_TRUE(ranks.receive(0, 1, 200, piece.size()));
}

TEST(IbOpen, DevicesThatTakeNothingInline) {
  for (const std::uint32_t most : {0U, 1U, 28U, 100U, 1000U}) {
    Ranks ranks(2);
    ranks.fabric.limits.max_inline = most;
    expect_traffic(ranks);
  }
}

TEST(IbOpen, DevicesWithShortQueues) {
  Ranks ranks(2);
  ranks.fabric.limits.max_cqe = 512;
  ranks.fabric.limits.max_srq_wr = 64;
  expect_traffic(ranks);
}

TEST(IbOpen, ACompletionQueueThatIsTooShortIsAnError) {
  Ranks ranks(1);
  ranks.fabric.limits.max_cqe = 100;
  const Status status = ranks.try_open(0).status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.text().find("scripted0"), std::string_view::npos) << status.to_string();
}

TEST(IbOpen, DevicesWithShortSendQueues) {
  Ranks ranks(2);
  ranks.fabric.limits.max_qp_wr = 128;
  expect_traffic(ranks);
}

TEST(IbOpen, LinkFollowsThePort) {
  Ranks ranks(1);
  ranks.open_all();
  EXPECT_TRUE(ranks.at(0).link().ok());
  ranks.fabric.set_port(IBV_PORT_DOWN);
  EXPECT_EQ(ranks.at(0).link().code(), Code::unavailable);
  ranks.fabric.refuse("query_port", ENODEV);
  EXPECT_NE(ranks.at(0).link().text().find("scripted0"), std::string_view::npos);
}

}  // namespace
}  // namespace weft::ib
