// Completions: whose each one is, and the buffers of the shared receive queue.
#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "verbs/ib/interface.h"

namespace weft::ib {
namespace {

// Receive buffers are given back so many at a time.
constexpr std::size_t kGiveBack = 16;

}  // namespace

// A completion is a datagram's if its queue pair is that of the datagrams.
std::size_t IbInterface::take_messages() {
  std::array<ibv_wc, kAtOnce> completions;
  const std::uint32_t returned = returned_;
  const std::size_t early = take_early_arrivals(completions);
  const int count = early != 0
                        ? static_cast<int>(early)
                        : library_.poll_cq(arrivals_queue_.get(), kAtOnce, completions.data());
  if (count < 0) [[unlikely]] {
    warn_once(check_count(count, name_ + ": its receive completions"));
    return 0;
  }
  // The queue was found empty. So it holds nothing of those peers whose windows came back before,
  // and their places are free.
  if (early == 0 && count < kAtOnce) {
    windows_ -= returned;
    returned_ -= returned;
  }
  for (int c = 0; c < count; ++c) {
    const ibv_wc& completion = completions[static_cast<std::size_t>(c)];
    if (completion.qp_num != datagrams_.number()) {
      take_message(completion);
    } else if (datagrams_.is_stale(completion)) {
      continue;
    } else if (completion.status == IBV_WC_SUCCESS) {
      take_datagram(completion);
    } else {
      datagram_failed(completion, "receiving a datagram");
    }
  }
  if (free_receives_.size() >= kGiveBack || (count == 0 && !free_receives_.empty())) {
    if (const Status given = give_receives(); !given.ok()) warn_once(given);
  }
  return static_cast<std::size_t>(count);
}

std::size_t IbInterface::take_early_arrivals(std::span<ibv_wc> completions) {
  std::size_t count = 0;
  for (; count < completions.size() && !early_arrivals_.empty(); early_arrivals_.pop())
    completions[count++] = early_arrivals_.front();
  return count;
}

// Drivers remove the completions of a queue pair that is reset. The places of the receive queue
// that those completions name would be lost with them, so everything that has come is fetched
// before.
void IbInterface::fetch_arrivals() {
  std::array<ibv_wc, kAtOnce> completions;
  for (std::uint32_t most = receive_depth_; most != 0;) {  // each took a place, but for datagrams
    const int count = library_.poll_cq(arrivals_queue_.get(), kAtOnce, completions.data());
    if (count <= 0) return;
    for (const ibv_wc& completion : std::span(completions).first(static_cast<std::size_t>(count)))
      early_arrivals_.push() = completion;
    most -= std::min(most, static_cast<std::uint32_t>(count));
  }
}

void IbInterface::take_message(const ibv_wc& completion) {
  const auto found = queues_.find(completion.qp_num);
  IbEndpoint* from = found == queues_.end() ? nullptr : found->second.endpoint;
  const bool good = completion.status == IBV_WC_SUCCESS;
  if (completion.wr_id < receive_depth_)
    free_receives_.push_back(static_cast<std::uint32_t>(completion.wr_id));
  if (from == nullptr) return;  // a path that has ended
  if (!good) return from->broke(completion);
  bool taken = false;
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    taken = from->take_notice(decode(ntohl(completion.imm_data)));
  } else if (completion.byte_len == sizeof(Control)) {
    Control control;
    std::memcpy(&control, receive_memory_.data() + completion.wr_id * kReceiveBytes,
                sizeof control);
    taken = from->take_control(control);
  }
  from->count_received();
  if (taken) return;
  from->fail(Status(Code::mismatch, fmt::format("{}: it breaks the protocol", from->path()),
                    from->peer()));
}

std::size_t IbInterface::take_completions() {
  std::array<ibv_wc, kAtOnce> completions;
  const int count = library_.poll_cq(sends_queue_.get(), kAtOnce, completions.data());
  if (count < 0) [[unlikely]] {
    warn_once(check_count(count, name_ + ": its send completions"));
    return 0;
  }
  for (int c = 0; c < count; ++c) {
    const ibv_wc& completion = completions[static_cast<std::size_t>(c)];
    if (completion.qp_num == datagrams_.number()) {
      if (datagrams_.is_stale(completion)) continue;
      datagrams_.retire();
      if (completion.status != IBV_WC_SUCCESS) datagram_failed(completion, "sending a datagram");
      continue;
    }
    const auto found = queues_.find(completion.qp_num);
    if (found == queues_.end()) continue;
    const Owner owner = found->second;
    if (completion.status != IBV_WC_SUCCESS) {
      // The first request that fails shows that all before it on its queue pair have ended well.
      if (completion.status != IBV_WC_WR_FLUSH_ERR)
        owner.endpoint->retire(owner.index, completion.wr_id - 1);
      owner.endpoint->broke(completion);
    } else {
      owner.endpoint->retire(owner.index, completion.wr_id);
    }
  }
  return static_cast<std::size_t>(count);
}

Status IbInterface::give_receives() {
  std::array<ibv_recv_wr, kGiveBack> requests;
  std::array<ibv_sge, kGiveBack> parts;
  while (!free_receives_.empty()) {
    const std::size_t count = std::min(kGiveBack, free_receives_.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t place = free_receives_[free_receives_.size() - 1 - i];
      parts[i] = {receive_memory_.address() + place * kReceiveBytes, kReceiveBytes,
                  receive_memory_.lkey()};
      requests[i] = {place, i + 1 < count ? &requests[i + 1] : nullptr, &parts[i], 1};
    }
    ibv_recv_wr* bad = nullptr;
    const Status given =
        check_return(library_.post_srq_recv(receives_.get(), requests.data(), &bad),
                     name_ + ": buffers for its shared receive queue");
    // Those before `bad` were taken.
    const std::ptrdiff_t taken = given.ok() ? std::ptrdiff_t(count) : bad - requests.data();
    free_receives_.resize(free_receives_.size() - static_cast<std::size_t>(taken));
    WEFT_RETURN_IF_ERROR(given);
  }
  return {};
}

}  // namespace weft::ib
