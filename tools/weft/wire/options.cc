// The words of `weft perf wire` turned into values.
#include "tools/weft/wire/options.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "tools/weft/common/bytes.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, 4> kOps = {"write", "read", "notice", "atomic"};
constexpr int kMostDepth = 512;  // an interface takes 1024 one-sided operations
constexpr int kUsualDepth = 128;
constexpr int kMostRounds = 999;
constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr std::size_t kWord = 8;

Status invalid(std::string text) {
  return Status(Code::invalid_argument, std::move(text));
}

Result<WireOp> op_from(std::string_view word) {
  for (std::size_t i = 0; i < kOps.size(); ++i) {
    if (kOps[i] == word) return static_cast<WireOp>(i);
  }
  if (word == "send") return WireOp::notice;  // what engines know it by
  return invalid(fmt::format("--op {}: there are write, read, notice (or send), atomic", word));
}

Result<std::vector<std::size_t>> sizes_from(std::string_view list) {
  std::vector<std::size_t> sizes;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view word = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    WEFT_ASSIGN(const std::size_t bytes, bytes_of("--sizes", word));
    if (bytes == 0 || bytes > kMostBytes)
      return invalid(fmt::format("--sizes {}: expected 1 to 1G", word));
    sizes.push_back(bytes);
  }
  return sizes;
}

Result<WireDevice> device_from(std::string_view option, std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  WireDevice device{std::string(text.substr(0, colon)), 1};
  if (colon == text.size()) return device;
  const std::string_view port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), device.port);
  if (error != std::errc() || end != port.data() + port.size() || device.port < 1 ||
      device.name.empty())
    return invalid(fmt::format("{} {}: expected DEVICE or DEVICE:PORT", option, text));
  return device;
}

Result<Address> address_from(std::string_view option, const std::string& text) {
  Result<Address> address = parse_address(text);
  if (!address.ok()) return invalid(fmt::format("{} {}", option, address.status().text()));
  return address;
}

Status find_sides(const WireArguments& asked, WireOptions& options) {
  if (!asked.listen.empty() && !asked.peer.empty())
    return invalid("--listen and --peer: one side listens, the other names it");
  if (!asked.peer_device.empty() && (!asked.listen.empty() || !asked.peer.empty()))
    return invalid("--peer-device: the other machine's own command says it");
  if (!asked.listen.empty()) {
    const bool is_port = asked.listen.find(':') == std::string::npos;
    WEFT_ASSIGN(options.listen,
                address_from("--listen", is_port ? "0.0.0.0:" + asked.listen : asked.listen));
  }
  if (!asked.peer.empty()) {
    WEFT_ASSIGN(options.peer, address_from("--peer", asked.peer));
  }
  return {};
}

Status check(const WireOptions& options) {
  const WireArguments& asked = options.asked;
  if (asked.transport != "ib" && asked.transport != "ucx")
    return invalid(fmt::format("--transport {}: networks are ib, ucx", asked.transport));
  if (asked.depth < 0 || asked.depth > kMostDepth)
    return invalid(fmt::format("--depth {}: expected 1 to {}", asked.depth, kMostDepth));
  if (asked.list < 1 || asked.list > static_cast<int>(options.depth))
    return invalid(fmt::format("--list {}: expected 1 to --depth {}", asked.list, options.depth));
  if (asked.rounds < 1 || asked.rounds > kMostRounds)
    return invalid(fmt::format("--rounds {}: expected 1 to {}", asked.rounds, kMostRounds));
  if (!asked.against.empty() && asked.against != "perftest")
    return invalid(fmt::format("--against {}: there is perftest", asked.against));
  if (options.against_perftest && options.over_ucx)
    return invalid("--against perftest: it measures --transport ib");
  for (const std::size_t bytes : options.sizes) {
    if (options.op == WireOp::atomic && bytes != kWord)
      return invalid(fmt::format("--sizes {}: --op atomic is about 8 bytes", bytes_text(bytes)));
  }
  return {};
}

}  // namespace

std::string_view name(WireOp op) {
  return kOps[static_cast<std::size_t>(op)];
}

std::vector<std::string> fit_settings(WireArguments& asked, const Config& config) {
  std::vector<std::string> overridden;
  const Transports& set = config.transports;
  const std::string transports = config.get("WEFT_TRANSPORTS").value();
  if (asked.transport.empty()) {
    asked.transport = set.automatic || set.ib ? "ib" : transports;
  } else if (!set.automatic && !(asked.transport == "ucx" ? set.ucx : set.ib)) {
    overridden.push_back(
        fmt::format("--transport {} overrides WEFT_TRANSPORTS={}", asked.transport, transports));
  }
  const std::string& names = config.interfaces;
  const std::string first = names.substr(0, names.find(','));
  if (asked.device.empty()) {
    asked.device = first;
  } else if (!names.empty() &&
             (',' + names + ',').find(',' + asked.device + ',') == std::string::npos) {
    overridden.push_back(
        fmt::format("--device {} overrides WEFT_INTERFACES={}", asked.device, names));
  }
  return overridden;
}

Result<WireOptions> understand(const WireArguments& asked) {
  WireOptions options;
  options.asked = asked;
  WEFT_ASSIGN(options.op, op_from(asked.op));
  const bool atomic = options.op == WireOp::atomic;
  const int depth = asked.depth != 0 ? asked.depth : atomic ? 1 : kUsualDepth;
  options.depth = static_cast<std::uint32_t>(std::max(depth, 1));
  options.list = static_cast<std::uint32_t>(std::max(asked.list, 1));
  const char* usual = atomic ? "8" : depth == 1 ? "8,64,1K,4K" : "1K,64K,256K,1M,4M";
  WEFT_ASSIGN(options.sizes, sizes_from(asked.sizes.empty() ? usual : asked.sizes));
  options.over_ucx = asked.transport == "ucx";
  options.against_perftest = asked.against == "perftest";
  WEFT_ASSIGN(options.device, device_from("--device", asked.device));
  const std::string& other = asked.peer_device.empty() ? asked.device : asked.peer_device;
  WEFT_ASSIGN(options.peer_device, device_from("--peer-device", other));
  WEFT_RETURN_IF_ERROR(find_sides(asked, options));
  WEFT_RETURN_IF_ERROR(check(options));
  return options;
}

}  // namespace weft
