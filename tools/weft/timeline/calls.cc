// Spans of operations, and to whom they sent.
#include "tools/weft/timeline/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "scheduler/vocabulary/vocabulary.h"
#include "tools/weft/chakra/chakra.h"
#include "topology/json/json.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;  // that a Chakra trace has here
constexpr std::uint64_t kMostPeer = 0xffff;

std::optional<std::uint64_t> number_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

const json& args_of(const json& event) {
  static const json kNone = json::object();
  const auto found = event.find("args");
  return found != event.end() && found->is_object() ? *found : kNone;
}

double time_of(const json& event) {
  return event.contains("ts") ? event["ts"].get<double>() : 0;
}

// Chakra has collectives and messages. group_average and local_allreduce are collectives of some ranks.
std::optional<Collective> operation_of(const std::string& name) {
  if (name == "send" || name == "recv") return Collective::send;
  for (const CollectiveFacts& each : kCollectiveFacts) {
    if (each.name != name) continue;
    const bool is_told = chakra_comm_type(each.collective) || has<kOnGraph>(each.collective) ||
                         has<kOfSomeRanks>(each.collective) ||
                         each.collective == Collective::local_allreduce;
    return is_told ? std::optional(each.collective) : std::nullopt;
  }
  return std::nullopt;
}

TimelineCall call_of(const json& begin) {
  const json& args = args_of(begin);
  TimelineCall call;
  call.title = text_of(begin, "name");
  call.name = call.title.substr(0, call.title.find(' '));
  call.operation = operation_of(call.name);
  call.number = number_of(args, "operation").value_or(0);
  call.begin_us = time_of(begin);
  call.bytes = number_of(args, "bytes");
  if (call.bytes && *call.bytes > kMostBytes) call.bytes.reset();
  if (const auto peer = number_of(args, "peer"); peer && *peer < kMostPeer)
    call.peer = static_cast<Rank>(*peer);
  call.is_over = text_of(args, "result") == "ok";
  return call;
}

}  // namespace

Result<TimelineCalls> calls_of(const TimelineFile& file) {
  if (file.ranks.empty())
    return Status(Code::invalid_argument,
                  fmt::format("{}: does not say of which context it is: it was merged, or an older "
                              "Weft wrote it; give the files that the ranks wrote",
                              file.path));
  TimelineCalls all{file.path, file.context, file.rank, file.ranks, {}};
  std::map<std::string, TimelineCall> open;
  std::map<std::uint64_t, std::set<Rank>> receivers;
  for (const json& event : file.events) {
    const std::string phase = text_of(event, "ph");
    if (phase == "i" && text_of(event, "name") == "send_posted") {
      const auto peer = number_of(args_of(event), "peer");
      if (peer && *peer < file.ranks.size())
        receivers[number_of(args_of(event), "operation").value_or(0)].insert(
            static_cast<Rank>(*peer));
    }
    if (text_of(event, "cat") != "operation" || !event.contains("id2")) continue;
    const std::string id = text_of(event["id2"], "local");
    if (phase == "b") open.insert_or_assign(id, call_of(event));
    const auto begun = phase == "e" ? open.find(id) : open.end();
    if (begun == open.end()) continue;
    begun->second.end_us = std::max(time_of(event), begun->second.begin_us);
    all.calls.push_back(std::move(begun->second));
    open.erase(begun);
  }
  for (TimelineCall& call : all.calls)
    if (const auto found = receivers.find(call.number); found != receivers.end())
      call.receivers = found->second;
  std::ranges::stable_sort(all.calls, {}, &TimelineCall::begin_us);
  return all;
}

}  // namespace weft
