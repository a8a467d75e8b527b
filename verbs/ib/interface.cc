// Setup and teardown of an ib interface: device, port, queues, its address, its end.
#include "verbs/ib/interface.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <random>
#include <utility>

#include "verbs/memory/memory.h"

namespace weft {

namespace ib {
namespace {

// How long close() waits for what was posted to arrive.
constexpr std::int64_t kFarewellMs = 1000;
// Work requests under way on all queue pairs together, where the device has room for so many.
constexpr int kSends = 8192;
// A release and a notice fit into a work request of this size; devices that offer less send them
// from registered memory.
constexpr std::uint32_t kInline = 256;
// Places in the completion queues for datagrams (greet.cc has fewer).
constexpr int kDatagramPlaces = 256;
// A part of the receive queue for one peer, at most; what is left is divided again for the next.
constexpr std::uint32_t kShareOfWindow = 8;
// Fewer places are not worth a peer.
constexpr std::uint32_t kLeastWindow = 16;

std::uint64_t random_nonce() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

std::size_t stride_for(std::size_t payload) {
  return kPayloadAt + (payload + kLine - 1) / kLine * kLine;
}

Status check(Rank rank, const InterfaceOptions& options, const IbOptions& ib) {
  if (!std::has_single_bit(options.slots) || options.slots > kMostSlots || options.channels < 1 ||
      options.channels > kMostChannels) {
    return Status(
        Code::invalid_argument,
        fmt::format("an interface needs 1 to {} channels (not {}) and a power of two up to {} of "
                    "slots (not {})",
                    kMostChannels, options.channels, kMostSlots, options.slots));
  }
  if (rank < 0 || ib.device.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("an ib interface needs a rank (not {}) and a device (not \"{}\")",
                              rank, ib.device));
  }
  if (!ib.device_memory.exporter != !ib.device_memory.copy) {
    return Status(Code::invalid_argument,
                  "of device_memory an ib interface needs the exporter and the copy, or neither");
  }
  if (ib.queue_pairs < 1 || ib.queue_pairs > kMostQueuePairs) {
    return Status(Code::invalid_argument,
                  fmt::format("{} queue pairs per peer; 1 to {} are possible", ib.queue_pairs,
                              kMostQueuePairs));
  }
  return {};
}

RegistrationOptions registration_options(const IbOptions& ib) {
  RegistrationOptions options;
  options.threads = ib.registration_threads;
  return options;
}

}  // namespace

IbInterface::IbInterface(Rank rank, const InterfaceOptions& options, const IbOptions& ib,
                         const Library& library, AddressResolver resolver)
    : rank_(rank),
      options_(options),
      ib_(ib),
      name_(fmt::format("ib:{}/{}", ib.device, ib.port)),
      resolver_(std::move(resolver)),
      library_(library),
      process_(getpid()),
      notice_stride_(stride_for(std::max(options.payload_bytes, kControlBytes))),
      piece_stride_(stride_for(std::max(ib.piece_bytes, options.payload_bytes))) {
  ib_.piece_bytes = std::max(ib.piece_bytes, options.payload_bytes);
}

Result<std::unique_ptr<Interface>> IbInterface::open(const Library& library, Rank rank,
                                                     const InterfaceOptions& options,
                                                     const IbOptions& ib,
                                                     AddressResolver resolver) {
  WEFT_RETURN_IF_ERROR(check(rank, options, ib));
  std::unique_ptr<IbInterface> interface(
      new IbInterface(rank, options, ib, library, std::move(resolver)));
  WEFT_RETURN_IF_ERROR(interface->open_device());
  WEFT_RETURN_IF_ERROR(interface->open_port());
  WEFT_RETURN_IF_ERROR(interface->open_queues());
  WEFT_RETURN_IF_ERROR(interface->open_datagrams());
  WEFT_RETURN_IF_ERROR(interface->open_events());
  interface->make_address();
  return std::unique_ptr<Interface>(std::move(interface));
}

Status IbInterface::open_device() {
  WEFT_ASSIGN(context_, open_named(library_, ib_.device));
  WEFT_RETURN_IF_ERROR(
      answered(library_.query_device(context_.get(), &device_attributes_), "asking " + name_));
  domain_ = Owned<ibv_pd>(library_.alloc_pd(context_.get()), {&library_});
  WEFT_RETURN_IF_ERROR(made(domain_.get(), name_ + ": a protection domain"));
  registrar_ = std::make_unique<Registrar>(library_, context_.get(), domain_.get(), name_,
                                           ib_.device_memory.exporter);
  registrations_ = std::make_unique<Registrations>(
      *registrar_, registration_options(ib_),
      ib_.memory_hooks ? announce_unmaps()
                       : Status(Code::unavailable, "memory hooks are off (WEFT_MEMORY_HOOKS)"));
  if (!registrations_->is_coherent()) {
    log(LogLevel::info,
        fmt::format("{}: pieces of memory that is not from weft::allocate are copied before they "
                    "are sent: {}",
                    name_, registrations_->coherence().text()));
  }
  return {};
}

Status IbInterface::open_port() {
  WEFT_RETURN_IF_ERROR(
      answered(library_.query_port(context_.get(), static_cast<std::uint8_t>(ib_.port), &port_),
               fmt::format("{}: asking the port", name_)));
  if (port_.state != IBV_PORT_ACTIVE)
    return Status(Code::unavailable, fmt::format("{}: the port is not active", name_));
  WEFT_ASSIGN(gids_, usable_gids());
  return {};
}

Result<std::vector<RdmaGid>> IbInterface::usable_gids() const {
  WEFT_ASSIGN(const std::vector<RdmaGid> all, read_gids(library_, context_.get(), ib_.port));
  std::vector<RdmaGid> usable;
  std::string reasons;
  for (const RdmaGid& gid : all) {
    if (ib_.gid_index >= 0 && gid.index != ib_.gid_index) continue;
    if (gid.usable) usable.push_back(gid);
    if (!gid.usable) reasons += fmt::format("; GID {}: {}", gid.index, gid.reason);
  }
  // Those that lead farthest first; equal ones in the order of the table. An address is there once
  // for each version of RoCE, and greetings that name it mean the first.
  std::ranges::stable_sort(usable, {}, [](const RdmaGid& gid) {
    return std::pair(gid.kind == GidKind::roce_v1, gid.link_local);
  });
  if (usable.size() > kMostGids) {
    std::string left;
    for (const RdmaGid& gid : std::span(usable).subspan(kMostGids))
      left += fmt::format(" {}", ip_of(gid.bytes));
    log(LogLevel::warning, fmt::format("{}: peers are told of {} addresses (GIDs) and not of{}; "
                                       "WEFT_IB_GID_INDEX chooses one",
                                       name_, kMostGids, left));
    usable.resize(kMostGids);
  }
  if (!usable.empty()) return usable;
  return Status(Code::unavailable,
                ib_.gid_index < 0
                    ? fmt::format("{}: no address (GID) can be used{}", name_, reasons)
                    : fmt::format("{}: GID {} cannot be used or is not set{}", name_, ib_.gid_index,
                                  reasons));
}

// The port has other addresses now. Paths that live keep theirs for as long as the kernel does;
// what connects from here on, anew or again, goes by the new ones. Peers are not told: a greeting
// carries the address that it came from, so they learn it from one that we begin.
void IbInterface::look_for_gids() {
  Result<std::vector<RdmaGid>> now = usable_gids();
  if (!now.ok()) return log(LogLevel::warning, now.status().to_string());
  const auto is_same = [](const RdmaGid& a, const RdmaGid& b) {
    return a.index == b.index && a.bytes == b.bytes;
  };
  if (std::ranges::equal(*now, gids_, is_same)) return;
  const bool has_lost = std::ranges::any_of(gids_, [&now](const RdmaGid& gid) {
    return std::ranges::find(*now, gid.bytes, &RdmaGid::bytes) == now->end();
  });
  gids_ = std::move(*now);
  std::string text;
  for (const RdmaGid& gid : gids_) text += (text.empty() ? "" : ", ") + ip_of(gid.bytes);
  log(has_lost ? LogLevel::warning : LogLevel::info,
      fmt::format("{}: its addresses (GIDs) are {} now", name_, text));
  for (auto& [nonce, endpoint] : known_) endpoint->rank_pairs();
}

// Both queues are as long as what may ever wait in them, so neither can overflow.
Status IbInterface::open_queues() {
  const auto failed = [&](const char* what) { return fmt::format("{}: {}", name_, what); };
  channel_ = Owned<ibv_comp_channel>(library_.create_comp_channel(context_.get()), {&library_});
  WEFT_RETURN_IF_ERROR(made(channel_.get(), failed("a completion channel")));
  const int most = device_attributes_.max_cqe;
  receive_depth_ = std::min({ib_.receive_depth, static_cast<std::uint32_t>(most / 2),
                             static_cast<std::uint32_t>(device_attributes_.max_srq_wr)});
  ib_.send_depth =
      std::min(ib_.send_depth, static_cast<std::uint32_t>(device_attributes_.max_qp_wr));
  send_depth_ = static_cast<std::size_t>(std::min(kSends, most / 2));
  ibv_cq* arrivals =
      library_.create_cq(context_.get(), static_cast<int>(receive_depth_) + kDatagramPlaces,
                         nullptr, channel_.get(), 0);
  arrivals_queue_ = Owned<ibv_cq>(arrivals, {&library_});
  WEFT_RETURN_IF_ERROR(made(arrivals, failed("a completion queue")));
  ibv_cq* sends = library_.create_cq(
      context_.get(), static_cast<int>(send_depth_) + kDatagramPlaces, nullptr, channel_.get(), 0);
  sends_queue_ = Owned<ibv_cq>(sends, {&library_});
  WEFT_RETURN_IF_ERROR(made(sends, failed("a completion queue")));
  ibv_srq_init_attr how{};
  how.attr.max_wr = receive_depth_;
  how.attr.max_sge = 1;
  receives_ = Owned<ibv_srq>(library_.create_srq(domain_.get(), &how), {&library_});
  WEFT_RETURN_IF_ERROR(made(receives_.get(), failed("a shared receive queue")));
  WEFT_ASSIGN(receive_memory_, make_buffer(receive_depth_ * kReceiveBytes, IBV_ACCESS_LOCAL_WRITE));
  for (std::uint32_t place = 0; place < receive_depth_; ++place) free_receives_.push_back(place);
  return give_receives();
}

Status IbInterface::open_events() {
  for (const int fd : {channel_->fd, context_->async_fd}) {
    if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
      return system_error(name_ + ": events without waiting", errno);
  }
  woken_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  alarm_ = Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  descriptor_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!woken_.valid() || !alarm_.valid() || !descriptor_.valid())
    return system_error(name_ + ": a descriptor to sleep on", errno);
  for (const int fd : {channel_->fd, context_->async_fd, woken_.get(), alarm_.get()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(descriptor_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      return system_error(name_ + ": a descriptor to sleep on", errno);
  }
  return {};
}

void IbInterface::make_address() {
  fields_.rank = static_cast<std::uint32_t>(rank_);
  fields_.job = options_.job;
  fields_.context = options_.context;
  fields_.channels = options_.channels;
  fields_.slots = options_.slots;
  fields_.payload_bytes = most_payload(RingKind::notices);
  fields_.piece_bytes = most_payload(RingKind::pieces);
  fields_.nonce = random_nonce();
  fields_.datagrams = datagrams_->qp_num;
  fields_.lid = port_.lid;
  fields_.gid_count = static_cast<std::uint8_t>(gids_.size());
  fields_.queue_pairs = static_cast<std::uint8_t>(ib_.queue_pairs);
  for (std::size_t g = 0; g < gids_.size(); ++g) {
    fields_.gids[g].bytes = gids_[g].bytes;
    fields_.gids[g].kind = static_cast<std::uint8_t>(gids_[g].kind);
    fields_.gids[g].prefix_bits = static_cast<std::int8_t>(std::min(gids_[g].prefix_bits, 127));
  }
  fields_.checksum = checksum(fields_);
}

std::string IbInterface::address() const {
  return {reinterpret_cast<const char*>(&fields_), sizeof fields_};
}

Result<Buffer> IbInterface::make_buffer(std::size_t bytes, int access) {
  Result<Buffer> made = Buffer::make(library_, domain_.get(), bytes, access);
  if (!made.ok())
    return Status(made.status().code(), fmt::format("{}: {}", name_, made.status().text()));
  endpoint_bytes_ += made->bytes();
  return made;
}

// Devices differ in how much they take inside of a work request; what they take they say.
Result<Owned<ibv_qp>> IbInterface::make_pair() {
  ibv_qp_init_attr how{};
  how.send_cq = sends_queue_.get();
  how.recv_cq = arrivals_queue_.get();
  how.srq = receives_.get();
  how.qp_type = IBV_QPT_RC;
  how.cap.max_send_wr = ib_.send_depth;
  how.cap.max_send_sge = PostList::kMostParts;
  ibv_qp* pair = nullptr;
  for (how.cap.max_inline_data = kInline; pair == nullptr; how.cap.max_inline_data /= 2) {
    const std::uint32_t asked = how.cap.max_inline_data;
    pair = library_.create_qp(domain_.get(), &how);
    if (pair == nullptr && asked == 0) return made(pair, fmt::format("{}: a queue pair", name_));
    if (pair != nullptr) inline_bytes_ = std::max(asked, how.cap.max_inline_data);
    if (pair != nullptr) break;
  }
  return Owned<ibv_qp>(pair, {&library_});
}

void IbInterface::add_queue(std::uint32_t number, IbEndpoint& endpoint, std::size_t index) {
  queues_[number] = {&endpoint, index};
}

std::uint32_t IbInterface::grant_window() {
  const std::uint32_t wanted = 2 * options_.channels * options_.slots + kLeastWindow;
  const std::uint32_t left = receive_depth_ - std::min(receive_depth_, windows_);
  const std::uint32_t granted =
      std::min({wanted, std::max(left / kShareOfWindow, kLeastWindow), left});
  if (granted < kLeastWindow) return 0;
  windows_ += granted;
  return granted;
}

// A port that is down says so itself; one whose device went away does not answer any more.
Status IbInterface::link() const {
  ibv_port_attr now{};
  WEFT_RETURN_IF_ERROR(
      answered(library_.query_port(context_.get(), static_cast<std::uint8_t>(ib_.port), &now),
               fmt::format("{}: asking the port", name_)));
  if (now.state == IBV_PORT_ACTIVE) return {};
  return Status(Code::unavailable, fmt::format("{}: the port is not active", name_));
}

std::string IbInterface::path_to(const Endpoint& endpoint) const {
  for (const auto& [nonce, known] : known_) {
    if (known.get() != &endpoint) continue;
    const std::string memory = registrar_->exceptions();
    return memory.empty() ? known->path() : fmt::format("{}; memory: {}", known->path(), memory);
  }
  return {};
}

RemoteBuffer IbInterface::describe(const void* pointer, std::size_t bytes) const {
  const std::uint64_t offset = heap_offset(pointer, bytes);
  if (offset != kNotInHeap) return {PieceForm::view, offset, bytes};
  return {PieceForm::process, reinterpret_cast<std::uintptr_t>(pointer), bytes};
}

void IbInterface::begin_work(IbEndpoint& endpoint, bool is_first) {
  ++outstanding_;
  if (is_first) at_work_.push_back(&endpoint);
}

void IbInterface::end_work(std::uint64_t ticket, Status status) {
  --outstanding_;
  completions_.push() = {ticket, std::move(status)};
}

std::size_t IbInterface::poll(std::span<Completion> completions) {
  const auto told =
      std::erase_if(at_work_, [](IbEndpoint* endpoint) { return !endpoint->collect(); });
  if (told != 0 && !replaced_.empty()) drop_forgotten();
  std::size_t count = 0;
  while (count < completions.size() && !completions_.empty()) {
    completions[count++] = std::move(completions_.front());
    completions_.pop();
  }
  return count;
}

void IbInterface::warn_once(const Status& status) {
  constexpr std::size_t kMostWarnings = 16;  // texts with numbers in them have no end
  const std::string text = status.to_string();
  if (warned_.size() < kMostWarnings && warned_.insert(text).second) log(LogLevel::warning, text);
}

void IbEndpoint::broke(const ibv_wc& completion) {
  if (!failure_.ok()) return;
  fail(failed(library_, completion, {path(), peer_}));
}

// The queue pairs are ended: the device touches no memory of the caller any more, and nothing
// arrives. That is so once they are reset, too, and their destruction may last.
void IbEndpoint::fail(const Status& why) {
  if (!failure_.ok()) return;
  failure_ =
      peer_closed() ? Status(Code::peer_left, path() + ": it closed its interface", peer_) : why;
  flush_work(failure_);
  return_window();
  for (Queue& queue : queues_) {
    if (!queue.pair) continue;
    interface_.remove_queue(queue.pair->qp_num);
    interface_.count_retired(queue.posted - queue.retired);
    queue.retired = queue.posted;
    interface_.bury(std::move(queue.pair));
  }
  if (pair_.gid_index >= 0) interface_.routes().mistrust(pair_.peer);
  for (Outgoing& out : outgoing_) {
    for (std::uint32_t s = 0; out.slots != nullptr && s < interface_.options().slots; ++s)
      out.slots[s].use.reset();
    out.local = {};
  }
}

// Soft-RoCE destroys a queue pair when the last of its packets has left, and those that wait for a
// neighbor who does not answer any more stay for seconds. The lane has other paths to serve.
void IbInterface::bury(Owned<ibv_qp> pair) {
  if (closed_ || errands_ == nullptr) return;  // there are no others
  fetch_arrivals();
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RESET;
  if (library_.modify_qp(pair.get(), &to, IBV_QP_STATE) != 0) return;  // destroyed here
  errands_->add(Errands::Need::must,
                [dead = std::make_shared<Owned<ibv_qp>>(std::move(pair))] { dead->reset(); });
}

void IbEndpoint::return_window() {
  interface_.return_window(std::exchange(reserved_, 0));
}

void IbEndpoint::abandon(const Status& why) {
  fail(why);
}

std::string IbEndpoint::path() const {
  const std::string to = fmt::format("{} to rank {}", interface_.name(), peer_);
  if (pair_.gid_index < 0) return to + " (not connected yet)";
  const auto local = std::ranges::find_if(interface_.gids(), [this](const RdmaGid& gid) {
    return gid.index == pair_.gid_index && gid.bytes == pair_.own;
  });
  const auto remote = std::ranges::find_if(peer_gids_, [this](const WireGid& gid) {
    return gid.bytes == pair_.peer && static_cast<GidKind>(gid.kind) == pair_.kind;
  });
  std::string reason;
  if (local != interface_.gids().end() && remote != peer_gids_.end()) {
    reason = ": " + relation_of(*local, {remote->bytes, static_cast<GidKind>(remote->kind),
                                         remote->prefix_bits});
  }
  return fmt::format("{} (GID {}, {} to {}{}{})", to, pair_.gid_index, ip_of(pair_.own),
                     ip_of(pair_.peer), reason, peer_ready_ ? "" : "; not connected yet");
}

// What was posted before leaves first, and the peers are told. Those that have closed take nothing
// more, and may have left what they had already got without an answer.
void IbInterface::close() {
  if (closed_ || process_ != getpid()) return;
  progress();
  report_releases();
  const auto all = [&](auto predicate) {
    return [this, predicate] {
      return std::ranges::all_of(known_, [&](const auto& known) {
        return !known.second->failure().ok() || predicate(*known.second);
      });
    };
  };
  const auto done =
      all([](const IbEndpoint& endpoint) { return endpoint.peer_closed() || endpoint.idle(); });
  const Deadline deadline = Deadline::after_ms(kFarewellMs);
  drain(done, deadline);
  for (auto& [nonce, endpoint] : known_) endpoint->say_goodbye();
  drain(done, deadline);
  closed_ = true;
  const Status flushed(Code::closed, "flushed by close");
  for (auto& [nonce, endpoint] : known_) {
    if (!endpoint->idle()) endpoint->fail(flushed);  // the device lets go of all memory
    endpoint->flush_work(flushed);
  }
}

// A forked child has the objects of its parent, who still uses the device: it lets them lie.
IbInterface::~IbInterface() {
  if (process_ == getpid()) {
    if (descriptor_.valid()) close();
    for (auto& [nonce, endpoint] : known_) endpoint->fail(Status(Code::closed, "closed"));
    errands_.reset();  // when they are closed
    return;
  }
  new auto(std::move(known_));
  new auto(std::move(replaced_));
  (void)registrations_.release();
  (void)registrar_.release();
  (void)errands_.release();
  (void)routes_.release();
  new auto(std::move(exposed_));
  new auto(std::move(receive_memory_));
  new auto(std::move(datagram_memory_));
  (void)datagrams_.release();
  (void)receives_.release();
  (void)sends_queue_.release();
  (void)arrivals_queue_.release();
  (void)channel_.release();
  (void)domain_.release();
  (void)context_.release();
}

}  // namespace ib

Result<std::unique_ptr<Interface>> open_ib(Rank rank, const InterfaceOptions& options,
                                           const IbOptions& ib, AddressResolver resolver) {
  WEFT_ASSIGN(const ib::Library* library, ib::library());
  return ib::IbInterface::open(*library, rank, options, ib, std::move(resolver));
}

}  // namespace weft
