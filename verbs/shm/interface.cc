// Setup and teardown of an shm interface: the control block where peers find this rank, its
// address.
#include "verbs/shm/interface.h"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <new>

namespace weft {

Result<std::unique_ptr<Interface>> open_shm(Rank rank, const InterfaceOptions& options,
                                            AddressResolver resolver) {
  return shm::ShmInterface::open(rank, options, std::move(resolver));
}

Result<std::shared_ptr<const PeerHeap>> shm_heap(std::string_view address) {
  shm::Address decoded;
  if (address.size() != sizeof decoded) {
    return Status(Code::mismatch, fmt::format("an shm address has {} bytes, not {}", sizeof decoded,
                                              address.size()));
  }
  std::memcpy(&decoded, address.data(), sizeof decoded);
  return PeerHeap::open(decoded.heap);
}

namespace shm {

namespace {

// The core that this thread is bound to, or -1.
std::int32_t bound_core() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) != 1) return -1;
  std::int32_t core = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(core), &set)) ++core;
  return core;
}

}  // namespace

ShmInterface::ShmInterface(Rank rank, const InterfaceOptions& options, AddressResolver resolver)
    : Interface("shm", options.payload_bytes, false),
      rank_(rank),
      options_(options),
      geometry_(geometry_of(options)),
      resolver_(std::move(resolver)) {}

Result<std::unique_ptr<Interface>> ShmInterface::open(Rank rank, const InterfaceOptions& options,
                                                      AddressResolver resolver) {
  if (!std::has_single_bit(options.slots) || options.channels < 1) {
    return Status(
        Code::invalid_argument,
        fmt::format("an interface needs channels (not {}) and a power of two of slots (not {})",
                    options.channels, options.slots));
  }
  const std::uint32_t payload_slots = geometry_of(options).payload_slots;
  if (!std::has_single_bit(payload_slots) || payload_slots > options.slots) {
    return Status(Code::invalid_argument,
                  fmt::format("payloads take a power of two of the {} slots (not {})",
                              options.slots, payload_slots));
  }
  if (rank < 0 || static_cast<std::size_t>(rank) >= kMostRanks) {
    return Status(Code::invalid_argument,
                  fmt::format("rank {} is not one of the {} that shared memory can tell apart",
                              rank, kMostRanks));
  }
  std::unique_ptr<ShmInterface> interface(new ShmInterface(rank, options, std::move(resolver)));
  // Before the control block is taken: an interface leaves its control block only if this process
  // has opened it.
  WEFT_ASSIGN(interface->identity_, heap_identity());
  WEFT_ASSIGN(ControlBlock* const block, take_control_block());
  interface->block_ = block;
  block->wire_version = kVersion;
  block->job = options.job;
  block->rank = static_cast<std::uint32_t>(rank);
  block->context = options.context;
  block->channels = options.channels;
  block->slots = options.slots;
  block->payload_slots = payload_slots;
  block->payload_bytes = options.payload_bytes;
  block->core = bound_core();
  block->magic = ControlBlock::kMagic;
  interface->block_name_ = name_of(*block);
  return std::unique_ptr<Interface>(std::move(interface));
}

// Other ranks may still look at the control block and the rings, which are reused later
// (control_block.h, body.h).
ShmInterface::~ShmInterface() {
  close();
  if (!is_ours()) return;
  if (bell_.valid()) withdraw_descriptor(bell_.get());
  block_->bell.store(-1, std::memory_order_release);
  for (const auto& [number, exposed] : exposed_) clear_mark(exposed);
  for (auto& [rank, endpoint] : endpoints_) endpoint->leave();
  for (auto& endpoint : replaced_) endpoint->leave();
  leave_control_block(block_, std::move(rings_));
}

// A forked child that destroys its copy does not close the interface of its parent, whose control
// block it shares.
bool ShmInterface::is_ours() const {
  return block_ != nullptr && identity_.process == getpid();
}

void ShmInterface::close() {
  if (is_ours()) {
    for (auto& [rank, endpoint] : endpoints_) endpoint->look_away();
    for (auto& endpoint : replaced_) endpoint->look_away();
  }
  closed_ = true;
  if (!is_ours() || block_->closed.exchange(1, std::memory_order_release) != 0) return;
  for (auto& [rank, endpoint] : endpoints_) endpoint->wake_peer();
}

std::string ShmInterface::address() const {
  Address address{};
  address.wire_version = kVersion;
  address.rank = static_cast<std::uint32_t>(rank_);
  address.heap = identity_;
  address.block = block_name_;
  address.machine = options_.machine;
  std::string bytes(sizeof address, '\0');
  std::memcpy(bytes.data(), &address, sizeof address);
  return bytes;
}

std::size_t ShmInterface::poll(std::span<Completion> completions) {
  return completions_.poll(completions);
}

}  // namespace shm
}  // namespace weft
