// layout: what a rank's part of a window looks like in memory. Every rank knows the graph, so it
// computes where its own words are at each neighbor. README.md has the protocol.
//
//   head                       version and p of the tensor, the lock word
//   ack[out-neighbor]          written by that out-neighbor: which base of our messages it has read
//   reading[in-neighbor]       which buffer of the slot the owner is copying, plus 1; 0: none. A hint
//                              for a writer that has the part mapped
//   signal[in-neighbor][16]    written by that in-neighbor: how often it has raised each signal
//   control[in-neighbor][B]    what is in each buffer of the slot
//   data[in-neighbor][B]       the buffers, in whole cache lines
//
// Pure functions and plain words; the layout is frozen with the wire version.
#pragma once

#include <weft/window.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/one_sided/one_sided.h"
#include "verbs/sanitizers/sanitizers.h"

namespace weft::window {

using one_sided::Chain;
using one_sided::freest_rail;
using one_sided::load_word;
using one_sided::PeerMemory;
using one_sided::Place;
using one_sided::Spread;
using one_sided::store_word;

// A slot has so many buffers: the newest message, the last message of the base before, the one that
// is being written, and one more, so that a reader has time for the newest.
inline constexpr std::size_t kBuffers = 4;
inline constexpr std::uint32_t kNoBuffer = kBuffers;

// What is known of a tensor by those who read it.
struct alignas(64) Head {
  std::uint64_t version;  // odd while the owner writes its tensor
  double p;
  std::uint64_t lock;  // verbs/lock
};
static_assert(sizeof(Head) == 64);

// What a message says of itself. It is written as a whole, after the data and before Control::done.
struct Header {
  std::uint64_t base = 0;      // the number of the message with which its base began
  std::uint64_t previous = 0;  // a base that goes on from another: that one's last message; else 0
  double scale = 1.0;          // of the data
  double p = 0.0;
  std::uint64_t puts = 0;                       // so many of the messages so far were puts
  std::uint32_t previous_buffer = kNoBuffer;    // where that last message is
  std::uint16_t accumulates = 0;                // 1: its writer wants to know what was read
  Compression compression = Compression::none;  // of the data
  std::uint8_t zero = 0;
};
static_assert(sizeof(Header) == 48);

// A buffer of a slot.
struct alignas(64) Control {
  std::uint64_t begin;  // the message whose bytes may be here
  Header header;
  std::uint64_t done;  // the message whose bytes are all here
};
static_assert(sizeof(Control) == 64);

// The shape of one rank's part.
struct Shape {
  std::size_t bytes = 0;  // of the tensor
  std::size_t in_degree = 0;
  std::size_t out_degree = 0;

  [[nodiscard]] std::size_t ack(std::size_t out) const { return sizeof(Head) + 8 * out; }
  [[nodiscard]] std::size_t reading(std::size_t in) const {
    return whole_lines(ack(out_degree)) + 64 * in;
  }
  [[nodiscard]] std::size_t signal(std::size_t in, int number) const {
    return reading(in_degree) + 8 * (in * kWindowSignals + static_cast<std::size_t>(number));
  }
  [[nodiscard]] std::size_t control(std::size_t in, std::size_t buffer) const {
    return signal(in_degree, 0) + sizeof(Control) * (in * kBuffers + buffer);
  }
  [[nodiscard]] std::size_t data(std::size_t in, std::size_t buffer) const {
    return control(in_degree, 0) + whole_lines(bytes) * (in * kBuffers + buffer);
  }
  [[nodiscard]] std::size_t total() const { return data(in_degree, 0); }

  static std::size_t whole_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
};
static_assert(kWindowSignals * 8 % 64 == 0, "controls begin at a cache line");

// Whether the buffer still holds this message, or nothing newer was begun. What was copied from the
// buffer before is of this message then.
[[nodiscard]] inline bool still_holds(const Control& control, std::uint64_t number) {
#ifndef WEFT_THREAD_SANITIZER  // which knows no fences; copies are atomic there
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
  return load_word(&control.begin) == number;
}

}  // namespace weft::window
