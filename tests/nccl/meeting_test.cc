// The plugin's listener among many strangers, and its caller at a port where somebody else listens.
#include "bindings/nccl/meeting.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "engine/net/net.h"

namespace weft::nccl {
namespace {

class Meetings : public testing::Test {
 protected:
  Meetings() {
    ::setenv("WEFT_DEADLINE_MS", "500", 1);
    network_ = Network::open().value();
    listener_ = Listener::open(*network_, 0, handle_).value();
  }

  [[nodiscard]] Fd call() const {
    const Address address{handle_.addresses[0].data(), handle_.ports[0]};
    return net::connect_once(address, Deadline::after_ms(20'000)).value();
  }
  // The caller that NCCL sends gets in.
  void expect_connection() {
    const auto caller = Caller::open(*network_, 0, handle_).value();
    std::unique_ptr<Sender> sender;
    std::unique_ptr<Receiver> receiver;
    const Deadline deadline = Deadline::after_ms(20'000);
    while ((sender == nullptr || receiver == nullptr) && !deadline.passed()) {
      if (receiver == nullptr) receiver = listener_->accept().value();
      if (sender == nullptr) sender = caller->advance().value();
    }
    EXPECT_TRUE(sender != nullptr && receiver != nullptr);
    std::thread other([&sender] { sender.reset(); });  // each waits for the other
    receiver.reset();
    other.join();
  }

  std::unique_ptr<Network> network_;
  Handle handle_;
  std::unique_ptr<Listener> listener_;
};

std::ptrdiff_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST_F(Meetings, TenThousandStrangersLeaveNothingAndKeepNobodyOut) {
  const std::ptrdiff_t before = descriptors();
  {
    std::vector<Fd> strangers(128);
    for (std::size_t k = 0; k < 10'000; ++k) {
      Fd& stranger = strangers[k % strangers.size()];
      stranger = call();
      std::string words = k % 2 == 0 ? "" : "WEFTNET2half";
      (void)net::send(stranger, words);
      if (k % 16 == 0) {
        EXPECT_EQ(listener_->accept().value(), nullptr);
      }
      if (k % 2500 == 0) expect_connection();
    }
  }
  expect_connection();
  const Deadline deadline = Deadline::after_ms(20'000);
  while (descriptors() > before && !deadline.passed()) (void)listener_->accept();
  EXPECT_LE(descriptors(), before);
}

// Silent, or halfway through its answer.
TEST_F(Meetings, AnImpostorIsGivenUpAtTheDeadline) {
  for (const std::string& words : {std::string(), std::string("WEFTNET2\0\0\0\0\x7f\0\0\0", 16)}) {
    const Fd impostor = net::listen_on({"127.0.0.1", 0}, 4).value();
    Handle forged = handle_;
    forged.count = 1;
    forged.ports[0] = net::port_of(impostor).value();
    const auto caller = Caller::open(*network_, 0, forged).value();
    const Fd socket = net::accept_one(impostor).value();
    std::string left = words;
    EXPECT_TRUE(net::send(socket, left).ok());
    Result<std::unique_ptr<Sender>> sender = caller->advance();
    const Deadline deadline = Deadline::after_ms(20'000);
    while (sender.ok() && *sender == nullptr && !deadline.passed()) sender = caller->advance();
    EXPECT_EQ(sender.status().code(), Code::timed_out) << sender.status().to_string();
    EXPECT_NE(sender.status().text().find("WEFT_DEADLINE_MS"), std::string_view::npos);
  }
}

}  // namespace
}  // namespace weft::nccl
