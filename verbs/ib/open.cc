// Opening an ib interface: device, port, queues, addresses.
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

#include "verbs/ib/interface.h"
#include "verbs/memory/memory.h"

namespace weft {

namespace ib {
namespace {

// Work requests under way on all queue pairs together, where the device has room for so many.
constexpr int kSends = 8192;
// Places in the completion queues for datagrams: more than are ever under way.
constexpr int kDatagramPlaces = 256;
static_assert(kDatagramPlaces > Datagrams::kReceives && kDatagramPlaces > Datagrams::kSends);

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
    : Interface(fmt::format("ib:{}/{}", ib.device, ib.port),
                std::max(ib.piece_bytes, options.payload_bytes), true),
      rank_(rank),
      options_(options),
      ib_(ib),
      resolver_(std::move(resolver)),
      library_(library),
      process_(getpid()),
      notice_stride_(stride_for(std::max(options.payload_bytes, kControlBytes))),
      piece_stride_(stride_for(piece_bytes_)),
      datagrams_(library, name_, ib.port) {}

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
  WEFT_ASSIGN(device_, SharedDevice::open(library_, ib_.device));
  woken_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!woken_.valid()) return system_error(name_ + ": a descriptor to sleep on", errno);
  events_ = std::make_unique<DeviceEvents::Listener>(device_->events(), woken_.get());
  memory_ = std::make_unique<CallerMemory>(*device_, ib_.device_memory.exporter);
  registrations_ = std::make_unique<Registrations>(
      *memory_, registration_options(ib_),
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
  WEFT_RETURN_IF_ERROR(check_return(
      library_.query_port(device_->context(), static_cast<std::uint8_t>(ib_.port), &port_),
      fmt::format("{}: asking the port", name_)));
  // A RoCE port whose cable is out is used once it is in: link() tells. Of an InfiniBand port that
  // is not active nobody knows the address.
  if (port_.state != IBV_PORT_ACTIVE && port_.link_layer != IBV_LINK_LAYER_ETHERNET)
    return Status(Code::unavailable, fmt::format("{}: the port is not active", name_));
  WEFT_ASSIGN(gids_, usable_gids());
  return {};
}

Result<std::vector<RdmaGid>> IbInterface::usable_gids() const {
  WEFT_ASSIGN(const std::vector<RdmaGid> all, read_gids(library_, device_->context(), ib_.port));
  std::vector<RdmaGid> usable;
  std::string reasons;
  for (RdmaGid gid : all) {
    if (ib_.gid_index >= 0 && gid.index != ib_.gid_index) continue;
    gid.usable |= gid.lacks_carrier;
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

// Called when the port's addresses may have changed. Paths that live keep theirs for as long as the
// kernel does. Paths that connect from here on, anew or again, use the new ones. Peers are not
// told: a greeting carries the address that it came from, so they learn a new address from a
// greeting that we begin.
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
  channel_ = Owned<ibv_comp_channel>(library_.create_comp_channel(device_->context()), {&library_});
  WEFT_RETURN_IF_ERROR(check_pointer(channel_.get(), failed("a completion channel")));
  const int most = device().max_cqe;
  receive_depth_ = std::min({ib_.receive_depth, static_cast<std::uint32_t>(most / 2),
                             static_cast<std::uint32_t>(device().max_srq_wr)});
  ib_.send_depth = std::min(ib_.send_depth, static_cast<std::uint32_t>(device().max_qp_wr));
  send_depth_ = static_cast<std::size_t>(std::min(kSends, most / 2));
  ibv_cq* arrivals =
      library_.create_cq(device_->context(), static_cast<int>(receive_depth_) + kDatagramPlaces,
                         events_.get(), channel_.get(), 0);
  arrivals_queue_ = Owned<ibv_cq>(arrivals, {&library_});
  WEFT_RETURN_IF_ERROR(check_pointer(arrivals, failed("a completion queue")));
  ibv_cq* sends =
      library_.create_cq(device_->context(), static_cast<int>(send_depth_) + kDatagramPlaces,
                         events_.get(), channel_.get(), 0);
  sends_queue_ = Owned<ibv_cq>(sends, {&library_});
  WEFT_RETURN_IF_ERROR(check_pointer(sends, failed("a completion queue")));
  ibv_srq_init_attr how{};
  how.srq_context = events_.get();
  how.attr.max_wr = receive_depth_;
  how.attr.max_sge = 1;
  receives_ = Owned<ibv_srq>(library_.create_srq(device_->domain(), &how), {&library_});
  WEFT_RETURN_IF_ERROR(check_pointer(receives_.get(), failed("a shared receive queue")));
  WEFT_ASSIGN(receive_memory_, make_buffer(receive_depth_ * kReceiveBytes, IBV_ACCESS_LOCAL_WRITE));
  for (std::uint32_t place = 0; place < receive_depth_; ++place) free_receives_.push_back(place);
  return give_receives();
}

Status IbInterface::open_events() {
  if (::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK) != 0)
    return system_error(name_ + ": events without waiting", errno);
  alarm_ = Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  descriptor_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!alarm_.valid() || !descriptor_.valid())
    return system_error(name_ + ": a descriptor to sleep on", errno);
  for (const int fd : {channel_->fd, device_->context()->async_fd, woken_.get(), alarm_.get()}) {
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
  fields_.payload_bytes = options_.payload_bytes;
  fields_.piece_bytes = most_payload(RingKind::pieces);
  fields_.nonce = random_nonce();
  fields_.datagrams = datagrams_.number();
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

}  // namespace ib

Result<std::unique_ptr<Interface>> open_ib(Rank rank, const InterfaceOptions& options,
                                           const IbOptions& ib, AddressResolver resolver) {
  WEFT_ASSIGN(const ib::Library* library, ib::library());
  return ib::IbInterface::open(*library, rank, options, ib, std::move(resolver));
}

Status check_dma_bufs(const std::string& device) {
  WEFT_ASSIGN(const ib::Library* library, ib::library());
  WEFT_ASSIGN(const std::shared_ptr<ib::SharedDevice> opened,
              ib::SharedDevice::open(*library, device));
  return opened->registrar().check_dma_bufs();
}

}  // namespace weft
