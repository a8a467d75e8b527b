// SimNetwork: networks between ranks of one thread, for tests of what is built over the contract.
//
// Time is a count of turns: whoever calls progress() moves it on by one. A notice arrives some
// turns after it was posted, drawn from the seed, in the order of its channel; a release comes back
// in the same way. A piece is read from its source when it arrives, so a source that was changed
// too early shows. Paths can be cut: nothing of what is on its way arrives then, or it arrives
// late, after the cut was noticed; the ends may learn of the cut or only feel silence. A network
// may carry only so much per turn and direction between two interfaces, and that may change while
// something is on its way. A rank may have several interfaces to it, and not all of two ranks need to
// reach each other.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "verbs/transport/transport.h"

namespace weft {

class SimInterface;
class SimEndpoint;

struct SimOptions {
  std::uint64_t seed = 1;
  std::uint64_t longest_delay = 8;  // turns
  std::size_t piece_bytes = 512;
  double bytes_per_turn = 0;  // 0: any amount
  bool reconnects = true;     // ends that failed are made anew
  bool keeps_order = true;    // of one-sided work; else each piece of it arrives when it does
  // How a piece is read that no processor may touch; empty: there are none.
  std::function<void(std::span<std::byte> to, const std::byte* from)> read{};
  // What a hostile peer makes of a notice; empty: there is none. What transports check themselves, the
  // form and the length, stays.
  std::function<void(std::span<std::byte> header, std::span<std::byte> payload)> change{};

  [[nodiscard]] std::vector<std::byte> read_of(std::span<const std::byte> source) const {
    if (!read) return {source.begin(), source.end()};
    std::vector<std::byte> bytes(source.size());
    read(bytes, source.data());
    return bytes;
  }
};

class SimNetwork {
 public:
  explicit SimNetwork(const SimOptions& options) : options_(options), random_(options.seed) {}

  std::unique_ptr<Interface> open(Rank rank, const InterfaceOptions& options, std::string name);

  enum class Cut : std::uint8_t {
    told,    // both ends see failure()
    half,    // only the first does
    silent,  // nobody sees anything
    late,    // silent, and what was on its way arrives once an end has abandoned the path
    pulled,  // silent until mend(), and the first end sees that its link is gone
  };
  // Ends the path between two interfaces; after mend() they can connect again.
  void cut(const Interface& a, const Interface& b, Cut how);
  void mend() { is_cut_ = false; }
  [[nodiscard]] bool is_cut() const { return is_cut_; }

  // A turn in which nobody calls progress().
  void pass() { ++turn_; }
  // What is on its way slows down, too.
  void set_rate(double bytes_per_turn);
  // Which interfaces reach each other, by their numbers in the order of opening; asked for both ways.
  using Reach = std::function<bool(std::size_t from, std::size_t to)>;
  void set_reach(Reach reaches) { reaches_ = std::move(reaches); }
  // Whether the ends know of each other: said by connected(), and nothing else.
  void set_connected(bool connected);
  void set_delay(std::uint64_t longest) { options_.longest_delay = longest; }

  [[nodiscard]] std::uint64_t delivered() const { return delivered_; }

 private:
  friend class SimInterface;
  friend class SimEndpoint;

  template <typename Do>
  void for_ends(Do&& what) const;
  [[nodiscard]] std::uint64_t delayed(std::uint64_t turn);
  [[nodiscard]] bool is_pulled() const { return is_cut_ && unplugged_ != kNoRank; }

  SimOptions options_;
  std::mt19937_64 random_;
  std::uint64_t turn_ = 0;
  std::uint64_t delivered_ = 0;
  bool is_cut_ = false;
  bool is_connected_ = true;
  Reach reaches_ = [](std::size_t, std::size_t) { return true; };
  bool is_secret_ = false;                 // the link looks well all the same
  Rank unplugged_ = kNoRank;               // who alone sees it, where a cable was pulled
  std::vector<SimInterface*> interfaces_;  // by number; null once closed
};

}  // namespace weft
