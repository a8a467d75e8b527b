// The verbs of a scripted device that make, change and destroy objects. Each answers as
// libibverbs does: null and errno, a positive errno, or -1 and errno.
#include "tests/ib/scripted_objects.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/ib/scripted_device.h"

namespace weft::ib {
namespace {

constexpr int kDescriptor = EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC;

// A new object of a fabric that does not refuse; else null and errno.
template <typename Object>
Object* make(Fabric& fabric, const char* verb, const char* kind) {
  if (const int error = fabric.refused(verb); error != 0) {
    errno = error;
    return nullptr;
  }
  fabric.born(kind);
  return new Object();
}

template <typename Object, typename Base>
int end(Base* object, const char* kind) {
  Fabric& fabric = fabric_of(object->context);
  const std::scoped_lock lock(fabric.mutex);
  fabric.died(kind);
  delete static_cast<Object*>(object);
  return 0;
}

ibv_device** get_device_list(int* count) {
  Fabric& fabric = Fabric::current();
  const std::scoped_lock lock(fabric.mutex);
  if (const int error = fabric.refused("get_device_list"); error != 0) {
    errno = error;
    return nullptr;
  }
  fabric.born("device list");
  auto* list = new ibv_device*[fabric.ports.size() + 1]();
  for (std::size_t p = 0; p < fabric.ports.size(); ++p) list[p] = &fabric.ports[p]->device;
  *count = static_cast<int>(fabric.ports.size());
  return list;
}

void free_device_list(ibv_device** list) {
  Fabric& fabric = Fabric::current();
  const std::scoped_lock lock(fabric.mutex);
  fabric.died("device list");
  delete[] list;
}

const char* get_device_name(ibv_device* device) {
  return device->name;
}

ibv_context* open_device(ibv_device* device) {
  Fabric& fabric = Fabric::current();
  const std::scoped_lock lock(fabric.mutex);
  auto* made = make<ScriptedContext>(fabric, "open_device", "context");
  if (made == nullptr) return nullptr;
  const auto port = std::ranges::find_if(
      fabric.ports, [&](const auto& candidate) { return &candidate->device == device; });
  made->fabric = &fabric;
  made->port = port->get();
  made->device = device;
  made->async_fd = eventfd(0, kDescriptor);
  fabric.contexts.insert(made);
  return made;
}

int close_device(ibv_context* context) {
  auto* own = static_cast<ScriptedContext*>(context);
  Fabric& fabric = *own->fabric;
  const std::scoped_lock lock(fabric.mutex);
  fabric.contexts.erase(own);
  fabric.died("context");
  close(own->async_fd);
  delete own;
  return 0;
}

int query_device(ibv_context* context, ibv_device_attr* attributes) {
  Fabric& fabric = fabric_of(context);
  const std::scoped_lock lock(fabric.mutex);
  *attributes = {};
  attributes->max_cqe = fabric.limits.max_cqe;
  attributes->max_srq_wr = fabric.limits.max_srq_wr;
  attributes->max_qp_wr = static_cast<int>(fabric.limits.max_qp_wr);
  attributes->max_qp_rd_atom = fabric.limits.reads_answered;
  attributes->max_qp_init_rd_atom = fabric.limits.reads_asked;
  attributes->atomic_cap = fabric.limits.atomics;
  return fabric.refused("query_device");
}

int query_device_ex(ibv_context* context, ibv_device_attr_ex* attributes) {
  Fabric& fabric = fabric_of(context);
  const std::scoped_lock lock(fabric.mutex);
  *attributes = {};
  if (fabric.limits.on_demand != 0) attributes->odp_caps.general_caps = IBV_ODP_SUPPORT;
  attributes->odp_caps.per_transport_caps.rc_odp_caps = fabric.limits.on_demand;
  return fabric.refused("query_device_ex");
}

int query_port(ibv_context* context, std::uint8_t, ibv_port_attr* attributes) {
  Fabric& fabric = fabric_of(context);
  const std::scoped_lock lock(fabric.mutex);
  *attributes = {};
  attributes->state = fabric.port();
  attributes->active_mtu = IBV_MTU_1024;
  attributes->lid = fabric.limits.lid;
  attributes->link_layer = fabric.limits.link_layer;
  return fabric.refused("query_port");
}

ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t most,
                        std::uint32_t, std::size_t) {
  Fabric& fabric = fabric_of(context);
  const std::scoped_lock lock(fabric.mutex);
  if (const int error = fabric.refused("query_gid_table"); error != 0) return -error;
  const auto& addresses = static_cast<ScriptedContext*>(context)->port->addresses;
  const std::size_t count = std::min(most, addresses.size());
  for (std::size_t g = 0; g < count; ++g) {
    entries[g] = {};
    std::memcpy(entries[g].gid.raw, addresses[g].gid.data(), addresses[g].gid.size());
    entries[g].gid_index = static_cast<std::uint32_t>(g);
    entries[g].port_num = 1;
    entries[g].gid_type = addresses[g].kind;
  }
  return static_cast<ssize_t>(count);
}

ibv_pd* alloc_pd(ibv_context* context) {
  Fabric& fabric = fabric_of(context);
  const std::scoped_lock lock(fabric.mutex);
  auto* made = make<ibv_pd>(fabric, "alloc_pd", "pd");
  if (made != nullptr) made->context = context;
  return made;
}

int dealloc_pd(ibv_pd* domain) {
  Fabric& fabric = fabric_of(domain->context);
  const std::scoped_lock lock(fabric.mutex);
  for (const auto& [key, region] : fabric.regions) {
    if (region->pd == domain) fabric.violated("a protection domain went before its memory");
  }
  for (const auto& [number, pair] : fabric.pairs) {
    if (pair->pd == domain) fabric.violated("a protection domain went before its queue pairs");
  }
  return end<ibv_pd>(domain, "pd");
}

ScriptedRegion* make_region(ibv_pd* domain, const char* verb, void* address, std::size_t bytes,
                            int access) {
  Fabric& fabric = fabric_of(domain->context);
  auto* made = make<ScriptedRegion>(fabric, verb, "mr");
  if (made == nullptr) return nullptr;
  made->context = domain->context;
  made->pd = domain;
  made->addr = address;
  made->length = bytes;
  made->lkey = made->rkey = fabric.next_key++;
  made->allowed = access;
  fabric.regions[made->lkey] = made;
  return made;
}

ibv_mr* reg_mr(ibv_pd* domain, void* address, std::size_t bytes, int access) {
  Fabric& fabric = fabric_of(domain->context);
  const std::scoped_lock lock(fabric.mutex);
  const bool on_demand = (access & IBV_ACCESS_ON_DEMAND) != 0;
  if (on_demand && fabric.limits.on_demand == 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  const std::size_t locked = on_demand ? 0 : bytes;
  if (fabric.locked + locked > fabric.limits.memlock) {
    errno = ENOMEM;
    return nullptr;
  }
  ScriptedRegion* made = make_region(domain, "reg_mr", address, bytes, access);
  if (made == nullptr) return nullptr;
  made->locked = locked;
  fabric.locked += locked;
  return made;
}

// Of a dma-buf that is a file the device reads the file; else what the script takes for another device's
// memory is this process's, at its own address.
ibv_mr* reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                      std::uint64_t address, int fd, int access) {
  Fabric& fabric = fabric_of(domain->context);
  const std::scoped_lock lock(fabric.mutex);
  if (fcntl(fd, F_GETFD) < 0) fabric.violated("a dma-buf was registered by a closed descriptor");
  auto* memory = reinterpret_cast<void*>(address);
  ScriptedRegion* made = make_region(domain, "reg_dmabuf_mr", memory, bytes, access);
  if (made == nullptr) return made;
  fabric.dma_bufs.push_back({fd, offset, address, bytes});
  struct stat what {};
  if (fstat(fd, &what) != 0 || !S_ISREG(what.st_mode)) return made;
  const off_t begin = lseek(fd, 0, SEEK_CUR);
  void* const there = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                           begin + static_cast<off_t>(offset));
  if (there != MAP_FAILED) made->there = static_cast<std::byte*>(there);
  return made;
}

// As with nvidia-peermem: the memory is at the pointer, and work names it by `iova`.
ibv_mr* reg_mr_iova(ibv_pd* domain, void* address, std::size_t bytes, std::uint64_t iova,
                    int access) {
  Fabric& fabric = fabric_of(domain->context);
  const std::scoped_lock lock(fabric.mutex);
  ScriptedRegion* made =
      make_region(domain, "reg_mr_iova", reinterpret_cast<void*>(iova), bytes, access);
  if (made != nullptr) made->by_pointer = address;
  return made;
}

int dereg_mr(ibv_mr* region) {
  Fabric& fabric = fabric_of(region->context);
  const std::scoped_lock lock(fabric.mutex);
  fabric.locked -= static_cast<ScriptedRegion*>(region)->locked;
  if (auto* const there = static_cast<ScriptedRegion*>(region)->there; there != nullptr)
    munmap(there, region->length);
  fabric.regions.erase(region->lkey);
  return end<ScriptedRegion>(region, "mr");
}

ibv_comp_channel* create_comp_channel(ibv_context* context) {
  Fabric& fabric = fabric_of(context);
  const std::scoped_lock lock(fabric.mutex);
  auto* made = make<ScriptedChannel>(fabric, "create_comp_channel", "channel");
  if (made == nullptr) return nullptr;
  made->context = context;
  made->fd = eventfd(0, kDescriptor);
  return made;
}

int destroy_comp_channel(ibv_comp_channel* channel) {
  close(channel->fd);
  return end<ScriptedChannel>(channel, "channel");
}

ibv_cq* create_cq(ibv_context* context, int places, void* owner, ibv_comp_channel* channel, int) {
  Fabric& fabric = fabric_of(context);
  const std::scoped_lock lock(fabric.mutex);
  if (places > fabric.limits.max_cqe || places < 1) {
    errno = EINVAL;
    return nullptr;
  }
  auto* made = make<ScriptedCompletions>(fabric, "create_cq", "cq");
  if (made == nullptr) return nullptr;
  made->context = context;
  made->cq_context = owner;
  made->channel = channel;
  made->cqe = places;
  return made;
}

int destroy_cq(ibv_cq* queue) {
  auto* own = static_cast<ScriptedCompletions*>(queue);
  Fabric& fabric = fabric_of(queue->context);
  const std::scoped_lock lock(fabric.mutex);
  if (own->unacknowledged != 0)
    fabric.violated("destroying a completion queue would wait for its events for ever");
  for (const auto& [number, pair] : fabric.pairs) {
    if (pair->send_cq == queue || pair->recv_cq == queue)
      fabric.violated("a completion queue went before its queue pairs");
  }
  if (queue->channel != nullptr)
    std::erase(static_cast<ScriptedChannel*>(queue->channel)->events, own);
  drop_events(queue->context, queue);
  return end<ScriptedCompletions>(queue, "cq");
}

int get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** context) {
  auto* own = static_cast<ScriptedChannel*>(channel);
  Fabric& fabric = fabric_of(channel->context);
  const std::scoped_lock lock(fabric.mutex);
  const int error = fabric.refused("get_cq_event");
  if (error != 0 || own->events.empty()) {
    errno = error != 0 ? error : EAGAIN;
    return -1;
  }
  eventfd_t one = 0;
  (void)eventfd_read(channel->fd, &one);
  ScriptedCompletions* from = own->events.front();
  own->events.pop_front();
  ++from->unacknowledged;
  *queue = from;
  *context = nullptr;
  return 0;
}

void ack_cq_events(ibv_cq* queue, unsigned count) {
  const std::scoped_lock lock(fabric_of(queue->context).mutex);
  static_cast<ScriptedCompletions*>(queue)->unacknowledged -= static_cast<int>(count);
}

ibv_srq* create_srq(ibv_pd* domain, ibv_srq_init_attr* how) {
  Fabric& fabric = fabric_of(domain->context);
  const std::scoped_lock lock(fabric.mutex);
  if (how->attr.max_wr > static_cast<std::uint32_t>(fabric.limits.max_srq_wr)) {
    errno = EINVAL;
    return nullptr;
  }
  auto* made = make<ScriptedReceives>(fabric, "create_srq", "srq");
  if (made == nullptr) return nullptr;
  made->context = domain->context;
  made->pd = domain;
  made->srq_context = how->srq_context;
  made->most = how->attr.max_wr;
  return made;
}

int destroy_srq(ibv_srq* queue) {
  Fabric& fabric = fabric_of(queue->context);
  const std::scoped_lock lock(fabric.mutex);
  for (const auto& [number, pair] : fabric.pairs) {
    if (pair->srq == queue) fabric.violated("a shared receive queue went before its queue pairs");
  }
  drop_events(queue->context, queue);
  return end<ScriptedReceives>(queue, "srq");
}

ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* how) {
  Fabric& fabric = fabric_of(domain->context);
  const std::scoped_lock lock(fabric.mutex);
  if (how->cap.max_inline_data > fabric.limits.max_inline ||
      how->cap.max_send_wr > fabric.limits.max_qp_wr) {
    errno = EINVAL;
    return nullptr;
  }
  const bool datagrams = how->qp_type == IBV_QPT_UD;
  auto* made =
      make<ScriptedQueuePair>(fabric, datagrams ? "create_qp:datagrams" : "create_qp", "qp");
  if (made == nullptr) return nullptr;
  made->context = domain->context;
  made->pd = domain;
  made->qp_context = how->qp_context;
  made->send_cq = how->send_cq;
  made->recv_cq = how->recv_cq;
  made->srq = how->srq;
  made->qp_type = how->qp_type;
  made->cap = how->cap;
  made->all_signalled = how->sq_sig_all != 0;
  made->qp_num = fabric.next_number++;
  fabric.pairs[made->qp_num] = made;
  return made;
}

const char* verb_of(ibv_qp_state state) {
  switch (state) {
    case IBV_QPS_RESET:
      return "modify_qp:reset";
    case IBV_QPS_INIT:
      return "modify_qp:init";
    case IBV_QPS_RTR:
      return "modify_qp:rtr";
    default:
      return "modify_qp:rts";
  }
}

int modify_qp(ibv_qp* pair, ibv_qp_attr* to, int mask) {
  Fabric& fabric = fabric_of(pair->context);
  const std::scoped_lock lock(fabric.mutex);
  if (const int error = fabric.refused(verb_of(to->qp_state)); error != 0) return error;
  auto* own = static_cast<ScriptedQueuePair*>(pair);
  if (to->qp_state != IBV_QPS_RESET &&
      static_cast<int>(to->qp_state) != static_cast<int>(pair->state) + 1)
    return EINVAL;
  if (to->qp_state == IBV_QPS_INIT && own->posted != 0 && own->qp_type == IBV_QPT_RC)
    fabric.violated("a queue pair begins anew after something had been sent over it");
  if (to->qp_state == IBV_QPS_RESET) {
    own->receives.clear();
    own->sends.clear();
    for (ibv_cq* queue : {pair->send_cq, pair->recv_cq}) {  // as mlx5 does
      std::erase_if(static_cast<ScriptedCompletions*>(queue)->done,
                    [pair](const auto& done) { return done.completion.qp_num == pair->qp_num; });
    }
  }
  pair->state = to->qp_state;
  if ((mask & IBV_QP_TIMEOUT) != 0) fabric.sending.push_back(*to);
  if ((mask & IBV_QP_AV) == 0) return 0;
  const auto& addresses = static_cast<ScriptedContext*>(pair->context)->port->addresses;
  if (to->ah_attr.grh.sgid_index >= addresses.size()) return EINVAL;
  own->remote_number = to->dest_qp_num;
  fabric.connected.push_back(*to);
  own->sender = addresses[to->ah_attr.grh.sgid_index];
  std::memcpy(own->receiver.data(), to->ah_attr.grh.dgid.raw, own->receiver.size());
  return 0;
}

int destroy_qp(ibv_qp* pair) {
  auto* own = static_cast<ScriptedQueuePair*>(pair);
  Fabric& fabric = fabric_of(pair->context);
  const std::scoped_lock lock(fabric.mutex);
  if (own->unacknowledged != 0)
    fabric.violated("destroying a queue pair would wait for its events for ever");
  drop_events(pair->context, pair);
  fabric.pairs.erase(pair->qp_num);
  return end<ScriptedQueuePair>(pair, "qp");
}

ibv_ah* create_ah(ibv_pd* domain, ibv_ah_attr* to) {
  Fabric& fabric = fabric_of(domain->context);
  if (fabric.routes) fabric.routes();
  const std::scoped_lock lock(fabric.mutex);
  auto* made = make<ScriptedRoute>(fabric, "create_ah", "ah");
  if (made == nullptr) return nullptr;
  made->context = domain->context;
  made->pd = domain;
  const auto& port = *static_cast<ScriptedContext*>(domain->context)->port;
  made->sender = port.addresses.at(to->grh.sgid_index);
  std::memcpy(made->receiver.data(), to->grh.dgid.raw, made->receiver.size());
  return made;
}

int destroy_ah(ibv_ah* route) {
  return end<ScriptedRoute>(route, "ah");
}

const char* wc_status_str(ibv_wc_status status) {
  return status == IBV_WC_SUCCESS ? "success" : "scripted failure";
}

}  // namespace

void fill_objects(Library& table) {
  table.get_device_list = get_device_list;
  table.free_device_list = free_device_list;
  table.get_device_name = get_device_name;
  table.open_device = open_device;
  table.close_device = close_device;
  table.query_device = query_device;
  table.query_device_ex = query_device_ex;
  table.query_port = query_port;
  table.query_gid_table = query_gid_table;
  table.alloc_pd = alloc_pd;
  table.dealloc_pd = dealloc_pd;
  table.reg_mr = reg_mr;
  table.dereg_mr = dereg_mr;
  table.reg_dmabuf_mr = reg_dmabuf_mr;
  table.reg_mr_iova = reg_mr_iova;
  table.create_comp_channel = create_comp_channel;
  table.destroy_comp_channel = destroy_comp_channel;
  table.create_cq = create_cq;
  table.destroy_cq = destroy_cq;
  table.get_cq_event = get_cq_event;
  table.ack_cq_events = ack_cq_events;
  table.create_srq = create_srq;
  table.destroy_srq = destroy_srq;
  table.create_qp = create_qp;
  table.modify_qp = modify_qp;
  table.destroy_qp = destroy_qp;
  table.create_ah = create_ah;
  table.destroy_ah = destroy_ah;
  table.wc_status_str = wc_status_str;
  fill_events(table);
}

}  // namespace weft::ib
