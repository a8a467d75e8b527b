// The rails of a rank whose interfaces are not what they were when they were found.
#include "engine/job/interfaces.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "verbs/shm/shm.h"

namespace weft {
namespace {

class OpenedRails : public testing::Test {
 protected:
  // Interfaces a, b, c, of which those in `gone` cannot be opened.
  Status open(const std::string& gone, const std::string& interfaces = {}) {
    Config config;
    config.interfaces = interfaces;
    const InterfaceOptions options = interface_options(config);
    std::vector<NetworkRail> rails;
    opened_ = OpenedInterfaces();
    for (const std::string name : {"a", "b", "c"}) {
      const bool is_gone = gone.find(name) != std::string::npos;
      const auto opened = [=](AddressResolver resolver) -> Result<std::unique_ptr<Interface>> {
        if (is_gone) return Status(Code::unavailable, "no such device");
        return open_shm(0, options, std::move(resolver));
      };
      rails.push_back({{"sim", "rail " + name, opened}, name});
      opened_.rails.push_back({"sim", name, "rail " + name});
      opened_.reasons.push_back("why " + name);
    }
    BondOptions bond;
    bond.channels = options.channels;
    bond.payload_bytes = options.payload_bytes;
    testing::internal::CaptureStderr();
    const LogScope scope({LogLevel::warning, kNoRank});
    Status status = open_rails(config, bond, nullptr, std::move(rails), {}, opened_);
    said_ = testing::internal::GetCapturedStderr();
    return status;
  }
  [[nodiscard]] std::string names() const {
    std::string names;
    for (const RailRecord& rail : opened_.rails) names += rail.interface;
    return names;
  }

  OpenedInterfaces opened_;
  std::string said_;
};

TEST_F(OpenedRails, AreAllOfThemWhereNothingHappened) {
  EXPECT_TRUE(open("").ok());
  EXPECT_EQ(names(), "abc");
  EXPECT_EQ(said_, "");
}

TEST_F(OpenedRails, LeaveOutWithAWarningWhatIsGone) {
  const Status status = open("ab");
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(names(), "c");
  EXPECT_EQ(opened_.reasons, std::vector<std::string>{"why c"});
  for (const std::string name : {"a", "b"})
    EXPECT_NE(said_.find("does without a network interface: " + name +
                         " cannot be opened: no such device"),
              std::string::npos)
        << said_;
  EXPECT_TRUE(open("b").ok());
  EXPECT_EQ(names(), "ac");
}

TEST_F(OpenedRails, AreAnErrorWhereNoneIsLeft) {
  const Status status = open("abc");
  EXPECT_EQ(status.code(), Code::unavailable);
  EXPECT_EQ(status.text(), "a cannot be opened: no such device");
  EXPECT_EQ(said_, "");
}

TEST_F(OpenedRails, HaveToOpenWhereTheUserNamedThem) {
  const Status status = open("b", "a,b,c");
  EXPECT_EQ(status.code(), Code::unavailable);
  EXPECT_EQ(status.text(), "WEFT_INTERFACES names b, which cannot be opened: no such device");
}

}  // namespace
}  // namespace weft
