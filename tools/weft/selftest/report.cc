// Lines and keys of `weft selftest`. What is printed is flushed at once: people watch.
#include "tools/weft/selftest/report.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

namespace weft {
namespace {

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::failed:
      return "failed";
    case Verdict::skipped:
      break;
  }
  return "skipped";
}

void print(const nlohmann::ordered_json& object) {
  // What a check printed may be any bytes.
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  fmt::print("{}\n", object.dump(-1, ' ', false, kReplace));
  std::fflush(stdout);
}

// A reason of one line goes behind the name, a longer one below it.
std::string beside(const std::string& why) {
  std::string text;
  std::istringstream lines(why);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) text += "\n             " + line;
  }
  const bool one = text.find('\n', 1) == std::string::npos;
  return text.empty() ? "" : one ? ": " + text.substr(text.find_first_not_of("\n ")) : ":" + text;
}

}  // namespace

void SelftestReport::target(const SelftestTarget& target) {
  const bool left_out = !target.left_out.empty();
  if (json_ && left_out)
    print({{"transport", target.transport}, {"result", "skipped"}, {"why", target.left_out}});
  if (!json_) fmt::print("{}{}\n", target.text(), left_out ? ": skipped: " + target.left_out : "");
  std::fflush(stdout);
}

void SelftestReport::result(const SelftestTarget& target, const CheckResult& result) {
  seconds_ += result.seconds;
  if (result.verdict == Verdict::ok) ++ok_;
  if (result.verdict == Verdict::skipped) ++skipped_;
  if (result.verdict == Verdict::failed)
    failed_.push_back(fmt::format("{}: {}", target.text(), result.check));
  if (json_) {
    print({{"transport", target.transport},
           {"device", target.device},
           {"peer_device", target.peer_device},
           {"check", result.check},
           {"result", name(result.verdict)},
           {"why", result.why},
           {"seconds", result.seconds}});
    return;
  }
  fmt::print("  {:<8}{:>7.2f} s  {}{}\n", name(result.verdict), result.seconds, result.check,
             beside(result.why));
  std::fflush(stdout);
}

void SelftestReport::summary() const {
  if (json_) {
    print({{"ok", ok_},
           {"failed", failed_.size()},
           {"skipped", skipped_},
           {"failed_checks", failed_},
           {"seconds", seconds_}});
    return;
  }
  fmt::print("{} ok, {} failed, {} skipped, {:.1f} s\n", ok_, failed_.size(), skipped_, seconds_);
  for (const std::string& each : failed_) fmt::print("failed: {}\n", each);
  if (ok_ == 0 && failed_.empty()) fmt::print("nothing was checked\n");
}

}  // namespace weft
