// Lines, numbers and links.
#include "verbs/device/sysfs.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>
#include <system_error>

#include "verbs/device/device.h"

namespace weft::device {
namespace {

namespace fs = std::filesystem;

// "0000:3b:00.0": domain, bus, device, function.
bool is_pci_address(std::string_view name) {
  constexpr std::string_view kShape = "xxxx:xx:xx.x";
  constexpr std::string_view kDigits = "0123456789abcdef";
  return std::ranges::equal(name, kShape, [kDigits](char have, char want) {
    return want == 'x' ? kDigits.find(have) != std::string_view::npos : have == want;
  });
}

}  // namespace

std::string text(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int number_in(std::string_view line, int otherwise) {
  const bool is_hex = line.starts_with("0x");
  if (is_hex) line.remove_prefix(2);
  int value = otherwise;
  std::from_chars(line.data(), line.data() + line.size(), value, is_hex ? 16 : 10);
  return value;
}

int number(const fs::path& path, int otherwise) {
  return number_in(text(path), otherwise);
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.emplace_back(at->path().filename());
  std::ranges::sort(names, is_listed_before);
  std::vector<fs::path> found;
  found.reserve(names.size());
  for (const std::string& name : names) found.push_back(folder / name);
  return found;
}

std::string target_name(const fs::path& link) {
  std::error_code error;
  return fs::read_symlink(link, error).filename();
}

std::string pci_address(const fs::path& link) {
  std::error_code error;
  for (fs::path at = fs::canonical(link, error); at.has_relative_path(); at = at.parent_path()) {
    if (const std::string name = at.filename(); is_pci_address(name)) return name;
  }
  return {};
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace weft::device
