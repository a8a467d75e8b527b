// named: operations that ranks submit by name (weft/named.h).
//
//   caller ── start(name, request) ──► submissions ─┐
//                                                   ▼            the lane's thread, or a caller that waits
//                                          NamedObject::advance()
//            operations of all ranks ◄──────────────┴──────────────► operations of neighbors
//            AllWorks: scheduler/negotiate                           NeighborWorks: scheduler/match
//              which names run now, in one order                       which edges are ready
//                      │  scheduler/fuse: what travels together                 │
//                      ▼                                                        ▼
//            one operation of the context for each batch             send and recv for each batch
//
// The object has a context of its own (NamedHost) with the ranks of the context that it was made
// of, so its operations and those of the context do not wait for each other. It is the progress hook of
// that context's lane. The state machines of scheduler/ say what is to be done; this module carries
// it out: it packs and unpacks, sends their messages as mail, and ends the handles.
//
// Threads: submit() may be called by any thread, and takes no token. Everything else that is not
// marked belongs to the holder of the lane's token.
#pragma once

#include <weft/named.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/compress/compress.h"
#include "engine/named/all_works.h"
#include "engine/named/host.h"
#include "engine/named/neighbor_works.h"

namespace weft {

class NamedObject final : public ProgressHook, private MetricSource {
 public:
  NamedObject(const NamedOptions& options, std::unique_ptr<NamedHost> host,
              const named::GraphOfCalls& graph);
  ~NamedObject() override;

  // For the calls of Named. Any thread.
  Result<Handle> submit(std::string_view name, std::span<const Request> requests, int priority);
  Result<Rank> join();
  Status set_graph(const Graph& graph, bool weighted);
  Named::Usage usage();
  Status end();

  // Of the lane.
  bool advance() override;
  [[nodiscard]] bool is_idle() const override;
  [[nodiscard]] std::int64_t next_ns() const override;
  void abandon(const Status& why) override;
  void recall_pending(FlightText& to) override;

 private:
  void collect(Metrics& to) override;
  Status check(std::string_view name, std::span<const Request> requests) const;
  Result<std::shared_ptr<GpuOperands>> operands_of(std::span<Request> requests,
                                                   named::Work& work) const;
  Status place(named::Work& work) const;
  Status encode(named::Work& work);
  Result<Handle> hand_over(const std::shared_ptr<named::Work>& work,
                           std::shared_ptr<DeviceOperands> operands = nullptr);
  bool take_turn();
  bool take_submissions(std::int64_t now);
  void take(const std::shared_ptr<named::Work>& work, std::int64_t now);
  void begin(const std::shared_ptr<named::Work>& work, std::int64_t now);
  bool begin_waiting(std::int64_t now);
  void read(Rank from, std::span<const std::byte> message);
  void end(named::Work& work, const Status& status);
  void check_liveness();
  bool check_departures();
  void tell_stall();
  void check_deadline();
  void end_all();

  const NamedOptions options_;
  const std::unique_ptr<NamedHost> host_;
  const std::shared_ptr<Lane> lane_;
  named::Buffers buffers_;
  Encodings encodings_;
  named::Timeline timeline_;
  named::AllWorks all_;
  named::NeighborWorks neighbors_;
  const Mail::Reader reader_;
  std::vector<std::shared_ptr<named::Work>> waiting_;  // whose input is not there yet
  std::int64_t now_ns_ = 0;                            // of this turn
  bool is_in_turn_ = false;
  std::int64_t next_look_ns_ = 0;
  int departures_ = 0;      // looks that found a needed rank gone, one after the other
  StallClock stall_clock_;  // of operations of neighbors

  // Submissions that the lane has not taken yet.
  std::mutex mutex_;
  std::vector<std::shared_ptr<named::Work>> submitted_;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_set<std::string, Hash, std::equal_to<>> in_use_;  // names
  std::shared_ptr<const named::GraphOfCalls> graph_;
  std::uint64_t submissions_ = 0;
  bool is_ended_ = false;
  Status failure_;  // why the context has ended; set by the holder of the lane's token
  std::atomic<bool> has_submitted_{false};
};

}  // namespace weft
