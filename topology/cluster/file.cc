// Cluster files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "topology/cluster/cluster.h"
#include "topology/cluster/ibnet.h"
#include "topology/cluster/infragraph.h"
#include "topology/text/text.h"
#include "topology/toml/toml.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr std::int64_t kMostMachines = 1 << 20;
constexpr std::int64_t kMostRanks = 1 << 16;  // of a machine
constexpr std::int64_t kMostRanksInAll = 1 << 24;
constexpr std::size_t kMostKinds = 256;  // of machines: each may take a file of its own to read
constexpr std::size_t kMostPlaces = std::size_t{1} << 24;  // machines times rails
constexpr double kMostGbit = 1e6;
constexpr double kMostGbitUp = 1e9;  // of a switch
constexpr double kMostUs = 1e9;
constexpr double kMostOversubscription = 1e6;

class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  Result<Cluster> read() {
    WEFT_ASSIGN(const std::string text, read_text(path_, kMostBytes));
    if (is_ibnet(text)) return read_ibnet(text, path_);
    if (is_infragraph(text)) return read_infragraph(text, path_);
    WEFT_ASSIGN(TomlTable file, parse_toml(text, path_));
    cluster_.source = path_;
    WEFT_ASSIGN(std::vector<TomlTable> machines, file.tables("machine"));
    if (machines.empty()) return file.wrong("there is no [[machine]]");
    for (TomlTable& table : machines) WEFT_RETURN_IF_ERROR(add_machines(table));
    WEFT_ASSIGN(std::vector<TomlTable> rails, file.tables("rail"));
    for (TomlTable& table : rails) WEFT_RETURN_IF_ERROR(add_rail(table));
    WEFT_ASSIGN(std::vector<TomlTable> memory, file.tables("memory"));
    for (TomlTable& table : memory) WEFT_RETURN_IF_ERROR(take_memory(table));
    WEFT_RETURN_IF_ERROR(file.done());
    if (cluster_.rails.empty() && cluster_.machines.size() > 1)
      return file.wrong("several machines, and no [[rail]] between them");
    return std::move(cluster_);
  }

 private:
  // Relative to the cluster's file.
  [[nodiscard]] std::string beside(const std::string& path) const {
    if (path.starts_with("synthetic:") || fs::path(path).is_absolute()) return path;
    return (fs::path(path_).parent_path() / path).string();
  }

  // Machines that are described alike are one.
  Result<std::shared_ptr<const Machine>> hardware(TomlTable& table) {
    WEFT_ASSIGN(const std::optional<std::string> like, table.text("like"));
    WEFT_ASSIGN(const std::optional<std::string> correct, table.text("correct"));
    std::shared_ptr<const Machine>& known = kinds_[{like.value_or("this"), correct.value_or("")}];
    if (known != nullptr) return known;
    if (kinds_.size() > kMostKinds)
      return table.wrong(fmt::format("more than {} kinds of machines", kMostKinds));
    Result<Machine> machine =
        like.value_or("this") == "this" ? discover_machine() : read_machine(beside(*like));
    if (!machine.ok()) return table.wrong("like", machine.status().text());
    if (correct) {
      const Status status = correct_machine(*machine, beside(*correct));
      if (!status.ok()) return table.wrong("correct", status.text());
    }
    known = std::make_shared<const Machine>(std::move(machine).value());
    return known;
  }

  Status add_machines(TomlTable& table) {
    WEFT_ASSIGN(const std::optional<std::string> name, table.text("name"));
    WEFT_ASSIGN(const std::optional<std::int64_t> count, table.integer("count", 1, kMostMachines));
    WEFT_ASSIGN(const std::optional<std::int64_t> ranks, table.integer("ranks", 1, kMostRanks));
    WEFT_ASSIGN(const std::shared_ptr<const Machine> machine, hardware(table));
    WEFT_RETURN_IF_ERROR(table.done());
    const int gpus = static_cast<int>(machine->gpus.size());
    const int each = ranks ? static_cast<int>(*ranks) : std::max(gpus, 1);
    const std::int64_t all = cluster_.ranks() + count.value_or(1) * each;
    if (all > kMostRanksInAll) return table.wrong(fmt::format("{} ranks are too many", all));
    if (static_cast<std::int64_t>(cluster_.machines.size()) + count.value_or(1) > kMostMachines)
      return table.wrong(fmt::format("more than {} machines", kMostMachines));
    for (std::int64_t i = 0; i < count.value_or(1); ++i) {
      const std::string nameless = fmt::format("machine {}", cluster_.machines.size());
      const std::string own = !name ? nameless : count ? fmt::format("{}{}", *name, i) : *name;
      if (!names_.insert(own).second)
        return table.wrong("name", fmt::format("there are two machines called {}", own));
      cluster_.machines.push_back({own, machine, cluster_.ranks(), each});
    }
    return {};
  }

  // The interface of a machine on a rail: the first name that it has; or -1.
  static int nic_of(const Machine& machine, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const auto known = std::ranges::find_if(
          machine.nics, [&](const Nic& nic) { return nic.name() == name || nic.netdev == name; });
      if (known != machine.nics.end()) return static_cast<int>(known - machine.nics.begin());
    }
    return -1;
  }

  // The rail that the machine's interface is on already, or nullptr.
  [[nodiscard]] const Rail* rail_of(std::size_t machine, int nic) const {
    const auto known = std::ranges::find_if(
        cluster_.rails, [&](const Rail& rail) { return rail.nics[machine] == nic; });
    return known == cluster_.rails.end() ? nullptr : &*known;
  }

  Status add_rail(TomlTable& table) {
    Rail rail;
    WEFT_ASSIGN(const std::optional<std::string> name, table.text("name"));
    rail.name = name.value_or(fmt::format("{}", cluster_.rails.size()));
    if (std::ranges::count(cluster_.rails, rail.name, &Rail::name) != 0)
      return table.wrong("name", fmt::format("there are two rails called {}", rail.name));
    if ((cluster_.rails.size() + 1) * cluster_.machines.size() > kMostPlaces)
      return table.wrong("more rails than so many machines may have");
    WEFT_ASSIGN(std::vector<std::string> names, table.texts("nics"));
    WEFT_ASSIGN(const std::optional<double> rate, table.number("gbit_per_s", 1e-6, kMostGbit));
    WEFT_RETURN_IF_ERROR(take(table, "latency_us", rail.latency_us, 0, kMostUs));
    WEFT_RETURN_IF_ERROR(take_levels(table, rail));
    WEFT_RETURN_IF_ERROR(table.done());
    if (names.empty()) return table.wrong("a [[rail]] needs nics: [\"mlx5_0\"]");
    for (const ClusterMachine& machine : cluster_.machines)
      WEFT_RETURN_IF_ERROR(add_member(table, machine, names, rate, rail));
    WEFT_RETURN_IF_ERROR(check_members(table, names, rail));
    note_unused(names, rail);
    note_shared_wires(rail);
    cluster_.rails.push_back(std::move(rail));
    return {};
  }

  Status add_member(const TomlTable& table, const ClusterMachine& machine,
                    const std::vector<std::string>& names, std::optional<double> rate,
                    Rail& rail) const {
    const int number = nic_of(*machine.hardware, names);
    if (number >= 0) {
      const Nic& nic = machine.hardware->nics[static_cast<std::size_t>(number)];
      if (!rate && nic.mbit_per_s <= 0) {
        return table.wrong(fmt::format("the rate of {} on {} is not known: say gbit_per_s here",
                                       nic.name(), machine.name));
      }
      if (const Rail* other = rail_of(rail.nics.size(), number)) {
        return table.wrong("nics", fmt::format("{} of {} is on rail {} already", nic.name(),
                                               machine.name, other->name));
      }
      rail.gbit_per_s.push_back(rate.value_or(carried_mbit_per_s(nic) / 1e3));
    } else {
      rail.gbit_per_s.push_back(0);
    }
    rail.nics.push_back(number);
    return {};
  }

  // A rail connects machines.
  [[nodiscard]] Status check_members(const TomlTable& table, const std::vector<std::string>& names,
                                     const Rail& rail) const {
    const auto members = std::ranges::count_if(rail.nics, [](int nic) { return nic >= 0; });
    if (members == 0)
      return table.wrong("nics", fmt::format("no machine has {}", fmt::join(names, " or ")));
    if (members == 1 && cluster_.machines.size() > 1) {
      return table.wrong(
          "nics", fmt::format("only one machine has {}: nobody shares this rail", names_on(rail)));
    }
    if (is_apart(rail) && cluster_.machines.size() > 1) {
      return table.wrong("nics",
                         fmt::format("no two machines with {} are below one switch, and top = "
                                     "false: nobody shares this rail",
                                     names_on(rail)));
    }
    return {};
  }

  // Other names of the rail may be right for some machines, so one that no machine has is no error.
  void note_unused(const std::vector<std::string>& names, const Rail& rail) {
    for (const std::string& name : names) {
      const auto has = [&name](const ClusterMachine& machine) {
        return nic_of(*machine.hardware, {name}) >= 0;
      };
      if (std::ranges::none_of(cluster_.machines, has)) {
        cluster_.remarks.push_back(
            fmt::format("rail {}: no machine has {}, which its nics name", rail.name, name));
      }
    }
  }

  // A virtual function has no wire of its own. Said once for each rail.
  void note_shared_wires(const Rail& rail) {
    for (std::size_t m = 0; m < rail.nics.size(); ++m) {
      if (rail.nics[m] < 0) continue;
      const Machine& machine = *cluster_.machines[m].hardware;
      const Nic& nic = machine.nics[static_cast<std::size_t>(rail.nics[m])];
      if (!is_counted_elsewhere(nic, machine)) continue;
      cluster_.remarks.push_back(fmt::format(
          "rail {}: {} of {} shares its wire with another interface of that machine: the rate of "
          "both is counted",
          rail.name, nic.name(), cluster_.machines[m].name));
      return;
    }
  }

  // The interfaces that machines have on it, each name once.
  [[nodiscard]] std::string names_on(const Rail& rail) const {
    std::set<std::string> names;
    for (std::size_t m = 0; m < rail.nics.size(); ++m) {
      if (rail.nics[m] < 0) continue;
      const std::vector<Nic>& nics = cluster_.machines[m].hardware->nics;
      names.insert(nics[static_cast<std::size_t>(rail.nics[m])].name());
    }
    return fmt::format("{}", fmt::join(names, " or "));
  }

  // Whether no machine reaches another on it.
  static bool is_apart(const Rail& rail) {
    if (rail.has_top) return false;
    std::set<int> parts;
    for (int machine = 0; machine < std::ssize(rail.nics); ++machine) {
      if (rail.has(machine) && !parts.insert(rail.part_of(machine)).second) return false;
    }
    return true;
  }

  static Status take_levels(TomlTable& table, Rail& rail) {
    WEFT_ASSIGN(const std::optional<bool> top, table.boolean("top"));
    WEFT_ASSIGN(std::vector<TomlTable> levels, table.tables("level"));
    if (top && levels.empty()) return table.wrong("top", "there is no [[rail.level]]");
    for (TomlTable& level : levels) WEFT_RETURN_IF_ERROR(add_level(level, rail));
    rail.has_top = top.value_or(true);
    if (rail.has_top) return {};
    for (const std::string_view key : {"oversubscription", "gbit_per_s", "latency_us"}) {
      if (levels.back().has(key))
        return levels.back().wrong(key, "with top = false nothing is above the highest level");
    }
    return {};
  }

  static Status add_level(TomlTable& table, Rail& rail) {
    SwitchLevel level;
    if (rail.levels.size() == kMostSwitchLevels)
      return table.wrong(fmt::format("more than {} levels", kMostSwitchLevels));
    WEFT_ASSIGN(const std::optional<std::int64_t> machines,
                table.integer("machines", 1, kMostMachines));
    WEFT_ASSIGN(const std::optional<std::int64_t> stride,
                table.integer("stride", 1, kMostMachines));
    WEFT_RETURN_IF_ERROR(
        take(table, "oversubscription", level.oversubscription, 1, kMostOversubscription));
    WEFT_RETURN_IF_ERROR(take(table, "gbit_per_s", level.gbit_per_s, 1e-6, kMostGbitUp));
    WEFT_RETURN_IF_ERROR(take(table, "latency_us", level.latency_us, 0, kMostUs));
    WEFT_RETURN_IF_ERROR(table.done());
    if (!machines)
      return table.wrong("a [[rail.level]] needs machines: how many are below each switch");
    level.machines = static_cast<int>(*machines);
    if (table.has("oversubscription") && table.has("gbit_per_s"))
      return table.wrong("gbit_per_s", "oversubscription says this already");
    if (rail.levels.empty()) {
      rail.stride = static_cast<int>(stride.value_or(1));
    } else {
      const int below = rail.levels.back().machines;
      if (stride) return table.wrong("stride", "only the lowest level has one");
      if (level.machines == below || level.machines % below != 0) {
        return table.wrong("machines", fmt::format("{}: expected two or more times the {} of the "
                                                   "level below",
                                                   level.machines, below));
      }
    }
    rail.levels.push_back(level);
    return {};
  }

  Status take_memory(TomlTable& table) {
    SharedMemory& memory = cluster_.memory;
    WEFT_RETURN_IF_ERROR(take(table, "gbyte_per_s", memory.gbyte_per_s, 1e-6, kMostGbit));
    WEFT_RETURN_IF_ERROR(
        take(table, "machine_gbyte_per_s", memory.machine_gbyte_per_s, 0, kMostGbit));
    WEFT_RETURN_IF_ERROR(
        take(table, "combine_gbyte_per_s", memory.combine_gbyte_per_s, 1e-6, kMostGbit));
    WEFT_RETURN_IF_ERROR(take(table, "latency_us", memory.latency_us, 0, kMostUs));
    return table.done();
  }

  static Status take(TomlTable& table, std::string_view key, double& into, double least,
                     double most) {
    WEFT_ASSIGN(const std::optional<double> given, table.number(key, least, most));
    into = given.value_or(into);
    return {};
  }

  std::string path_;
  Cluster cluster_;
  std::set<std::string> names_;  // of machines
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const Machine>> kinds_;
};

}  // namespace

Result<Cluster> read_cluster(const std::string& path) {
  return Reader(path).read();
}

}  // namespace weft
