// The script's side of a scripted device: what tests set, count and ask.
#include "tests/ib/scripted_device.h"

#include <fmt/core.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace weft::ib {
namespace {

Fabric* in_use = nullptr;

}  // namespace

Fabric::Fabric() {
  use();
}

Fabric::~Fabric() {
  if (in_use == this) in_use = nullptr;
}

void Fabric::use() {
  in_use = this;
}

Fabric& Fabric::current() {
  return *in_use;
}

const Library& Fabric::library() {
  static const Library table = [] {
    Library made{};
    fill_objects(made);
    made.poll_cq = scripted_poll_cq;
    made.req_notify_cq = scripted_req_notify_cq;
    made.post_send = scripted_post_send;
    made.post_recv = scripted_post_recv;
    made.post_srq_recv = scripted_post_srq_recv;
    return made;
  }();
  return table;
}

ScriptedGid Fabric::gid(int network, int host) {
  return {0,
          0,
          0,
          0,
          0,
          0,
          0,
          0,
          0,
          0,
          0xff,
          0xff,
          10,
          0,
          static_cast<std::uint8_t>(network),
          static_cast<std::uint8_t>(host)};
}

void Fabric::add_device(const std::string& name, int host, const std::vector<int>& networks) {
  auto port = std::make_unique<ScriptedPort>();
  std::snprintf(port->device.name, sizeof port->device.name, "%s", name.c_str());
  for (const int network : networks) port->addresses.push_back({gid(network, host)});
  ports.push_back(std::move(port));
}

void Fabric::add_version_1(const std::string& device) {
  for (const auto& port : ports) {
    if (port->device.name != device) continue;
    std::vector<ScriptedAddress> both;
    for (const ScriptedAddress& address : port->addresses) {
      both.push_back({address.gid, IBV_GID_TYPE_ROCE_V1});
      both.push_back(address);
    }
    port->addresses = both;
  }
}

void Fabric::change_gids(const std::string& device, const std::vector<ScriptedGid>& gids) {
  {
    const std::scoped_lock lock(mutex);
    for (const auto& port : ports) {
      if (port->device.name != device) continue;
      port->addresses.clear();
      for (const ScriptedGid& gid : gids) port->addresses.push_back({gid});
    }
  }
  raise(device, IBV_EVENT_GID_CHANGE);
}

void Fabric::refuse(const std::string& verb, int error, int after, int times) {
  refusals_[verb] = {error, after, times};
}

int Fabric::refused(const char* verb) {
  ++calls_[verb];
  const auto found = refusals_.find(verb);
  if (found == refusals_.end() || found->second.after-- > 0) return 0;
  return found->second.times-- > 0 ? found->second.error : 0;
}

void Fabric::hold(bool held) {
  const std::scoped_lock lock(mutex);
  held_ = held;
  run();
}

void Fabric::deliver_later_ones(bool newest_first) {
  const std::scoped_lock lock(mutex);
  std::vector<ScriptedDatagram> waiting;
  waiting.swap(later_);
  if (newest_first) std::reverse(waiting.begin(), waiting.end());
  for (const ScriptedDatagram& datagram : waiting) deliver(datagram);
}

bool Fabric::notify(ScriptedContext& context, const ibv_async_event& event) {
  context.events.push_back(event);
  return eventfd_write(context.async_fd, 1) == 0;
}

void Fabric::raise(const std::string& device, ibv_event_type type, int port) {
  const std::scoped_lock lock(mutex);
  for (ScriptedContext* context : contexts) {
    ibv_async_event event{};
    event.event_type = type;
    event.element.port_num = port;
    if (device == context->port->device.name) notify(*context, event);
  }
}

void Fabric::raise(std::uint32_t queue_pair, ibv_event_type type) {
  const std::scoped_lock lock(mutex);
  ScriptedQueuePair* pair = pairs.at(queue_pair);
  ibv_async_event event{};
  event.event_type = type;
  event.element.qp = pair;
  if (type == IBV_EVENT_CQ_ERR) event.element.cq = pair->recv_cq;
  if (type == IBV_EVENT_SRQ_ERR) event.element.srq = pair->srq;
  notify(static_cast<ScriptedContext&>(*pair->context), event);
}

std::vector<std::uint32_t> Fabric::reliable_pairs(const std::string& device) {
  const std::scoped_lock lock(mutex);
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, pair] : pairs) {
    if (pair->qp_type == IBV_QPT_RC && device == pair->context->device->name)
      numbers.push_back(number);
  }
  return numbers;
}

std::size_t Fabric::receives_waiting(const std::string& device) {
  const std::scoped_lock lock(mutex);
  for (const auto& [number, pair] : pairs) {
    if (pair->srq != nullptr && device == pair->context->device->name)
      return static_cast<ScriptedReceives*>(pair->srq)->waiting.size();
  }
  return 0;
}

std::string Fabric::leaks() {
  const std::scoped_lock lock(mutex);
  std::string text;
  for (const auto& [kind, count] : alive_) {
    if (count != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  }
  return text;
}

std::string Fabric::violations() {
  const std::scoped_lock lock(mutex);
  std::string text;
  for (const std::string& what : violations_) text += (text.empty() ? "" : "; ") + what;
  return text;
}

}  // namespace weft::ib
