// matcher: one rank's part (match.h says how ranks come together).
// Internal to the module; others include match.h.
#pragma once

#include <weft/types.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "scheduler/fuse/fuse.h"
#include "scheduler/match/letters.h"
#include "scheduler/match/rounds.h"

namespace weft {

// What a rank submits. All lists are of distinct ranks.
struct MatchRequest {
  std::uint64_t id = 0;  // the caller's number for it
  std::string name;
  Collective collective = Collective::neighbor_allreduce;
  DataType type = DataType::f32;
  std::size_t count = 0;           // elements that each destination gets
  std::vector<std::size_t> shape;  // extents, as in a NamedTensor
  // How each tensor travels, and, unless that is `none`, in how many bytes.
  Compression compression = Compression::none;
  LowRank low_rank{};  // of Compression::low_rank
  std::size_t encoded_bytes = 0;
  struct Source {
    Rank rank = kNoRank;
    std::size_t count = 0;  // elements expected of it
  };
  std::vector<Source> sources;
  std::vector<NeighborWeight> destinations;  // and the weight that travels with the data
  std::vector<Rank> skipped;  // they may expect data, and are told that there is none
  bool may_skip = false;      // sources may say that they have nothing
  // Every rank submits the name, each time: then a rank finds out at once that its neighbor does
  // not send to it, or does not want its data. Else only time tells.
  bool is_of_all = true;
  int priority = 0;
};

struct MatchOptions {
  Rank rank = 0;
  int size = 1;
  FuseLimits fusion{};
  // A sender whose data nobody wants asks why after so long.
  std::int64_t ask_ns = 100'000'000;
  // Ranks may be half as many submissions apart (rounds.h).
  std::uint64_t window = std::uint64_t{1} << 17;
};

// To be sent to this rank now, in this order, as one.
struct SendBatch {
  Rank to = kNoRank;
  std::vector<std::uint64_t> ids;
  std::size_t bytes = 0;
};
// Comes from this rank next.
struct ReceiveBatch {
  struct Item {
    std::uint64_t id = 0;
    bool is_wanted = true;  // false: the operation has failed here; the bytes come all the same
    std::size_t bytes = 0;
    double weight = 1.0;
  };
  Rank from = kNoRank;
  std::vector<Item> items;
};
// What else happened to a request.
struct MatchEvent {
  std::uint64_t id = 0;
  Rank skipped = kNoRank;  // this source has nothing
  Status status;           // an error: the request has failed and is forgotten
};
struct MatchMessage {
  Rank to = kNoRank;
  std::vector<std::byte> bytes;
};

class EdgeMatcher {
 public:
  explicit EdgeMatcher(const MatchOptions& options) : options_(options), rounds_(options.window) {}

  // invalid_argument if the name is pending.
  Status submit(MatchRequest request, std::int64_t now);
  // An error is `mismatch`, with the sender: its message cannot be read.
  Status receive(Rank from, std::span<const std::byte> message, std::int64_t now);
  // Makes batches of what is ready.
  void step(std::int64_t now);

  [[nodiscard]] std::vector<SendBatch> take_sends() { return std::exchange(sends_, {}); }
  [[nodiscard]] std::vector<ReceiveBatch> take_receives() { return std::exchange(receives_, {}); }
  [[nodiscard]] std::vector<MatchEvent> take_events() { return std::exchange(events_, {}); }
  // At most one for each rank.
  [[nodiscard]] std::vector<MatchMessage> take_messages();

  [[nodiscard]] std::size_t pending() const { return by_name_.size(); }
  // When step() must be called even if nothing arrives.
  [[nodiscard]] std::int64_t next_ns() const { return ask_at_ns_; }
  // Calls `visit(name, rank)` for each name and each rank for which it waits.
  template <typename Visit>
  void visit_awaited(Visit&& visit) const {
    for (const auto& [name, pending] : by_name_) {
      for (std::size_t s = 0; s < pending.has_come.size(); ++s)
        if (!pending.has_come[s]) visit(name, pending.request.sources[s].rank);
      for (std::size_t d = 0; d < pending.has_gone.size(); ++d)
        if (!pending.has_gone[d]) visit(name, pending.request.destinations[d].rank);
    }
  }
  // "grad.7 waits for data of ranks 3, 5 and for rank 4 to want it; …". At most 16 names.
  [[nodiscard]] std::string waiting() const;

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  struct Pending {
    MatchRequest request;
    match::Round round;
    std::vector<bool> has_come;  // by source: announced or skipped
    std::vector<bool> has_gone;  // by destination: in a batch
    std::size_t open = 0;        // sources and destinations that are left
  };
  struct Line {
    match::Outbox out;
    match::Inbox in;
    std::map<std::string, match::Entry> wants;       // of rounds that have not begun here
    std::multimap<std::string, match::Round> skips;  // the same; who skips does not wait for us
    struct Ready {
      std::uint64_t id;
      std::string name;
      std::uint64_t token;  // of the destination's want
      double weight;
      std::size_t bytes;
      int priority;
    };
    std::vector<Ready> ready;  // to be sent
  };

  Line& line_to(Rank rank);
  void serve(const Pending& pending, std::size_t destination, std::uint64_t token);
  void want(Pending& pending, std::size_t source);
  void close(Pending& pending);
  void fail(const std::string& name, const Status& status);
  void refuse(Rank to, const std::string& name, const match::Round& round, const Status& status);
  void take_want(Rank from, const match::Entry& entry);
  void take_skip(Rank from, const match::Entry& entry);
  void take_ask(Rank from, const match::Entry& entry);
  void take_refusal(Rank from, const match::Entry& entry);
  [[nodiscard]] bool take_item(Rank from, const match::Entry& entry);
  void ask(std::int64_t now);
  void batch(Rank to, Line& line);
  [[nodiscard]] Status compare(const Pending& pending, Rank from, const match::Entry& entry) const;
  [[nodiscard]] Pending* find(const std::string& name);
  // Where the round of an entry is, seen from the latest one here.
  [[nodiscard]] match::Place place_of(const Pending* pending, const match::Entry& entry) const;
  // Why a round that is over here serves nobody any more: it has failed, or there was no such edge.
  [[nodiscard]] Status why_over(const match::Entry& entry, const Status& no_edge) const;

  const MatchOptions options_;
  std::map<Rank, std::unique_ptr<Line>> lines_;
  std::unordered_map<std::string, Pending> by_name_;
  match::Rounds rounds_;
  // Bytes that a source may still send for an operation that has failed here, by source, name and
  // token.
  std::map<std::tuple<Rank, std::string, std::uint64_t>, std::size_t> orphans_;
  std::vector<SendBatch> sends_;
  std::vector<ReceiveBatch> receives_;
  std::vector<MatchEvent> events_;
  std::int64_t ask_at_ns_ = kNever;
  std::int64_t ask_step_ns_ = 0;
};

}  // namespace weft
