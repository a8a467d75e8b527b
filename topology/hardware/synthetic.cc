// hwloc's synthetic strings, before hwloc sees them. It builds whatever it is asked for, in a time
// that grows with the cube of the processors, and lists of indexes end the process where they do
// not add up. So hwloc is given a string that was written here, of levels, counts and sizes; in
// which order a machine numbers its processors Weft does not use.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "topology/hardware/files.h"

namespace weft::hardware {
namespace {

// hwloc takes two seconds for as many, and eight times as long for twice as many.
constexpr std::uint64_t kMostProcessors = 4096;
constexpr std::size_t kLongest = 4096;
constexpr int kMostLevels = 32;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// "1048576", "1GB", "32MiB"; in less than 64 bits.
bool is_size(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view unit = text.substr(digits);
  const std::size_t most = unit.empty() ? 18 : 6;
  return digits > 0 && digits <= most && unit.size() <= 3 && std::ranges::all_of(unit, is_letter);
}

class Scanner {
 public:
  Scanner(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Result<std::string> written() {
    if (text_.size() > kLongest) return wrong("is too long");
    if (take('(')) WEFT_RETURN_IF_ERROR(take_attributes());
    take_blanks();
    while (at_ < text_.size()) {
      WEFT_RETURN_IF_ERROR(take('[') ? take_memory() : take_level());
      const bool is_apart = take_blanks() || at_ == text_.size() || text_[at_] == '[';
      if (!is_apart) return wrong("a blank is wanted");
    }
    if (levels_ == 0) return wrong("a level like pack:2 is wanted");
    return std::move(written_);
  }

 private:
  [[nodiscard]] Status wrong(std::string_view what) const {
    return Status(Code::invalid_argument,
                  fmt::format("{}: {} at character {}", name_, what, at_ + 1));
  }

  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool take_blanks() {
    const std::size_t before = at_;
    while (take(' ')) {
    }
    return at_ != before;
  }

  // Characters for which `is_part` holds, from here on.
  template <typename Part>
  std::string_view take_while(Part is_part) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_part(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // "pack", "l3", "NUMANode".
  std::string_view take_name() {
    const bool is_name = at_ < text_.size() && is_letter(text_[at_]);
    return is_name ? take_while([](char c) { return is_letter(c) || is_digit(c); })
                   : std::string_view{};
  }

  Status take_level() {
    if (++levels_ > kMostLevels) return wrong("too many levels");
    const std::string_view name = take_name();
    if (!name.empty() && !take(':')) return wrong("a count like pack:2 is wanted");
    const std::size_t begin = at_;
    const std::string_view digits = take_while(is_digit);
    std::uint64_t count = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    if (error != std::errc::result_out_of_range && count == 0)
      return wrong("a count above 0 is wanted");
    processors_ *= std::min(count, kMostProcessors + 1);
    if (error != std::errc{} || processors_ > kMostProcessors) {
      at_ = begin;
      return wrong(fmt::format("more than {} processors", kMostProcessors));
    }
    written_ += fmt::format(" {}{}{}", name, name.empty() ? "" : ":", count);
    return take('(') ? take_attributes() : Status();
  }

  // "[numa(memory=1GB)]"
  Status take_memory() {
    const std::string_view name = take_name();
    if (name.empty()) return wrong("a kind of memory like [numa] is wanted");
    written_ += fmt::format(" [{}", name);
    if (take('(')) WEFT_RETURN_IF_ERROR(take_attributes());
    written_ += "]";
    return take(']') ? Status() : wrong("] is wanted");
  }

  // "memory=1GB indexes=2*4:1*2)"
  Status take_attributes() {
    std::string sizes;
    while (!take(')')) {
      const std::string_view key = take_name();
      if (key.empty() || !take('=')) return wrong("an attribute like memory=1GB is wanted");
      const std::size_t begin = at_;
      const std::string_view value = take_while([](char c) { return c != ' ' && c != ')'; });
      const bool is_used = key == "memory" || key == "size";
      if (is_used && !is_size(value)) {
        at_ = begin;
        return wrong("a size like 1GB is wanted");
      }
      if (is_used) sizes += fmt::format("{}{}={}", sizes.empty() ? "" : " ", key, value);
      take_blanks();
    }
    if (!sizes.empty()) written_ += fmt::format("({})", sizes);
    return {};
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int levels_ = 0;
  std::uint64_t processors_ = 1;
  std::string written_;
};

}  // namespace

Result<std::string> written_synthetic(std::string_view text, const std::string& name) {
  if (std::ranges::any_of(text, [](char c) { return c < ' ' || c > '~'; }))
    return Status(Code::invalid_argument, "synthetic: has characters that are not ASCII's");
  return Scanner(text, name).written();
}

}  // namespace weft::hardware
