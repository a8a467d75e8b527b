// remote_memory: the second part of an endpoint: the peer's memory, which is read and written
// without the peer's help.
//
// One-sided work is a write, a read or a compare-and-swap. Each ends with exactly one completion in
// Interface::poll(), good or failed; completions of one endpoint come in the order of posting.
//
//  - Order. The one-sided work of one endpoint takes effect in the order in which it was posted, of
//    whatever kind and size. A peer that sees a later write sees all earlier ones; a read returns
//    what the earlier writes left and nothing of the later ones. What a peer *sees* is 8 aligned
//    bytes that were written as one write and that it reads as one word with acquire order. For
//    example, data and then a word with its number is a publication: a peer that reads the number
//    has the data.
//  - Devices without order (EndpointProperties::keeps_order). Some networks deliver out of order
//    inside one connection: adaptive routing, AWS's SRD. There, work takes effect in any order, and
//    the completion of a write says that the peer sees it. Whoever needs an order there posts work
//    when what stands before it has completed. Work behind a failed one may have been done.
//  - Failure. Work that fails (memory out of bounds, memory that could not be registered, an atomic
//    operation that the device lacks) ends what stands behind it: the work posted behind it is not
//    done, and each piece of it completes with an error of its own. This lasts until poll() has
//    returned the completion of the failed work. What is posted after that is done as usual, since
//    only then its poster can know. Work that failed may have been done in part.
//  - No order holds between one-sided work and notices, between channels, or between endpoints. To
//    announce a write by a notice, post the notice after the write has completed.
//
// A region is any memory of a rank, in Weft's heap or elsewhere, which the rank exposes to such
// work as a whole. Interface::expose() registers it once for each device and gives a key, which the
// owner tells its peers by means of its own. import_region() takes the key and gives a number;
// RemoteBuffer{PieceForm::region, offset, bytes, number} names a part of the region. Work that
// leaves its region is a failed completion, and nothing of it is sent. The owner keeps the memory
// until Interface::withdraw(), before which its peers should have ended their work on it. Work that
// comes later fails; over RDMA it ends the path, too, as the device knows only its own keys.
//
// Threads and lifetime: transport.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "verbs/base/base.h"
#include "verbs/transport/notices.h"
#include "verbs/transport/one_sided.h"

namespace weft {

class RemoteMemory {
 public:
  // Posts work in the order promised above. `full`: too much work has no completion yet, or
  // completions were not polled. Memory out of bounds is a failed completion, never a fault. Memory
  // of the caller that the work names stays as it is until the completion.
  virtual Posted post_work(const WorkRequest& work) = 0;
  Posted post_write(std::span<const std::byte> local, const RemoteBuffer& remote,
                    std::uint64_t ticket) {
    // The const is cast away for one record that serves both directions; a write only reads.
    return post_work(
        {WorkKind::write, remote, local.size(), const_cast<std::byte*>(local.data()), ticket});
  }
  Posted post_read(std::span<std::byte> local, const RemoteBuffer& remote, std::uint64_t ticket) {
    return post_work({WorkKind::read, remote, local.size(), local.data(), ticket});
  }
  // *remote (8 bytes, aligned) becomes `desired` if it is `expected`; `*found` gets what was there.
  Posted post_compare_swap(const RemoteBuffer& remote, std::uint64_t expected,
                           std::uint64_t desired, std::uint64_t* found, std::uint64_t ticket) {
    return post_work({WorkKind::compare_swap, remote, sizeof desired, nullptr, ticket, expected,
                      desired, found});
  }
  // How much work was posted here, and what is left of it.
  [[nodiscard]] virtual WorkState work_state() const = 0;
  [[nodiscard]] bool at_work() const { return work_state().is_untold; }
  [[nodiscard]] bool work_may_linger() const { return work_state().may_linger; }

  // A number for the region with this key, valid at this endpoint and at those that over() returns.
  // Sends nothing and waits for nobody. `mismatch`: the bytes are no key, or not one of the peer's
  // interface. `no_permission`: why the region's memory cannot be reached from here.
  Result<std::uint32_t> import_region(std::string_view key);
  // The same with a number of the caller's, which is not in use here: for a bond and its paths.
  virtual Status import_region_as(std::uint32_t number, std::string_view key) = 0;
  // The number names nothing any more. The work on the region has completed.
  virtual void drop_region(std::uint32_t number) = 0;

  // Where memory is shared. The peer's memory in place; nullptr: this memory is not reached so.
  [[nodiscard]] virtual const std::byte* view(const RemoteBuffer&) { return nullptr; }
  // Reads the peer's memory before it returns: where the caller itself moves the bytes.
  // `unavailable` where a read needs the peer's or a device's time; post_read() is for those.
  virtual Status read_now(std::span<std::byte> local, const RemoteBuffer& remote);
  // Whether the peer has said that it may read our private memory. Until its end is connected it has
  // said nothing.
  [[nodiscard]] virtual bool reads_private_memory() { return false; }
  // Wakes the peer if it sleeps, where that needs no message: it may wait for what was written. A
  // hint; a peer that hears nothing looks from time to time.
  virtual void wake_peer() {}

 protected:
  RemoteMemory() = default;
  ~RemoteMemory() = default;
};

}  // namespace weft
