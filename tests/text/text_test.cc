// Files that are not what their name promises.
#include "topology/text/text.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace weft {
namespace {

class TextFiles : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& text) const {
    std::ofstream(folder_ / "file", std::ios::binary) << text;
    return folder_ / "file";
  }
  // Without its name.
  static std::string complaint(const std::string& path) {
    const std::string text(read_text(path, 1000).status().text());
    const std::size_t at = text.find(path);
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? text : text.substr(at + path.size());
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("weft-text-" + std::to_string(getpid()));
};

TEST_F(TextFiles, AreReadWhole) {
  EXPECT_EQ(read_text(file(""), 1000).value(), "");
  EXPECT_EQ(read_text(file("a\nb"), 1000).value(), "a\nb");
  const std::string most(1000, 'x');
  EXPECT_EQ(read_text(file(most), 1000).value(), most);
}

TEST_F(TextFiles, WhatIsNoFileOfTextIsNamed) {
  EXPECT_EQ(complaint(folder_), ": is a folder, not a file");
  EXPECT_EQ(complaint("/dev/zero"), ": is neither a file nor a pipe");
  EXPECT_EQ(complaint(folder_ / "none"), ": No such file or directory");
  EXPECT_EQ(complaint(file(std::string("ab\0", 3))), ": is no text: byte 2 is zero");
  EXPECT_EQ(complaint(file(std::string(1001, 'x'))), ": is longer than 0 MiB");
}

TEST_F(TextFiles, AHugeFileIsNotRead) {
  std::filesystem::resize_file(file("x"), std::uintmax_t{1} << 40);  // holes
  const Status status = read_text(folder_ / "file", std::size_t{64} << 20).status();
  EXPECT_NE(status.text().find("is longer than 64 MiB"), std::string::npos);
}

TEST_F(TextFiles, APipeThatNobodyWritesToIsEmpty) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(read_text(pipe, 1000).value(), "");
}

TEST_F(TextFiles, APipeIsReadToItsEndAndToItsBound) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "hello", 5), 5);
  ::close(ends[1]);
  EXPECT_EQ(read_text("/proc/self/fd/" + std::to_string(ends[0]), 1000).value(), "hello");
  ::close(ends[0]);
}

TEST(Lines, CountFromOne) {
  EXPECT_EQ(line_at("a\nb\nc", 0), 1);
  EXPECT_EQ(line_at("a\nb\nc", 2), 2);
  EXPECT_EQ(line_at("a\nb\nc", 99), 3);
  EXPECT_EQ(line_at("", 0), 1);
}

}  // namespace
}  // namespace weft
