// Elements of SVG.
#include "topology/svg/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace weft::svg {
namespace {

// How many bytes at the head of `text` are one character of UTF-8 that XML allows; 0: none.
std::size_t character_at(std::string_view text) {
  const auto byte = [text](std::size_t at) { return static_cast<std::uint8_t>(text[at]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  std::uint32_t code = first & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fU);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  const bool is_none = code == 0xfffe || code == 0xffff || code > 0x10ffff;
  return code < kLeast[length] || is_surrogate || is_none ? 0 : length;
}

// Not the second or a later byte of a character.
bool is_first(char c) {
  return (static_cast<std::uint8_t>(c) & 0xc0) != 0x80;
}

std::string element(std::string_view name, std::string_view attributes, std::string_view title) {
  if (title.empty()) return fmt::format("<{} {}/>\n", name, attributes);
  return fmt::format("<{0} {1}><title>{2}</title></{0}>\n", name, attributes, escaped(title));
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = character_at(text);
    const char c = length == 0 ? '?' : text.front();
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else if (length > 1) {
      result += text.substr(0, length);
    } else {
      result += c;
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

double text_width(std::string_view content, double size) {
  constexpr double kLetter = 0.56;  // of the size, for a letter of usual words
  return kLetter * size * static_cast<double>(std::ranges::count_if(content, is_first));
}

Fitted fitted(std::string_view content, double size, double width, double least) {
  const double wide = text_width(content, size);
  if (wide <= width) return {std::string(content), size};
  const double smaller = size * width / wide;
  if (smaller >= least) return {std::string(content), smaller};
  while (!content.empty() && text_width(content, least) + least > width) {
    while (content.size() > 1 && !is_first(content.back())) content.remove_suffix(1);
    content.remove_suffix(1);
  }
  return {std::string(content) + "…", least};
}

std::string rect(const Box& box, std::string_view attributes, std::string_view title) {
  const std::string all =
      fmt::format("x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {}", box.x, box.y,
                  box.width, box.height, attributes);
  return element("rect", all, title);
}

std::string line(double x1, double y1, double x2, double y2, std::string_view attributes,
                 std::string_view title) {
  const std::string all = fmt::format("x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}",
                                      x1, y1, x2, y2, attributes);
  return element("line", all, title);
}

std::string circle(double x, double y, double radius, std::string_view attributes,
                   std::string_view title) {
  return element(
      "circle",
      fmt::format("cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" {}", x, y, radius, attributes), title);
}

std::string path(std::string_view d, std::string_view attributes, std::string_view title) {
  return element("path", fmt::format("d=\"{}\" {}", d, attributes), title);
}

std::string text(double x, double y, std::string_view attributes, std::string_view content) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes,
                     escaped(content));
}

std::string group(std::string_view attributes, std::string_view content) {
  return fmt::format("<g {}>\n{}</g>\n", attributes, content);
}

std::string document(const Box& view, std::string_view content) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{0:.0f} {1:.0f} {2:.0f} {3:.0f}\" "
      "width=\"{2:.0f}\" height=\"{3:.0f}\" font-family=\"sans-serif\">\n"
      "<rect x=\"{0:.0f}\" y=\"{1:.0f}\" width=\"{2:.0f}\" height=\"{3:.0f}\" fill=\"white\"/>\n"
      "{4}</svg>\n",
      view.x, view.y, view.width, view.height, content);
}

}  // namespace weft::svg
