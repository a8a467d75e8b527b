// weft tune --explain FILE: what a profile sets, and what was measured for it.
#include <fmt/format.h>

#include "tools/weft/common/bytes.h"
#include "tools/weft/tune/tune.h"

namespace weft {

std::string explain(const Profile& profile) {
  std::string text = fmt::format(
      "{:.2f} times as fast as the defaults (geometric mean); measured in {:.0f} s by weft {}{}\n"
      "on {}\n(topology {})\n\n",
      profile.times, profile.seconds, profile.weft,
      profile.is_complete ? "" : ", interrupted: without the check at the end", profile.about,
      profile.topology);
  for (const auto& [name, value] : profile.settings) text += fmt::format("{}={}\n", name, value);
  text += fmt::format("\n{:<20} {:<18} {:<26} {:>6} {:>6}  {}\n", "tried", "value", "against",
                      "times", "rounds", "on");
  for (const Profile::Tried& tried : profile.tried) {
    text += fmt::format("{:<20} {:<18} {:<26} {:>6.2f} {:>6}  {}{}\n", tried.setting, tried.value,
                        tried.usual, tried.times, tried.rounds, tried.where,
                        tried.is_taken ? " (taken)" : "");
  }
  if (profile.rows.empty()) return text;
  text += fmt::format("\n{:<20} {:>6} {:>12} {:>12} {:>6} {:>6}\n", "the check", "bytes",
                      "default us", "us", "times", "rounds");
  for (const Profile::Row& row : profile.rows) {
    text += fmt::format("{:<20} {:>6} {:>12.2f} {:>12.2f} {:>6.2f} {:>6}\n", row.operation,
                        bytes_text(row.bytes), row.usual_us, row.us, row.times, row.rounds);
  }
  return text;
}

}  // namespace weft
