// all_works: operations of all ranks by name. scheduler/negotiate says which run now; they run as
// operations of the context, in that order, fused where that is possible.
// Internal to the module.
#pragma once

#include <weft/named.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/named/buffers.h"
#include "engine/named/fused_set.h"
#include "engine/named/host.h"
#include "engine/named/timeline.h"
#include "engine/named/tuning.h"
#include "engine/named/work.h"
#include "scheduler/fuse/fuse.h"
#include "scheduler/negotiate/negotiate.h"

namespace weft::named {

// What the ranks must have in common in these requests.
[[nodiscard]] NamedRequest named_request_of(const Work& work);

// Belongs to the holder of the lane's token.
class AllWorks {
 public:
  using End = std::function<void(Work&, const Status&)>;

  AllWorks(NamedHost& host, const NamedOptions& options, Buffers& buffers, Timeline& timeline,
           End end);

  Status submit(const std::shared_ptr<Work>& work, std::int64_t now);
  // The work ends when all ranks have joined; joined() is then the last of them.
  Status join(const std::shared_ptr<Work>& work, std::int64_t now);
  [[nodiscard]] Rank joined() const { return joined_; }
  [[nodiscard]] Status receive(Rank from, std::span<const std::byte> message, std::int64_t now);
  // Returns whether anything moved.
  bool advance(std::int64_t now);
  void abandon(const Status& why);

  [[nodiscard]] bool is_idle() const;
  [[nodiscard]] std::int64_t next_ns() const { return negotiator_.next_ns(); }
  [[nodiscard]] std::size_t pending() const { return works_.size(); }
  // Since when the oldest work that does not run yet is pending, and a join since something ran last;
  // the far future: there is none.
  [[nodiscard]] std::int64_t oldest_ns() const;
  // The oldest name, if it waits for a rank that has left.
  [[nodiscard]] Departure find_departure() const;
  // Who lacks what, as far as the ranks have found out.
  [[nodiscard]] std::string waiting() const;
  void add_to(Named::Usage& usage) const;
  void recall(FlightText& to) const;

 private:
  // What runs. The work is null at a rank that has joined.
  struct Decided {
    std::shared_ptr<Work> work;
    NamedRequest request;  // with a tensor at least
  };
  // A tensor of it.
  struct Run {
    const Decided* of = nullptr;
    std::size_t tensor = 0;  // of the group

    [[nodiscard]] Work* work() const { return of->work.get(); }
    [[nodiscard]] const NamedTensor& shape() const { return of->request.tensors[tensor]; }
    // That of this rank, which has not joined.
    [[nodiscard]] const Request& request() const { return of->work->requests[tensor]; }
  };
  // All that runs in one cycle. Its batches share it.
  using AllDecided = std::shared_ptr<const std::vector<Decided>>;
  // An operation that runs, for one tensor or several.
  struct Batch {
    AllDecided decided;
    std::vector<Run> runs;
    std::vector<FusePart> parts;
    std::optional<FusedSet> set;            // of fused tensors, or zeros of a rank that has joined
    std::optional<ErrorFeedback> feedback;  // of all its tensors, if any has one
    std::size_t count = 0;                  // then: its elements, with the gaps
    double share = 1.0;                     // of the bytes that the cycle runs
    std::shared_ptr<Operation> operation;
  };

  void adapt_wait();
  void send_messages();
  // Carries out what one cycle has decided. All ranks fuse alike, because they fuse what a cycle
  // has decided.
  void decide(std::vector<Decision> decisions, std::int64_t now);
  void run(const AllDecided& decided);
  [[nodiscard]] Status check(const Batch& batch, std::size_t bytes);
  [[nodiscard]] Status begin(Batch& batch, std::size_t bytes);
  [[nodiscard]] Status begin_alone(Batch& batch, const Request& request);
  [[nodiscard]] Status begin_set(Batch& batch, std::size_t bytes);
  [[nodiscard]] Status lend_residuals(Batch& batch, Request& request);
  [[nodiscard]] Status give_back_residuals(Batch& batch);
  template <typename Exchange>
  [[nodiscard]] Status exchange_residuals(Batch& batch, Exchange exchange);
  void finish(Batch& batch);
  void end_all(const Batch& batch, const Status& status);
  void end_one(const std::shared_ptr<Work>& work, const Status& status);
  [[nodiscard]] std::shared_ptr<Work> work_of(const std::string& name) const;

  NamedHost& host_;
  Tuning tuning_;
  Buffers& buffers_;
  Timeline& timeline_;
  const End end_;
  Negotiator negotiator_;
  std::unordered_map<std::string, std::shared_ptr<Work>> works_;  // that have not ended
  std::shared_ptr<Work> join_;
  Rank joined_ = kNoRank;
  std::int64_t heard_ns_ = 0;  // when this rank joined, or something ran last
  std::vector<Batch> running_;
  std::string stall_;
  BatchCounts batches_;
};

}  // namespace weft::named
