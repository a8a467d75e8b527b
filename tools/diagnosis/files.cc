// Lines, numbers and lists of the kernel's files.
#include "tools/diagnosis/files.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <system_error>

#include "verbs/device/device.h"

namespace weft::diagnosis {
namespace {

std::string trimmed(const std::string& line) {
  constexpr const char* kBlanks = " \t\r\n";
  const std::size_t first = line.find_first_not_of(kBlanks);
  if (first == std::string::npos) return {};
  return line.substr(first, line.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace

std::string text(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return trimmed(line);
}

std::vector<std::string> lines(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> found;
  for (std::string line; std::getline(file, line);) found.push_back(line);
  return found;
}

std::string bytes(const fs::path& path, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  std::string found(most, '\0');
  file.read(found.data(), static_cast<std::streamsize>(most));
  found.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return found;
}

std::optional<std::int64_t> number_in(const std::string& text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, value).ec != std::errc{}) return std::nullopt;
  return value;
}

std::optional<std::int64_t> number(const fs::path& path) {
  return number_in(text(path));
}

std::string after(const fs::path& path, const std::string& key) {
  for (const std::string& line : lines(path))
    if (line.starts_with(key)) return trimmed(line.substr(key.size()));
  return {};
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> found;
  for (std::string word; stream >> word;) found.push_back(word);
  return found;
}

std::vector<std::string> names(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    found.push_back(at->path().filename());
  std::ranges::sort(found, is_listed_before);
  return found;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace weft::diagnosis
