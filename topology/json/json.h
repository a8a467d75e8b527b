// json: documents in JSON that strangers wrote, read without exceptions.
// Keeps nothing; any thread may call.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace weft {

// The document. Nothing if it is none, is cut short, or goes down more than `deepest` levels: what walks through it may call
// itself at each.
[[nodiscard]] std::optional<nlohmann::json> parse_json(const std::string& text, int deepest);

// A member of an object; empty if there is none or it is no text.
[[nodiscard]] std::string text_of(const nlohmann::json& object, const char* key);

}  // namespace weft
