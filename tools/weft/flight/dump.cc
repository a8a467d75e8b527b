// Reading: a line at a time, as far as the text goes.
#include "tools/weft/flight/dump.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace weft::dumps {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

template <typename T>
T get(const json& line, const char* key, T otherwise) {
  const auto found = line.find(key);
  if (found == line.end()) return otherwise;
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? found->get<T>() : otherwise;
  } else {
    return found->is_number() || found->is_boolean() ? found->get<T>() : otherwise;
  }
}

Op op_of(const json& line) {
  Op op;
  op.op = get<std::string>(line, "op", "");
  op.state = get<std::string>(line, "state", "");
  op.type = get<std::string>(line, "type", "");
  op.code = get<std::string>(line, "code", "");
  op.count = get<std::uint64_t>(line, "count", 0);
  op.number = get<std::uint64_t>(line, "number", 0);
  op.peer = get<Rank>(line, "peer", kNoRank);
  op.is_of_some_ranks = get<bool>(line, "some", false);
  op.in = get<int>(line, "in", 0);
  op.out = get<int>(line, "out", 0);
  op.agreement = get<int>(line, "agreement", 0);
  op.began_ns = get<std::int64_t>(line, "began_ns", 0);
  op.ended_ns = get<std::int64_t>(line, "ended_ns", 0);
  if (const auto waits = line.find("waits"); waits != line.end() && waits->is_array()) {
    for (const json& each : *waits)
      if (each.is_object())
        op.waits.push_back({get<Rank>(each, "rank", kNoRank), get<std::string>(each, "what", "")});
  }
  return op;
}

Part part_of(const json& line) {
  Part part;
  part.context = get<std::string>(line, "context", "");
  part.job = get<std::string>(line, "job", "");
  part.host = get<std::string>(line, "host", "");
  part.failure = get<std::string>(line, "failure", "");
  part.rank = get<Rank>(line, "rank", 0);
  part.rank_in_job = get<Rank>(line, "rank_in_job", 0);
  part.size = get<int>(line, "size", 1);
  part.next = get<std::uint64_t>(line, "next", 0);
  if (const auto members = line.find("members"); members != line.end() && members->is_array()) {
    for (const json& each : *members)
      if (each.is_number_integer()) part.members.push_back(each.get<Rank>());
  }
  return part;
}

void add_line(const json& line, Part& part) {
  if (line.contains("rail")) {
    part.rails.push_back({get<std::string>(line, "rail", ""), get<std::uint64_t>(line, "bytes", 0),
                          get<double>(line, "rate", 0), get<double>(line, "best", 0),
                          get<int>(line, "peers", 0), get<int>(line, "lost", 0),
                          get<std::uint64_t>(line, "losses", 0)});
  } else if (line.contains("name")) {
    part.names.push_back({get<std::string>(line, "name", ""), get<std::string>(line, "op", ""),
                          get<std::string>(line, "state", ""),
                          get<std::int64_t>(line, "began_ns", 0)});
  } else if (line.contains("lacking")) {
    part.lacking = get<std::string>(line, "lacking", "");
  } else if (line.contains("op")) {
    part.ops.push_back(op_of(line));
  }  // else a line of a later version, which has more to say
}

}  // namespace

Rank Part::in_job(Rank rank_here) const {
  const auto at = static_cast<std::size_t>(rank_here);
  return rank_here >= 0 && at < members.size() ? members[at] : rank_here;
}

const Op* Part::last_call() const {
  const Op* last = nullptr;
  for (const Op& op : ops) {
    if (op.is_of_some_ranks || op.state == "queued") continue;
    if (last == nullptr || op.number >= last->number) last = &op;
  }
  return last;
}

const Op* Part::of_all(std::uint64_t number) const {
  const auto found = std::ranges::find_if(ops, [number](const Op& op) {
    return !op.is_of_some_ranks && op.state != "queued" && op.number == number;
  });
  return found == ops.end() ? nullptr : &*found;
}

Result<Dump> read_dump(const std::string& from, std::string_view text) {
  Dump dump;
  json head;
  bool is_inside = false;  // between the first and the last line of a dump
  std::size_t lines = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // a line that was cut
    const json line = json::parse(text.substr(0, end), nullptr, false);
    text.remove_prefix(end + 1);
    if (!line.is_object()) break;
    ++lines;
    if (is_inside) {
      if (line.contains("end")) is_inside = false;
      if (line.contains("context")) {
        Part& part = dump.parts.emplace_back(part_of(line));
        part.from = from;
        part.clock_ns = get<std::int64_t>(head, "clock_ns", 0);
        part.time_ns = get<std::int64_t>(head, "time_ns", 0);
        part.process = get<std::int64_t>(head, "pid", 0);
        part.ran_ns = get<std::int64_t>(head, "ran_ns", 0);
        part.delayed_ns = get<std::int64_t>(head, "delayed_ns", 0);
      } else if (!dump.parts.empty()) {
        add_line(line, dump.parts.back());
      }
    } else if (line.contains("remark")) {
      dump.remarks.push_back(fmt::format("{}: {}", from, get<std::string>(line, "remark", "")));
    } else {
      const int version = get<int>(line, "weft_flight", 0);
      if (version == 0) break;
      if (version != kVersion)
        return Status(
            Code::mismatch,
            fmt::format("{}: version {} of the flight recorder; this weft reads version {}", from,
                        version, kVersion));
      head = line;
      is_inside = true;
    }
  }
  if (head.is_null() && dump.remarks.empty())
    return Status(Code::mismatch, fmt::format("{}: is no dump of the flight recorder", from));
  if (is_inside)
    dump.remarks.push_back(
        fmt::format("{}: cut short after {} lines; what is there counts", from, lines));
  return dump;
}

}  // namespace weft::dumps
