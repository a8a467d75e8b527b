// sysfs: files with one value each, as the kernel shows devices. A file that is missing or cannot
// be read is an absent value and no error: drivers differ in what they offer, and what does not
// apply often answers EINVAL. Internal to the module; pure but for reading, any thread may call.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weft::device {

// The first line; empty where there is none.
[[nodiscard]] std::string text(const std::filesystem::path& path);
// The number that a line begins with, decimal, or hexadecimal after "0x".
[[nodiscard]] int number_in(std::string_view line, int otherwise);
// That of a file's first line.
[[nodiscard]] int number(const std::filesystem::path& path, int otherwise);
// What a folder holds: numbers in their order, then names in theirs.
[[nodiscard]] std::vector<std::filesystem::path> entries(const std::filesystem::path& folder);
// The name of what a link leads to, "mlx5_core"; empty where there is no link.
[[nodiscard]] std::string target_name(const std::filesystem::path& link);
// The nearest PCI address ("0000:3b:00.0") on the way to what a link leads to; empty: not on PCI.
[[nodiscard]] std::string pci_address(const std::filesystem::path& link);
[[nodiscard]] bool is_there(const std::filesystem::path& path);

}  // namespace weft::device
