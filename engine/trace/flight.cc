// flight: the lines of a dump.
#include "engine/trace/flight.h"

#include <fmt/format.h>
#include <unistd.h>
#include <weft/version.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/trace/file.h"
#include "engine/trace/quote.h"
#include "engine/trace/trace.h"

namespace weft {
namespace {

std::string_view name(FlightState state) {
  switch (state) {
    case FlightState::runs:
      return "runs";
    case FlightState::done:
      return "done";
    case FlightState::failed:
      return "failed";
  }
  return "unknown";
}

// Without the closing brace.
std::string fields_of(const FlightRecord& record, std::string_view state) {
  std::string line =
      fmt::format(R"({{"op":"{}","state":"{}","type":"{}","count":{})",
                  weft::name(record.collective), state, weft::name(record.type), record.count);
  if (record.peer != kNoRank) line += fmt::format(R"(,"peer":{})", record.peer);
  if (record.is_of_some_ranks) line += R"(,"some":true)";
  return line + fmt::format(R"(,"in":{},"out":{},"agreement":{})", record.sources,
                            record.destinations, record.agreement);
}

// Of this process, as the kernel counts it: on a core, and ready to run while others had the core. Of the
// latter the thread that has most counts; 0: the kernel does not count.
struct ProcessorTimes {
  std::int64_t ran_ns = 0, delayed_ns = 0;
};

ProcessorTimes processor_times() {
  ProcessorTimes times;
  std::error_code error;
  std::filesystem::directory_iterator thread("/proc/self/task", error);
  for (; !error && thread != std::filesystem::directory_iterator(); thread.increment(error)) {
    std::int64_t ran = 0, delayed = 0;
    if (std::ifstream(thread->path() / "schedstat") >> ran >> delayed) {
      times.ran_ns += ran;
      times.delayed_ns = std::max(times.delayed_ns, delayed);
    }
  }
  return times;
}

}  // namespace

std::vector<FlightRecord> FlightRing::latest(std::size_t most) const {
  const std::uint64_t kept = std::min<std::uint64_t>({written_, records_.size(), most});
  std::vector<FlightRecord> records;
  records.reserve(kept);
  for (std::uint64_t place = written_ - kept; place < written_; ++place)
    records.push_back(records_[place & mask_]);
  return records;
}

FlightText::FlightText(std::size_t most) : most_(most) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const ProcessorTimes times = processor_times();
  text_ = fmt::format(
      R"({{"weft_flight":1,"weft":"{}","pid":{},"time_ns":{},"clock_ns":{},"ran_ns":{},"delayed_ns":{}}})"
      "\n",
      version(), ::getpid(), std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
      now_ns(), times.ran_ns, times.delayed_ns);
}

void FlightText::context(const FlightContext& context) {
  fmt::format_to(
      std::back_inserter(text_),
      R"({{"context":{},"job":{},"host":{},"rank":{},"rank_in_job":{},"size":{},"next":{})",
      weft::quoted(context.context), weft::quoted(context.job), weft::quoted(context.host),
      context.rank, context.rank_in_job, context.size, context.next);
  if (!context.members.empty())
    text_ += fmt::format(R"(,"members":[{}])", fmt::join(context.members, ","));
  if (!context.failure.empty())
    text_ += fmt::format(R"(,"failure":{})", weft::quoted(context.failure));
  text_ += "}\n";
}

void FlightText::operation(const FlightRecord& record, const std::vector<FlightWait>& waits) {
  text_ += fields_of(record, name(record.state));
  text_ += fmt::format(R"(,"number":{})", record.number);
  if (record.began_ns != 0) text_ += fmt::format(R"(,"began_ns":{})", record.began_ns);
  if (record.ended_ns != 0) text_ += fmt::format(R"(,"ended_ns":{})", record.ended_ns);
  if (record.code != Code::ok) text_ += fmt::format(R"(,"code":"{}")", weft::name(record.code));
  for (std::size_t i = 0; i < waits.size(); ++i) {
    text_ += i == 0 ? R"(,"waits":[)" : ",";
    text_ += fmt::format(R"({{"rank":{},"what":"{}"}})", waits[i].rank, waits[i].what);
  }
  text_ += waits.empty() ? "}\n" : "]}\n";
}

void FlightText::queued(const FlightRecord& record) {
  text_ += fields_of(record, "queued") + "}\n";
}

void FlightText::named(std::string_view name, Collective collective, std::int64_t since_ns,
                       bool runs) {
  fmt::format_to(std::back_inserter(text_),
                 R"({{"name":{},"op":"{}","began_ns":{},"state":"{}"}})"
                 "\n",
                 weft::quoted(name), weft::name(collective), since_ns, runs ? "runs" : "queued");
}

void FlightText::lacking(std::string_view text) {
  text_ += fmt::format("{{\"lacking\":{}}}\n", weft::quoted(text));
}

void FlightText::rail(const FlightRail& rail) {
  fmt::format_to(
      std::back_inserter(text_),
      R"({{"rail":{},"bytes":{},"rate":{:.0f},"best":{:.0f},"peers":{},"lost":{},"losses":{}}})"
      "\n",
      weft::quoted(rail.rail), rail.bytes, rail.rate, rail.best, rail.peers, rail.lost,
      rail.losses);
}

std::string FlightText::text() && {
  return std::move(text_) + "{\"end\":true}\n";
}

Status write_flight(const std::string& path, Rank rank, std::string_view text) {
  return replace_file("write the flight recorder", trace_path(path, rank), text);
}

}  // namespace weft
