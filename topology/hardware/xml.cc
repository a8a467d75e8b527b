// pugixml behind a face that knows where everything stands in the file.
#include "topology/hardware/xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "topology/text/text.h"

namespace weft::hardware {
namespace {

constexpr std::size_t kLongestText = 4096;

Status complaint(std::string_view name, std::string_view text, std::ptrdiff_t offset,
                 std::string_view what) {
  const auto at = static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0));
  return Status(Code::invalid_argument, fmt::format("{}:{}: {}", name, line_at(text, at), what));
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

}  // namespace

Result<XmlFile> XmlFile::parse(const std::string& text, const std::string& name) {
  XmlFile file;
  file.document_ = std::make_unique<pugi::xml_document>();
  file.text_ = std::make_shared<const std::string>(text);
  file.name_ = name;
  const pugi::xml_parse_result parsed = file.document_->load_buffer(
      text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (parsed.status == pugi::status_no_document_element) {
    return complaint(name, text, 0,
                     "is no XML: neither hwloc's (<topology …>) nor NCCL's (<system …>)");
  }
  if (!parsed) return complaint(name, text, parsed.offset, parsed.description());
  return file;
}

Status XmlFile::wrong(pugi::xml_node where, std::string_view what) const {
  return complaint(name_, *text_, where.offset_debug(), what);
}

Result<std::int64_t> XmlFile::integer(pugi::xml_node node, const char* key, std::int64_t least,
                                      std::int64_t most, std::int64_t otherwise) const {
  const pugi::xml_attribute attribute = node.attribute(key);
  if (!attribute) return otherwise;
  const std::string_view text = attribute.value();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size())
    return wrong(node, fmt::format("{}: a whole number is wanted", key));
  if (error != std::errc{} || value < least || value > most)
    return wrong(node,
                 fmt::format("{}: {} is not in [{}, {}]", key, text.substr(0, 24), least, most));
  return value;
}

Result<std::string> XmlFile::text(pugi::xml_node node, const char* key) const {
  std::string text = node.attribute(key).as_string();
  if (text.size() > kLongestText)
    return wrong(node, fmt::format("{}: longer than {} bytes", key, kLongestText));
  if (std::ranges::any_of(text, is_control))
    return wrong(node, fmt::format("{}: has a control character", key));
  return text;
}

}  // namespace weft::hardware
