// files: what the kernel shows as text. A file that is missing or cannot be read is an absent value.
// Internal to the module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace weft::diagnosis {

namespace fs = std::filesystem;

// The first line, without blanks at its ends.
[[nodiscard]] std::string text(const fs::path& path);
[[nodiscard]] std::vector<std::string> lines(const fs::path& path);
// All bytes, at most so many.
[[nodiscard]] std::string bytes(const fs::path& path, std::size_t most);
// The number that a text begins with.
[[nodiscard]] std::optional<std::int64_t> number_in(const std::string& text);
[[nodiscard]] std::optional<std::int64_t> number(const fs::path& path);
// What follows `key` on the line that begins with it, without blanks: of "MemTotal:  8056484 kB".
[[nodiscard]] std::string after(const fs::path& path, const std::string& key);
// The words of a text.
[[nodiscard]] std::vector<std::string> words(const std::string& text);
// What a folder holds, in the order in which people list names.
[[nodiscard]] std::vector<std::string> names(const fs::path& folder);
[[nodiscard]] bool is_there(const fs::path& path);

}  // namespace weft::diagnosis
