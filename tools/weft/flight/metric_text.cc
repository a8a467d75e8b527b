// A line at a time.
#include "tools/weft/flight/metric_text.h"

#include <algorithm>
#include <cctype>

#include "engine/trace/trace.h"

namespace weft::dumps {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) == 0 &&
         std::ranges::all_of(
             text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == ':'; });
}

// Takes the first word.
std::string_view word_of(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

// Whether `name="` begins one of the labels.
bool has_label(std::string_view labels, const std::string& name) {
  const std::string begin = name + "=\"";
  return labels.starts_with(begin) || labels.find("," + begin) != std::string_view::npos;
}

}  // namespace

MetricText::Family& MetricText::family_of(std::string_view name) {
  const auto found = std::ranges::find(families_, name, &Family::name);
  if (found != families_.end()) return *found;
  families_.push_back({std::string(name), {}, {}, {}});
  return families_.back();
}

void MetricText::add(std::string_view text, const Labels& labels) {
  std::string family;  // that of the last head
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string whole(line);
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) {
      const bool is_help = line[2] == 'H';
      line.remove_prefix(7);
      const std::string_view name = word_of(line);
      if (!is_name(name)) continue;
      family = name;
      std::string& to = is_help ? family_of(name).help : family_of(name).type;
      if (to.empty()) to = whole + '\n';
      continue;
    }
    const std::size_t name_end = line.find_first_of("{ ");
    if (name_end == std::string_view::npos || !is_name(line.substr(0, name_end))) continue;
    const std::size_t closed = line[name_end] == '{' ? line.rfind("} ") : std::string_view::npos;
    if (line[name_end] == '{' && closed == std::string_view::npos) continue;
    std::string own(line[name_end] == '{' ? line.substr(name_end + 1, closed - name_end - 1)
                                          : std::string_view());
    for (const auto& [name, value] : labels) {
      if (!has_label(own, name)) own += (own.empty() ? "" : ",") + metric_label(name, value);
    }
    const std::string_view value = line.substr(line[name_end] == '{' ? closed + 2 : name_end + 1);
    const std::string_view name = line.substr(0, name_end);
    std::string& samples =
        family_of(!family.empty() && name.starts_with(family) ? family : name).samples;
    samples +=
        std::string(name) + (own.empty() ? "" : "{" + own + "}") + " " + std::string(value) + '\n';
  }
}

std::string MetricText::text() const {
  std::string text;
  for (const Family& each : families_)
    if (!each.samples.empty()) text += each.help + each.type + each.samples;
  return text;
}

}  // namespace weft::dumps
