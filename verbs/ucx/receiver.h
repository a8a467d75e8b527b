// Receiver: the notices that have come from the peer, and what the peer was told of them. Every
// message is checked before it changes anything: peers are not trusted with indices and sizes.
//
// Owner: a UcxEndpoint, in whose lane everything here runs; an object lives as long as its endpoint.
// Internal to the module.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "verbs/ucx/layout.h"
#include "verbs/ucx/objects.h"

namespace weft::ucx {

class UcxInterface;

class Receiver {
 public:
  explicit Receiver(UcxEndpoint& endpoint);

  [[nodiscard]] Notice front(std::uint32_t channel) const;
  void release(std::uint32_t channel);
  [[nodiscard]] std::uint64_t arrived(std::uint32_t channel) const {
    return incoming_[channel].arrived;
  }
  // False: the message breaks the protocol. Sets `taken` if UCX has to keep the data for us.
  [[nodiscard]] bool take_notice(const NoticeMessage& notice, const Arriving& data, bool& taken);

  // Writes into the message how many notices of its channel have come and were released by now.
  void tell_received(Message& message) const;
  // A message with these counts is on its way.
  void count_told(std::uint32_t channel);
  // Adds the releases of which the peer was not told to the batch. False if some found no room.
  bool report_releases();
  [[nodiscard]] bool owes_reports() const { return !unreported_.empty(); }
  // Gives back the memory of all notices that were not released, because nobody will read them.
  void drop_all();

 private:
  struct Arrival {
    bool is_there = false;
    bool is_piece = false;  // larger than a slot's payload
    WireHeader header;
    const std::byte* payload = nullptr;
    void* kept = nullptr;  // UCX's memory with the payload, if it was kept
    Lines copy;            // otherwise: our copy of it
  };
  struct Incoming {
    std::uint64_t next = 0;
    std::uint64_t arrived = 0;           // all notices before this number have come
    std::uint64_t reported = 0;          // the `next` that the peer was told last
    std::uint64_t reported_arrived = 0;  // the `arrived` that the peer was told last
    bool waiting = false;                // listed in unreported_
    std::unique_ptr<Arrival[]> arrivals;
  };
  bool report(std::uint32_t channel);
  void report_later(std::uint32_t channel);
  void take_payload(Arrival& arrival, const Arriving& data, bool& taken);
  void give_back(Arrival& arrival);

  UcxEndpoint& endpoint_;
  UcxInterface& interface_;
  std::vector<Incoming> incoming_;
  std::vector<std::uint32_t> unreported_;  // channels with releases that the peer does not know of
};

}  // namespace weft::ucx
