// An ib interface: what it owns for its endpoints, and its end.
#include "verbs/ib/interface.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "verbs/memory/memory.h"

namespace weft::ib {
namespace {

// How long close() waits for what was posted to arrive.
constexpr std::int64_t kFarewellMs = 1000;
// A release and a notice fit into a work request of this size; devices that offer less send them
// from registered memory.
constexpr std::uint32_t kInline = 256;
// One peer gets at most one part in so many of what is left of the receive queue.
constexpr std::uint32_t kShareOfWindow = 8;
// Fewer places are not worth a peer.
constexpr std::uint32_t kLeastWindow = 16;

}  // namespace

std::string IbInterface::address() const {
  return {reinterpret_cast<const char*>(&fields_), sizeof fields_};
}

Result<Buffer> IbInterface::make_buffer(std::size_t bytes, int access) {
  Result<Buffer> made = Buffer::make(library_, device_->domain(), bytes, access);
  if (!made.ok())
    return Status(made.status().code(), fmt::format("{}: {}", name_, made.status().text()));
  endpoint_bytes_ += made->bytes();
  return made;
}

// Devices differ in how many bytes they take inside a work request, and refuse a queue pair that
// asks for more. So less is asked for until one is made; it says what it takes.
Result<Owned<ibv_qp>> IbInterface::make_pair() {
  ibv_qp_init_attr how{};
  how.qp_context = events_.get();
  how.send_cq = sends_queue_.get();
  how.recv_cq = arrivals_queue_.get();
  how.srq = receives_.get();
  how.qp_type = IBV_QPT_RC;
  how.cap.max_send_wr = ib_.send_depth;
  how.cap.max_send_sge = PostList::kMostParts;
  ibv_qp* pair = nullptr;
  for (how.cap.max_inline_data = kInline; pair == nullptr; how.cap.max_inline_data /= 2) {
    const std::uint32_t asked = how.cap.max_inline_data;
    pair = library_.create_qp(device_->domain(), &how);
    if (pair == nullptr && asked == 0)
      return check_pointer(pair, fmt::format("{}: a queue pair", name_));
    if (pair != nullptr) inline_bytes_ = std::max(asked, how.cap.max_inline_data);
    if (pair != nullptr) break;
  }
  return Owned<ibv_qp>(pair, {&library_});
}

void IbInterface::add_queue(std::uint32_t number, IbEndpoint& endpoint, std::size_t index) {
  events_->forget(number);
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
  WEFT_RETURN_IF_ERROR(check_return(
      library_.query_port(device_->context(), static_cast<std::uint8_t>(ib_.port), &now),
      fmt::format("{}: asking the port", name_)));
  if (now.state == IBV_PORT_ACTIVE) return {};
  return Status(Code::unavailable, fmt::format("{}: the port is not active", name_));
}

Control IbInterface::expose(std::uint64_t chunk) {
  Status why;
  const Control answer = device_->expose(chunk, why);
  if (!why.ok()) warn_once(why);
  return answer;
}

std::size_t IbInterface::poll(std::span<Completion> completions) {
  const auto told =
      std::erase_if(at_work_, [](IbEndpoint* endpoint) { return !endpoint->collect(); });
  if (told != 0 && !replaced_.empty()) drop_forgotten();
  return completions_.poll(completions);
}

void IbInterface::warn_once(const Status& status) {
  constexpr std::size_t kMostWarnings = 16;  // texts with numbers in them have no end
  const std::string text = status.to_string();
  if (warned_.size() < kMostWarnings && warned_.insert(text).second) log(LogLevel::warning, text);
}

// Soft-RoCE destroys a queue pair only when the last of its packets has left. Packets that wait for
// a neighbor that does not answer any more stay for seconds. The lane has other paths to serve, so
// a background call destroys the queue pair.
void IbInterface::destroy_later(Owned<ibv_qp> pair) {
  if (closed_ || background_ == nullptr) return;  // there are no other paths to serve
  fetch_arrivals();
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RESET;
  if (library_.modify_qp(pair.get(), &to, IBV_QP_STATE) != 0) return;  // destroyed here
  background_->add(BackgroundCalls::Need::must,
                   [dead = std::make_shared<Owned<ibv_qp>>(std::move(pair))] { dead->reset(); });
}

// What was posted before leaves first, then the peers are told. A peer that has closed takes
// nothing more, and may never acknowledge what it got before; it is not waited for.
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

// A forked child has copies of its parent's objects, and the parent still uses the device. The
// child leaves them alone: nothing is destroyed.
IbInterface::~IbInterface() {
  if (process_ == getpid()) {
    if (descriptor_.valid()) close();
    for (auto& [nonce, endpoint] : known_) endpoint->fail(Status(Code::closed, "closed"));
    background_.reset();  // when they are closed
    return;
  }
  new auto(std::move(known_));
  new auto(std::move(replaced_));
  (void)registrations_.release();
  (void)memory_.release();
  (void)background_.release();
  (void)routes_.release();
  new auto(std::move(receive_memory_));
  datagrams_.let_lie();
  (void)receives_.release();
  (void)sends_queue_.release();
  (void)arrivals_queue_.release();
  (void)channel_.release();
  (void)events_.release();
  new auto(std::move(exposed_));
  new auto(std::move(device_));
}

}  // namespace weft::ib
