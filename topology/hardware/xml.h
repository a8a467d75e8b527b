// xml: files in XML of which every complaint names the line. Internal to the module; one thread at
// a time.
#pragma once

#include <cstdint>
#include <memory>
#include <pugixml.hpp>
#include <string>
#include <string_view>

#include "verbs/base/base.h"

namespace weft::hardware {

class XmlFile {
 public:
  // `name` stands for the file in complaints: "NAME:LINE: what".
  [[nodiscard]] static Result<XmlFile> parse(const std::string& text, const std::string& name);

  // Its one element at the top.
  [[nodiscard]] pugi::xml_node root() const { return document_->document_element(); }
  [[nodiscard]] Status wrong(pugi::xml_node where, std::string_view what) const;

  // Attributes; `otherwise` where there is none. What is no number, or out of [least, most], is an
  // error, and so is text that is too long for a name or that no line of text can have.
  [[nodiscard]] Result<std::int64_t> integer(pugi::xml_node node, const char* key,
                                             std::int64_t least, std::int64_t most,
                                             std::int64_t otherwise) const;
  [[nodiscard]] Result<std::string> text(pugi::xml_node node, const char* key) const;

 private:
  std::unique_ptr<pugi::xml_document> document_;
  std::shared_ptr<const std::string> text_;
  std::string name_;
};

}  // namespace weft::hardware
