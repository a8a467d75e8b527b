// What `nvidia-smi topo -m` prints: a row and a column for each GPU and RDMA device, with how near two are, or
// how many NVLinks join them; then the processors and the node of each GPU. It has neither PCI addresses nor
// rates. Bridges are made up so that devices are as near as the table says.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <sstream>

#include "topology/hardware/files.h"

namespace weft::hardware {
namespace {

constexpr std::size_t kMostColumns = 512;
// One GPU has no more links than this: if each pair had its own, as many would not do.
constexpr int kMostNvlinks = 18;

// Underlined headings.
std::string without_escapes(const std::string& line) {
  std::string text;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\x1b') {
      while (at < line.size() && line[at] != 'm') ++at;
    } else if (line[at] != '\r') {
      text += line[at];
    }
  }
  return text;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// "GPU3": 3. -1: another name.
int gpu_of(const std::string& name) {
  constexpr std::string_view kPrefix = "GPU";
  if (!name.starts_with(kPrefix)) return -1;
  int number = -1;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, number);
  return error == std::errc() && stop == end ? number : -1;
}

// Nearest first; a device of a group is that near, or nearer, to each other one.
enum Level : std::size_t { kSwitch, kSwitches, kHostBridge, kNode, kLevels };

// Groups of devices by level: the lowest device of each.
class Groups {
 public:
  explicit Groups(std::size_t devices) : first_(kLevels, std::vector<std::size_t>(devices)) {
    for (auto& level : first_) std::iota(level.begin(), level.end(), std::size_t{0});
  }
  void join(Level least, std::size_t a, std::size_t b) {
    for (std::size_t level = least; level < kLevels; ++level) {
      const std::size_t from = std::max(first_[level][a], first_[level][b]);
      const std::size_t to = std::min(first_[level][a], first_[level][b]);
      if (from != to) std::ranges::replace(first_[level], from, to);
    }
  }
  [[nodiscard]] std::size_t of(Level level, std::size_t device) const {
    return first_[level][device];
  }
  [[nodiscard]] bool is_alone(Level level, std::size_t device) const {
    return std::ranges::count(first_[level], first_[level][device]) == 1;
  }

 private:
  std::vector<std::vector<std::size_t>> first_;
};

class SmiReader {
 public:
  SmiReader(const std::string& text, std::string name) : name_(std::move(name)) {
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines_.push_back(without_escapes(line));
  }

  Result<Machine> read() {
    WEFT_RETURN_IF_ERROR(read_head());
    WEFT_RETURN_IF_ERROR(read_rows());
    read_legend();
    Groups groups(columns_.size());
    WEFT_RETURN_IF_ERROR(join(groups));
    make_nodes();
    for (std::size_t device = 0; device < columns_.size(); ++device) add_device(groups, device);
    add_links();
    machine_.are_gpu_links_known = true;
    machine_.unreadable.emplace_back(
        "PCI addresses and rates, because nvidia-smi topo -m does not tell them");
    return std::move(machine_);
  }

 private:
  struct Row {
    std::size_t line = 0;  // 0: there is none
    std::vector<std::string> cells;
    std::string cpus, node;
  };

  [[nodiscard]] Status wrong(std::size_t line, const std::string& what) const {
    return Status(Code::invalid_argument, fmt::format("{}:{}: {}", name_, line + 1, what));
  }

  Status read_head() {
    while (head_ < lines_.size() && lines_[head_].find("GPU0") == std::string::npos) ++head_;
    if (head_ == lines_.size()) return wrong(0, "no line with GPU0, as nvidia-smi topo -m begins");
    for (const std::string& word : words_of(lines_[head_])) {
      if (word == "CPU") break;  // "CPU Affinity", and what stands behind it
      columns_.push_back(word);
    }
    if (columns_.size() > kMostColumns)
      return wrong(head_, "more columns than any machine has devices");
    rows_.resize(columns_.size());
    return {};
  }

  Status read_rows() {
    for (std::size_t at = head_ + 1; at < lines_.size(); ++at) {
      const std::vector<std::string> words = words_of(lines_[at]);
      const auto column = words.empty() ? columns_.end() : std::ranges::find(columns_, words[0]);
      if (column == columns_.end()) continue;
      if (words.size() < columns_.size() + 1)
        return wrong(at, fmt::format("{} has {} cells, the head has {} columns", words[0],
                                     words.size() - 1, columns_.size()));
      Row& row = rows_[static_cast<std::size_t>(column - columns_.begin())];
      row.line = at;
      const auto after = words.begin() + 1 + static_cast<std::ptrdiff_t>(columns_.size());
      row.cells.assign(words.begin() + 1, after);
      if (after != words.end()) row.cpus = *after;
      if (words.end() - after > 1) row.node = after[1];
    }
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (rows_[i].line == 0)
        return wrong(lines_.size() - 1,
                     fmt::format("there is no row of {}: the file is cut short", columns_[i]));
    return {};
  }

  // "  NIC0: mlx5_0"
  void read_legend() {
    for (const std::string& line : lines_) {
      const std::vector<std::string> words = words_of(line);
      if (words.size() == 2 && words[0].starts_with("NIC") && words[0].ends_with(':'))
        legend_[words[0].substr(0, words[0].size() - 1)] = words[1];
    }
  }

  Status join(Groups& groups) {
    const std::map<std::string, Level> kWords{
        {"PIX", kSwitch}, {"PXB", kSwitches}, {"PHB", kHostBridge}, {"NODE", kNode}};
    for (std::size_t a = 0; a < rows_.size(); ++a) {
      for (std::size_t b = 0; b < rows_.size(); ++b) {
        const std::string& cell = rows_[a].cells[b];
        if (const auto level = kWords.find(cell); level != kWords.end()) {
          groups.join(level->second, a, b);
        } else if (lanes_in(cell) == 0 && cell != "X" && cell != "SYS" && cell != "SOC" &&
                   cell != "N/A") {
          return wrong(rows_[a].line,
                       fmt::format("'{}' is no distance of nvidia-smi's", cell.substr(0, 16)));
        }
      }
    }
    return {};
  }

  // "NV12": 12. 0: no links.
  static int lanes_in(const std::string& cell) {
    int lanes = 0;
    if (cell.starts_with("NV")) std::from_chars(cell.data() + 2, cell.data() + cell.size(), lanes);
    constexpr int kMostLanes = 1024;
    return lanes <= kMostLanes ? std::max(lanes, 0) : 0;
  }

  static int node_in(const Row& row) {
    int node = -1;
    const char* const end = row.node.data() + row.node.size();
    const auto [stop, error] = std::from_chars(row.node.data(), end, node);
    return error == std::errc() && stop == end ? node : -1;
  }

  void make_nodes() {
    constexpr int kMostProcessors = 1 << 13;
    for (const Row& row : rows_) {
      const int index = node_in(row);
      if (index < 0 || std::ranges::count(machine_.nodes, index, &NumaNode::index) != 0) continue;
      NumaNode node{.index = index};
      std::istringstream list(row.cpus);
      for (std::string part; std::getline(list, part, ',');) {  // "0-51"
        int first = -1, last = -1;
        const char* const end = part.data() + part.size();
        const char* const stop = std::from_chars(part.data(), end, first).ptr;
        last = first;
        if (stop != end && *stop == '-') std::from_chars(stop + 1, end, last);
        for (int cpu = first; cpu >= 0 && cpu <= std::min(last, kMostProcessors); ++cpu)
          node.processors.push_back(cpu);
      }
      machine_.threads += static_cast<int>(node.processors.size());
      machine_.nodes.push_back(std::move(node));
    }
    std::ranges::sort(machine_.nodes, {}, &NumaNode::index);
  }

  // A root port, and below it a switch of two bridges, as a real one has.
  PciPlace place_of(const Groups& groups, std::size_t device) const {
    PciPlace place;
    place.host_bridge = fmt::format("of {}", columns_[groups.of(kHostBridge, device)]);
    if (!groups.is_alone(kSwitches, device)) {
      const std::string& own = columns_[groups.of(kSwitch, device)];
      place.bridges = {{fmt::format("root port of {}", columns_[groups.of(kSwitches, device)]), 0},
                       {fmt::format("switch of {}", own), 0},
                       {fmt::format("switch of {}, its port", own), 0}};
    }
    place.numa_node = node_in(rows_[device]);
    for (std::size_t other = 0; other < rows_.size() && place.numa_node < 0; ++other)
      if (groups.of(kNode, other) == groups.of(kNode, device))
        place.numa_node = node_in(rows_[other]);
    return place;
  }

  void add_device(const Groups& groups, std::size_t device) {
    const std::string& name = columns_[device];
    if (const int index = gpu_of(name); index >= 0) {
      Gpu gpu;
      gpu.index = index;
      gpu.place = place_of(groups, device);
      machine_.gpus.push_back(std::move(gpu));
      return;
    }
    Nic nic;
    const auto named = legend_.find(name);
    nic.rdma = named == legend_.end() ? name : named->second;
    nic.place = place_of(groups, device);
    machine_.nics.push_back(std::move(nic));
  }

  // Pairs that all have as many links go through switches, unless a GPU has links for each pair.
  void add_links() {
    std::vector<GpuLink> links;
    std::size_t gpus = 0;
    for (std::size_t a = 0; a < rows_.size(); ++a) {
      if (gpu_of(columns_[a]) < 0) continue;
      ++gpus;
      for (std::size_t b = 0; b < rows_.size(); ++b) {
        const int lanes = lanes_in(rows_[a].cells[b]);
        if (lanes > 0 && gpu_of(columns_[b]) >= 0)
          links.push_back({gpu_of(columns_[a]), gpu_of(columns_[b]), lanes});
      }
    }
    const bool is_equal = std::ranges::all_of(
        links, [&links](const GpuLink& link) { return link.lanes == links.front().lanes; });
    const bool is_full = gpus > 1 && links.size() == gpus * (gpus - 1);
    if (is_full && is_equal && links.front().lanes * static_cast<int>(gpus - 1) > kMostNvlinks) {
      std::vector<GpuLink> to_switches;
      for (const Gpu& gpu : machine_.gpus)
        to_switches.push_back({gpu.index, GpuLink::kSwitch, links.front().lanes});
      links = std::move(to_switches);
    }
    machine_.gpu_links = std::move(links);
  }

  std::string name_;
  std::vector<std::string> lines_;
  std::size_t head_ = 0;
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
  std::map<std::string, std::string> legend_;
  Machine machine_;
};

}  // namespace

bool is_smi(const std::string& text) {
  constexpr std::size_t kBeginning = 4096;
  const std::string_view beginning = std::string_view(text).substr(0, kBeginning);
  const std::size_t first = beginning.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && beginning[first] != '<' &&
         beginning.find("GPU0") != std::string_view::npos;
}

Result<Machine> read_smi(const std::string& text, const std::string& name) {
  return SmiReader(text, name).read();
}

}  // namespace weft::hardware
