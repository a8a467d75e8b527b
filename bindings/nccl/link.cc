// link: turns, and whether the peer is there.
#include "bindings/nccl/link.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "engine/lane/lane.h"

namespace weft::nccl {
namespace {

// How often the socket is looked at. The end of a process is seen that late.
constexpr std::int64_t kLookNs = 10'000'000;
// So many turns more, if something waits to be sent.
constexpr int kMostTurns = 4;
// A link that NCCL has not called for so long is looked after by Turns. A turn in between would only
// take the events that NCCL's next call wants.
constexpr std::int64_t kUnusedNs = 2'000'000;
// The longest wait at the end of a link.
constexpr std::int64_t kFlushNs = 1'000'000'000;

std::string_view what_is(Rank rank) {
  return rank == kSender ? "sender" : "receiver";
}

}  // namespace

Result<std::unique_ptr<Link>> Link::open(const Network& network, Rank self, std::uint32_t job) {
  return open(self, network.patience_ns(), [&](AddressResolver resolver) {
    return network.open_interface(self, job, std::move(resolver));
  });
}

Result<std::unique_ptr<Link>> Link::open(Rank self, std::int64_t patience_ns,
                                         const Opener& opener) {
  std::unique_ptr<Link> link(new Link(self, patience_ns));
  WEFT_ASSIGN(link->interface_, opener([&link = *link](Rank) -> Result<std::string> {
                if (!link.peer_address_.empty()) return link.peer_address_;
                return Status(Code::unavailable, "the other end is not known yet");
              }));
  return link;
}

// The peer may wait for the answer to its last write, which it was told of by nothing else.
Link::~Link() {
  if (interface_ == nullptr) return;
  const std::int64_t end = now_ns() + kFlushNs;
  while (failure_.ok() && !interface_->flushed() && now_ns() < end) progress();
  interface_->close();
}

Status Link::connect(const std::string& peer_address, int device, int peer_device) {
  peer_address_ = peer_address;
  WEFT_ASSIGN(peer_, interface_->connect(1 - self_, peer_address));
  peer_->use_members(std::span(&device, 1), std::span(&peer_device, 1));
  return {};
}

std::unique_lock<std::mutex> Link::enter() {
  std::unique_lock lock(mutex_);
  entered_ns_ = now_ns();
  if (std::exchange(is_armed_, false)) interface_->disarm();
  return lock;
}

// What came before arm() is announced by no event, so another turn follows it.
Link::Rest Link::rest() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return Rest::none;
  if (std::exchange(is_armed_, false)) interface_->disarm();
  if (!failure_.ok() || !peer_->failure().ok()) return Rest::for_good;
  if (now_ns() - entered_ns_ < kUnusedNs) return Rest::none;
  progress();
  is_armed_ = true;
  const bool is_safe = interface_->arm();
  progress();
  return is_safe && interface_->flushed() ? Rest::until_event : Rest::none;
}

// What a turn takes in may need an answer, which another turn sends.
void Link::progress() {
  interface_->progress();
  for (int turn = 0; turn < kMostTurns && !interface_->flushed(); ++turn) interface_->progress();
  std::array<Completion, 16> ended;
  for (std::size_t count = ended.size(); count == ended.size();) {
    count = interface_->poll(ended);
    for (std::size_t e = 0; e < count; ++e)
      WorkOwner::of(ended[e].ticket).work_ended(ended[e].status);
  }
}

Status Link::check() {
  if (!failure_.ok()) return failure_;
  const auto left = [this] {
    return Status(
        Code::peer_left,
        fmt::format("the {} has closed its end, or its process has ended", what_is(1 - self_)));
  };
  if (const Status& path = peer_->failure(); !path.ok()) {
    fail(path.code() == Code::peer_left ? left() : path);
    return failure_;
  }
  const std::int64_t now = now_ns();
  if (now - looked_ns_ < kLookNs) return {};
  looked_ns_ = now;
  std::byte nothing;
  const ssize_t got = ::recv(socket_.get(), &nothing, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return {};
  fail(left());
  return failure_;
}

void Link::fail(const Status& why) {
  if (!failure_.ok()) return;
  failure_ = why;
  peer_->abandon(why);
}

}  // namespace weft::nccl
