// Datagrams: the queue pair that carries Greetings to and from all peers, and its memory. A
// datagram may be lost, on the wire or because there is no place for it here. A sender that needs
// an answer repeats it.
//
// If the device cannot send a datagram, because its route or its address is gone, the queue pair
// ends for all peers. It is then revived: reset, and prepared as if it were new. Each revival
// begins another *life*. The number of the life is the upper half of every wr_id, so that
// completions of an earlier life are recognized.
//
// Owner: the IbInterface, in whose lane everything here runs; an object lives as long as it.
// Invariants: at most kSends datagrams are with the device; every receive buffer is with the device
// or is being read. Internal to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "verbs/ib/layout.h"
#include "verbs/ib/objects.h"

namespace weft::ib {

class Datagrams {
 public:
  // A received datagram begins with so many bytes of routing header.
  static constexpr std::size_t kRouteBytes = 40;
  static constexpr std::size_t kBytes = 256;
  static_assert(kRouteBytes + sizeof(Greeting) <= kBytes);
  static constexpr std::uint64_t kReceives = 128;  // that may wait to be read
  static constexpr std::uint64_t kSends = 64;      // that the device has not sent
  static constexpr std::size_t kMemory = (kReceives + kSends) * kBytes;

  // `name` is that of the interface, for errors.
  Datagrams(const Library& library, std::string name, int port)
      : library_(library), name_(std::move(name)), port_(port) {}

  // `memory`: kMemory bytes that the device may write.
  Status open(ibv_pd* domain, ibv_cq* sends, ibv_cq* arrivals, Buffer memory);
  // The number of the queue pair.
  [[nodiscard]] std::uint32_t number() const { return pair_->qp_num; }

  // If kSends datagrams are under way, this one is lost, like one on the wire.
  Status send(const Greeting& greeting, ibv_ah* route, std::uint32_t queue_pair);
  // Takes a datagram that has come. Returns its greeting, if it is as long as one. The buffer goes
  // back to the device; `given` is not ok if it could not.
  std::optional<Greeting> take(const ibv_wc& completion, Status& given);
  // The device has sent one, or failed to.
  void retire() { ++retired_; }
  // Whether the completion is of an earlier life.
  [[nodiscard]] bool is_stale(const ibv_wc& completion) const;
  // Whether no datagram is under way.
  [[nodiscard]] bool is_idle() const { return sent_ == retired_; }

  // The queue pair carries nothing more until it is revived.
  void end() { has_ended_ = true; }
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  // When revive() may be tried next.
  [[nodiscard]] std::int64_t again_ns() const { return again_ns_; }
  Status revive(std::int64_t now);
  // In a forked child: leaves the queue pair and the memory alone, because they are the parent's.
  void let_lie();

 private:
  Status prepare();
  Status give(std::uint64_t place);
  [[nodiscard]] std::uint64_t id_of(std::uint64_t place) const;

  const Library& library_;
  std::string name_;
  int port_;
  Buffer memory_;
  Owned<ibv_qp> pair_;
  std::uint32_t life_ = 0;
  bool has_ended_ = false;
  std::int64_t again_ns_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t retired_ = 0;
};

}  // namespace weft::ib
