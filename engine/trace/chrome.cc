// Pairs begins with ends over all lanes in order of time, and prints one JSON event per line.
#include "engine/trace/chrome.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>

#include "engine/trace/quote.h"

namespace weft {
namespace {

// A record and the lane that it comes from.
struct Moment {
  std::uint32_t lane;
  Record record;
};

std::vector<Moment> in_order_of_time(const ChromeInput& input) {
  std::vector<Moment> moments;
  for (std::uint32_t lane = 0; lane < input.lanes.size(); ++lane) {
    for (const Record& record : input.lanes[lane].snapshot.records) {
      moments.push_back({lane, record});
    }
  }
  std::stable_sort(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) {
    return a.record.time_ns() < b.record.time_ns();
  });
  return moments;
}

std::optional<Event> begin_of(Event end) {
  switch (end) {
    case Event::combine_end:
      return Event::combine_begin;
    case Event::wait_end:
      return Event::wait_begin;
    case Event::call_end:
      return Event::call_begin;
    default:
      return std::nullopt;
  }
}

bool is_begin(Event event) {
  return event == Event::combine_begin || event == Event::wait_begin || event == Event::call_begin;
}

bool is_of_operation(Event event) {
  return event == Event::operation_begin || event == Event::operation_bytes ||
         event == Event::operation_bytes_high || event == Event::operation_parts ||
         event == Event::operation_end;
}

// What a name does from this event on, until the next one.
std::string_view phase_after(Event event) {
  switch (event) {
    case Event::name_submitted:
      return "queued";
    case Event::name_taken:
      return "agreed on";
    default:
      return "run";
  }
}

bool is_of_name(Event event) {
  return event == Event::name_submitted || event == Event::name_taken ||
         event == Event::name_runs || event == Event::name_ended;
}

// Nanoseconds as microseconds without a rounding step: a double would lose digits in a month.
std::string microseconds(std::int64_t ns) {
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

// "operation", "peer" and the argument under the name that its event gives it.
std::string arguments(const Record& record) {
  std::string text = fmt::format("\"operation\":{}", record.operation);
  if (record.peer != Record::kNoPeer) text += fmt::format(",\"peer\":{}", record.peer);
  switch (record.event()) {
    case Event::operation_begin:
    case Event::call_begin:
    case Event::sleep:
    case Event::wake:
      break;
    case Event::error:
      text += fmt::format(",\"code\":\"{}\"", name(static_cast<Code>(record.argument)));
      break;
    default:
      text += fmt::format(",\"step\":{}", record.argument);
  }
  return text;
}

class Printer {
 public:
  explicit Printer(const ChromeInput& input) : input_(input) {}

  std::string print() {
    out_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
    print_names();
    for (const Moment& moment : in_order_of_time(input_)) take(moment);
    print_unfinished();
    out_ += fmt::format(
        "\n],\"otherData\":{{\"format\":\"weft 1\",\"machine\":{},\"day_us\":{}{}}}}}\n",
        quoted(input_.machine), microseconds(input_.day_ns), context_text());
    return std::move(out_);
  }

 private:
  // What an end has in common with its begin. Operations may end on another lane than they began
  // on.
  using Key = std::tuple<Event, std::uint32_t, std::uint32_t>;  // begin, operation, lane
  static Key key(Event begin, const Moment& moment) {
    return {begin, moment.record.operation, begin == Event::operation_begin ? 0 : moment.lane};
  }

  // What has begun. Each lane that runs a part of an operation has a begin and an end of it, one perhaps after the other's
  // end.
  struct Span {
    Moment begin;
    int begins = 1, ends = 0, parts = 1;
    std::int64_t end_ns = 0;  // the latest
    Code code = Code::ok;
    std::optional<std::uint64_t> bytes{};

    [[nodiscard]] bool is_over() const { return ends >= std::max(begins, parts); }
  };

  void take(const Moment& moment) {
    const Event event = moment.record.event();
    last_ns_ = moment.record.time_ns();
    if (is_of_name(event)) {
      take_name(moment);
    } else if (is_of_operation(event)) {
      take_operation(moment);
    } else if (is_begin(event)) {
      open_.insert_or_assign(key(event, moment), Span{moment});
    } else if (const auto begin = begin_of(event)) {
      const auto found = open_.find(key(*begin, moment));
      if (found == open_.end()) return;
      found->second.code = static_cast<Code>(moment.record.argument);
      print_span(found->second, last_ns_, event == Event::call_end ? result_of(found->second) : "");
      open_.erase(found);
    } else {
      print_instant(moment);
    }
  }

  void take_operation(const Moment& moment) {
    const Record& record = moment.record;
    const Key its = key(Event::operation_begin, moment);
    if (record.event() == Event::operation_begin) {
      const auto [at, is_first] = open_.try_emplace(its, Span{moment});
      if (!is_first) ++at->second.begins;
      return;
    }
    const auto found = open_.find(its);
    if (found == open_.end()) return;
    Span& span = found->second;
    if (record.event() == Event::operation_parts) {
      span.parts = record.argument;
    } else if (record.event() != Event::operation_end) {
      span.bytes = span.bytes.value_or(0) + record.bytes();
    } else {
      ++span.ends;
      span.end_ns = last_ns_;
      if (span.code == Code::ok) span.code = static_cast<Code>(record.argument);
      if (!span.is_over()) return;
      print_span(span, last_ns_, result_of(span));
      open_.erase(found);
    }
  }

  // A name on its way: the record of its submission, and of what it does now.
  struct Course {
    Moment submitted;
    Record phase;
  };

  void take_name(const Moment& moment) {
    const Record& record = moment.record;
    if (record.event() == Event::name_submitted) {
      courses_.insert_or_assign(record.operation, Course{moment, record});
      return;
    }
    const auto found = courses_.find(record.operation);
    if (found == courses_.end()) return;
    print_phase(found->second, record.time_ns());
    found->second.phase = record;
    if (record.event() != Event::name_ended) return;
    print_course(found->second, record.time_ns(),
                 fmt::format(R"("result":"{}")", name(static_cast<Code>(record.argument))));
    courses_.erase(found);
  }

  void print_phase(const Course& course, std::int64_t end_ns) {
    const bool runs = course.phase.event() == Event::name_runs;
    print_part(course, phase_after(course.phase.event()), course.phase.time_ns(), end_ns,
               runs ? fmt::format(R"("names_together":{})", course.phase.argument) : "");
  }

  void print_course(const Course& course, std::int64_t end_ns, const std::string& args) {
    print_part(course, operation_name(course.submitted.record.argument),
               course.submitted.record.time_ns(), end_ns, args);
  }

  // The parts of a name have one id, so that viewers nest them.
  void print_part(const Course& course, std::string_view what, std::int64_t begin_ns,
                  std::int64_t end_ns, const std::string& args) {
    const std::string same =
        fmt::format(R"("name":{},"cat":"name","id2":{{"local":"{:#x}"}},"tid":{})", quoted(what),
                    course.submitted.record.operation, thread(course.submitted.lane));
    event(R"("ph":"b",{},"ts":{},"args":{{{}}})", same, microseconds(begin_ns), args);
    event(R"("ph":"e",{},"ts":{})", same, microseconds(end_ns));
  }

  static std::string result_of(const Span& span) {
    return fmt::format(",\"result\":\"{}\"", name(span.code));
  }

  // A part whose records were overwritten counts as over.
  void print_unfinished() {
    for (const auto& [key, span] : open_) {
      const bool is_over = span.ends >= span.begins;
      print_span(span, is_over ? span.end_ns : last_ns_,
                 is_over ? result_of(span) : ",\"unfinished\":true");
    }
    for (const auto& [number, course] : courses_) {
      print_phase(course, last_ns_);
      print_course(course, last_ns_, R"("unfinished":true)");
    }
  }

  [[nodiscard]] std::string context_text() const {
    const TraceContext& context = input_.context;
    if (context.ranks.empty()) return {};
    return fmt::format(R"(,"context":{},"rank":{},"ranks":[{}])", quoted(context.name), input_.rank,
                       fmt::join(context.ranks, ","));
  }

  void print_names() {
    print_name("process_name", 0, fmt::format("\"name\":\"rank {}\"", input_.rank));
    print_name("process_sort_index", 0, fmt::format("\"sort_index\":{}", input_.rank));
    for (std::uint32_t lane = 0; lane < input_.lanes.size(); ++lane) {
      const ChromeLane& l = input_.lanes[lane];
      print_name("thread_name", thread(lane),
                 fmt::format("\"name\":{},\"records_lost\":{}", quoted(l.name), l.snapshot.lost));
    }
  }

  // A combine lies on its lane's track. Operations and waits overlap there, so they become pairs of
  // asynchronous events, tied by an id that is local to the process.
  void print_span(const Span& span, std::int64_t end_ns, const std::string& more) {
    const Moment& begin = span.begin;
    const Record& record = begin.record;
    const std::string bytes = span.bytes ? fmt::format(",\"bytes\":{}", *span.bytes) : "";
    const std::string args = arguments(record) + bytes + more;
    const std::string start = microseconds(record.time_ns());
    if (record.event() == Event::combine_begin) {
      event(R"("ph":"X","name":"combine","cat":"combine","ts":{},"dur":{},"tid":{},"args":{{{}}})",
            start, microseconds(end_ns - record.time_ns()), thread(begin.lane), args);
      return;
    }
    const std::string same = async_identity(begin);
    event(R"("ph":"b",{},"ts":{},"args":{{{}}})", same, start, args);
    event(R"("ph":"e",{},"ts":{})", same, microseconds(end_ns));
  }

  std::string async_identity(const Moment& begin) const {
    const Event event = begin.record.event();
    const bool wait = event == Event::wait_begin;
    const std::uint64_t lane = wait ? thread(begin.lane) : 0;
    return fmt::format(R"("name":{},"cat":"{}","id2":{{"local":"{:#x}"}},"tid":{})",
                       wait ? "\"wait\"" : quoted(operation_name(begin.record.argument)),
                       wait                         ? "wait"
                       : event == Event::call_begin ? "window"
                                                    : "operation",
                       lane << 32 | begin.record.operation, thread(begin.lane));
  }

  const std::string& operation_name(std::size_t number) const {
    return input_.operation_names[number < input_.operation_names.size() ? number : 0];
  }

  void print_instant(const Moment& moment) {
    const Record& record = moment.record;
    event(R"("ph":"i","s":"t","name":"{}","cat":"lane","ts":{},"tid":{},"args":{{{}}})",
          name(record.event()), microseconds(record.time_ns()), thread(moment.lane),
          arguments(record));
  }

  void print_name(std::string_view what, std::uint32_t tid, const std::string& args) {
    event(R"("ph":"M","name":"{}","tid":{},"args":{{{}}})", what, tid, args);
  }

  template <typename... Args>
  void event(fmt::format_string<Args...> fields, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), "{}{{\"pid\":{},", separator_, input_.rank);
    fmt::format_to(std::back_inserter(out_), fields, std::forward<Args>(args)...);
    out_ += '}';
    separator_ = ",\n";
  }

  // Thread 0 is the idle thread to some viewers.
  static std::uint32_t thread(std::uint32_t lane) { return lane + 1; }

  const ChromeInput& input_;
  std::string out_;
  std::string_view separator_;
  std::map<Key, Span> open_;
  std::map<std::uint32_t, Course> courses_;  // of names, by the number of their submission
  std::int64_t last_ns_ = 0;
};

}  // namespace

std::string chrome_json(const ChromeInput& input) {
  return Printer(input).print();
}

}  // namespace weft
