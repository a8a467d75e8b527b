// Counters as Prometheus text: one family per counter, one sample per lane.
#include "engine/trace/counters.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

#include "engine/trace/quote.h"

namespace weft {
namespace {

struct Family {
  std::string_view name;
  std::string_view help;
  Counter Counters::*counter;
};

constexpr std::array kFamilies{
    Family{"operations", "Operations that ended, well or badly.", &Counters::operations},
    Family{"sent_bytes", "Payload bytes sent.", &Counters::bytes_sent},
    Family{"combined_bytes", "Bytes written by combines.", &Counters::bytes_combined},
    Family{"notices", "Notices received from peers.", &Counters::notices},
    Family{"full", "Posts that found no room.", &Counters::full},
    Family{"yields", "Yields of the core while waiting.", &Counters::yields},
    Family{"sleeps", "Sleeps in the kernel while waiting.", &Counters::sleeps},
    Family{"wakes", "Wakes of sleeping peers.", &Counters::wakes},
};
static_assert(kFamilies.size() * sizeof(Counter) == sizeof(Counters), "every counter is printed");

}  // namespace

std::string prometheus_text(Rank rank, std::span<const LaneCounters> lanes) {
  std::string text;
  const auto out = std::back_inserter(text);
  for (const Family& family : kFamilies) {
    fmt::format_to(out, "# HELP weft_{}_total {}\n", family.name, family.help);
    fmt::format_to(out, "# TYPE weft_{}_total counter\n", family.name);
    for (const LaneCounters& lane : lanes) {
      fmt::format_to(out, "weft_{}_total{{rank=\"{}\",lane={}}} {}\n", family.name, rank,
                     quoted(lane.lane), (lane.counters->*family.counter).value());
    }
  }
  return text;
}

}  // namespace weft
