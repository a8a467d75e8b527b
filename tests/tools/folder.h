// Files of a test of the command.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace weft {

// A folder of this test, gone with it.
class Folder {
 public:
  Folder() {
    char path[] = "/tmp/weft-test-XXXXXX";
    EXPECT_NE(mkdtemp(path), nullptr);
    path_ = path;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string path(const std::string& name) const { return path_ / name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
  }
  [[nodiscard]] std::string content(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path_ / name).rdbuf();
    return text.str();
  }

 private:
  std::filesystem::path path_;
};

// 16 machines on an oversubscribed tree, tree.toml. Leaves are listed in turn, which puts all
// neighbors of a ring apart.
class TreeFolder : public Folder {
 public:
  TreeFolder() {
    write("nic.toml", "[[nic]]\nname = \"mlx5_0\"\nmbit_per_s = 100_000\n");
    write("tree.toml", R"(
[[machine]]
name = "node"
count = 16
like = "synthetic:pack:1 core:8 pu:1"
correct = "nic.toml"
ranks = 1
[[rail]]
nics = ["mlx5_0"]
[[rail.level]]
machines = 4
stride = 4
oversubscription = 4
)");
  }
  [[nodiscard]] std::string tree() const { return path("tree.toml"); }
};

}  // namespace weft
