// execute: runs plans. Lowers each send and combine of a Plan onto the endpoints of one channel.
//
// An Execution runs one operation of one rank. A lane keeps one for each channel and uses it again
// and again, so that nothing is allocated after the first operation of a shape. advance() does what
// can be done now and never waits; only the holder of the lane's token calls it. The caller's
// memory in Call belongs to the execution from start() until advance() returns something else than
// `running`.
//
// How a message travels is decided for each send, by its size and its memory (Form):
//   inlined, copied   The bytes are copied into the peer's slot. The source is free at once.
//   viewed            The source lies in the shared heap and is read in place. It is free when all
//                     readers have released it.
//   listed            The same of a source in several runs (runs.h). The notice names a list of them.
//                     All receivers share memory.
//   process           The receiver reads this rank's private memory: in place if both ranks are in
//                     one process, else by process_vm_readv.
//   staged            Private memory is copied block by block into the lane's staging area
//                     (staging.h), where the receivers read it in place. While the area is full,
//                     bytes are copied into slots instead.
//   carried           The peer does not share this rank's memory. A network takes the bytes from
//                     the source, in pieces.
//
// Credits check the graph in operations over a graph. Two ranks that share an edge in an operation
// each send at least one notice to the other. If a rank has data to send, the first piece carries
// the credit; else a notice of kind `credit` does. A rank knows that the two graphs differ if it
// receives a credit where it expected data, or data without the credit that it needs.
//
// Damage is found by CRC-32C, if that is asked for (digest.cc). A sender puts the checksum of a piece
// into its header, and the receiver computes it again as it combines the piece, from the cache. And
// ranks that end an operation with the same result compare the checksums of it along the edges of
// the plan, before the operation ends.
//
// An operation takes the fast path (fast_path.cc) if it is one round of messages that each fit a slot:
// the rank posts its messages, waits until all messages to it have arrived, and combines. The
// general path, which is the rest of this class, continues from the same state if a slot is full or
// a message is not as expected.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/execute/reducer.h"
#include "engine/execute/runs.h"
#include "engine/execute/scratch.h"
#include "engine/execute/ways.h"
#include "engine/kernels/kernels.h"
#include "engine/request/request.h"
#include "engine/trace/trace.h"
#include "scheduler/plan/plan.h"
#include "verbs/memory/memory.h"
#include "verbs/transport/transport.h"

namespace weft {

// The largest message in several runs: WireHeader::bytes has 32 bits.
inline constexpr std::uint64_t kLargestListed = std::uint64_t{1} << 30;

// A rank that this one is connected to.
struct PeerConnection {
  Rank rank = kNoRank;
  Endpoint* endpoint = nullptr;
  // The operations in which the peer took part lately: bit b of `recent` is operation `newest` - b.
  std::uint64_t newest = ~std::uint64_t{0};  // so that operation 0 comes next
  std::uint64_t recent = 0;

  void took_part(std::uint64_t operation) {
    const std::uint64_t age = operation - newest;
    recent = age < 64 ? recent << age | 1 : 1;
    newest = operation;
  }
  // An operation older than the 64 that `recent` remembers counts as one in which the peer took
  // part. It is long over, so the two ranks agreed on it.
  [[nodiscard]] bool took_part_in(std::uint64_t operation) const {
    return recent != 0 && operation <= newest &&
           (newest - operation >= 64 || (recent >> (newest - operation) & 1) != 0);
  }

  // Payload that operations sent to the peer, in any form.
  std::uint64_t sent_bytes = 0;

  bool are_rails_chosen = false;  // RailSelection has decided which rails lead to the peer

  // The number of the search (Admission::looks_) that last claimed the stream from the peer, and
  // the stream to the peer. A search looks for subset operations that can begin.
  std::uint64_t claimed_in = 0, claimed_out = 0;
};

// How private (not weft::allocate) memory larger than a slot travels.
enum class PrivateForm : std::uint8_t {
  staged,
  process,
  cheaper,  // `process` if the receivers may read private memory and that is quicker
};

struct ExecutionOptions {
  std::uint32_t channel = 1;
  std::size_t payload_bytes = 4032;  // largest copied message
  // Largest piece for peers that do not share this rank's memory; a multiple of 64.
  std::size_t piece_bytes = std::size_t{256} << 10;
  PrivateForm private_memory = PrivateForm::cheaper;
  // Outputs of at least this size are written past the caches. They would not stay in the caches,
  // and a cached store first reads the line, which costs as much as writing it.
  std::size_t streaming_bytes = std::size_t{8} << 20;
  bool check_graph = true;
  bool checks_pieces = false;
  bool compares_results = false;
  std::uint32_t slots = 4;
  std::uint32_t job = 0;
  std::uint16_t context = 0;
  Rank rank = 0;                   // this rank
  Rank size = 1;                   // ranks of the context
  PrivateWays* ways = nullptr;     // the lane's; nullptr: nothing is measured
  ScratchPool* scratch = nullptr;  // the lane's; nullptr: the execution uses one of its own
  // Of operations that began without a reducer, and got a message that needs one. Null, or returns
  // null: there is none in this process.
  std::function<Reducer*()> reducer_for_peers;
  TraceRing* trace = nullptr;  // the lane's ring, which may be off; never null in an Execution
};

// What the input of an operation waits for: a copy from a GPU, for example.
class InputGate {
 public:
  enum class State : std::uint8_t {
    awaited,   // nothing is there
    arriving,  // parts are there, so the operation can begin: what is there is sent, and a reducer
               // finds its own input
    arrived,   // all is there, or input_status() says why it never will be
    unneeded,  // all ranks run the operation in another way: its plan ends here
  };
  virtual ~InputGate() = default;
  [[nodiscard]] virtual State input_state() = 0;
  // Once it has arrived, or is not needed.
  [[nodiscard]] virtual Status input_status() = 0;
  // How many of these bytes are there, from the first one on. Memory that is no part of the input is.
  [[nodiscard]] virtual std::size_t there(const std::byte*, std::size_t bytes) { return bytes; }
};

// What the names of a shape mean in one call. Spans must live as long as the execution runs. `in`
// and `out` follow the plan's edge indices, ascending ranks.
struct Call {
  std::span<PeerConnection*const> in, out;
  Collective collective = Collective::barrier;
  DataType type = DataType::u8;
  Reduction reduction = Reduction::sum;  // of Combining::reduce
  // The operation's number in the context, modulo 2^32. For a group_average, a hash of the group;
  // for other subset operations 0.
  std::uint32_t operation = 0;
  std::uint32_t epoch = 0;
  Runs input;  // several runs: in the shared heap
  std::size_t input_count = 0;
  Runs output;
  std::size_t output_count = 0;
  double share = 1.0;  // of the bytes of all operations that run together
  double self_weight = 1.0;
  double scale = 1.0;
  double divisor = 1.0;                     // of whole results
  std::span<const double> receive_weights;  // by in-edge; empty: 1. kUnused: the data is not used
  std::span<const double> send_weights;     // by out-edge; empty: 1
  std::span<const Range> given;             // the output's blocks where its partition is `given`
  std::span<const Range> given_input;       // the same for the input
  // False: no credits are sent. A rank then need not wait for the receivers of copied messages.
  bool checks_graph = true;
  std::uint16_t agreement = 0;     // agreement_of() the request
  bool has_common_result = false;  // all ranks of the operation end with the same output
  Rank root = 0;                   // 0 where the operation has none
  // The rail that pieces should take where the plan names none; kAnyRail: whichever is free.
  int rail = kAnyRail;
  InputGate* gate = nullptr;    // nothing is read or sent before it is there; nullptr: all is
  Reducer* reducer = nullptr;   // is asked for each piece first; nullptr: this thread combines
  std::size_t piece_bytes = 0;  // of messages that are carried, at most; 0: as in the options
  bool is_encoded = false;      // the elements are bytes of encoded tensors, which are not cut
  int stripes = 1;  // the operation runs on so many lanes, and this is the part of one of them
  // True if ranks that disagree about this operation may hear nothing from each other in it. For
  // example, two ranks that both take themselves for the root of a broadcast only send. When such
  // an operation ends, the lane looks for notices that belong to no operation.
  bool checks_unmatched = false;
};
// As a receive weight: the message is received, and its data is not used. As a send weight: the
// message says that there is no data. A caller's weight is never negative zero.
inline constexpr double kUnused = -0.0;
[[nodiscard]] inline bool is_unused(double weight) {
  return weight == 0.0 && std::signbit(weight);
}

class Execution {
 public:
  enum class State : std::uint8_t { idle, running, done, failed };

  explicit Execution(const ExecutionOptions& options);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Begins an operation. No other operation may be running.
  Status start(const Plan& plan, const Call& call);
  // Begins an operation with the plan and the call of the last one, which has ended well. Only the
  // number, the epoch and the values of the weights differ, so edges and headers stay bound.
  Status start_again(std::uint32_t operation, std::uint32_t epoch, double self_weight);
  State advance();
  // Ends a running operation with an error.
  void fail(Status status);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] const Call& call() const { return call_; }
  // Did the last advance() get anything done?
  [[nodiscard]] bool moved() const { return moved_; }
  // Whether the operation waits for a rank that is bound to this rank's core. That rank runs only
  // when this rank yields.
  [[nodiscard]] bool waits_for_this_core();
  // Whether any byte of the output may have been written.
  [[nodiscard]] bool touched_output() const { return touched_output_; }
  // Whether it has read memory of other ranks, which they may change if they have failed.
  [[nodiscard]] bool has_read_in_place() const { return has_read_in_place_; }

  // What the operation waits for: the data or the credit of a peer, or that a peer reads this
  // rank's data.
  struct Missing {
    PeerConnection* connection;
    enum class What : std::uint8_t { data, credit, read } what;
  };
  void missing(std::vector<Missing>& into);

  [[nodiscard]] std::size_t scratch_bytes() const { return own_scratch_.bytes() + chunks_.size(); }
  [[nodiscard]] std::uint64_t allocations() const {
    return allocations_ + own_scratch_.allocations();
  }
  // How the last operation's sends travelled, for Context::explain().
  [[nodiscard]] std::string describe() const;

 private:
  enum class Form : std::uint8_t { inlined, copied, viewed, listed, process, staged, carried };

  // A send in progress.
  struct Sending {
    const Step* step;
    const std::byte* source;
    std::uint64_t bytes;
    std::uint64_t most;          // bytes of a piece, at most
    std::uint32_t first_cursor;  // index in cursors_ of the step's first edge
    std::uint32_t blocks;        // blocks of the staging area that the send holds
    std::uint32_t most_blocks;   // blocks that it may hold
    std::uint64_t copied;        // bytes that went into slots because the staging area was full
    Form form;
    bool is_in_device_memory;  // the source is memory that a CPU cannot touch
    // The part of the message whose checksum was computed last, as it goes along several edges, and the
    // checksum.
    std::uint64_t checked_at;  // kAllPosted: none
    std::uint64_t checked_bytes;
    std::uint32_t checksum;
    bool finished;  // all pieces are posted on all edges
  };
  // A block of the staging area.
  struct Staged {
    std::byte* data;
    std::size_t send;     // index in sends_ of the message of which the block holds a part
    std::uint64_t begin;  // offset of that part in the message
  };
  // The next piece of a message on one edge.
  struct Piece {
    Form form;
    std::uint64_t bytes;
    const std::byte* source;
    std::size_t staged;  // of form `staged`: index in staged_
  };
  // The state of an edge in this operation.
  struct OutEdge {
    Endpoint* endpoint;
    // All data on this edge has been read once Endpoint::locally_completed() has reached `mark`. 0:
    // no data has to be read.
    std::uint64_t mark;
    bool mutual;   // the peer also sends to this rank
    bool spoken;   // the first notice was posted, and with it the credit
    bool blocked;  // a send waits for this edge: for a slot, or for a block to be staged
  };
  struct InEdge {
    Endpoint* endpoint;
    bool mutual;  // this rank also sends to the peer
    bool heard;   // the first notice has arrived, and with it the credit
    // On the fast path: whether the message has arrived, its bytes, and the weight that its sender
    // gave it.
    bool is_there;
    const std::byte* data;
    double weight;
    std::uint32_t result;  // the checksum of the peer's result, once it has arrived
  };
  // One term of the running combine.
  struct Source {
    Endpoint* peer;  // nullptr: local memory
    std::uint32_t edge;
    bool used;
    bool opened;  // the first piece has arrived
    bool loaded;  // a piece is being combined, or the last piece has been
    bool last;    // the loaded piece is the message's last
    PieceForm form;
    Cursor at;  // the next byte; nowhere: it has to be read from address `word`
    std::uint64_t word;
    std::uint64_t left;       // bytes of the piece not yet combined
    std::uint32_t checksum;   // of the piece, as its sender has it; kNoChecksum: it is not checked
    std::uint32_t checked;    // of the bytes that were looked at
    std::uint64_t unchecked;  // bytes of the piece that were not
    double weight;
  };
  // A slice in this call.
  struct Bytes {
    Cursor at;
    std::uint64_t count;
    [[nodiscard]] std::byte* data() const { return at.data(); }
    [[nodiscard]] bool is_one_run() const { return count <= at.left(); }
  };

  // binding.cc
  Status run();
  Status bind_buffers();
  Status take_scratch(std::size_t bytes);
  Status take_lists();
  void bind_edges();
  void prefer_rails();
  [[nodiscard]] Bytes bytes_of(const Slice& slice) const;
  [[nodiscard]] Range range_of(const Slice& slice, std::size_t elements) const;
  [[nodiscard]] ScratchPool& scratch_pool() {
    return options_.scratch != nullptr ? *options_.scratch : own_scratch_;
  }
  [[nodiscard]] Status lacks_memory(std::string_view what, const Status& why) const;
  void end();
  void bind_header();
  [[nodiscard]] std::string label() const { return label(call_.collective, call_.operation); }
  [[nodiscard]] static std::string label(Collective collective, std::uint32_t operation);

  // send.cc
  [[nodiscard]] std::span<const std::uint32_t> edges_of(const Step& step) const {
    return {plan_->edges.data() + step.first, step.count};
  }
  [[nodiscard]] bool any_shares_memory(const Step& step) const;
  [[nodiscard]] bool all_share_memory(const Step& step) const;
  [[nodiscard]] std::uint64_t largest_piece(const Step& step, Form form) const;
  // Of a piece from another machine, at most: what is copied at once is one piece.
  [[nodiscard]] std::uint64_t most_carried() const {
    return std::max(options_.payload_bytes, options_.piece_bytes);
  }
  [[nodiscard]] std::uint64_t piece_bytes() const {
    return call_.piece_bytes == 0 ? options_.piece_bytes
                                  : std::min(call_.piece_bytes, options_.piece_bytes);
  }
  void begin_send(const Step& step);
  [[nodiscard]] bool is_in_device_memory(const Bytes& source) const;
  [[nodiscard]] Form form_of(const Step& step, const Bytes& source);
  [[nodiscard]] bool is_read_privately(const Step& step, std::uint64_t bytes);
  [[nodiscard]] std::uint32_t imitated() const;
  [[nodiscard]] PrivateWays::Way way_of(std::uint64_t bytes, PrivateWays::Way first);
  void imitate();
  void learn_way();
  [[nodiscard]] bool is_one_of_many_to_root() const;
  [[nodiscard]] const std::byte* list(Bytes source);
  void pump_sends();
  bool pump(Sending& send);
  bool post_next(Sending& send, std::uint32_t at);
  void posted(Sending& send, std::uint32_t edge, const Piece& piece);
  Posted post(OutEdge& out, WireHeader& head, const Piece& piece);
  [[nodiscard]] double send_weight(std::size_t edge) const {
    return call_.send_weights.empty() ? 1.0 : call_.send_weights[edge];
  }
  void address(WireHeader& head, std::size_t edge, bool is_last) const;
  bool post_credits();
  [[nodiscard]] bool waits_for_slots(std::uint32_t edge) const;
  [[nodiscard]] bool readers_done(std::size_t send_index);
  [[nodiscard]] bool all_readers_done();

  // stage.cc
  [[nodiscard]] StagingPool& staging() { return scratch_pool().staging(); }
  bool stage(Sending& send, std::uint32_t at, Piece& piece);
  [[nodiscard]] bool waits_for_block(const Sending& send, std::uint32_t at);
  [[nodiscard]] std::byte* block_for(Sending& send);
  [[nodiscard]] bool is_read(std::size_t staged) const;
  [[nodiscard]] bool is_taken(std::size_t staged);
  std::byte* drop_staged(std::size_t staged);
  void collect_staged();

  // fast_path.cc
  [[nodiscard]] bool may_be_fast() const;
  void bind_fast_heads();
  void bind_fast_slices();
  bool advance_fast();
  [[nodiscard]] bool takes_messages(const Step& step) const;
  bool post_fast(const Step& step);
  bool hear_fast();
  [[nodiscard]] bool is_as_expected(const InEdge& edge, const WireHeader& header,
                                    std::uint64_t bytes) const;
  void combine_fast(const Step& step);

  // digest.cc
  [[nodiscard]] bool compares() const {
    return options_.compares_results && call_.has_common_result;
  }
  [[nodiscard]] std::uint32_t checksum_of(Sending& send, const Piece& piece, std::uint64_t at,
                                          double weight);
  [[nodiscard]] bool is_mode_alike(const WireHeader& header, Rank peer);
  [[nodiscard]] bool is_intact(Source& source, const std::byte* data, std::uint64_t bytes);
  [[nodiscard]] std::uint32_t checksum_of_output();
  bool compare_results();
  bool take_results();
  void judge_results();

  // combine.cc
  bool await_input();
  [[nodiscard]] CombineFunction function_of(const Step& step) const;
  [[nodiscard]] StoreKind store_for(std::uint64_t bytes) const {
    const bool is_large =
        static_cast<double>(bytes) >= call_.share * static_cast<double>(options_.streaming_bytes);
    return is_large ? StoreKind::streaming : StoreKind::cached;
  }
  [[nodiscard]] double weight_of(const Weight& weight) const;
  bool run_combine(const Step& step);
  bool begin_combine(const Step& step);
  bool load(Source& source);
  [[nodiscard]] Cursor read_list(const Source& source, const WireHeader& head);
  [[nodiscard]] std::uint64_t lying_together(std::uint64_t bytes) const;
  bool check_notice(const Source& source, const WireHeader& header);
  [[nodiscard]] Reducer::Job job_of(const Step& step, std::uint64_t bytes);
  void combine_range(const Step& step, std::uint64_t bytes);
  void combine_run(const Step& step, std::uint64_t bytes);
  [[nodiscard]] bool must_offload() const;
  [[nodiscard]] bool begin_offload(const Step& step, std::uint64_t bytes);
  [[nodiscard]] bool collect_offloads();
  [[nodiscard]] bool is_read_by_offload(const Endpoint* peer) const;
  [[nodiscard]] Reduction reduction_of(const Step& step) const;
  // What the combine of terms_ is divided by. Weights that are a mean's become those of mean_of().
  [[nodiscard]] double divisor_of(const Step& step);
  [[nodiscard]] bool is_output_read() const;
  [[nodiscard]] std::byte* chunk(std::size_t source);
  bool fetch(const Source& source, std::span<std::byte> into);
  void consume(Source& source, std::uint64_t bytes);
  bool take_credits();

  ExecutionOptions options_;
  State state_ = State::idle;
  Status status_;
  bool moved_ = false;
  bool touched_output_ = false;
  bool has_read_in_place_ = false;
  const Plan* plan_ = nullptr;
  Call call_;
  bool check_graph_ = true;
  std::size_t element_ = 1;  // bytes
  WireHeader header_;        // what all notices of this operation have in common
  std::vector<InEdge> in_;
  std::vector<OutEdge> out_;
  // The endpoints for which the current operation, or the last one, prefers a rail.
  std::vector<Endpoint*> kept_to_rails_;

  std::uint32_t pc_ = 0;
  // The sends in the order in which they began. send_of_step_ gives the index of a step's send.
  std::vector<Sending> sends_;
  static constexpr std::uint64_t kAllPosted = ~std::uint64_t{0};
  // For each edge of each send, the offset at which the edge's next piece begins; kAllPosted: no
  // piece is left. Sending::first_cursor is the index of a send's first edge.
  std::vector<std::uint64_t> cursors_;
  std::size_t first_unfinished_ = 0;
  static constexpr std::uint32_t kSentFast = ~0U;
  std::vector<std::uint32_t> send_of_step_;
  // [send][out edge]: the OutEdge::mark of that send alone. Combines with hazards need it.
  std::vector<std::uint64_t> read_marks_;
  std::uint32_t credit_posts_ = 0;  // in-edges handled by post_credits
  std::uint32_t credit_takes_ = 0;  // out-edges handled by take_credits
  // While an edge's reader has so many notices to release, the edge gets no block of the staging
  // area. A slow reader thus leaves blocks to the others.
  static constexpr std::uint32_t kStagedUnread = 8;
  std::vector<Staged> staged_;
  std::vector<std::uint64_t> staged_marks_;  // [staged][out edge]: OutEdge::mark of that piece
  // Whether the readers of a message may wait for one another. They may if the plan has only one
  // send and at most one combine that takes messages: no reader then has to read another message
  // first.
  bool reads_in_step_ = false;

  // The fast path (fast_path.cc).
  bool may_be_fast_ = false;  // the operation may take it
  bool is_fast_ = false;      // the operation is on it: nothing has forced it to the general path
  // The memory of the plan's steps and of its local operands. Empty: not computed yet.
  std::vector<Bytes> fast_slices_;
  std::vector<const std::byte*> fast_operands_;
  std::vector<WireHeader> fast_heads_;  // by out-edge: the header of its only message
  std::uint32_t fast_takes_ = 0;        // the first step that takes messages
  bool is_bound_ = false;               // start_again() need not bind the buffers anew
  std::uint32_t fast_posts_ = 0;        // edges of the send at pc_ whose message is posted
  std::uint32_t fast_step_ = 0;         // the combine for whose messages hear_fast() looks
  std::uint32_t fast_heard_ = 0;        // operands of that combine that are there

  // What this operation tells about the ways of private memory (ways.h). use_ is null until it sends
  // some.
  static constexpr std::uint32_t kNoEdge = ~0U;
  PrivateWays::Use* use_ = nullptr;
  std::int64_t began_ns_ = 0;
  std::uint32_t imitated_edge_ = kNoEdge;  // the in-edge whose sender is imitated
  // How that one sent. `view`: it staged; `process`: this rank read; `payload`: not known.
  PieceForm imitated_form_ = PieceForm::payload;

  // The comparison of results: how many edges are posted and taken.
  std::uint32_t result_ = kNoChecksum;  // of this rank; kNoChecksum: not computed yet
  std::uint32_t result_posts_ = 0;
  std::uint32_t result_takes_ = 0;

  bool combining_ = false;
  std::vector<Source> sources_;
  std::vector<Term> terms_;
  // Of messages in several runs: the runs, by source.
  std::vector<std::vector<Run>> message_runs_;
  Cursor destination_;
  std::uint64_t combined_ = 0;  // bytes of the destination
  std::uint64_t wanted_ = 0;
  CombineFunction function_ = nullptr;
  StoreKind store_ = StoreKind::cached;
  // A part of a combine that is under way elsewhere.
  struct Offload {
    std::unique_ptr<Reducer::Work> work;
    std::uint16_t step;
    std::uint64_t bytes;
    // Of the last part of a step, which has gone on: the peers whose messages are used up.
    std::vector<Endpoint*> read;
    bool is_step_over;
  };
  std::vector<Offload> offloads_;  // in the order in which they began

  ScratchPool own_scratch_;
  // Kept after a failure, because peers may still read it; the destructor gives it back.
  ScratchPool::Block scratch_;
  std::byte* scratch_data_ = nullptr;  // of that block, or of the reducer
  // The lists of this rank's listed messages, which are kept like the scratch.
  ScratchPool::Block lists_;
  std::size_t listed_ = 0;         // entries that are used
  std::vector<std::byte> chunks_;  // a chunk for each source, into which process memory is read
  std::uint64_t allocations_ = 0;
  CombineFunction functions_[kDataTypes][kReductions] = {};
};

}  // namespace weft
