// What the settings say of UCX.
#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "engine/config/config.h"
#include "verbs/ucx/ucx.h"

namespace weft {
namespace {

std::optional<std::uint16_t> port_of(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

}  // namespace

Result<UcxOptions> ucx_options(const Config& config) {
  UcxOptions ucx;
  ucx.transports = config.ucx_transports;
  const std::string_view ports = config.ucx_ports;
  if (ports.empty()) return ucx;
  const std::size_t dash = ports.find('-');
  const auto first = port_of(ports.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : port_of(ports.substr(dash + 1));
  if (!first || !last || *first > *last) {
    return Status(Code::invalid_argument,
                  fmt::format("WEFT_UCX_PORTS={}: no range of ports, such as 20000-20999", ports));
  }
  ucx.ports = {*first, *last};
  return ucx;
}

}  // namespace weft
