// The parsers, through the functions that programs call.
#include "tests/fuzz/parsers.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "scheduler/match/match.h"
#include "scheduler/negotiate/negotiate.h"
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

std::string feed_machine(std::string_view, const std::string& path) {
  const Result<Machine> machine = read_machine(path);
  return machine.ok() ? show(*machine) : complaint_of(machine.status(), path);
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

constexpr std::array kParsers{
    Parser{"hwloc", feed_hwloc},         Parser{"nccl", feed_machine},
    Parser{"correct", feed_correction},  Parser{"cluster", feed_cluster},
    Parser{"synthetic", feed_synthetic}, Parser{"cycle", feed_cycle},
    Parser{"letters", feed_letters},
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
