// The queue pair for datagrams.
#include "verbs/ib/datagrams.h"

#include <cstring>
#include <new>

#include "verbs/ib/verbs_errors.h"

namespace weft::ib {
namespace {

constexpr int kLifeAt = 32;  // above this bit of a wr_id is the number of the life
// The Q_Key, which all interfaces share: datagrams carry no secret, and what they say is checked.
constexpr std::uint32_t kQueueKey = 0x57454654;
// Between two attempts to revive the queue pair.
constexpr std::int64_t kReviveAgainNs = 100'000'000;

}  // namespace

Status Datagrams::open(ibv_pd* domain, ibv_cq* sends, ibv_cq* arrivals, Buffer memory) {
  memory_ = std::move(memory);
  ibv_qp_init_attr how{};
  how.send_cq = sends;
  how.recv_cq = arrivals;
  how.qp_type = IBV_QPT_UD;
  how.sq_sig_all = 1;
  how.cap = {kSends, kReceives, 1, 1, 0};
  pair_ = Owned<ibv_qp>(library_.create_qp(domain, &how), {&library_});
  WEFT_RETURN_IF_ERROR(check_pointer(pair_.get(), name_ + ": a queue pair for datagrams"));
  return prepare();
}

// Prepares a queue pair that is new or was reset.
Status Datagrams::prepare() {
  ibv_qp_attr to{};
  to.port_num = static_cast<std::uint8_t>(port_);
  to.qkey = kQueueKey;
  const auto move = [&](ibv_qp_state state, int mask) {
    to.qp_state = state;
    return check_return(library_.modify_qp(pair_.get(), &to, mask | IBV_QP_STATE),
                        name_ + ": preparing the queue pair for datagrams");
  };
  WEFT_RETURN_IF_ERROR(move(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
  WEFT_RETURN_IF_ERROR(move(IBV_QPS_RTR, 0));
  WEFT_RETURN_IF_ERROR(move(IBV_QPS_RTS, IBV_QP_SQ_PSN));
  for (std::uint64_t place = 0; place < kReceives; ++place) WEFT_RETURN_IF_ERROR(give(place));
  return {};
}

Status Datagrams::revive(std::int64_t now) {
  ++life_;
  sent_ = retired_ = 0;
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RESET;
  Status status = check_return(library_.modify_qp(pair_.get(), &to, IBV_QP_STATE),
                               name_ + ": resetting the queue pair for datagrams");
  if (status.ok()) status = prepare();
  has_ended_ = !status.ok();
  again_ns_ = now + kReviveAgainNs;
  return status;
}

std::uint64_t Datagrams::id_of(std::uint64_t place) const {
  return std::uint64_t{life_} << kLifeAt | place;
}

bool Datagrams::is_stale(const ibv_wc& completion) const {
  return completion.wr_id >> kLifeAt != life_;
}

Status Datagrams::give(std::uint64_t place) {
  ibv_sge part{memory_.address() + place * kBytes, kBytes, memory_.lkey()};
  ibv_recv_wr request{};
  request.wr_id = id_of(place);
  request.sg_list = &part;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return check_return(library_.post_recv(pair_.get(), &request, &bad),
                      name_ + ": a buffer for datagrams");
}

Status Datagrams::send(const Greeting& greeting, ibv_ah* route, std::uint32_t queue_pair) {
  if (sent_ - retired_ == kSends) return {};
  std::byte* text = memory_.data() + (kReceives + sent_ % kSends) * kBytes;
  std::memcpy(text, &greeting, sizeof greeting);
  ibv_sge part{reinterpret_cast<std::uintptr_t>(text), sizeof greeting, memory_.lkey()};
  ibv_send_wr request{};
  request.wr_id = id_of(0);
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.wr.ud.ah = route;
  request.wr.ud.remote_qpn = queue_pair;
  request.wr.ud.remote_qkey = kQueueKey;
  ibv_send_wr* bad = nullptr;
  WEFT_RETURN_IF_ERROR(
      check_return(library_.post_send(pair_.get(), &request, &bad), name_ + ": a datagram"));
  ++sent_;
  return {};
}

std::optional<Greeting> Datagrams::take(const ibv_wc& completion, Status& given) {
  const std::uint64_t place = completion.wr_id & ((std::uint64_t{1} << kLifeAt) - 1);
  const std::byte* text = memory_.data() + place * kBytes + kRouteBytes;
  std::optional<Greeting> greeting;
  if (completion.byte_len == kRouteBytes + sizeof(Greeting))
    std::memcpy(&greeting.emplace(), text, sizeof(Greeting));
  given = give(place);
  return greeting;
}

void Datagrams::let_lie() {
  (void)pair_.release();
  new Buffer(std::move(memory_));
}

}  // namespace weft::ib
