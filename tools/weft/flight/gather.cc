// Files, sockets, hosts.
#include "tools/weft/flight/gather.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "tools/weft/flight/metric_text.h"

namespace weft::dumps {
namespace {

constexpr std::streamsize kMostBytes = std::streamsize{64} << 20;

void take(const std::string& from, std::string_view text, Gathered& to) {
  Result<Dump> dump = read_dump(from, text);
  if (!dump.ok()) {
    to.remarks.emplace_back(dump.status().text());
    return;
  }
  std::ranges::move(dump->remarks, std::back_inserter(to.remarks));
  std::ranges::move(dump->parts, std::back_inserter(to.parts));
}

// A process with several ranks answers for all at each socket; of several looks the newest counts.
void settle(Gathered& gathered) {
  std::vector<Part> parts;
  for (Part& part : gathered.parts) {
    const auto same = std::ranges::find_if(parts, [&part](const Part& other) {
      return other.job == part.job && other.context == part.context && other.rank == part.rank;
    });
    if (same == parts.end()) {
      parts.push_back(std::move(part));
    } else if (part.time_ns > same->time_ns) {
      *same = std::move(part);
    }
  }
  gathered.parts = std::move(parts);
}

std::string about(const LiveSocket& socket, const Status& why) {
  return fmt::format("rank {} ({}): {}", socket.rank, socket.path, why.text());
}

struct Heard {
  LiveSocket socket;
  Result<LiveAnswer> answer;
};

// One answer of each process, and what went wrong with others.
Result<std::vector<Heard>> hear(const Running& from, const std::string& question) {
  constexpr double kMs = 1e3;
  const Deadline deadline =
      Deadline::after_ms(static_cast<std::int64_t>(from.hosts.timeout_s * kMs));
  WEFT_ASSIGN(const std::vector<LiveSocket> sockets, list_live(from.folder));
  std::vector<Result<LiveAnswer>> answers = ask_live(sockets, question, deadline);
  std::vector<Heard> heard;
  std::set<pid_t> processes;
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    if (answers[i].ok() && !processes.insert(answers[i]->process).second) continue;
    heard.push_back({sockets[i], std::move(answers[i])});
  }
  return heard;
}

std::string question_of(std::size_t calls) {
  return fmt::format("flight {}", calls);
}

Result<std::vector<HostAnswer>> ask(const Running& from, const std::vector<std::string>& more) {
  WEFT_ASSIGN(const std::vector<std::string> hosts, hosts_of(from.hosts));
  std::vector<std::string> words{"flight", "--live", from.folder};
  words.insert(words.end(), more.begin(), more.end());
  Progress progress("weft");
  return ask_hosts(hosts, from.hosts, words, progress);
}

// A shell may greet before.
std::string_view after_greeting(const std::string& text, std::string_view begin) {
  const std::size_t at = text.find(begin);
  return at == std::string::npos ? std::string_view(text) : std::string_view(text).substr(at);
}

std::string this_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

Gathered gather_files(const std::vector<std::string>& paths) {
  Gathered gathered;
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      gathered.remarks.push_back(fmt::format("{}: cannot be read", path));
      continue;
    }
    std::string text(static_cast<std::size_t>(kMostBytes), '\0');
    file.read(text.data(), kMostBytes);
    text.resize(static_cast<std::size_t>(file.gcount()));
    take(path, text, gathered);
  }
  settle(gathered);
  return gathered;
}

Result<Gathered> gather_running(const Running& from, std::size_t calls) {
  Gathered gathered;
  if (from.hosts.any()) {
    WEFT_ASSIGN(const std::vector<HostAnswer> answers,
                ask(from, {"--raw", "--calls", std::to_string(calls)}));
    for (const HostAnswer& answer : answers) {
      if (answer.text.ok()) {
        take(answer.host, after_greeting(*answer.text, "{\""), gathered);
      } else {
        gathered.remarks.push_back(fmt::format("{}: {}", answer.host, answer.text.status().text()));
      }
    }
  } else {
    WEFT_ASSIGN(const std::vector<Heard> heard, hear(from, question_of(calls)));
    for (const Heard& each : heard) {
      if (each.answer.ok()) {
        take(each.socket.path, each.answer->text, gathered);
      } else {
        gathered.remarks.push_back(about(each.socket, each.answer.status()));
      }
    }
  }
  settle(gathered);
  return gathered;
}

Result<std::string> raw_dumps(const Running& from, std::size_t calls) {
  WEFT_ASSIGN(const std::vector<Heard> heard, hear(from, question_of(calls)));
  const auto remark = [](const std::string& text) {
    const nlohmann::json line{{"remark", text}};
    return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  };
  std::string text;
  for (const Heard& each : heard)
    text += each.answer.ok() ? each.answer->text : remark(about(each.socket, each.answer.status()));
  return text.empty() ? remark("no rank is there (WEFT_LIVE)") : text;
}

Result<Words> gather_metrics(const Running& from) {
  MetricText all;
  Words words;
  if (from.hosts.any()) {
    WEFT_ASSIGN(const std::vector<HostAnswer> answers, ask(from, {"--metrics"}));
    for (const HostAnswer& answer : answers) {
      if (answer.text.ok()) {
        all.add(after_greeting(*answer.text, "# "), {});
      } else {
        words.remarks.push_back(fmt::format("{}: {}", answer.host, answer.text.status().text()));
      }
    }
  } else {
    WEFT_ASSIGN(const std::vector<Heard> heard, hear(from, "metrics"));
    for (const Heard& each : heard) {
      if (!each.answer.ok()) {
        words.remarks.push_back(about(each.socket, each.answer.status()));
        continue;
      }
      all.add(each.answer->text, {{"host", this_host()},
                                  {"weft_job", fmt::format("{:016x}", fnv1a64(each.socket.job))},
                                  {"rank", std::to_string(each.socket.rank)}});
    }
  }
  words.text = all.text();
  return words;
}

}  // namespace weft::dumps
