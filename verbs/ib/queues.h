// Queues: the reliable queue pairs of one connection, and what is under way on them.
//
// Work requests are numbered from 1 on for each queue pair, and the number is their wr_id. A queue
// pair ends its requests in order, so the completion of number n ends all up to n, and few requests
// need a completion of their own.
//
// Owner: an IbEndpoint, in whose lane everything here runs; an object lives as long as its
// endpoint. Invariants: retired <= posted; on each queue pair at most send_depth requests are under
// way, of which at most a quarter wait for a completion of a later one. A device that refuses a
// request ends the endpoint's path. Internal to the module.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "verbs/ib/conversation.h"
#include "verbs/ib/objects.h"

namespace weft::ib {

class IbInterface;
class IbEndpoint;

// A reliable queue pair.
struct Queue {
  Owned<ibv_qp> pair;
  std::uint32_t first_packet = 0;
  std::uint64_t posted = 0;
  std::uint64_t retired = 0;
  std::uint32_t unsignalled = 0;  // requests since the last one that gets a completion
};

// Work requests of one queue pair that are handed over by one call, with one doorbell.
class PostList {
 public:
  static constexpr std::size_t kMost = 16;
  static constexpr std::size_t kMostParts = 2;

  [[nodiscard]] bool full() const { return count_ == kMost; }
  [[nodiscard]] std::size_t count() const { return count_; }
  // The next request, zeroed but for its place in the list and its gather list.
  ibv_send_wr& add();
  ibv_sge& part(ibv_send_wr& request, const void* data, std::size_t bytes, std::uint32_t key);
  ibv_send_wr* first() { return requests_.data(); }
  ibv_send_wr& last() { return requests_[count_ - 1]; }
  void clear() { count_ = 0; }

 private:
  std::array<ibv_send_wr, kMost> requests_;
  std::array<std::array<ibv_sge, kMostParts>, kMost> parts_;
  std::size_t count_ = 0;
};

class Queues {
 public:
  explicit Queues(IbEndpoint& endpoint);

  // Makes the queue pairs, ready to receive and not connected.
  Status open();
  // Connects them to those that the greeting names, along the route. `anew`: they were connected.
  Status connect(const Greeting& greeting, const ibv_ah_attr& route, bool anew);
  // Ends them: the device touches no memory of the caller any more, and nothing arrives.
  void end();
  // Writes into a greeting what it says of the queue pairs.
  void describe(Greeting& greeting) const;

  [[nodiscard]] std::size_t size() const { return queues_.size(); }
  [[nodiscard]] const Queue& operator[](std::size_t q) const { return queues_[q]; }
  // The control channel has the first queue pair for itself where there are several: a question
  // about a path must not wait behind the pieces on it.
  [[nodiscard]] std::size_t of_channel(std::uint32_t channel) const {
    const std::size_t others = queues_.size() - 1;
    return channel == kControlChannel || others == 0 ? 0 : 1 + (channel - 1) % others;
  }
  // Whether one more request fits on the queue pair. `more` counts that request and the listed ones
  // that were not handed over yet: they need places in the completion queue.
  [[nodiscard]] bool has_room(std::size_t q, std::size_t more) const;
  // Numbers the request, and decides whether its data are inline and whether it gets a completion.
  // `wanted`: it gets one in any case.
  void finish(std::size_t q, ibv_send_wr& request, std::size_t bytes, bool wanted);
  // The list's last request gets a completion.
  void signal_last(std::size_t q, PostList& list);
  void hand_over(std::size_t q, PostList& list);
  // All requests up to this number have ended; false: that was known.
  bool retire(std::size_t q, std::uint64_t number);
  // Whether every request that will have a completion has had it.
  [[nodiscard]] bool idle() const;

 private:
  [[nodiscard]] Status to_init(Queue& queue, bool anew);

  IbEndpoint& endpoint_;
  IbInterface& interface_;
  std::vector<Queue> queues_;
};

}  // namespace weft::ib
