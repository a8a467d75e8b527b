// How bytes and completions move between the queue pairs of a scripted device.
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "tests/ib/scripted_device.h"

namespace weft::ib {
namespace {

constexpr std::size_t kRouteBytes = 40;
constexpr ibv_wc_status kNoReceive = IBV_WC_RNR_RETRY_EXC_ERR;

ibv_wc_opcode answer_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND:
      return IBV_WC_SEND;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    default:
      return IBV_WC_RDMA_WRITE;
  }
}

std::size_t bytes_of(const ScriptedSend& send) {
  std::size_t bytes = send.inlined.size();
  for (const ibv_sge& part : send.parts) bytes += part.length;
  return bytes;
}

// A word is written whole, as devices do: peers look at some without a message.
void store(std::byte* to, const std::vector<std::byte>& bytes) {
  if (bytes.size() == sizeof(std::uint32_t) && reinterpret_cast<std::uintptr_t>(to) % 4 == 0) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(to))
        .store(word, std::memory_order_release);
  } else if (!bytes.empty()) {
    std::memcpy(to, bytes.data(), bytes.size());
  }
}

void complete_send(Fabric& fabric, ScriptedQueuePair& pair, const ScriptedSend& send,
                   ibv_wc_status status) {
  const bool wanted = pair.all_signalled || (send.request.send_flags & IBV_SEND_SIGNALED) != 0;
  if (status == IBV_WC_SUCCESS && !wanted) return;
  ScriptedCompletions::Done done;
  done.completion.wr_id = send.request.wr_id;
  done.completion.status = status;
  done.completion.opcode = answer_of(send.request.opcode);
  done.completion.qp_num = pair.qp_num;
  done.completion.vendor_err = status == IBV_WC_SUCCESS ? 0 : 0x51;
  done.sent = send.number;
  complete(fabric, pair.send_cq, done);
}

void complete_receive(Fabric& fabric, ScriptedQueuePair& pair, std::uint64_t id, std::size_t bytes,
                      const ibv_send_wr& request) {
  ScriptedCompletions::Done done;
  const bool with_word = request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  done.completion.wr_id = id;
  done.completion.opcode = with_word ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  done.completion.byte_len = static_cast<std::uint32_t>(bytes);
  done.completion.qp_num = pair.qp_num;
  if (with_word) done.completion.imm_data = request.imm_data;
  if (with_word) done.completion.wc_flags = IBV_WC_WITH_IMM;
  complete(fabric, pair.recv_cq, done);
}

// What the device reads when the request is posted, and why it cannot be.
int accept(Fabric& fabric, ScriptedQueuePair& pair, const ibv_send_wr& request) {
  if (pair.state != IBV_QPS_RTS && pair.state != IBV_QPS_ERR) return EINVAL;
  if (pair.posted - pair.freed >= pair.cap.max_send_wr) {
    fabric.violated("a send queue was overflowed");
    return ENOMEM;
  }
  ScriptedSend send;
  send.request = request;
  send.parts.assign(request.sg_list, request.sg_list + request.num_sge);
  if ((request.send_flags & IBV_SEND_INLINE) != 0) {
    for (const ibv_sge& part : send.parts) {
      const auto* from = reinterpret_cast<const std::byte*>(part.addr);
      send.inlined.insert(send.inlined.end(), from, from + part.length);
    }
    send.parts.clear();
    if (send.inlined.size() > pair.cap.max_inline_data) {
      fabric.violated("more inline bytes than the device takes");
      return EINVAL;
    }
  }
  if ((request.send_flags & IBV_SEND_SIGNALED) != 0) ++fabric.signalled;
  send.number = ++pair.posted;
  pair.sends.push_back(std::move(send));
  return 0;
}

}  // namespace

void complete(Fabric& fabric, ibv_cq* queue, const ScriptedCompletions::Done& done) {
  auto* own = static_cast<ScriptedCompletions*>(queue);
  if (own->done.size() == static_cast<std::size_t>(queue->cqe))
    fabric.violated("a completion queue was overflowed");
  own->done.push_back(done);
  if (!std::exchange(own->armed, false)) return;
  static_cast<ScriptedChannel*>(queue->channel)->events.push_back(own);
  (void)eventfd_write(queue->channel->fd, 1);
}

int scripted_poll_cq(ibv_cq* queue, int most, ibv_wc* completions) {
  Fabric& fabric = fabric_of(queue->context);
  const std::scoped_lock lock(fabric.mutex);
  if (fabric.refused("poll_cq") != 0) return -1;
  auto* own = static_cast<ScriptedCompletions*>(queue);
  int count = 0;
  for (; count < most && !own->done.empty(); ++count) {
    const ScriptedCompletions::Done& done = own->done.front();
    completions[count] = done.completion;
    const auto pair = fabric.pairs.find(done.completion.qp_num);
    if (pair != fabric.pairs.end()) pair->second->freed = std::max(pair->second->freed, done.sent);
    own->done.pop_front();
  }
  return count;
}

int scripted_req_notify_cq(ibv_cq* queue, int) {
  Fabric& fabric = fabric_of(queue->context);
  const std::scoped_lock lock(fabric.mutex);
  if (const int error = fabric.refused("req_notify_cq"); error != 0) return error;
  static_cast<ScriptedCompletions*>(queue)->armed = true;
  return 0;
}

int scripted_post_send(ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** bad) {
  auto& own = static_cast<ScriptedQueuePair&>(*pair);
  Fabric& fabric = fabric_of(pair->context);
  const std::scoped_lock lock(fabric.mutex);
  int error = fabric.refused("post_send");
  for (; request != nullptr && error == 0; request = error == 0 ? request->next : request)
    error = accept(fabric, own, *request);
  if (error != 0) *bad = request;
  fabric.start(own);
  return error;
}

int scripted_post_recv(ibv_qp* pair, ibv_recv_wr* request, ibv_recv_wr** bad) {
  auto& own = static_cast<ScriptedQueuePair&>(*pair);
  Fabric& fabric = fabric_of(pair->context);
  const std::scoped_lock lock(fabric.mutex);
  const int error = fabric.refused("post_recv");
  if (error != 0) *bad = request;
  for (; request != nullptr && error == 0; request = request->next)
    own.receives.push_back({request->wr_id, request->sg_list[0]});
  return error;
}

// The refusal comes in the middle of a list: what is before `bad` was taken.
int scripted_post_srq_recv(ibv_srq* queue, ibv_recv_wr* request, ibv_recv_wr** bad) {
  auto& own = static_cast<ScriptedReceives&>(*queue);
  Fabric& fabric = fabric_of(queue->context);
  const std::scoped_lock lock(fabric.mutex);
  for (; request != nullptr; request = request->next) {
    *bad = request;
    if (const int error = fabric.refused("post_srq_recv"); error != 0) return error;
    if (own.waiting.size() == own.most) return ENOMEM;
    if (!own.ids.insert(request->wr_id).second)
      fabric.violated("one buffer is twice in the receive queue");
    own.waiting.push_back({request->wr_id, request->sg_list[0]});
  }
  fabric.run();
  return 0;
}

void Fabric::start(ScriptedQueuePair& pair) {
  busy_.insert(pair.qp_num);
  run();
}

// Those that wait for a receive buffer stay.
void Fabric::run() {
  if (held_ || running_) return;
  running_ = true;
  std::erase_if(busy_, [this](std::uint32_t number) {
    const auto pair = pairs.find(number);
    if (pair == pairs.end()) return true;
    Step last = Step::done;
    while (last == Step::done) last = step(*pair->second);
    return last == Step::ended;
  });
  running_ = false;
}

Fabric::Step Fabric::step(ScriptedQueuePair& pair) {
  if (pair.sends.empty()) return Step::ended;
  if (pair.state == IBV_QPS_ERR) {
    end(pair, IBV_WC_WR_FLUSH_ERR);
    return Step::ended;
  }
  ScriptedSend& send = pair.sends.front();
  ibv_wc_status status = IBV_WC_SUCCESS;
  if (pair.qp_type == IBV_QPT_UD) {
    send_datagram(pair, send);
  } else {
    ScriptedQueuePair* peer = peer_of(pair);
    if (works)
      status = works({pair.context->device->name, pair.qp_num, send.request.opcode, bytes_of(send),
                      !send.inlined.empty(), (send.request.send_flags & IBV_SEND_FENCE) != 0});
    if (status == IBV_WC_SUCCESS)
      status = peer == nullptr ? IBV_WC_RETRY_EXC_ERR : move(pair, send, *peer);
    if (status == kNoReceive && peer != nullptr && peer->srq != nullptr &&
        static_cast<ScriptedReceives*>(peer->srq)->waiting.empty()) {
      if (!std::exchange(send.missed, true)) ++receives_missed;
      return Step::waits;
    }
  }
  if (status != IBV_WC_SUCCESS) {
    end(pair, status);
    return Step::ended;
  }
  complete_send(*this, pair, send, status);
  pair.sends.pop_front();
  return Step::done;
}

// The first that waits ends like this, the others are flushed.
void Fabric::end(ScriptedQueuePair& pair, ibv_wc_status status) {
  pair.state = IBV_QPS_ERR;
  for (const ScriptedSend& send : pair.sends) {
    complete_send(*this, pair, send, status);
    status = IBV_WC_WR_FLUSH_ERR;
  }
  pair.sends.clear();
}

void Fabric::end_datagrams(const std::string& device) {
  const std::scoped_lock lock(mutex);
  for (const auto& [number, pair] : pairs) {
    if (pair->qp_type != IBV_QPT_UD || pair->context->device->name != device) continue;
    end(*pair, IBV_WC_LOC_QP_OP_ERR);
    for (const ScriptedReceive& receive : pair->receives) {
      ScriptedCompletions::Done done;
      done.completion.wr_id = receive.id;
      done.completion.status = IBV_WC_WR_FLUSH_ERR;
      done.completion.qp_num = number;
      complete(*this, pair->recv_cq, done);
    }
    pair->receives.clear();
  }
}

ScriptedQueuePair* Fabric::peer_of(const ScriptedQueuePair& pair) {
  const auto found = pairs.find(pair.remote_number);
  if (found == pairs.end()) return nullptr;
  ScriptedQueuePair* peer = found->second;
  const bool ready = peer->state == IBV_QPS_RTR || peer->state == IBV_QPS_RTS;
  const bool agree = peer->remote_number == pair.qp_num && peer->sender.gid == pair.receiver &&
                     peer->receiver == pair.sender.gid && peer->sender.kind == pair.sender.kind;
  return ready && agree ? peer : nullptr;
}

std::byte* Fabric::reach(const ibv_pd* domain, std::uint32_t key, std::uint64_t address,
                         std::size_t bytes, int access) {
  const auto found = regions.find(key);
  if (found == regions.end()) return nullptr;
  const ScriptedRegion& region = *found->second;
  const auto start = reinterpret_cast<std::uintptr_t>(region.addr);
  if (region.pd != domain || (region.allowed & access) != access || address < start ||
      bytes > region.length || address - start > region.length - bytes)
    return nullptr;
  if (region.there != nullptr) return region.there + (address - start);
  return reinterpret_cast<std::byte*>(address);
}

bool Fabric::gather(ScriptedQueuePair& pair, const ScriptedSend& send,
                    std::vector<std::byte>& bytes) {
  bytes = send.inlined;
  for (const ibv_sge& part : send.parts) {
    const std::byte* from = reach(pair.pd, part.lkey, part.addr, part.length, 0);
    if (from == nullptr) return false;
    bytes.insert(bytes.end(), from, from + part.length);
  }
  return true;
}

bool Fabric::scatter(ScriptedQueuePair& pair, const ScriptedSend& send, const std::byte* from) {
  for (const ibv_sge& part : send.parts) {
    std::byte* to = reach(pair.pd, part.lkey, part.addr, part.length, IBV_ACCESS_LOCAL_WRITE);
    if (to == nullptr) return false;
    std::memcpy(to, from, part.length);
    from += part.length;
  }
  return true;
}

// The responder's queue pair ends too, and its owner is told.
void Fabric::refuse_peer(ScriptedQueuePair& peer) {
  peer.state = IBV_QPS_ERR;
  ibv_async_event event{};
  event.event_type = IBV_EVENT_QP_ACCESS_ERR;
  event.element.qp = &peer;
  notify(static_cast<ScriptedContext&>(*peer.context), event);
}

ibv_wc_status Fabric::move(ScriptedQueuePair& pair, ScriptedSend& send, ScriptedQueuePair& peer) {
  const bool reads = send.request.opcode == IBV_WR_RDMA_READ;
  const bool swaps = send.request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
  std::vector<std::byte> bytes;
  if (!reads && !swaps && !gather(pair, send, bytes)) return IBV_WC_LOC_PROT_ERR;
  if (send.request.opcode == IBV_WR_SEND) return take(peer, send, bytes);
  const std::size_t count = bytes_of(send);
  const std::uint64_t address =
      swaps ? send.request.wr.atomic.remote_addr : send.request.wr.rdma.remote_addr;
  const std::uint32_t key = swaps ? send.request.wr.atomic.rkey : send.request.wr.rdma.rkey;
  const int access = reads   ? IBV_ACCESS_REMOTE_READ
                     : swaps ? IBV_ACCESS_REMOTE_ATOMIC
                             : IBV_ACCESS_REMOTE_WRITE;
  std::byte* there = count == 0 ? nullptr : reach(peer.pd, key, address, count, access);
  if (there == nullptr && count != 0) {
    refuse_peer(peer);
    return IBV_WC_REM_ACCESS_ERR;
  }
  if (reads) return scatter(pair, send, there) ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
  if (swaps) {
    std::uint64_t found = 0;
    std::memcpy(&found, there, sizeof found);
    if (found == send.request.wr.atomic.compare_add)
      std::memcpy(there, &send.request.wr.atomic.swap, sizeof found);
    const auto* old = reinterpret_cast<const std::byte*>(&found);
    return scatter(pair, send, old) ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
  }
  const bool tells = send.request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  auto& receives = static_cast<ScriptedReceives&>(*peer.srq);
  if (tells && receives.waiting.empty()) return kNoReceive;
  store(there, bytes);
  if (!tells) return IBV_WC_SUCCESS;
  complete_receive(*this, peer, receives.take_first().id, count, send.request);
  return IBV_WC_SUCCESS;
}

ibv_wc_status Fabric::take(ScriptedQueuePair& peer, const ScriptedSend& send,
                           const std::vector<std::byte>& bytes) {
  auto& receives = static_cast<ScriptedReceives&>(*peer.srq);
  if (receives.waiting.empty()) return kNoReceive;
  const ScriptedReceive& receive = receives.waiting.front();
  if (bytes.size() > receive.part.length) return IBV_WC_REM_INV_REQ_ERR;
  std::byte* to =
      reach(peer.pd, receive.part.lkey, receive.part.addr, bytes.size(), IBV_ACCESS_LOCAL_WRITE);
  if (to == nullptr) return IBV_WC_REM_OP_ERR;
  std::memcpy(to, bytes.data(), bytes.size());
  complete_receive(*this, peer, receives.take_first().id, bytes.size(), send.request);
  return IBV_WC_SUCCESS;
}

void Fabric::send_datagram(ScriptedQueuePair& pair, ScriptedSend& send) {
  const auto& route = static_cast<const ScriptedRoute&>(*send.request.wr.ud.ah);
  ScriptedDatagram datagram{
      route.sender.gid, route.receiver, route.sender.kind, send.request.wr.ud.remote_qpn, {}};
  if (!gather(pair, send, datagram.bytes)) return violated("a datagram of unregistered memory");
  const Fate fate = datagrams ? datagrams(datagram) : Fate::deliver;
  if (fate == Fate::later) later_.push_back(datagram);
  if (fate == Fate::deliver || fate == Fate::twice) deliver(datagram);
  if (fate == Fate::twice) deliver(datagram);
}

// One that finds no buffer, or nobody at its address, is lost.
void Fabric::deliver(const ScriptedDatagram& datagram) {
  const std::scoped_lock lock(mutex);
  const auto found = pairs.find(datagram.queue_pair);
  if (found == pairs.end() || found->second->qp_type != IBV_QPT_UD) return;
  ScriptedQueuePair& pair = *found->second;
  const auto& addresses = static_cast<ScriptedContext&>(*pair.context).port->addresses;
  const ScriptedAddress receiver{datagram.receiver, datagram.kind};
  if (std::ranges::find(addresses, receiver) == addresses.end() || pair.receives.empty()) return;
  const ScriptedReceive receive = pair.receives.front();
  const std::size_t bytes = kRouteBytes + datagram.bytes.size();
  if (bytes > receive.part.length) return;
  pair.receives.pop_front();
  std::byte* to =
      reach(pair.pd, receive.part.lkey, receive.part.addr, bytes, IBV_ACCESS_LOCAL_WRITE);
  if (to == nullptr) return violated("a datagram's buffer is not registered");
  if (!datagram.bytes.empty())
    std::memcpy(to + kRouteBytes, datagram.bytes.data(), datagram.bytes.size());
  complete_receive(*this, pair, receive.id, bytes, ibv_send_wr{});
}

}  // namespace weft::ib
