// Trace: the owner of rings and names; how a timeline gets into a file.
#include "engine/trace/trace.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <fstream>
#include <utility>

#include "engine/trace/chrome.h"
#include "engine/trace/file.h"

namespace weft {
namespace {

std::size_t ring_capacity(std::size_t records) {
  if (records == 0) return 0;
  return std::bit_ceil(std::clamp<std::size_t>(records, 2, kMaxTraceRecords));
}

// It tells the machine, and its clock that counts from the boot.
std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::int64_t day_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

Trace::Trace(std::size_t records_per_lane) : records_per_lane_(ring_capacity(records_per_lane)) {}

TraceRing& Trace::add_lane(std::string name) {
  lanes_.push_back({std::move(name), on() ? std::make_unique<TraceRing>(records_per_lane_)
                                          : std::make_unique<TraceRing>()});
  return *lanes_.back().ring;
}

std::uint16_t Trace::operation_name(std::string_view name) {
  static_assert(kMaxOperationNames <= 1 << 16, "a name's number is a record's argument");
  if (!on()) return 0;
  const std::lock_guard lock(names_mutex_);
  const auto found = numbers_.find(std::string(name));
  if (found != numbers_.end()) return found->second;
  if (names_.size() == kMaxOperationNames) return 0;
  const auto number = static_cast<std::uint16_t>(names_.size());
  numbers_.emplace(names_.emplace_back(name), number);
  return number;
}

Status Trace::write_chrome(std::string_view path, Rank rank, TraceContext context) const {
  ChromeInput input{rank, std::move(context), boot_id(), day_ns() - now_ns(), {}, {}};
  for (const Lane& lane : lanes_) input.lanes.push_back({lane.name, lane.ring->snapshot()});
  {
    // After the rings: every name that a record uses is known by now.
    const std::lock_guard lock(names_mutex_);
    input.operation_names = names_;
  }
  return replace_file("write the trace", trace_path(path, rank), chrome_json(input));
}

std::string trace_path(std::string_view path, Rank rank) {
  constexpr std::string_view kPlace = "{rank}";
  const std::string number = std::to_string(rank);
  std::string result(path);
  std::size_t at = result.find(kPlace);
  if (at == std::string::npos) return result + "." + number;
  for (; at != std::string::npos; at = result.find(kPlace, at)) {
    result.replace(at, kPlace.size(), number);
  }
  return result;
}

}  // namespace weft
