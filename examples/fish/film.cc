// One element for each fish, belief, and pair of fish that ever were neighbors; each moves by SMIL
// animations whose values are those of the frames.
#include "examples/fish/film.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <numbers>

#include "topology/svg/svg.h"

namespace fish {
namespace {

constexpr double kScale = 10;  // pixels per metre
constexpr double kMargin = 20;
constexpr double kHeading = 64;  // pixels above the water
constexpr double kFoot = 40;     // and below
constexpr double kFramesPerSecond = 6;

constexpr const char* kSees = "#e8743b";
constexpr const char* kHears = "#2f7fa8";

using Frames = std::vector<Frame>;
using Value = std::function<std::string(const Frame&)>;

std::string values(const Frames& frames, const Value& value) {
  std::string all;
  for (const Frame& frame : frames) {
    if (!all.empty()) all += ';';
    all += value(frame);
  }
  return all;
}

// The element inside the one that it moves. Nothing if the value never changes.
std::string animation(const Frames& frames, const char* kind, const Value& value,
                      const char* more = "") {
  const std::string first = value(frames.front());
  if (std::ranges::all_of(frames, [&](const Frame& each) { return value(each) == first; }))
    return {};
  return fmt::format(R"(<{} dur="{:.1f}s" repeatCount="indefinite"{} values="{}"/>)", kind,
                     static_cast<double>(frames.size()) / kFramesPerSecond, more,
                     values(frames, value));
}

std::string number(double pixels) {
  return fmt::format("{:.0f}", pixels);
}

double x_of(Point place) {
  return kMargin + kScale * place.x;
}
double y_of(Point place) {
  return kHeading + kScale * place.y;
}
std::string place_of(Point place) {
  return fmt::format("{:.0f},{:.0f}", x_of(place), y_of(place));
}

std::string moving(const Frames& frames, std::size_t still, const std::string& content,
                   const std::function<Point(const Frame&)>& where) {
  const auto value = [&](const Frame& frame) { return place_of(where(frame)); };
  return fmt::format(
      "<g transform=\"translate({})\">{}{}</g>\n", value(frames[still]),
      animation(frames, R"(animateTransform attributeName="transform" type="translate")", value),
      content);
}

// The heading of one swimmer in each frame, in degrees, without jumps at a whole turn.
std::vector<double> headings(const Frames& frames, const std::function<Point(const Frame&)>& way) {
  std::vector<double> all;
  for (const Frame& frame : frames) {
    const Point to = way(frame);
    double degrees = std::atan2(to.y, to.x) * 180 / std::numbers::pi;
    while (!all.empty() && degrees - all.back() > 180) degrees -= 360;
    while (!all.empty() && degrees - all.back() < -180) degrees += 360;
    all.push_back(degrees);
  }
  return all;
}

// `body` is drawn with its head to the right.
std::string turning(const Frames& frames, std::size_t still, const std::string& body,
                    const std::vector<double>& degrees) {
  const auto value = [&](const Frame& frame) {
    return number(degrees[static_cast<std::size_t>(&frame - frames.data())]);
  };
  return fmt::format(
      "<g transform=\"rotate({})\">{}{}</g>", value(frames[still]),
      animation(frames, R"(animateTransform attributeName="transform" type="rotate")", value),
      body);
}

std::string one_fish(const Frames& frames, std::size_t still, std::size_t rank) {
  const auto self = [rank](const Frame& frame) -> const Fish& { return frame.school[rank]; };
  const auto color = [&](const Frame& frame) { return self(frame).sees ? kSees : kHears; };
  const std::string body = fmt::format(
      "<path d=\"M11,0 C6,-6 -3,-6 -8,-1 L-14,-6 Q-12,0 -14,6 L-8,1 C-3,6 6,6 11,0Z\" "
      "fill=\"{}\">{}<title>rank {}</title></path><circle cx=\"6\" cy=\"-1.5\" r=\"1.3\" "
      "fill=\"#fff\"/>",
      color(frames[still]),
      animation(frames, "animate attributeName=\"fill\"", color, " calcMode=\"discrete\""), rank);
  const auto degrees = headings(frames, [&](const Frame& each) { return self(each).velocity; });
  return moving(frames, still, turning(frames, still, body, degrees),
                [&](const Frame& frame) { return self(frame).at; });
}

std::string one_belief(const Frames& frames, std::size_t still, std::size_t rank) {
  return moving(frames, still, "<path d=\"M-5,-5 L5,5 M-5,5 L5,-5\"/>",
                [rank](const Frame& frame) { return frame.school[rank].belief; });
}

std::string predator(const Frames& frames, std::size_t still) {
  const auto way = [&](const Frame& frame) {
    const auto index = static_cast<std::size_t>(&frame - frames.data());
    const std::size_t next = std::min(index + 1, frames.size() - 1);
    return frames[next].predator - frames[next - 1].predator;
  };
  const std::string body =
      "<path d=\"M44,0 C30,-15 8,-17 -14,-9 L-24,-6 L-42,-20 Q-36,0 -42,20 L-24,6 L-14,9 C8,17 "
      "30,15 44,0Z M6,-14 L-8,-27 L-9,-11Z\"/><circle cx=\"29\" cy=\"-4\" r=\"2.5\" "
      "fill=\"#fff\"/>";
  return moving(frames, still,
                turning(frames, still, body,
                        frames.size() > 1 ? headings(frames, way) : std::vector<double>{0}),
                [](const Frame& frame) { return frame.predator; });
}

bool are_neighbors(const Frame& frame, std::size_t a, std::size_t b) {
  School school;
  for (const Fish& each : frame.school) school.push_back(each.at);
  const auto near = neighbors(school, static_cast<weft::Rank>(a));
  return std::ranges::binary_search(near, static_cast<weft::Rank>(b));
}

// The line between two fish, which is there while they average. Empty if they never do.
std::string one_edge(const Frames& frames, std::size_t still, std::size_t a, std::size_t b) {
  const auto is_there = [&](const Frame& each) { return are_neighbors(each, a, b); };
  if (std::ranges::none_of(frames, is_there)) return {};
  const auto shown = [&](const Frame& each) { return std::string(is_there(each) ? "1" : "0"); };
  const auto end = [&](const char* name, std::size_t rank, bool is_x) {
    const auto value = [=](const Frame& frame) {
      return number(is_x ? x_of(frame.school[rank].at) : y_of(frame.school[rank].at));
    };
    return std::pair(
        fmt::format(" {}=\"{}\"", name, value(frames[still])),
        animation(frames, fmt::format("animate attributeName=\"{}\"", name).c_str(), value));
  };
  std::string attributes;
  std::string moves;
  for (const auto& [attribute, move] :
       {end("x1", a, true), end("y1", a, false), end("x2", b, true), end("y2", b, false)}) {
    attributes += attribute;
    moves += move;
  }
  return fmt::format(
      "<line{} opacity=\"{}\">{}{}</line>\n", attributes, shown(frames[still]), moves,
      animation(frames, "animate attributeName=\"opacity\"", shown, " calcMode=\"discrete\""));
}

// "school – escape – encircle", of which the present one is dark.
std::string moods(const Frames& frames, std::size_t still) {
  constexpr std::pair<Mood, const char*> kMoods[] = {
      {Mood::calm, "the school"}, {Mood::escape, "escapes"}, {Mood::encircle, "and encircles"}};
  std::string all;
  double x = kMargin + 4;
  for (const auto& [mood, name] : kMoods) {
    const auto shade = [mood = mood](const Frame& frame) {
      return std::string(mood_at(frame.step) == mood ? "1" : ".25");
    };
    all += fmt::format(
        "<text class=\"mood\" x=\"{}\" y=\"42\" opacity=\"{}\">{}{}</text>\n", number(x),
        shade(frames[still]), name,
        animation(frames, "animate attributeName=\"opacity\"", shade, " calcMode=\"discrete\""));
    x += 15.5 * static_cast<double>(std::string_view(name).size()) + 16;
  }
  return all;
}

std::string legend(double y) {
  const auto item = [y](double x, const char* sign, const char* text) {
    return fmt::format("<g transform=\"translate({},{})\">{}<text x=\"18\" y=\"5\">{}</text></g>\n",
                       number(kMargin + x), number(y), sign, text);
  };
  return item(12, "<circle r=\"6\" fill=\"#e8743b\"/>", "sees the predator") +
         item(190, "<circle r=\"6\" fill=\"#2f7fa8\"/>", "knows of it from neighbors only") +
         item(465, "<path class=\"edge\" d=\"M-9,0 H9\"/>", "average their beliefs") +
         item(670, "<path class=\"belief\" d=\"M-5,-5 L5,5 M-5,5 L5,-5\"/>",
              "where a fish believes the predator to be");
}

}  // namespace

std::string film(const Frames& frames, std::size_t still) {
  const std::size_t ranks = frames.front().school.size();
  const weft::svg::Box view{0, 0, kScale * kWater.x + 2 * kMargin,
                            kHeading + kScale * kWater.y + kFoot};
  std::string edges;
  std::string beliefs;
  std::string school;
  for (std::size_t a = 0; a < ranks; ++a) {
    for (std::size_t b = a + 1; b < ranks; ++b) edges += one_edge(frames, still, a, b);
    beliefs += one_belief(frames, still, a);
    school += one_fish(frames, still, a);
  }
  std::string content =
      "<style>text{font:15px sans-serif;fill:#234}.mood{font-size:26px;font-weight:600}"
      ".edge{stroke:#7fb0c8;stroke-width:1.5}"
      ".belief{stroke:#b3203a;stroke-width:1.6;opacity:.55;fill:none}.predator{fill:#3b3f4a}"
      "</style>\n<defs><linearGradient id=\"water\" x2=\"0\" y2=\"1\"><stop "
      "stop-color=\"#eaf6fb\"/>"
      "<stop offset=\"1\" stop-color=\"#c5e2ef\"/></linearGradient><clipPath id=\"shore\">";
  const weft::svg::Box water{kMargin, kHeading, kScale * kWater.x, kScale * kWater.y};
  const std::string basin = weft::svg::rect(water, "rx=\"14\"");
  content += basin + "</clipPath></defs>\n";
  content += weft::svg::rect(water, "rx=\"14\" fill=\"url(#water)\"");
  content += weft::svg::group("clip-path=\"url(#shore)\"",
                              weft::svg::group("class=\"edge\"", edges) +
                                  weft::svg::group("class=\"predator\"", predator(frames, still)) +
                                  school + weft::svg::group("class=\"belief\"", beliefs));
  content += moods(frames, still);
  content += weft::svg::text(view.width - kMargin - 4, 42, "text-anchor=\"end\"",
                             fmt::format("{} fish, each a rank", ranks));
  content += legend(kHeading + kScale * kWater.y + 22);
  return weft::svg::document(view, content);
}

}  // namespace fish
