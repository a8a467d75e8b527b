// json: see the header.
#include "topology/json/json.h"

#include <utility>

namespace weft {

std::optional<nlohmann::json> parse_json(const std::string& text, int deepest) {
  bool is_deep = false;
  const auto check = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    is_deep |= depth > deepest;
    return !is_deep;
  };
  nlohmann::json document = nlohmann::json::parse(text, check, false);
  if (is_deep || document.is_discarded()) return std::nullopt;
  return document;
}

std::string text_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace weft
