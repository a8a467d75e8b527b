// svg: drawings, as text. Each function gives one element, with its line end; a drawing is their
// concatenation, in a document. `attributes` are put as they are ("class=\"nic\" rx=\"4\"");
// content and titles are escaped, so that any name may be drawn. Pure functions; lengths in pixels,
// y grows downwards.
#pragma once

#include <string>
#include <string_view>

namespace weft::svg {

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

// What XML takes as text: markup is escaped, and what no XML may have (control characters, bytes
// that are not UTF-8) is a question mark.
[[nodiscard]] std::string escaped(std::string_view text);

// `title` is shown where the pointer rests; empty: none.
[[nodiscard]] std::string rect(const Box& box, std::string_view attributes,
                               std::string_view title = {});
[[nodiscard]] std::string line(double x1, double y1, double x2, double y2,
                               std::string_view attributes, std::string_view title = {});
[[nodiscard]] std::string circle(double x, double y, double radius, std::string_view attributes,
                                 std::string_view title = {});
// `d`: commands of a path, "M0,0 L8,4".
[[nodiscard]] std::string path(std::string_view d, std::string_view attributes,
                               std::string_view title = {});
// (x, y): where its baseline begins, unless the attributes anchor it otherwise.
[[nodiscard]] std::string text(double x, double y, std::string_view attributes,
                               std::string_view content);
// About how wide a text of this size is drawn.
[[nodiscard]] double text_width(std::string_view content, double size);
// A text that takes no more room than `width`: smaller, but not below `least`, and then cut.
struct Fitted {
  std::string content;
  double size = 0;
};
[[nodiscard]] Fitted fitted(std::string_view content, double size, double width, double least = 7);
// `content`: elements.
[[nodiscard]] std::string group(std::string_view attributes, std::string_view content);
// `content`: elements; the first may be a <style>. White below them.
[[nodiscard]] std::string document(const Box& view, std::string_view content);

}  // namespace weft::svg
