// Lines, numbers and links.
#include "verbs/device/sysfs.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace weft::device {
namespace {

namespace fs = std::filesystem;

// Numbers before names, so that 2 comes before 10.
struct Place {
  bool is_name = false;
  int number = 0;
  std::string name;

  explicit Place(std::string text) : name(std::move(text)) {
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data(), end, number);
    is_name = error != std::errc{} || stop != end;
    if (is_name) number = 0;
  }
  auto operator<=>(const Place&) const = default;
};

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
  std::vector<Place> places;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    places.emplace_back(at->path().filename());
  }
  std::ranges::sort(places);
  std::vector<fs::path> found;
  found.reserve(places.size());
  for (const Place& place : places) found.push_back(folder / place.name);
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
