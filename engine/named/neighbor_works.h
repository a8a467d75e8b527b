// neighbor_works: operations of neighbors by name. scheduler/match says which batch leaves on which
// edge, and which one comes. A batch is one send, and one recv into memory of this object, whatever
// tensors it carries; an operation is combined when the data of all its sources are there.
//
//   x ──pack──► buffer ──send──►  ···  ──recv──► buffer ──┐
//                                                       y := w_ii x + w_ij x_j + …   in rank order
//
// A tensor that travels alone is sent from where it is. Between ranks that share memory nothing is
// sent: the batch is lent, read in place, and returned. A large tensor on a GPU is lent as a device alias
// (engine/gpu), and a GPU adds up. The sums are those of Context's neighbor_allreduce, term by term, so
// the bits are the same.
// Internal to the module.
#pragma once

#include <weft/named.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/gpu/gpu.h"
#include "engine/kernels/kernels.h"
#include "engine/named/buffers.h"
#include "engine/named/host.h"
#include "engine/named/timeline.h"
#include "engine/named/work.h"
#include "scheduler/match/match.h"

namespace weft::named {

// Belongs to the holder of the lane's token.
class NeighborWorks {
 public:
  using End = std::function<void(Work&, const Status&)>;

  NeighborWorks(NamedHost& host, const NamedOptions& options, Buffers& buffers, Timeline& timeline,
                End end);

  Status submit(const std::shared_ptr<Work>& work, std::int64_t now);
  [[nodiscard]] Status receive(Rank from, std::span<const std::byte> message, std::int64_t now);
  [[nodiscard]] Status receive_lent(Rank from, std::span<const std::byte> message);
  [[nodiscard]] Status receive_returned(Rank from, std::span<const std::byte> message);
  // Returns whether anything moved.
  bool advance(std::int64_t now);
  void abandon(const Status& why);

  [[nodiscard]] bool is_idle() const { return open_.empty() && moving_.empty() && lent_.empty(); }
  [[nodiscard]] std::int64_t next_ns() const { return matcher_.next_ns(); }
  [[nodiscard]] std::int64_t oldest_ns() const;
  [[nodiscard]] std::string waiting() const { return matcher_.waiting(); }
  [[nodiscard]] Departure find_departure() const;
  void add_to(Named::Usage& usage) const;
  void recall(FlightText& to) const;

 private:
  // Memory of a batch that has arrived, shared by the operations whose data it holds.
  struct Held {
    Buffers::Buffer buffer;
    std::size_t users = 0;
    Rank lender = kNoRank;  // whose memory it is, if it is not ours
    std::uint64_t number = 0;
  };
  // A batch that a rank of this machine reads in place.
  struct Lent {
    Rank to = kNoRank;
    Buffers::Buffer buffer;          // empty: the memory is the caller's
    std::vector<std::uint64_t> ids;  // then: whose
  };
  // What a rank of this machine has announced, and what it has lent. Each batch is both.
  struct Lender {
    std::deque<ReceiveBatch> announced;
    struct Batch {
      std::uint64_t number = 0;
      std::uint64_t word = 0;
    };
    std::deque<Batch> lent;
    std::vector<std::uint64_t> to_return;
  };
  struct Source {
    const std::byte* data = nullptr;  // null: not there yet, or nothing came
    bool is_there = false;
    double weight = 1.0;  // that of the sender
    std::shared_ptr<Held> held;
  };
  // An operation that has not ended.
  struct Open {
    std::shared_ptr<Work> work;
    std::vector<Source> sources;  // as in Work::edges
    std::size_t to_come = 0;      // sources that are not there
    std::size_t to_go = 0;        // destinations whose data have not left
    std::size_t read = 0;         // sends that read x
    bool is_combined = false;
    std::vector<std::unique_ptr<Reducer::Work>> offloads;  // what a GPU combines
    Status failure;
  };
  // A send or a recv.
  struct Moving {
    std::shared_ptr<Operation> operation;
    std::vector<std::uint64_t> ids;  // of a send: whose data
    ReceiveBatch batch;              // of a recv
    std::shared_ptr<Held> held;      // null: a send from the caller's memory
    bool is_send = false;
  };

  [[nodiscard]] Status pack(const SendBatch& batch, Buffers::Buffer& buffer, std::size_t& bytes);
  [[nodiscard]] Status lend(const SendBatch& batch);
  void take_lent(Rank from, Lender& lender);
  void return_all();
  [[nodiscard]] Status begin(const SendBatch& batch);
  [[nodiscard]] Status begin(ReceiveBatch batch);
  void ended(Moving& moving);
  void hand_out(const ReceiveBatch& batch, const std::byte* data, std::shared_ptr<Held> held);
  void sent(std::uint64_t id, bool was_read_in_place);
  void arrived(std::uint64_t id, Rank from, const std::byte* data, double weight,
               const std::shared_ptr<Held>& held);
  void fail(std::uint64_t id, const Status& status);
  void proceed(std::uint64_t id, Open& open);
  void run(Open& open, std::size_t together);
  [[nodiscard]] Reducer* reducer_of(const Open& open);
  [[nodiscard]] static bool has_aliases(const Open& open);
  [[nodiscard]] Status combine(Open& open);
  [[nodiscard]] Status combine_encoded(Open& open);
  [[nodiscard]] Status gather(Open& open);
  [[nodiscard]] Status reduce(Open& open, const Reducer::Job& job);
  bool collect_offloads();
  void let_go(std::shared_ptr<Held>& held);

  NamedHost& host_;
  Buffers& buffers_;
  Timeline& timeline_;
  const End end_;
  EdgeMatcher matcher_;
  std::uint64_t next_id_ = 1;
  std::unordered_map<std::uint64_t, Open> open_;
  std::vector<Moving> moving_;
  std::vector<std::uint64_t> offloaded_;  // operations that GPUs combine
  // Of operations on the host to which device aliases are lent.
  const std::function<Reducer*()> reducer_for_peers_;
  std::map<std::uint64_t, Lent> lent_;  // by number
  std::uint64_t next_lent_ = 1;
  std::map<Rank, Lender> lenders_;
  std::vector<Term> terms_;
  BatchCounts batches_;
  std::uint64_t control_bytes_ = 0;
  std::uint64_t control_messages_ = 0;
};

}  // namespace weft::named
