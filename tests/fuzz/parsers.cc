// The parsers, through the functions that programs call.
#include "tests/fuzz/parsers.h"

#include <weft/graph.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "engine/compress/compress.h"
#include "engine/config/address.h"
#include "engine/config/config.h"
#include "engine/job/machines.h"
#include "engine/partial/messages.h"
#include "scheduler/match/match.h"
#include "scheduler/negotiate/negotiate.h"
#include "tools/diagnosis/diagnosis.h"
#include "tools/weft/perf/plot.h"
#include "tools/weft/perf/tensors.h"
#include "tools/weft/predict/step.h"
#include "tools/weft/timeline/files.h"
#include "tools/weft/timeline/steps.h"
#include "tools/weft/timeline/summary.h"
#include "tools/weft/topo/topo.h"
#include "topology/cluster/cluster.h"
#include "topology/hardware/hardware.h"

namespace weft::fuzz {
namespace {

// What is shown of it has to be there for any machine that was accepted.
std::string show(const Machine& machine) {
  const bool shown = !machine_text(machine).empty() && !machine_json(machine, nullptr).empty() &&
                     !machine_svg(machine).empty();
  return shown ? "" : "a machine that cannot be shown";
}

std::string complaint_of(const Status& status, const std::string& name) {
  const bool is_named = status.text().find(name.substr(0, 64)) != std::string_view::npos;
  return is_named ? "" : "an error that does not name its file: " + status.to_string();
}

// Any machine can be written for NCCL, or there is a reason.
std::string feed_machine(std::string_view, const std::string& path) {
  const Result<Machine> machine = read_machine(path);
  if (!machine.ok()) return complaint_of(machine.status(), path);
  (void)nccl_topology(*machine);
  (void)nccl_graph(*machine);
  return show(*machine);
}

// Also what we write has to be what we read.
std::string feed_hwloc(std::string_view bytes, const std::string& path) {
  const std::string wrong = feed_machine(bytes, path);
  const Result<std::string> xml = export_machine(path);
  if (!wrong.empty() || !xml.ok()) return wrong;
  const std::string copy = path + ".copy";
  std::ofstream(copy) << *xml;
  const Result<Machine> again = read_machine(copy);
  return again.ok() ? "" : "a file of ours that is refused: " + again.status().to_string();
}

std::string feed_correction(std::string_view, const std::string& path) {
  static const Result<Machine> plain = read_machine("synthetic:pack:2 core:2 pu:1");
  Machine machine = *plain;
  const Status status = correct_machine(machine, path);
  return status.ok() ? show(machine) : complaint_of(status, path);
}

std::string feed_cluster(std::string_view, const std::string& path) {
  const Result<Cluster> cluster = read_cluster(path);
  if (!cluster.ok()) return complaint_of(cluster.status(), path);
  return describe(*cluster).empty() ? "a cluster that cannot be shown" : "";
}

// Facts of a host, beside themselves under another name.
std::string feed_facts(std::string_view bytes, const std::string&) {
  Result<HostFacts> facts = facts_from_json(std::string(bytes));
  if (!facts.ok()) return facts.status().text().empty() ? "an error without a reason" : "";
  std::vector<HostFacts> hosts{*facts, *facts};
  hosts[1].host += " again";
  for (const Finding& finding : diagnose(hosts))
    if (finding.what.empty() || finding.mend.empty()) return "a finding that says nothing";
  return "";
}

std::string feed_synthetic(std::string_view bytes, const std::string&) {
  const std::string name = "synthetic:" + std::string(bytes);
  const Result<Machine> machine = read_machine(name);
  return machine.ok() ? show(*machine) : complaint_of(machine.status(), "synthetic:");
}

// A message of rank 1 to rank 0 of three, in a cycle of scheduler/negotiate.
// The same of rank 0 to rank 1, which waits for decisions.
std::string feed_cycle(std::string_view bytes, const std::string&) {
  NamedRequest request;
  request.name = "x";
  request.tensors = {{DataType::f32, 4}};
  const auto feed = [&](Negotiator& negotiator, Rank from) {
    negotiator.receive(from, std::as_bytes(std::span(bytes)), 0);
    negotiator.step(0);
    const Status& failure = negotiator.failure();
    return failure.ok() || failure.rank() == from;
  };
  Negotiator first({.rank = 0, .size = 3});
  (void)first.submit(request, 0);
  first.step(0);
  Negotiator zero({.rank = 0, .size = 2});
  Negotiator second({.rank = 1, .size = 2});
  (void)zero.submit(request, 0);
  (void)second.submit(request, 0);
  zero.step(0);
  second.step(0);
  for (const ControlMessage& message : zero.take_messages()) second.receive(0, message.bytes, 0);
  return feed(first, 1) && feed(second, 0) ? "" : "an error that does not name the sender";
}

// Entries of rank 1 for rank 0 of two, in scheduler/match.
std::string feed_letters(std::string_view bytes, const std::string&) {
  EdgeMatcher matcher({.rank = 0, .size = 2, .fusion = {4096, 4096}});
  MatchRequest request;
  request.id = 1;
  request.name = "x";
  request.count = 4;
  request.sources = {{1, 4}};
  request.destinations = {{1, 1.0}};
  (void)matcher.submit(request, 0);
  const Status status = matcher.receive(1, std::as_bytes(std::span(bytes)), 0);
  matcher.step(0);
  for (const ReceiveBatch& batch : matcher.take_receives()) {
    for (const ReceiveBatch::Item& item : batch.items) {
      if (item.bytes > 16) return "a batch with more bytes than were wanted";
    }
  }
  return status.ok() || status.rank() == 1 ? "" : "an error that does not name the sender";
}

// Of a timeline that all ranks of its context have, as weft predict --chakra plays it.
std::string feed_steps(const TimelineFile& file, const std::string& path) {
  constexpr std::size_t kMostRanks = 4;
  std::vector<TimelineFile> files{file};
  while (files.size() < std::min(file.ranks.size(), kMostRanks)) files.push_back(file);
  for (std::size_t rank = 0; rank < files.size() && files.size() == file.ranks.size(); ++rank)
    files[rank].rank = static_cast<Rank>(rank);
  const Result<TimelineSteps> steps = chakra_of(files);
  if (!steps.ok()) return complaint_of(steps.status(), path);
  std::vector<ChakraTrace> traces;
  for (const std::vector<ChakraNode>& nodes : steps->ranks) {
    if (chakra_bytes(nodes).empty()) return "a trace that cannot be written";
    traces.push_back({path, nodes});
  }
  const StepCosts costs{
      [](const ChakraNode&, const std::vector<Rank>&) -> Result<double> { return 5.0; },
      [](Rank, Rank, std::uint64_t) -> Result<StepCosts::Message> {
        return StepCosts::Message{1, 1};
      }};
  const Result<PlayedStep> step = play_step(traces, static_cast<int>(traces.size()), costs);
  return step.ok() ? "" : "a trace that cannot be played: " + step.status().to_string();
}

// A timeline beside another one of the same rank, as weft timeline reads, joins and sums them up.
std::string feed_timeline(std::string_view, const std::string& path) {
  std::vector<TimelineFile> files;
  for (int copy = 0; copy < 2; ++copy) {
    Result<TimelineFile> file = read_timeline(path);
    if (!file.ok()) return complaint_of(file.status(), path);
    files.push_back(*std::move(file));
  }
  if (std::string wrong = feed_steps(files.front(), path); !wrong.empty()) return wrong;
  const std::vector<nlohmann::json> events = merge_timelines(std::move(files));
  if (timeline_text(events).empty()) return "a timeline that cannot be written";
  for (const TimelineOfRank& rank : summarize(events)) {
    if (describe(rank).empty() || to_json(rank).dump().empty()) return "a rank without a summary";
  }
  return "";
}

// A step of four ranks that follow the trace.
std::string feed_chakra(std::string_view, const std::string& path) {
  std::vector<ChakraTrace> traces;
  Result<ChakraTrace> trace = read_chakra(path);
  if (!trace.ok()) return complaint_of(trace.status(), path);
  traces.push_back(*std::move(trace));
  const StepCosts costs{
      [](const ChakraNode&, const std::vector<Rank>&) -> Result<double> { return 5.0; },
      [](Rank, Rank, std::uint64_t) -> Result<StepCosts::Message> {
        return StepCosts::Message{1, 1};
      }};
  const Result<PlayedStep> step = play_step(traces, 4, costs);
  if (!step.ok()) return complaint_of(step.status(), path);
  return step->nodes == traces.front().nodes.size() ? "" : "a step without some of its nodes";
}

// Rows of weft perf --json, as weft perf --from draws them.
std::string feed_rows(std::string_view, const std::string& path) {
  const Result<std::vector<std::string>> rows = read_rows(path);
  if (!rows.ok()) return complaint_of(rows.status(), path);
  const Result<std::string> picture = perf_svg(*rows, path);
  return picture.ok() ? "" : complaint_of(picture.status(), path);
}

std::string feed_tensors(std::string_view, const std::string& path) {
  const Result<TensorSet> set = tensor_set(path);
  if (!set.ok()) return complaint_of(set.status(), path);
  return set->tensors.empty() ? "a set without tensors" : "";
}

// The name of a graph, or of a schedule.
std::string feed_graph(std::string_view bytes, const std::string&) {
  for (const int ranks : {1, 12}) {
    const Result<Graph> graph = make_graph(bytes, ranks);
    if (graph.ok() && graph->size() != ranks) return "a graph of other ranks";
    const Result<Schedule> schedule = make_schedule(bytes, ranks);
    if (schedule.ok()) (void)schedule->local_view(7, 0);
    if (graph.status().text().size() > 4096) return "an error without an end";
  }
  return "";
}

// Lines "NAME=value", as the environment has them.
std::string feed_config(std::string_view bytes, const std::string&) {
  std::vector<std::string> entries;
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find('\n'), bytes.size());
    entries.emplace_back(bytes.substr(0, end));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  const Result<Config> config = Config::from_entries(entries, UnknownNames::refuse);
  if (!config.ok()) {
    const bool is_named = config.status().text().find("WEFT_") != std::string_view::npos ||
                          config.status().text().find("RANK") != std::string_view::npos ||
                          config.status().text().find("WORLD_SIZE") != std::string_view::npos ||
                          config.status().text().find("MASTER_") != std::string_view::npos;
    return is_named ? "" : "an error that names no variable: " + config.status().to_string();
  }
  (void)config->check();
  (void)config->launch();
  return parse_address(config->rendezvous).ok() || config->rendezvous.empty()
             ? ""
             : "a rendezvous that is no address";
}

// A message of rank 1 about groups of three ranks.
std::string feed_groups(std::string_view bytes, const std::string&) {
  const Result<GroupMessage> message = decode_group_message(1, std::as_bytes(std::span(bytes)), 3);
  if (!message.ok()) return message.status().rank() == 1 ? "" : "an error without its sender";
  const std::vector<std::byte> again = encode(*message);
  const auto same = std::ranges::equal(again, std::as_bytes(std::span(bytes)));
  return same ? "" : "a message that is not what was read";
}

constexpr std::size_t kElements = 64;

Encoding encoding_of(std::uint8_t number) {
  const auto how = static_cast<Compression>(number % kCompressions);
  return how == Compression::low_rank ? Encoding(how, LowRank{.rows = 8, .rank = 1})
                                      : Encoding(how);
}

// An encoded tensor of a peer. The first byte says how this rank expects it. What passes is decoded.
std::string feed_encoded(std::string_view bytes, const std::string&) {
  if (bytes.empty()) return "";
  const Encoding encoding = encoding_of(static_cast<std::uint8_t>(bytes[0]));
  const Result<Encoded> encoded =
      Encoded::open(std::as_bytes(std::span(bytes.substr(1))), encoding, kElements);
  if (!encoded.ok())
    return encoded.status().code() == Code::mismatch ? "" : encoded.status().to_string();
  std::array<float, kElements> values{};
  encoded->decode(values);
  encoded->add(0.5F, values);
  return "";
}

std::vector<std::string> encoded_tensors() {
  std::vector<std::string> all;
  std::array<float, kElements> values{};
  for (std::size_t i = 0; i < kElements; ++i) values[i] = 0.25F * static_cast<float>(i) - 3;
  for (std::uint8_t number = 0; number < kCompressions; ++number) {
    const Encoding encoding = encoding_of(number);
    std::string& bytes = all.emplace_back(1 + encoded_bytes(encoding, kElements), '\0');
    bytes[0] = static_cast<char>(number);
    Encoder().encode(encoding, values, std::as_writable_bytes(std::span(bytes)).subspan(1));
  }
  return all;
}

// What a rank says of its machine, beside a rank that says the same.
std::string feed_machine_record(std::string_view bytes, const std::string&) {
  const Result<MachineRecord> record = machine_record(bytes);
  if (!record.ok()) return record.status().code() == Code::mismatch ? "" : "another error";
  const std::array both{*record, this_machine("")};
  if (!check_policies(both).ok()) return "";
  if (machines_of(both).describe().empty()) return "machines that cannot be shown";
  const Result<MachineRecord> again = machine_record(record->to_text());
  return again.ok() && *again == *record ? "" : "a record that is not what was read";
}

constexpr std::array kParsers{
    Parser{"hwloc", feed_hwloc},
    Parser{"nccl", feed_machine},
    Parser{"correct", feed_correction},
    Parser{"cluster", feed_cluster},
    Parser{"synthetic", feed_synthetic},
    Parser{"cycle", feed_cycle},
    Parser{"letters", feed_letters},
    Parser{"chakra", feed_chakra},
    Parser{"timeline", feed_timeline},
    Parser{"rows", feed_rows},
    Parser{"tensors", feed_tensors},
    Parser{"graph", feed_graph},
    Parser{"config", feed_config},
    Parser{"groups", feed_groups},
    Parser{"encoded", feed_encoded, encoded_tensors},
    Parser{"machine", feed_machine_record},
    Parser{"smi", feed_machine},
    Parser{"ibnet", feed_cluster},
    Parser{"infragraph", feed_cluster},
    Parser{"facts", feed_facts},
};

}  // namespace

std::span<const Parser> parsers() {
  return kParsers;
}

const Parser* parser_of(std::string_view name) {
  const auto found = std::ranges::find(kParsers, name, &Parser::name);
  return found == kParsers.end() ? nullptr : &*found;
}

}  // namespace weft::fuzz
