// The conversation that connects two interfaces: datagrams over the address pairs that may reach the
// peer, repeated until both ends know of each other. It is also the proof that a pair works.
//
// The interface with the smaller nonce leads: it takes the pair over which it first hears from the
// other and connects its queue pairs; its `ready` tells the other which one that is. The other's
// `ready` comes back by the same pair, which is then proven both ways and stays: `confirmed`, and
// only now either sends. Where it does not come, but questions over other pairs still do, the pair
// works one way only, and the leader moves on to the pair of the next question; nothing was sent,
// so the queue pairs begin anew. Whoever gets less than `confirmed` answers; so a lost datagram
// costs a repetition and no agreement.
#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "verbs/ib/interface.h"

namespace weft::ib {
namespace {

// A datagram begins with so many bytes of routing header.
constexpr std::size_t kRouteBytes = 40;
constexpr std::size_t kDatagramBytes = 256;
static_assert(kRouteBytes + sizeof(Greeting) <= kDatagramBytes);
constexpr std::uint64_t kDatagrams = 128;  // that may wait to be read
constexpr std::uint64_t kSends = 64;       // that the device has not sent
constexpr int kLifeAt = 32;  // the number of the queue pair's life is above this bit of a request's
// Shared by all: datagrams carry no secret, and what they say is checked.
constexpr std::uint32_t kQueueKey = 0x57454654;
// Greetings are repeated, first soon, then at most ten times a second; every pair of addresses is
// tried so many times before the next.
constexpr std::int64_t kFirstAgainNs = 4'000'000;
constexpr std::int64_t kLastAgainNs = 100'000'000;
constexpr std::uint32_t kTriesEach = 3;
// So often the leader says `ready` over a pair, for an eighth of a second in all, before it looks
// at others; and so often before it looks again at those that it has given up.
constexpr std::uint32_t kTriesOfChoice = 5;
constexpr std::uint32_t kTriesBeforeAgain = 15;
// Interfaces that spoke to us and were not connected to yet. More is not a job.
constexpr std::size_t kMostStrangers = 4'096;
constexpr std::uint32_t kMostRanks = 65'536;
constexpr int kMostReads = 16;  // under way on a queue pair

ibv_ah_attr route(const IbInterface& interface, int gid_index,
                  const std::array<std::uint8_t, 16>& to, std::uint16_t lid) {
  ibv_ah_attr route{};
  route.dlid = lid;
  route.sl = static_cast<std::uint8_t>(interface.ib().service_level);
  route.port_num = static_cast<std::uint8_t>(interface.ib().port);
  route.is_global = 1;
  std::memcpy(route.grh.dgid.raw, to.data(), to.size());
  route.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
  route.grh.hop_limit = 64;
  route.grh.traffic_class = static_cast<std::uint8_t>(interface.ib().traffic_class);
  return route;
}

// Of which RoCE v2 makes the UDP source port: 49152 and 14 bits, those from the 15th up folded into
// them. A label of 0 would be the driver's choice.
std::uint32_t flow_label(const IbOptions& ib, std::size_t q) {
  constexpr std::uint32_t kFold = 1U << 14;
  if (ib.udp_source_port == 0) return 0;
  const auto port =
      (static_cast<std::uint32_t>(ib.udp_source_port) + static_cast<std::uint32_t>(q)) % kFold;
  return port != 0 ? port : kFold | 1;
}

}  // namespace

Status IbInterface::open_datagrams() {
  ibv_qp_init_attr how{};
  how.send_cq = sends_queue_.get();
  how.recv_cq = arrivals_queue_.get();
  how.qp_type = IBV_QPT_UD;
  how.sq_sig_all = 1;
  how.cap = {kSends, kDatagrams, 1, 1, 0};
  datagrams_ = Owned<ibv_qp>(library_.create_qp(domain_.get(), &how), {&library_});
  WEFT_RETURN_IF_ERROR(made(datagrams_.get(), name_ + ": a queue pair for datagrams"));
  errands_ = std::make_unique<Errands>();
  const auto attributes = [this](const Routes::Way& way) {
    return route(*this, way.gid_index, way.peer, way.lid);
  };
  routes_ = std::make_unique<Routes>(library_, domain_.get(), *errands_, name_, attributes,
                                     [this] { wake(); });
  WEFT_ASSIGN(datagram_memory_,
              make_buffer((kDatagrams + kSends) * kDatagramBytes, IBV_ACCESS_LOCAL_WRITE));
  return prepare_datagrams();
}

// From a queue pair that is new, or was reset.
Status IbInterface::prepare_datagrams() {
  ibv_qp_attr to{};
  to.port_num = static_cast<std::uint8_t>(ib_.port);
  to.qkey = kQueueKey;
  const auto move = [&](ibv_qp_state state, int mask) {
    to.qp_state = state;
    return answered(library_.modify_qp(datagrams_.get(), &to, mask | IBV_QP_STATE),
                    name_ + ": preparing the queue pair for datagrams");
  };
  WEFT_RETURN_IF_ERROR(move(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
  WEFT_RETURN_IF_ERROR(move(IBV_QPS_RTR, 0));
  WEFT_RETURN_IF_ERROR(move(IBV_QPS_RTS, IBV_QP_SQ_PSN));
  for (std::uint64_t place = 0; place < kDatagrams; ++place)
    WEFT_RETURN_IF_ERROR(give_datagram(place));
  return {};
}

// A datagram that the device could not send, as the route or the address is gone, ends the queue
// pair for all others. It begins anew; what still comes of its earlier life is told by its number.
void IbInterface::revive_datagrams() {
  ++datagram_life_;
  datagrams_sent_ = datagrams_retired_ = 0;
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RESET;
  Status status = answered(library_.modify_qp(datagrams_.get(), &to, IBV_QP_STATE),
                           name_ + ": resetting the queue pair for datagrams");
  if (status.ok()) status = prepare_datagrams();
  datagrams_failed_ = !status.ok();
  datagrams_again_ns_ = now_ns() + kLastAgainNs;
  if (!status.ok()) warn_once(status);
}

// `arrivals` and `ends` were found in the queues just now: not before these are empty, as they have
// room for what one life leaves behind, and now and then where it cannot be done.
bool IbInterface::may_revive_datagrams(std::size_t arrivals, std::size_t ends) const {
  return arrivals < kAtOnce && ends < kAtOnce && now_ns() >= datagrams_again_ns_;
}

// Nothing of its present life: it is over, or this is of an earlier one.
bool IbInterface::is_stale(const ibv_wc& completion) const {
  return completion.wr_id >> kLifeAt != datagram_life_;
}

// While the lane looks at what else has come: revived at the next turn.
void IbInterface::datagram_failed(const ibv_wc& completion, const char* what) {
  datagrams_failed_ = true;
  if (completion.status == IBV_WC_WR_FLUSH_ERR) return;  // not what went wrong
  warn_once(failed(library_, completion, {fmt::format("{}: {}", name_, what), kNoRank}));
}

Status IbInterface::give_datagram(std::uint64_t place) {
  ibv_sge part{datagram_memory_.address() + place * kDatagramBytes, kDatagramBytes,
               datagram_memory_.lkey()};
  ibv_recv_wr request{};
  request.wr_id = std::uint64_t{datagram_life_} << kLifeAt | place;
  request.sg_list = &part;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return answered(library_.post_recv(datagrams_.get(), &request, &bad),
                  name_ + ": a buffer for datagrams");
}

int IbInterface::gid_index_of(const GidBytes& bytes, GidKind kind) const {
  const auto found = std::ranges::find_if(
      gids_, [&](const RdmaGid& gid) { return gid.bytes == bytes && gid.kind == kind; });
  return found == gids_.end() ? -1 : found->index;
}

// One that finds no place is lost like one on the wire.
Result<bool> IbInterface::send_greeting(const Greeting& greeting, int gid_index,
                                        std::uint32_t datagrams, std::uint16_t lid) {
  WEFT_ASSIGN(ibv_ah * handle, routes_->find({gid_index, lid, greeting.sender, greeting.receiver}));
  if (handle == nullptr) return false;
  if (datagrams_sent_ - datagrams_retired_ == kSends) return true;
  const std::uint64_t place = kDatagrams + datagrams_sent_ % kSends;
  std::byte* text = datagram_memory_.data() + place * kDatagramBytes;
  std::memcpy(text, &greeting, sizeof greeting);
  ibv_sge part{reinterpret_cast<std::uintptr_t>(text), sizeof greeting, datagram_memory_.lkey()};
  ibv_send_wr request{};
  request.wr_id = std::uint64_t{datagram_life_} << kLifeAt;
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.wr.ud.ah = handle;
  request.wr.ud.remote_qpn = datagrams;
  request.wr.ud.remote_qkey = kQueueKey;
  ibv_send_wr* bad = nullptr;
  WEFT_RETURN_IF_ERROR(
      answered(library_.post_send(datagrams_.get(), &request, &bad), name_ + ": a datagram"));
  ++datagrams_sent_;
  return true;
}

Greeting IbInterface::new_greeting() const {
  Greeting greeting;
  greeting.context = options_.context;
  greeting.job = options_.job;
  greeting.rank = static_cast<std::uint32_t>(rank_);
  greeting.from = nonce();
  greeting.channels = static_cast<std::uint16_t>(options_.channels);
  greeting.slots = options_.slots;
  greeting.payload_bytes = fields_.payload_bytes;
  greeting.piece_bytes = fields_.piece_bytes;
  greeting.datagrams = datagrams_->qp_num;
  greeting.lid = port_.lid;
  greeting.mtu = static_cast<std::uint8_t>(mtu());
  greeting.reads = static_cast<std::uint8_t>(reads_answered());
  return greeting;
}

// Reads and compare-and-swaps of a peer that the device answers at a time.
int IbInterface::reads_answered() const {
  return std::clamp(device_attributes_.max_qp_rd_atom, 1, kMostReads);
}

// … and that it asks a peer for, which must not be more than that one answers.
int IbInterface::reads_asked(int answered) const {
  return std::clamp(std::min(answered, device_attributes_.max_qp_init_rd_atom), 1, kMostReads);
}

// A power of two of bytes, from 256 on as 1, 2, …
ibv_mtu IbInterface::mtu() const {
  const auto most = static_cast<int>(port_.active_mtu);
  if (ib_.mtu <= 0) return port_.active_mtu;
  const int wanted = std::bit_width(static_cast<unsigned>(ib_.mtu)) - 8;
  return static_cast<ibv_mtu>(std::clamp(wanted, static_cast<int>(IBV_MTU_256), most));
}

bool IbInterface::meant_for_us(const Greeting& greeting) const {
  return greeting.magic == Greeting::kMagic && greeting.version == kWireVersion &&
         greeting.job == options_.job && greeting.context == options_.context &&
         greeting.to == nonce() && greeting.rank < kMostRanks &&
         greeting.channels == options_.channels && greeting.slots == options_.slots &&
         greeting.payload_bytes == fields_.payload_bytes &&
         greeting.piece_bytes == fields_.piece_bytes &&
         (greeting.level >= Level::closed || greeting.queue_pairs == ib_.queue_pairs) &&
         gid_index_of(greeting.receiver, static_cast<GidKind>(greeting.kind)) >= 0;
}

void IbInterface::take_datagram(const ibv_wc& completion) {
  Greeting greeting;
  const std::uint64_t place = completion.wr_id & ((std::uint64_t{1} << kLifeAt) - 1);
  const std::byte* text = datagram_memory_.data() + place * kDatagramBytes + kRouteBytes;
  const bool whole = completion.byte_len == kRouteBytes + sizeof greeting;
  if (whole) std::memcpy(&greeting, text, sizeof greeting);
  if (const Status given = give_datagram(place); !given.ok()) warn_once(given);
  if (!whole || !meant_for_us(greeting)) {
    return warn_once(Status(Code::mismatch, name_ + ": a datagram was dropped: it is not of this "
                                                    "job and interface, or its options differ"));
  }
  IbEndpoint* const from = greeted_by(greeting);
  if (from == nullptr) return;
  greeting.level == Level::dropped ? drop_stranger(*from) : from->take_greeting(greeting);
}

// One that was given out is its user's, who will find that it does not carry.
void IbInterface::drop_stranger(IbEndpoint& endpoint) {
  if (endpoint.given_out()) return;
  unlist(&endpoint);
  --strangers_;
  known_.erase(endpoint.nonce());
}

// Who meets a closed interface is told so, or a connection that is not needed any more.
void IbInterface::answer(const Greeting& greeting, Level level) {
  Greeting answer = new_greeting();
  answer.level = level;
  answer.to = greeting.from;
  answer.sender = greeting.receiver;
  answer.receiver = greeting.sender;
  answer.kind = greeting.kind;
  answer.incarnation = greeting.incarnation;
  const int gid_index = gid_index_of(greeting.receiver, static_cast<GidKind>(greeting.kind));
  const Result<bool> sent = send_greeting(answer, gid_index, greeting.datagrams, greeting.lid);
  if (!sent.ok()) warn_once(sent.status());
}

// A stranger gets an endpoint of its own; so does a peer that begins anew. What is of an earlier
// incarnation came late. An end that we forgot has nothing to say, so who still speaks to it is told
// once more: what was said first may be lost.
IbEndpoint* IbInterface::greeted_by(const Greeting& greeting) {
  if (closed_ && greeting.level < Level::closed) answer(greeting, Level::closed);
  if (closed_) return nullptr;
  const auto found = known_.find(greeting.from);
  const auto rank = static_cast<Rank>(greeting.rank);
  const bool is_known = found != known_.end();
  if (is_known && found->second->peer() != rank) return nullptr;
  if (is_known && greeting.level == Level::dropped)
    return greeting.incarnation >= found->second->incarnation() ? found->second.get() : nullptr;
  if (is_known && greeting.incarnation <= found->second->incarnation()) {
    if (found->second->forgotten() && greeting.level < Level::closed)
      answer(greeting, Level::dropped);
    return greeting.incarnation == found->second->incarnation() ? found->second.get() : nullptr;
  }
  if (greeting.level >= Level::closed) return nullptr;
  Result<IbEndpoint*> stranger = make_stranger(rank, greeting.from, greeting.incarnation);
  if (stranger.ok()) return *stranger;
  warn_once(stranger.status());
  return nullptr;
}

Result<IbEndpoint*> IbInterface::make_stranger(Rank peer, std::uint64_t nonce,
                                               std::uint32_t incarnation) {
  if (strangers_ == kMostStrangers)
    return Status(Code::exhausted, name_ + ": more strangers than a job has", peer);
  auto stranger = std::make_unique<IbEndpoint>(*this, peer, nonce, incarnation);
  WEFT_RETURN_IF_ERROR(stranger->prepare());
  if (const auto found = known_.find(nonce); found != known_.end()) {
    stranger->aim_like(*found->second);
    found->second->fail(
        Status(Code::unavailable, found->second->path() + ": the peer connects anew", peer));
    replace(nonce);
  }
  ++strangers_;
  IbEndpoint* raw = stranger.get();
  known_[nonce] = std::move(stranger);
  connect_later(*raw);
  return raw;
}

void IbInterface::connect_later(IbEndpoint& endpoint) {
  connecting_.push_back(&endpoint);
  endpoint.lead(now_ns());
}

void IbInterface::lead_greetings() {
  const std::int64_t now = now_ns();
  for (IbEndpoint* endpoint : connecting_) endpoint->lead(now);
  std::erase_if(connecting_, [](const IbEndpoint* endpoint) { return !endpoint->connecting(); });
}

// A stranger's address is where its greeting came from; we have no others to try.
void IbEndpoint::lead(std::int64_t now) {
  if (heard_) {
    const Greeting greeting = *std::exchange(heard_, std::nullopt);
    if (!interface_.closed() && interface_.meant_for_us(greeting)) take_greeting(greeting);
  }
  if (asked_ns_ != 0 && knows_way(pair_, peer_lid_)) next_ns_ = now;
  if (now < next_ns_ || !connecting()) return;
  if (nonce_ == interface_.nonce()) return join(interface_.new_greeting());
  const std::int64_t again = kFirstAgainNs << std::min(attempts_, 8U);
  next_ns_ = now + std::min(again, kLastAgainNs);
  if (level_ == Level::asking && !candidates_.empty()) {
    const GidPair& pair = candidates_[attempts_ / kTriesEach % candidates_.size()];
    pair_ = route_of(pair);
  }
  if (pair_.gid_index >= 0) greet(now);
  if (asked_ns_ == 0 || now - asked_ns_ > kLastAgainNs) ++attempts_;
}

IbEndpoint::RoutePair IbEndpoint::route_of(const GidPair& pair) const {
  const RdmaGid& own = interface_.gids()[static_cast<std::size_t>(pair.local)];
  return {own.index, own.kind, own.bytes, peer_gids_[static_cast<std::size_t>(pair.remote)].bytes};
}

// The way on which a greeting came, from our side.
IbEndpoint::RoutePair IbEndpoint::route_back(const Greeting& greeting) const {
  const auto kind = static_cast<GidKind>(greeting.kind);
  return {interface_.gid_index_of(greeting.receiver, kind), kind, greeting.receiver,
          greeting.sender};
}

bool IbEndpoint::knows_way(const RoutePair& pair, std::uint16_t lid) const {
  const Result<ibv_ah*> handle =
      interface_.routes().find({pair.gid_index, lid, pair.own, pair.peer});
  return handle.ok() && *handle != nullptr;
}

// Its way back is known: connecting queue pairs to it then looks up nobody either.
bool IbEndpoint::may_answer(const Greeting& greeting) {
  const RoutePair back = route_back(greeting);
  const Result<ibv_ah*> handle =
      interface_.routes().find({back.gid_index, greeting.lid, back.own, back.peer});
  if (!handle.ok()) interface_.warn_once(handle.status());
  if (handle.ok() && *handle == nullptr) heard_ = greeting;
  return handle.ok() && *handle != nullptr;
}

// For the peer, along the pair of addresses that we use.
Greeting IbEndpoint::addressed(Level level) const {
  Greeting greeting = interface_.new_greeting();
  greeting.level = level;
  greeting.to = nonce_;
  greeting.incarnation = incarnation_;
  greeting.choice = choice_;
  greeting.sender = pair_.own;
  greeting.receiver = pair_.peer;
  greeting.kind = static_cast<std::uint8_t>(pair_.kind);
  return greeting;
}

// To the addresses that were used last; to others when the peer speaks from there.
void IbEndpoint::say_dropped() {
  if (pair_.gid_index < 0 || interface_.closed()) return;
  (void)interface_.send_greeting(addressed(Level::dropped), pair_.gid_index, peer_datagrams_,
                                 peer_lid_);
}

void IbEndpoint::greet(std::int64_t now) {
  Greeting greeting = addressed(level_);
  greeting.queue_pairs = static_cast<std::uint8_t>(queues_.size());
  for (std::size_t q = 0; q < queues_.size(); ++q) {
    greeting.numbers[q] = queues_[q].pair->qp_num;
    greeting.first_packets[q] = queues_[q].first_packet;
  }
  greeting.window = granted_;
  greeting.words = scratch_.address();
  greeting.words_key = scratch_.rkey();
  const Result<bool> sent =
      interface_.send_greeting(greeting, pair_.gid_index, peer_datagrams_, peer_lid_);
  const bool asks = sent.ok() && !*sent;
  if (!asks) asked_ns_ = 0;
  if (asks && asked_ns_ == 0) asked_ns_ = now;
  // With another pair to try, one that cannot be resolved is no error yet.
  if (!sent.ok() && (level_ != Level::asking || candidates_.size() < 2))
    interface_.warn_once(sent.status());
}

void IbEndpoint::take_greeting(const Greeting& greeting) {
  if (!failure_.ok()) return;
  if (greeting.level == Level::closed) {
    peer_closed_.store(true, std::memory_order_release);
    return;
  }
  if (!may_answer(greeting)) return;
  if (level_ == Level::asking) {
    answer_along(greeting);
    if (leads() || greeting.level != Level::asking) join(greeting);
  } else if (level_ == Level::ready && gives_up_for(greeting)) {
    move_on(greeting);
  }
  if (!failure_.ok()) return;
  const Level proof = leads() ? Level::ready : Level::confirmed;
  if (level_ != Level::asking && greeting.choice == choice_ && greeting.level >= proof) confirm();
  if (greeting.level != Level::confirmed) greet(now_ns());
}

bool IbEndpoint::leads() const {
  return interface_.nonce() <= nonce_;
}

// The pair over which it came works in this direction; our answer goes back the same way.
void IbEndpoint::answer_along(const Greeting& greeting) {
  pair_ = route_back(greeting);
  peer_datagrams_ = greeting.datagrams;
  peer_lid_ = greeting.lid;
}

// The leader, for the next that comes by another pair once nobody has agreed to what it offers for
// so long; the other, for what the leader offers now. Pairs given up are taken again, if later.
bool IbEndpoint::gives_up_for(const Greeting& greeting) {
  if (!leads()) return greeting.level == Level::ready && greeting.choice > choice_;
  const bool agrees = greeting.level != Level::asking && greeting.choice == choice_;
  if (agrees || attempts_ < kTriesOfChoice) return false;
  const RoutePair heard = route_back(greeting);
  if (attempts_ >= kTriesBeforeAgain) refuted_.clear();
  return heard != pair_ && std::ranges::find(refuted_, heard) == refuted_.end();
}

void IbEndpoint::move_on(const Greeting& greeting) {
  if (leads()) refuted_.push_back(pair_);
  answer_along(greeting);
  for (Queue& queue : queues_) {
    if (const Status anew = to_init(queue); !anew.ok()) return fail(anew);
  }
  join(greeting);
  if (leads()) ++choice_;
}

void IbEndpoint::confirm() {
  level_ = Level::confirmed;
  peer_ready_ = true;
  interface_.pump_later(*this);
}

// Connects our queue pairs to those that the greeting names; or, for an interface that talks to
// itself, to themselves.
void IbEndpoint::join(const Greeting& greeting) {
  const bool self = nonce_ == interface_.nonce();
  Greeting to = greeting;
  if (self) {
    const RdmaGid& own = interface_.gids().front();
    pair_ = {own.index, own.kind, own.bytes, own.bytes};
    to.window = granted_;
    to.words = scratch_.address();
    to.words_key = scratch_.rkey();
    for (std::size_t q = 0; q < queues_.size(); ++q) {
      to.numbers[q] = queues_[q].pair->qp_num;
      to.first_packets[q] = queues_[q].first_packet;
    }
  }
  if (const Status joined = to_ready(to); !joined.ok()) return fail(joined);
  window_ = to.window;
  words_ = to.words;
  words_key_ = to.words_key;
  level_ = Level::ready;
  if (!leads()) choice_ = to.choice;
  attempts_ = 0;
  if (self) confirm();
}

// Queue pairs that receive, not connected; those that were forget it.
Status IbEndpoint::to_init(Queue& queue) {
  ibv_qp_attr to{};
  const auto move = [&](ibv_qp_state state, int mask) {
    to.qp_state = state;
    return answered(library_.modify_qp(queue.pair.get(), &to, mask | IBV_QP_STATE),
                    fmt::format("{}: preparing a queue pair", interface_.name()));
  };
  if (level_ != Level::asking) WEFT_RETURN_IF_ERROR(move(IBV_QPS_RESET, 0));
  to.pkey_index = 0;
  to.port_num = static_cast<std::uint8_t>(interface_.ib().port);
  to.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  return move(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

Status IbEndpoint::to_ready(const Greeting& greeting) {
  const int mtu = std::min(static_cast<int>(interface_.mtu()), int{greeting.mtu});
  const IbOptions& ib = interface_.ib();
  for (std::size_t q = 0; q < queues_.size(); ++q) {
    const auto move = [&](ibv_qp_attr& to, ibv_qp_state state, int mask) {
      to.qp_state = state;
      return answered(library_.modify_qp(queues_[q].pair.get(), &to, mask | IBV_QP_STATE),
                      fmt::format("{}: connecting a queue pair", path()));
    };
    ibv_qp_attr receive{};
    receive.path_mtu = static_cast<ibv_mtu>(std::clamp<int>(mtu, IBV_MTU_256, IBV_MTU_4096));
    receive.dest_qp_num = greeting.numbers[q];
    receive.rq_psn = greeting.first_packets[q];
    receive.max_dest_rd_atomic = static_cast<std::uint8_t>(interface_.reads_answered());
    receive.min_rnr_timer = static_cast<std::uint8_t>(ib.rnr_timer);
    receive.ah_attr = route(interface_, pair_.gid_index, pair_.peer, peer_lid_);
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

}  // namespace weft::ib
