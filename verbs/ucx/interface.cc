// Setup and teardown of a ucx interface: its UCX context and worker, its address, its end.
#include "verbs/ucx/interface.h"

#include <fmt/core.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "verbs/memory/memory.h"

namespace weft {

Result<std::unique_ptr<Interface>> open_ucx(Rank rank, const InterfaceOptions& options,
                                            const UcxOptions& ucx, AddressResolver resolver) {
  return ucx::UcxInterface::open(rank, options, ucx, std::move(resolver));
}

namespace ucx {
namespace {

// How long close() waits until what was posted has left, and how long teardown waits until UCX has
// let go of it.
constexpr std::int64_t kFarewellMs = 1000;
// How long abandon() lets a path finish what it is writing.
constexpr std::int64_t kLastWritesMs = 20;
// If a path could not finish within kLastWritesMs, no path gets that time for so long (let_go()).
constexpr std::int64_t kStuckNs = 1'000'000'000;

// File descriptors that must be free before a worker is made. UCX 1.13 aborts the process if a
// worker cannot open what it needs. The first worker of a process takes 7 descriptors, and one or
// two more for a moment.
constexpr int kWorkerDescriptors = 12;

// UCX's settings that differ from its defaults. UCX 1.13 knows a transport's settings without the
// transport's name, other versions know them with it. Each ignores the names that it does not know.
//  - RCACHE_ENABLE: the registration cache would patch the process's memory functions, and TCP
//    registers nothing.
//  - CONN_NB: no lane waits for a host that does not answer.
//  - KEEP…: a dead host is noticed within 15 s even if nothing is under way.
//  - …_SEG_SIZE: a segment holds a piece and its headers. UCX has as many segments as it sends and
//    receives at a time, not one per peer.
constexpr std::pair<const char*, const char*> kSettings[] = {
    {"RCACHE_ENABLE", "n"},
    {"CONN_NB", "y"},
    {"KEEPIDLE", "5s"},
    {"KEEPINTVL", "2s"},
    {"KEEPCNT", "5"},
    {"TCP_CONN_NB", "y"},
    {"TCP_KEEPIDLE", "5s"},
    {"TCP_KEEPINTVL", "2s"},
    {"TCP_KEEPCNT", "5"},
    {"TX_SEG_SIZE", "520k"},
    {"TCP_TX_SEG_SIZE", "520k"},
    {"RX_SEG_SIZE", "520k"},
    {"TCP_RX_SEG_SIZE", "520k"},
};

std::uint64_t random_nonce() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

std::size_t lines_for(std::size_t payload) {
  return (std::max(payload, kControlBytes) + kLine - 1) / kLine * kLine;
}

// UCX 1.16 has other protocols, and over other networks its answers take other ways.
bool answers_may_abort(const Library& library, const UcxOptions& ucx) {
  unsigned major = 0, minor = 0, release = 0;
  library.get_version(&major, &minor, &release);
  return major == 1 && minor < 16 && ucx.transports == "tcp";
}

// UCX completes a message twice whose data it was sending without a copy when the peer's death shows
// at its socket, and aborts the process (verbs/ucx/README.md). All versions do, over TCP alone.
bool sends_must_copy(const UcxOptions& ucx) {
  return ucx.transports == "tcp";
}

// The names of the kernel's network interfaces, for the error if the device that was asked for is
// not there.
std::string devices_here() {
  std::string names;
  struct if_nameindex* all = if_nameindex();
  for (const struct if_nameindex* one = all; one != nullptr && one->if_index != 0; ++one)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", one->if_name);
  if (all != nullptr) if_freenameindex(all);
  return names;
}

}  // namespace

UcxInterface::UcxInterface(Rank rank, const InterfaceOptions& options, const UcxOptions& ucx,
                           const Library& library, AddressResolver resolver)
    : Interface("ucx:" + ucx.device, std::max(ucx.piece_bytes, options.payload_bytes), true),
      rank_(rank),
      options_(options),
      payload_stride_(lines_for(options.payload_bytes)),
      device_(ucx.device),
      resolver_(std::move(resolver)),
      library_(library),
      greets_first_(answers_may_abort(library, ucx)),
      eager_work_bytes_(sends_must_copy(ucx) ? piece_bytes_ : payload_stride_),
      process_(getpid()),
      nonce_(random_nonce()),
      batch_bytes_(std::max(kBatchBytes, part_bytes(sizeof(NoticeMessage), payload_stride_))),
      payloads_(payload_stride_, endpoint_bytes_),
      pieces_(piece_bytes_, endpoint_bytes_) {}

Result<std::unique_ptr<Interface>> UcxInterface::open(Rank rank, const InterfaceOptions& options,
                                                      const UcxOptions& ucx,
                                                      AddressResolver resolver) {
  if (!std::has_single_bit(options.slots) || options.slots > kMostSlots || options.channels < 1 ||
      options.channels > kMostChannels) {
    return Status(
        Code::invalid_argument,
        fmt::format("a ucx interface needs 1 to {} channels (not {}) and a power of two of "
                    "slots, at most {} (not {})",
                    kMostChannels, options.channels, kMostSlots, options.slots));
  }
  if (rank < 0 || ucx.device.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("a ucx interface needs a rank (not {}) and a device (not \"{}\")",
                              rank, ucx.device));
  }
  WEFT_RETURN_IF_ERROR(check_descriptors("opening ucx:" + ucx.device, kWorkerDescriptors));
  const SignalsBlocked blocked;  // in the threads that UCX starts
  WEFT_ASSIGN(const Library* library, ucx::library());
  std::unique_ptr<UcxInterface> interface(
      new UcxInterface(rank, options, ucx, *library, std::move(resolver)));
  WEFT_RETURN_IF_ERROR(interface->listen_within(ucx));
  WEFT_RETURN_IF_ERROR(interface->open_worker());
  return std::unique_ptr<Interface>(std::move(interface));
}

// UCX 1.13 tries the ports of a range for ever if all of them are taken. So it gets one at a time. The
// first is drawn, since many ranks look for one at once.
Status UcxInterface::listen_within(const UcxOptions& ucx) {
  const std::uint32_t count = ucx.ports.last - ucx.ports.first + 1U;
  const auto start = static_cast<std::uint32_t>(random_nonce() % count);
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::uint32_t port = ucx.ports.first + (start + k) % count;
    WEFT_ASSIGN(const bool listens, listen(ucx, static_cast<std::uint16_t>(port)));
    if (listens) return {};
  }
  return Status(Code::exhausted,
                fmt::format("opening {}: all ports from {} to {} are taken "
                            "(WEFT_UCX_PORTS); each context, lane and interface of "
                            "a rank needs one",
                            name_, ucx.ports.first, ucx.ports.last));
}

// The thread mode is serialized and not single, because UCX is called by whoever holds the lane's
// token, and that may be another thread each time.
Result<bool> UcxInterface::listen(const UcxOptions& ucx, std::uint16_t port) {
  WEFT_RETURN_IF_ERROR(open_context(ucx, port));
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  params.am_alignment = kLine;  // pieces are combined where UCX has put them
  const ucs_status_t status = library_.worker_create(context_, &params, &worker_);
  if (status == UCS_OK) return true;
  worker_ = nullptr;
  if (port == 0 || status != UCS_ERR_BUSY)
    return ucx_error(fmt::format("opening {}", name_), status);
  library_.cleanup(std::exchange(context_, nullptr));
  return false;
}

Status UcxInterface::open_context(const UcxOptions& ucx, std::uint16_t port) {
  const auto failed = [&](ucs_status_t status) {
    const std::string here = status == UCS_ERR_NO_DEVICE
                                 ? fmt::format(" (network devices here: {})", devices_here())
                                 : std::string();
    return ucx_error(fmt::format("opening {} with {}{}", name_, ucx.transports, here), status);
  };
  (void)take_words();
  ucp_config_t* config = nullptr;
  ucs_status_t status = library_.config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return failed(status);
  const auto set = [&](const char* name, const char* value) {
    if (status == UCS_OK) status = library_.config_modify(config, name, value);
  };
  set("TLS", ucx.transports.c_str());
  set("NET_DEVICES", ucx.device.c_str());
  for (const auto& [name, value] : kSettings) set(name, value);
  if (sends_must_copy(ucx)) set("ZCOPY_THRESH", "inf");
  const std::string range = std::to_string(port);
  for (const char* name : {"PORT_RANGE", "TCP_PORT_RANGE"}) {
    if (port != 0) set(name, range.c_str());
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  if (status == UCS_OK)
    status = library_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  library_.config_release(config);
  return status == UCS_OK ? Status() : failed(status);
}

Status UcxInterface::open_worker() {
  ucs_status_t status = library_.worker_get_efd(worker_, &descriptor_);
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kActiveMessage;
  handler.cb = on_message;
  handler.arg = this;
  if (status == UCS_OK) status = library_.worker_set_am_recv_handler(worker_, &handler);
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  if (status == UCS_OK) status = library_.worker_get_address(worker_, &address, &bytes);
  if (status != UCS_OK) return ucx_error(fmt::format("opening {}", name_), status);
  make_address({reinterpret_cast<const char*>(address), bytes});
  library_.worker_release_address(worker_, address);
  if (address_.size() > kAddressBytes) {
    return Status(Code::exhausted,
                  fmt::format("{}: UCX's address has {} bytes, more than {} fit; name one device",
                              name_, bytes, kAddressBytes - sizeof(Address)));
  }
  return {};
}

void UcxInterface::make_address(std::string_view worker) {
  fields_.rank = static_cast<std::uint32_t>(rank_);
  fields_.job = options_.job;
  fields_.context = options_.context;
  fields_.channels = options_.channels;
  fields_.slots = options_.slots;
  fields_.payload_bytes = options_.payload_bytes;
  fields_.piece_bytes = piece_bytes_;
  fields_.nonce = nonce_;
  fields_.worker_bytes = worker.size();
  fields_.checksum = checksum(fields_, worker);
  address_.assign(reinterpret_cast<const char*>(&fields_), sizeof fields_);
  address_ += worker;
}

// A device that is not one of the kernel's network interfaces, such as "mlx5_0:1", has no link that
// could be asked for here. It counts as working.
Status UcxInterface::link() const {
  const Fd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  if (!any.valid() || device_.size() >= sizeof request.ifr_name) return {};
  std::memcpy(request.ifr_name, device_.data(), device_.size());
  if (ioctl(any.get(), SIOCGIFFLAGS, &request) != 0) {
    if (errno != ENODEV || device_.find(':') != std::string::npos) return {};
    return Status(Code::unavailable, name_ + ": the device is gone");
  }
  if ((request.ifr_flags & IFF_UP) == 0) return Status(Code::unavailable, name_ + ": it is down");
  if ((request.ifr_flags & IFF_RUNNING) == 0)
    return Status(Code::unavailable, name_ + ": no carrier");
  return {};
}

void UcxInterface::collect_later(UcxEndpoint& endpoint) {
  if (std::ranges::find(at_work_, &endpoint) == at_work_.end()) at_work_.push_back(&endpoint);
}

void UcxInterface::proceed_later(UcxEndpoint& endpoint) {
  if (std::ranges::find(stalled_, &endpoint) == stalled_.end()) stalled_.push_back(&endpoint);
}

std::size_t UcxInterface::poll(std::span<Completion> completions) {
  std::erase_if(at_work_, [](UcxEndpoint* endpoint) { return !endpoint->one_sided().collect(); });
  return completions_.poll(completions);
}

std::unique_ptr<Batch> UcxInterface::take_batch() {
  if (free_batches_.empty()) {
    auto batch = std::make_unique<Batch>();
    batch->bytes = make_lines(batch_bytes_);
    count_bytes(batch_bytes_);
    return batch;
  }
  auto batch = std::move(free_batches_.back());
  free_batches_.pop_back();
  batch->used = 0;
  return batch;
}

void UcxInterface::warn_once(const Status& status) {
  if (!std::exchange(warned_, true)) log(LogLevel::warning, status.to_string());
}

// UCX cancels its requests at the next progress and waits for no peer. The deadline only guards
// against an error of UCX.
void UcxInterface::wait_closed(const UcxEndpoint& endpoint) {
  drain([&] { return !endpoint.closing() && !endpoint.holds_memory(); },
        Deadline::after_ms(kFarewellMs));
}

// Waits a moment until the path has finished what it is writing. If one path could not, the next
// ones are not waited for (kStuckNs), because the lane has other interfaces to serve.
void UcxInterface::let_go(const UcxEndpoint& endpoint) {
  const std::int64_t now = now_ns();
  if (stuck_ns_ != 0 && now - stuck_ns_ < kStuckNs) return;
  const bool is_done =
      drain([&] { return !endpoint.holds_memory(); }, Deadline::after_ms(kLastWritesMs));
  stuck_ns_ = is_done ? 0 : now;
}

bool UcxInterface::drain(const std::function<bool()>& done, const Deadline& deadline) {
  while (!done()) {
    if (deadline.passed()) return false;
    if (!greeters_.empty() && greet_peers()) continue;
    if (library_.worker_progress(worker_) == 0) wait_for_event(deadline.ns() - now_ns());
  }
  return true;
}

// What was posted before leaves first. After close() UCX holds no memory of the caller. Copies that
// a peer has not accepted so far may still leave by progress().
void UcxInterface::close() {
  if (closed_ || process_ != getpid()) return;
  progress();  // peers that have just connected get a goodbye, too
  report_releases();
  closed_ = true;
  std::vector<UcxEndpoint*> open;
  for (auto& [nonce, endpoint] : known_) answer_later(*endpoint);
  answer_strangers();
  for (auto& [nonce, endpoint] : known_) {
    if (!endpoint->connected() || !endpoint->failure().ok()) continue;
    if (!endpoint->peer_closed()) endpoint->say_goodbye();
    open.push_back(endpoint.get());
  }
  const auto all = [&](auto predicate) {
    return [&open, predicate] { return std::all_of(open.begin(), open.end(), predicate); };
  };
  // A flush does not wait for memory that the peer fetches, and such transfers must not be cut off
  // (abandon()). So holds_memory() is waited for, too.
  drain(all([](UcxEndpoint* endpoint) { return endpoint->flushed() && !endpoint->holds_memory(); }),
        Deadline::after_ms(kFarewellMs));
  for (UcxEndpoint* endpoint : open) {
    if (endpoint->holds_memory()) endpoint->disconnect();
    wait_closed(*endpoint);
  }
  for (UcxEndpoint* endpoint : open)
    endpoint->one_sided().flush(Status(Code::closed, "flushed by close"));
}

// A forked child has a copy of UCX's objects but not UCX's threads. It leaves the objects alone,
// because its parent still uses the sockets.
UcxInterface::~UcxInterface() {
  if (process_ != getpid()) return;
  if (worker_ != nullptr) {
    close();
    for (auto& [nonce, endpoint] : known_) {
      if (!endpoint->failure().ok() && !endpoint->may_be_asked()) endpoint->disconnect();
    }
    drain([this] { return sending_ == 0 && greeters_.empty(); }, Deadline::after_ms(kFarewellMs));
    // A connection over which UCX may have to answer ends with the worker, unless a question of our own
    // is still open on it, for which the worker would wait.
    for (auto& [nonce, endpoint] : known_) {
      if (!endpoint->may_be_asked() || endpoint->has_open_question()) endpoint->disconnect();
    }
    const auto let_go = [](const auto& known) { return !known.second->closing(); };
    drain([&] { return std::all_of(known_.begin(), known_.end(), let_go); },
          Deadline::after_ms(kFarewellMs));
    for (auto& [nonce, endpoint] : known_) endpoint->drop_arrivals();
    for (auto& endpoint : replaced_) endpoint->drop_arrivals();
    if (!answered_all()) return;
    library_.worker_destroy(worker_);
  }
  if (context_ != nullptr) library_.cleanup(context_);
}

// Whether the worker can be destroyed. UCX aborts the process if a worker is destroyed that still
// owes a peer the answer to a connection request. A worker that cannot send this answer in time is
// left behind.
bool UcxInterface::answered_all() {
  bool flushing = true;
  const ucp_request_param_t how = until_finished(&flushing, 0);
  if (!UCS_PTR_IS_PTR(library_.worker_flush(worker_, &how))) return true;
  if (drain([&] { return !flushing; }, Deadline::after_ms(kFarewellMs))) return true;
  log(LogLevel::warning, fmt::format("{}: a connection is half made, and UCX could not be told to "
                                     "forget it: its worker is left behind",
                                     name_));
  return false;
}

}  // namespace ucx
}  // namespace weft
