// Conformance: connecting to what is not a peer of this job is a named error, whatever the bytes
// are.
#include <random>

#include "tests/transport/group.h"

namespace weft {
namespace {

class Connect : public testing::TestWithParam<TransportFactory> {
 protected:
  Result<std::unique_ptr<Interface>> open(Rank rank, const InterfaceOptions& options) {
    return GetParam().open(rank, options, [](Rank peer) -> Result<std::string> {
      return Status(Code::unavailable, "nobody is known", peer);
    });
  }
  // The error of rank 0 that connects to rank 1, whose options `change` has changed.
  template <typename Change>
  Status connect_to_changed(Change change) {
    InterfaceOptions options = small_options();
    auto own = must(open(0, options));
    change(options);
    auto peer = must(open(1, options));
    return own->connect(1, peer->address()).status();
  }
};
WEFT_FOR_ALL_TRANSPORTS(Connect);

TEST_P(Connect, EqualOptionsConnect) {
  EXPECT_TRUE(connect_to_changed([](InterfaceOptions&) {}).ok());
}

TEST_P(Connect, WhatDiffersIsNamed) {
  const auto expect_mismatch = [&](auto change, const char* text) {
    const Status status = connect_to_changed(change);
    EXPECT_EQ(status.code(), Code::mismatch) << status.to_string();
    EXPECT_EQ(status.rank(), 1);
    EXPECT_NE(status.text().find(text), std::string_view::npos) << status.to_string();
  };
  expect_mismatch([](InterfaceOptions& o) { o.job = 8; }, "another job");
  expect_mismatch([](InterfaceOptions& o) { o.context = 2; }, "context number");
  expect_mismatch([](InterfaceOptions& o) { o.channels = 4; }, "CHANNELS");
  expect_mismatch([](InterfaceOptions& o) { o.slots = 8; }, "SLOTS");
  expect_mismatch([](InterfaceOptions& o) { o.payload_bytes = 2001; }, "EAGER_BYTES = 2001");
  if (GetParam().name != "shm") return;  // others have no slots for payloads alone
  expect_mismatch([](InterfaceOptions& o) { o.payload_slots = 2; }, "SLOTS");
  expect_mismatch(
      [](InterfaceOptions& o) {
        o.payload_slots = o.slots;
        o.slots = 8;
      },
      "notices per channel");
}

TEST_P(Connect, AnAddressOfAnotherRankIsAMismatch) {
  auto own = must(open(0, small_options()));
  auto peer = must(open(1, small_options()));
  EXPECT_EQ(own->connect(2, peer->address()).status().code(), Code::mismatch);
}

TEST_P(Connect, AWrongLengthIsAMismatch) {
  auto own = must(open(0, small_options()));
  auto peer = must(open(1, small_options()));
  const std::string address = peer->address();
  for (const std::string& bad :
       {std::string(), address.substr(1), address + "x", std::string(256, 'x')}) {
    EXPECT_EQ(own->connect(1, bad).status().code(), Code::mismatch) << bad.size();
  }
  EXPECT_TRUE(own->connect(1, address).ok()) << "an error leaves nothing behind";
}

// Any flipped bits, and noise: an error or, where the bits carry nothing, the peer; never a fault.
TEST_P(Connect, DamagedAddressesNeverFault) {
  auto own = must(open(0, small_options()));
  auto peer = must(open(1, small_options()));
  const std::string address = peer->address();
  for (std::size_t bit = 0; bit < address.size() * 8; ++bit) {
    std::string damaged = address;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const Result<Endpoint*> result = own->connect(1, damaged);
    EXPECT_TRUE(result.ok() || !result.status().text().empty());
  }
  std::mt19937 random(1);  // NOLINT: seeded, so that a failure repeats
  for (int round = 0; round < 2000; ++round) {
    std::string noise = address;
    const std::size_t from = random() % noise.size();
    for (std::size_t i = from; i < noise.size(); ++i) noise[i] = static_cast<char>(random());
    (void)own->connect(1, noise).ok();
  }
  EXPECT_TRUE(own->connect(1, address).ok());
}

TEST_P(Connect, OptionsWithoutMeaningDoNotOpen) {
  InterfaceOptions options = small_options();
  options.slots = 3;
  EXPECT_EQ(open(0, options).status().code(), Code::invalid_argument);
  options.slots = 0;
  EXPECT_EQ(open(0, options).status().code(), Code::invalid_argument);
  options.slots = 4;
  options.channels = 0;
  EXPECT_EQ(open(0, options).status().code(), Code::invalid_argument);
  EXPECT_EQ(open(-1, small_options()).status().code(), Code::invalid_argument);
  if (GetParam().name != "shm") return;
  options = small_options();
  for (const std::uint32_t payload_slots : {3U, 2 * options.slots}) {
    options.payload_slots = payload_slots;
    EXPECT_EQ(open(0, options).status().code(), Code::invalid_argument) << payload_slots;
  }
}

}  // namespace
}  // namespace weft
