// profile: what is read of a file of `weft tune`, who wins, and what is refused.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "engine/config/config.h"

namespace weft {
namespace {

Profile some_profile() {
  Profile profile;
  profile.weft = "0.3.0";
  profile.topology = "0123456789abcdef";
  profile.about = "4 ranks on 4 machines: 2 cores, ucx 10000 Mbit/s";
  profile.seconds = 58.5;
  profile.times = 1.25;
  profile.settings = {{"WEFT_ALLREDUCE", "direct:16384,ring"}, {"WEFT_EAGER_BYTES", "65536"}};
  profile.tried = {{"WEFT_EAGER_BYTES", "65536", "16384", "all 12 rows", 1.25, 5, true}};
  profile.rows = {{"allreduce", 4096, 30, 24, 1.25, 9}};
  return profile;
}

// A file with this text, gone with it.
class File {
 public:
  explicit File(const std::string& text) {
    char path[] = "/tmp/weft-profile-XXXXXX";
    const int file = mkstemp(path);
    EXPECT_GE(file, 0);
    close(file);
    path_ = path;
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string changed(const std::string& from, const std::string& to) {
  std::string text = to_toml(some_profile());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  const Result<Profile> profile = parse_profile(text, "a.toml");
  return profile.ok() ? "" : std::string(profile.status().text());
}

TEST(Profile, IsReadAsItWasWritten) {
  const Result<Profile> read = parse_profile(to_toml(some_profile()), "a.toml");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(to_toml(*read), to_toml(some_profile()));
  EXPECT_EQ(read->settings, some_profile().settings);
  EXPECT_TRUE(read->is_complete);
}

TEST(Profile, GivesItsValuesToWhatTheUserHasNotSet) {
  const File file(to_toml(some_profile()));
  const Result<Config> config =
      Config::from_entries({"WEFT_PROFILE=" + file.path(), "WEFT_EAGER_BYTES=16384"});
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->allreduce, "direct:16384,ring");
  EXPECT_EQ(config->eager_bytes, 16384);  // set, if to the default
  EXPECT_EQ(config->profile_topology, "0123456789abcdef");
}

// Of a Config that a program fills, values other than the defaults are the user's.
TEST(Profile, LeavesWhatAProgramHasFilledIn) {
  const File file(to_toml(some_profile()));
  Config config;
  config.profile = file.path();
  config.eager_bytes = 4096;
  ASSERT_TRUE(use_profile(config).ok());
  EXPECT_EQ(config.eager_bytes, 4096);
  EXPECT_EQ(config.allreduce, "direct:16384,ring");
}

TEST(Profile, WhatIsWrongIsSaidWithFileAndLine) {
  const std::string text = to_toml(some_profile());
  EXPECT_EQ(
      error_of(text.substr(0, text.find("[end]"))),
      "a.toml:1: the file is cut short: it does not end with [end], as `weft tune` writes it");
  EXPECT_NE(error_of(text.substr(0, text.find("complete"))), "");
  EXPECT_NE(error_of(changed("format = 1", "format = 2")).find("reads profiles of format 1, not 2"),
            std::string::npos);
  EXPECT_NE(error_of("[settings]\n").find("no profile of `weft tune`"), std::string::npos);
  EXPECT_EQ(error_of(changed("\"65536\"", "\"7000000\"")),
            "a.toml:11: WEFT_EAGER_BYTES: \"7000000\": expected a whole number of bytes from 64 to "
            "1048512");
  EXPECT_NE(error_of(changed("WEFT_EAGER_BYTES = ", "WEFT_JOB_KEY = "))
                .find("unknown key 'WEFT_JOB_KEY'"),
            std::string::npos);
  EXPECT_NE(error_of(changed("0123456789abcdef", "0123")).find("hash of 16 digits"),
            std::string::npos);
  // Wherever it ends, a file that was cut is no profile.
  for (std::size_t length = 0; length + 1 < text.size(); length += 7)
    EXPECT_NE(error_of(text.substr(0, length)), "") << length;
}

TEST(Profile, AFileThatIsNotThereIsAnErrorThatNamesTheSetting) {
  const Result<Config> config = Config::from_entries({"WEFT_PROFILE=/nowhere/a.toml"});
  EXPECT_EQ(config.status().text(),
            "WEFT_PROFILE: open /nowhere/a.toml: No such file or directory");
}

TEST(Profile, EverythingThatItMaySetIsAVariable) {
  for (const std::string_view name : tuned_variables())
    EXPECT_TRUE(Config().get(name).ok()) << name;
}

}  // namespace
}  // namespace weft
