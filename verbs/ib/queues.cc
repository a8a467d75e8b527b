// Queue pairs: making and connecting them, work requests and their ends.
#include "verbs/ib/queues.h"

#include <fmt/core.h>

#include <algorithm>
#include <random>

#include "verbs/ib/endpoint.h"
#include "verbs/ib/interface.h"
#include "verbs/ib/verbs_errors.h"

namespace weft::ib {
namespace {

// One work request in every quarter of a queue gets a completion, so that at most a quarter of the
// queue waits for one.
constexpr std::uint32_t kSignalParts = 4;
constexpr std::uint32_t kPacketBits = (1U << 24) - 1;

// The flow label from which RoCE v2 makes the UDP source port: 49152 and 14 bits, into which the
// bits from the 15th up are folded. A label of 0 would be the driver's choice, so port 49152 gets
// another label that folds to 0.
std::uint32_t flow_label(const IbOptions& ib, std::size_t q) {
  constexpr std::uint32_t kFold = 1U << 14;
  if (ib.udp_source_port == 0) return 0;
  const auto port =
      (static_cast<std::uint32_t>(ib.udp_source_port) + static_cast<std::uint32_t>(q)) % kFold;
  return port != 0 ? port : kFold | 1;
}

}  // namespace

ibv_send_wr& PostList::add() {
  ibv_send_wr& request = requests_[count_];
  request = {};
  request.sg_list = parts_[count_].data();
  if (count_ != 0) requests_[count_ - 1].next = &request;
  ++count_;
  return request;
}

ibv_sge& PostList::part(ibv_send_wr& request, const void* data, std::size_t bytes,
                        std::uint32_t key) {
  ibv_sge& part = request.sg_list[request.num_sge++];
  part = {reinterpret_cast<std::uintptr_t>(data), static_cast<std::uint32_t>(bytes), key};
  return part;
}

Queues::Queues(IbEndpoint& endpoint) : endpoint_(endpoint), interface_(endpoint.interface()) {}

Status Queues::open() {
  std::random_device random;
  for (std::size_t q = 0; q < interface_.ib().queue_pairs; ++q) {
    Queue& queue = queues_.emplace_back();
    WEFT_ASSIGN(queue.pair, interface_.make_pair());
    queue.first_packet = random() & kPacketBits;
    WEFT_RETURN_IF_ERROR(to_init(queue, false));
    interface_.add_queue(queue.pair->qp_num, endpoint_, q);
  }
  return {};
}

// Brings a queue pair that is not connected to the state INIT. If it was connected before (`anew`),
// it is reset first.
Status Queues::to_init(Queue& queue, bool anew) {
  ibv_qp_attr to{};
  const auto move = [&](ibv_qp_state state, int mask) {
    to.qp_state = state;
    return check_return(interface_.library().modify_qp(queue.pair.get(), &to, mask | IBV_QP_STATE),
                        fmt::format("{}: preparing a queue pair", interface_.name()));
  };
  if (anew) WEFT_RETURN_IF_ERROR(move(IBV_QPS_RESET, 0));
  to.pkey_index = 0;
  to.port_num = static_cast<std::uint8_t>(interface_.ib().port);
  to.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  return move(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

Status Queues::connect(const Greeting& greeting, const ibv_ah_attr& route, bool anew) {
  const int mtu = std::min(static_cast<int>(interface_.mtu()), int{greeting.mtu});
  const IbOptions& ib = interface_.ib();
  for (Queue& queue : queues_) {
    if (anew) WEFT_RETURN_IF_ERROR(to_init(queue, true));
  }
  for (std::size_t q = 0; q < queues_.size(); ++q) {
    const auto move = [&](ibv_qp_attr& to, ibv_qp_state state, int mask) {
      to.qp_state = state;
      return check_return(
          interface_.library().modify_qp(queues_[q].pair.get(), &to, mask | IBV_QP_STATE),
          fmt::format("{}: connecting a queue pair", endpoint_.path()));
    };
    ibv_qp_attr receive{};
    receive.path_mtu = static_cast<ibv_mtu>(std::clamp<int>(mtu, IBV_MTU_256, IBV_MTU_4096));
    receive.dest_qp_num = greeting.numbers[q];
    receive.rq_psn = greeting.first_packets[q];
    receive.max_dest_rd_atomic = static_cast<std::uint8_t>(interface_.reads_answered());
    receive.min_rnr_timer = static_cast<std::uint8_t>(ib.rnr_timer);
    receive.ah_attr = route;
    receive.ah_attr.grh.flow_label = flow_label(ib, q);
    WEFT_RETURN_IF_ERROR(move(receive, IBV_QPS_RTR,
                              IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    ibv_qp_attr send{};
    send.timeout = static_cast<std::uint8_t>(ib.timeout);
    send.retry_cnt = static_cast<std::uint8_t>(ib.retries);
    send.rnr_retry = 7;  // for ever: a stopped receiver is not a broken path
    send.sq_psn = queues_[q].first_packet;
    send.max_rd_atomic = static_cast<std::uint8_t>(interface_.reads_asked(greeting.reads));
    WEFT_RETURN_IF_ERROR(move(send, IBV_QPS_RTS,
                              IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                  IBV_QP_MAX_QP_RD_ATOMIC));
  }
  return {};
}

void Queues::end() {
  for (Queue& queue : queues_) {
    if (!queue.pair) continue;
    interface_.remove_queue(queue.pair->qp_num);
    interface_.count_retired(queue.posted - queue.retired);
    queue.retired = queue.posted;
    interface_.destroy_later(std::move(queue.pair));
  }
}

void Queues::describe(Greeting& greeting) const {
  greeting.queue_pairs = static_cast<std::uint8_t>(queues_.size());
  for (std::size_t q = 0; q < queues_.size(); ++q) {
    greeting.numbers[q] = queues_[q].pair->qp_num;
    greeting.first_packets[q] = queues_[q].first_packet;
  }
}

bool Queues::has_room(std::size_t q, std::size_t more) const {
  const Queue& queue = queues_[q];
  return queue.posted - queue.retired < interface_.ib().send_depth &&
         interface_.has_completions(more);
}

void Queues::finish(std::size_t q, ibv_send_wr& request, std::size_t bytes, bool wanted) {
  Queue& queue = queues_[q];
  request.wr_id = ++queue.posted;
  if (bytes <= interface_.inline_bytes() && request.opcode != IBV_WR_RDMA_READ &&
      request.opcode != IBV_WR_ATOMIC_CMP_AND_SWP)
    request.send_flags |= IBV_SEND_INLINE;
  if (++queue.unsignalled >= interface_.ib().send_depth / kSignalParts || wanted ||
      interface_.has_few_completions()) {
    request.send_flags |= IBV_SEND_SIGNALED;
    queue.unsignalled = 0;
  }
}

void Queues::signal_last(std::size_t q, PostList& list) {
  list.last().send_flags |= IBV_SEND_SIGNALED;
  queues_[q].unsignalled = 0;
}

void Queues::hand_over(std::size_t q, PostList& list) {
  if (list.count() == 0 || !endpoint_.failure().ok()) return list.clear();
  ibv_send_wr* bad = nullptr;
  interface_.count_sending(list.count());
  const int answer = interface_.library().post_send(queues_[q].pair.get(), list.first(), &bad);
  list.clear();
  if (answer == 0) [[likely]]
    return;
  endpoint_.fail(check_return(
      answer, fmt::format("{}: queue pair {}", endpoint_.path(), queues_[q].pair->qp_num)));
}

bool Queues::retire(std::size_t q, std::uint64_t number) {
  Queue& queue = queues_[q];
  if (number <= queue.retired) return false;
  interface_.count_retired(number - queue.retired);
  queue.retired = number;
  return true;
}

bool Queues::idle() const {
  return std::ranges::all_of(queues_, [](const Queue& queue) {
    return queue.retired + queue.unsignalled >= queue.posted;
  });
}

}  // namespace weft::ib
