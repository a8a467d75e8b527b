// GPU memory in the network plugin (GPUDirect RDMA): both ends of a connection over scripted verbs,
// with the fake of the driver, which exports dma-bufs.
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "bindings/nccl/plugin.h"
#include "bindings/nccl/sender.h"
#include "tests/cuda/fake_library.h"
#include "tests/ib/gpu_memory.h"
#include "tests/ib/scripted_device.h"
#include "tests/transport/group.h"
#include "verbs/cuda/cuda.h"
#include "verbs/ib/interface.h"

namespace weft::nccl {
namespace {

constexpr std::size_t kBytes = 3'000'000;

class NetGpus : public testing::Test {
 protected:
  NetGpus() {
    fake.reset();
    Result<std::unique_ptr<Link>> from = open(kSender), to = open(kReceiver);
    EXPECT_TRUE(from.ok() && to.ok());
    const std::string there = (*to)->address(), here = (*from)->address();
    EXPECT_TRUE((*from)->connect(there, 0, 0).ok());
    EXPECT_TRUE((*to)->connect(here, 0, 0).ok());
    std::array<int, 2> sockets{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()), 0);
    (*from)->keep(Fd(sockets[0]));
    (*to)->keep(Fd(sockets[1]));
    receiver = must(Receiver::make(*std::move(to)));
    sender = must(Sender::make(*std::move(from), receiver->board_key()));
  }
  ~NetGpus() override {
    // The receiver tells of its regions.
    EXPECT_TRUE(eventually([&] {
      EXPECT_TRUE(sender->send(nullptr, 0, 0).ok());
      receiver->link().progress();
      return receiver->link().interface().flushed();
    }));
    sender.reset();
    receiver.reset();
    EXPECT_EQ(fabric.leaks(), "");
    EXPECT_EQ(fabric.violations(), "");
    fake.reset();
  }

  Result<std::unique_ptr<Link>> open(Rank self) {
    constexpr std::int64_t kPatienceNs = 20'000'000'000;
    fabric.add_device("scripted" + std::to_string(self), self + 1);
    return Link::open(self, kPatienceNs, [self](AddressResolver resolver) {
      InterfaceOptions options;
      options.channels = 2;
      IbOptions own;
      own.device = "scripted" + std::to_string(self);
      own.device_memory = ib::memory_of_gpus(ib::ReceiveBuffers::none);
      return ib::IbInterface::open(ib::Fabric::library(), self, options, own, std::move(resolver));
    });
  }

  // As NCCL does it: with the dma-buf of the GPU's memory.
  static Result<Registration> lend_gpu(const GpuArray<std::byte>& gpu, std::size_t bytes) {
    int descriptor = -1;
    EXPECT_EQ(FakeDriver::get().export_dma_buf(gpu.data(), bytes, &descriptor), 0);
    const Fd closes(descriptor);  // the plugin has a descriptor of its own
    return export_memory({gpu.data(), bytes}, descriptor, 0);
  }
  // Sends so many bytes from `from` to `to` + `at`.
  void move(void* from, Registration* to, std::size_t at, std::size_t bytes) {
    const std::array<Into, 1> parts = {{{to->memory.data() + at, bytes, 7, to}}};
    Result<Request*> receives = receiver->receive(parts);
    ASSERT_TRUE(receives.ok() && *receives != nullptr) << receives.status().to_string();
    Request* sends = nullptr;
    Status status;
    ASSERT_TRUE(eventually([&] {
      (void)(*receives)->test(nullptr);
      Result<Request*> begun = sender->send(from, bytes, 7);
      status = begun.status();
      if (begun.ok()) sends = *begun;
      return !begun.ok() || sends != nullptr;
    }));
    ASSERT_TRUE(status.ok()) << status.to_string();
    bool has_come = false, has_left = false;
    EXPECT_TRUE(eventually([&] {
      for (auto [request, is_over] : {std::pair{*receives, &has_come}, {sends, &has_left}}) {
        if (*is_over) continue;
        const Result<bool> ended = request->test(nullptr);
        EXPECT_TRUE(ended.ok()) << ended.status().to_string();
        *is_over = !ended.ok() || *ended;
      }
      return has_come && has_left;
    }));
  }
  static std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
    std::vector<std::byte> made(bytes);
    for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(i * 7 + seed);
    return made;
  }

  const FakeDriver& fake = FakeDriver::get();
  ib::Fabric fabric;
  std::unique_ptr<Receiver> receiver;
  std::unique_ptr<Sender> sender;
};

TEST_F(NetGpus, MessagesGoFromGpuToGpu) {
  GpuArray<std::byte> x(kBytes, 0), y(kBytes, 1);
  Registration* const from = must(sender->add(must(lend_gpu(x, kBytes))));
  Registration* const to = must(receiver->add(must(lend_gpu(y, kBytes))));
  EXPECT_EQ(fabric.dma_bufs.size(), 2U);
  const GpuCounts before = gpu_counts();
  std::vector<std::byte> expected(kBytes);
  y.set(expected);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, kBytes - 10}) {
    const std::vector<std::byte> sent = pattern(kBytes, static_cast<unsigned>(bytes));
    x.set(sent);
    std::copy_n(sent.begin() + 3, bytes, expected.begin() + 10);
    move(x.data() + 3, to, 10, bytes);
    EXPECT_EQ(y.get(), expected) << bytes;
  }
  EXPECT_EQ(fabric.dma_bufs.size(), 2U) << "they are registered once";
  EXPECT_EQ(gpu_counts().bytes_out, before.bytes_out);
  EXPECT_EQ(gpu_counts().bytes_in, before.bytes_in);
  sender->remove(from);
  receiver->remove(to);
}

// The other end may be on the host.
TEST_F(NetGpus, OneEndMayBeOnTheHost) {
  GpuArray<std::byte> x(kBytes, 0);
  std::vector<std::byte> host(kBytes);
  const std::vector<std::byte> sent = pattern(kBytes, 1);
  x.set(sent);
  Registration* const on_gpu = must(sender->add(must(lend_gpu(x, kBytes))));
  Registration* const on_host = must(receiver->add(Registration{{host.data(), kBytes}}));
  move(x.data(), on_host, 0, kBytes);
  EXPECT_EQ(host, sent);
  sender->remove(on_gpu);
  Registration* const of_host = must(sender->add(Registration{{host.data(), kBytes}}));
  Registration* const to_gpu = must(receiver->add(must(lend_gpu(x, kBytes))));
  x.set(std::vector<std::byte>(kBytes));
  move(host.data(), to_gpu, 0, kBytes);
  EXPECT_EQ(x.get(), sent);
  sender->remove(of_host);
  receiver->remove(on_host);
  receiver->remove(to_gpu);
}

TEST_F(NetGpus, WithoutADmaBufPeermemIsAsked) {
  GpuArray<std::byte> x(kBytes, 0);
  Result<Registration> exported = export_memory({x.data(), kBytes}, -1, 0);
  Registration* const made = must(receiver->add(must(std::move(exported))));
  EXPECT_EQ(fabric.calls("reg_mr_iova"), 1);
  EXPECT_TRUE(fabric.dma_bufs.empty());
  receiver->remove(made);
}

TEST_F(NetGpus, WhatCannotBeRegisteredIsRefusedWithBothReasons) {
  GpuArray<std::byte> x(kBytes, 0);
  fabric.refuse("reg_dmabuf_mr", EOPNOTSUPP);
  fabric.refuse("reg_mr_iova", EFAULT);
  const Status refused = receiver->add(must(lend_gpu(x, kBytes))).status();
  EXPECT_FALSE(refused.ok());
  for (const char* word : {"dma-buf", "nvidia-peermem"})
    EXPECT_NE(refused.text().find(word), std::string_view::npos) << refused.to_string();
  EXPECT_FALSE(sender->add(must(lend_gpu(x, kBytes))).ok());
  std::vector<std::byte> host(64);
  EXPECT_EQ(export_memory(host, -1, 0).status().code(), Code::invalid_argument);
  EXPECT_EQ(export_memory({x.data() + 1, 64}, 0, 0).status().code(), Code::invalid_argument)
      << "the dma-buf begins where no page does";
}

// Messages are there before what the GPU begins next.
TEST_F(NetGpus, AFlushSettlesWhatHasArrived) {
  GpuArray<std::byte> x(kBytes, 0);
  std::vector<std::byte> host(64);
  Registration* const on_gpu = must(receiver->add(must(lend_gpu(x, kBytes))));
  Registration* const on_host = must(receiver->add(Registration{host}));
  const int before = fake.flushes();
  void* request = &host;
  std::array<void*, 2> registrations = {on_host, on_gpu};
  EXPECT_EQ(flush(nullptr, 2, nullptr, nullptr, registrations.data(), &request), abi::success);
  EXPECT_EQ(request, nullptr);
  EXPECT_EQ(fake.flushes(), before + 1) << "that of the GPU";
  fake.fail("cuFlushGPUDirectRDMAWrites", 999, 1);
  EXPECT_NE(flush(nullptr, 2, nullptr, nullptr, registrations.data(), &request), abi::success);
  receiver->remove(on_gpu);
  receiver->remove(on_host);
}

}  // namespace
}  // namespace weft::nccl
