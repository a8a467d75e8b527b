// Greetings at the interface: which endpoint a greeting is for, and the answers that come from no
// endpoint. The protocol itself is in conversation.h.
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "verbs/ib/interface.h"

namespace weft::ib {
namespace {

// The largest number of strangers: interfaces that spoke to us and were not connected to yet. No
// job has more.
constexpr std::size_t kMostStrangers = 4'096;
constexpr std::uint32_t kMostRanks = 65'536;
constexpr int kMostReads = 16;  // under way on a queue pair

}  // namespace

ibv_ah_attr IbInterface::route(int gid_index, const GidBytes& to, std::uint16_t lid) const {
  ibv_ah_attr route{};
  route.dlid = lid;
  route.sl = static_cast<std::uint8_t>(ib_.service_level);
  route.port_num = static_cast<std::uint8_t>(ib_.port);
  route.is_global = 1;
  std::memcpy(route.grh.dgid.raw, to.data(), to.size());
  route.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
  route.grh.hop_limit = 64;
  route.grh.traffic_class = static_cast<std::uint8_t>(ib_.traffic_class);
  return route;
}

Status IbInterface::open_datagrams() {
  background_ = std::make_unique<BackgroundCalls>();
  const auto attributes = [this](const Routes::Way& way) {
    return route(way.gid_index, way.peer, way.lid);
  };
  routes_ = std::make_unique<Routes>(library_, device_->domain(), *background_, name_, attributes,
                                     [this] { wake(); });
  WEFT_ASSIGN(Buffer memory, make_buffer(Datagrams::kMemory, IBV_ACCESS_LOCAL_WRITE));
  return datagrams_.open(device_->domain(), sends_queue_.get(), arrivals_queue_.get(),
                         std::move(memory));
}

// `arrivals` and `ends`: how many completions this turn found in the two queues. The queue pair is
// revived only when nothing is left there, because the queues have room for the completions of one
// life. If it cannot be revived, that is tried again later (again_ns()).
void IbInterface::revive_datagrams(std::size_t arrivals, std::size_t ends) {
  const std::int64_t now = now_ns();
  if (arrivals >= kAtOnce || ends >= kAtOnce || now < datagrams_.again_ns()) return;
  if (const Status revived = datagrams_.revive(now); !revived.ok()) warn_once(revived);
}

// The queue pair is revived at the next turn, after the lane has looked at what else has come.
void IbInterface::datagram_failed(const ibv_wc& completion, const char* what) {
  datagrams_.end();
  if (completion.status == IBV_WC_WR_FLUSH_ERR) return;  // a consequence, not the cause
  warn_once(completion_error(library_, completion, {fmt::format("{}: {}", name_, what), kNoRank}));
}

int IbInterface::gid_index_of(const GidBytes& bytes, GidKind kind) const {
  const auto found = std::ranges::find_if(
      gids_, [&](const RdmaGid& gid) { return gid.bytes == bytes && gid.kind == kind; });
  return found == gids_.end() ? -1 : found->index;
}

Result<bool> IbInterface::send_greeting(const Greeting& greeting, int gid_index,
                                        std::uint32_t datagrams, std::uint16_t lid) {
  WEFT_ASSIGN(ibv_ah* const handle,
              routes_->find({gid_index, lid, greeting.sender, greeting.receiver}));
  if (handle == nullptr) return false;
  WEFT_RETURN_IF_ERROR(datagrams_.send(greeting, handle, datagrams));
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
  greeting.datagrams = datagrams_.number();
  greeting.lid = port_.lid;
  greeting.mtu = static_cast<std::uint8_t>(mtu());
  greeting.reads = static_cast<std::uint8_t>(reads_answered());
  return greeting;
}

// Reads and compare-and-swaps of a peer that the device answers at a time.
int IbInterface::reads_answered() const {
  return std::clamp(device().max_qp_rd_atom, 1, kMostReads);
}

// Reads and compare-and-swaps that the device asks a peer for: not more than that peer answers.
int IbInterface::reads_asked(int answered) const {
  return std::clamp(std::min(answered, device().max_qp_init_rd_atom), 1, kMostReads);
}

// Verbs number the packet sizes: 256 bytes is 1, 512 is 2, and so on.
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
  Status given;
  const std::optional<Greeting> greeting = datagrams_.take(completion, given);
  if (!given.ok()) warn_once(given);
  if (!greeting || !meant_for_us(*greeting)) {
    return warn_once(Status(Code::mismatch, name_ + ": a datagram was dropped: it is not of this "
                                                    "job and interface, or its options differ"));
  }
  IbEndpoint* const from = greeted_by(*greeting);
  if (from == nullptr) return;
  greeting->level == Level::dropped ? drop_stranger(*from) : from->take_greeting(*greeting);
}

// Drops a stranger that the peer does not need. An endpoint that was given out belongs to its user,
// who will find that the path carries nothing.
void IbInterface::drop_stranger(IbEndpoint& endpoint) {
  if (endpoint.given_out()) return;
  unlist(&endpoint);
  --strangers_;
  known_.erase(endpoint.nonce());
}

// An answer that comes from no endpoint: this interface is closed, or the connection is not needed
// any more.
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

// The endpoint that a greeting is for. A stranger gets a new one, and so does a peer that connects
// anew. A greeting of an earlier incarnation came late and is for none. If a peer still greets an
// endpoint that was forgotten here, `dropped` is said again, because the first one may have been
// lost.
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
    stranger->take_addresses_of(*found->second);
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
  endpoint.send_due(now_ns());
}

void IbInterface::send_due_greetings() {
  const std::int64_t now = now_ns();
  for (IbEndpoint* endpoint : connecting_) endpoint->send_due(now);
  std::erase_if(connecting_, [](const IbEndpoint* endpoint) { return !endpoint->connecting(); });
}

}  // namespace weft::ib
