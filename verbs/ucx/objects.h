// What the parts of an endpoint share: buffers, and what UCX reads, brings or is connected to.
// Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "verbs/ucx/library.h"

namespace weft::ucx {

class UcxEndpoint;

inline constexpr std::size_t kLine = 64;

// Memory for payloads: whole cache lines, not cleared.
struct FreeLines {
  void operator()(std::byte* lines) const { ::operator delete[](lines, std::align_val_t{kLine}); }
};
using Lines = std::unique_ptr<std::byte[], FreeLines>;
[[nodiscard]] Lines make_lines(std::size_t bytes);

// A pool of buffers of one size. The buffer that was given back last is taken first, because it is
// still in the cache. At most as many buffers are in use as there are slots, so a pool needs no
// bound of its own.
class Pool {
 public:
  // `counted` grows by what is allocated.
  Pool(std::size_t bytes, std::size_t& counted) : bytes_(bytes), counted_(counted) {}
  [[nodiscard]] Lines take();
  void give(Lines lines) { free_.push_back(std::move(lines)); }

 private:
  std::size_t bytes_;
  std::size_t& counted_;
  std::vector<Lines> free_;
};

// Whether UCX still reads a message of ours. As long as it does, the message counts in
// UcxInterface::sending().
class Pending {
 public:
  explicit operator bool() const { return count_ != nullptr; }
  void begin(std::size_t& count) {
    count_ = &count;
    ++count;
  }
  void end() { --*std::exchange(count_, nullptr); }

 private:
  std::size_t* count_ = nullptr;
};

// The data of an arriving message.
struct Arriving {
  void* data = nullptr;  // in a rendezvous: UCX's descriptor, by which the data are received
  std::size_t bytes = 0;
  bool rendezvous = false;
  bool can_be_kept = false;  // until ucp_am_data_release
};

// A connection of UCX to a peer's interface. It outlives the endpoint that uses it: after an
// endpoint was given up, the next one goes on with its connection.
struct Connection {
  ucp_ep_h native = nullptr;
  ucs_status_t broken = UCS_OK;
  UcxEndpoint* user = nullptr;
  bool is_hello_out = false;
  bool has_asked = false;    // the second hello was given to UCX
  bool has_greeted = false;  // anything may be sent (UcxEndpoint::begin())

  [[nodiscard]] bool is_open() const { return native != nullptr && broken == UCS_OK; }
};

// Messages for one peer that leave together. Batches come from a pool of the interface, so memory
// grows with the batches under way and not with the number of peers.
struct Batch {
  Lines bytes;
  std::size_t used = 0;
  Pending pending;  // UCX reads `bytes`
};

// The parameters of a flush or a close. `*pending` becomes false when that has ended.
[[nodiscard]] ucp_request_param_t until_finished(bool* pending, std::uint32_t flags);

}  // namespace weft::ucx
