// execute: runs plans. Lowers each send and combine of a Plan onto the endpoints of one channel.
//
// An Execution is the running of one operation by one rank; a context keeps one per channel and
// uses it again and again, so that after the first operation of a shape nothing is allocated.
// advance() does what can be done now and never waits; it is called by whoever holds the lane's
// token. The caller's memory in Call belongs to the execution from start() until advance() no
// longer answers `running`.
//
// How a message travels is decided per send, by size and memory (Form):
//   inlined, copied   into the peer's slot: the source is free at once
//   viewed            the source lies in the shared heap and is read in place; free when all
//                     readers released
//   process           the receiver reads our private memory, in place if it is in our process, else
//                     by process_vm_readv
//   staged            private memory is copied block by block into the lane's staging area
//                     (staging.h) and read in place there; while that is full, into slots
//   carried           the peer does not share our memory: a network takes it, in pieces, from
//                     where it is
//
// In operations over a graph, who may send to whom is checked by credits (DESIGN: the receiver's
// ready-credit is the graph check): between two ranks that share an edge in this operation each
// says at least one thing to the other. If it has data to send, the first piece carries the credit;
// else a notice of kind `credit` does. A rank that hears a credit where it expected data, or data
// without the credit it needs, knows that the two graphs differ.
//
// One round of messages that each fit a slot needs none of this machinery: they are posted, and
// once all that come are there, combined (brief.cc). What is out of the ordinary there, a full slot
// or a message that is not as expected, is left to the long way, from where the brief one stood.
#pragma once

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "engine/execute/scratch.h"
#include "engine/kernels/kernels.h"
#include "engine/request/request.h"
#include "engine/trace/trace.h"
#include "scheduler/plan/plan.h"
#include "verbs/memory/memory.h"
#include "verbs/transport/transport.h"

namespace weft {

// A rank that this one is connected to.
struct Contact {
  Rank rank = kNoRank;
  Endpoint* endpoint = nullptr;
  // The operations in which it took part lately: bit b of `recent` is operation `newest` - b.
  std::uint64_t newest = ~std::uint64_t{0};  // so that operation 0 comes next
  std::uint64_t recent = 0;

  void took_part(std::uint64_t operation) {
    const std::uint64_t age = operation - newest;
    recent = age < 64 ? recent << age | 1 : 1;
    newest = operation;
  }
  // Operations older than what is remembered are long over; both sides know that they agreed on
  // them.
  [[nodiscard]] bool took_part_in(std::uint64_t operation) const {
    return recent != 0 && operation <= newest &&
           (newest - operation >= 64 || (recent >> (newest - operation) & 1) != 0);
  }

  // Payload given to it in operations, by whatever way.
  std::uint64_t sent_bytes = 0;

  bool are_rails_chosen = false;  // of those that lead to it: what we use

  // By which look for operations of some ranks that can start each direction was last claimed.
  std::uint64_t claimed_in = 0, claimed_out = 0;
};

// How private (not weft::allocate) memory larger than a slot travels.
enum class ForeignForm : std::uint8_t {
  staged,
  process,
  cheaper,  // `process` where the receivers may do that and it costs less
};

struct ExecutionOptions {
  std::uint32_t channel = 1;
  std::size_t payload_bytes = 4032;  // largest copied message
  // Largest piece for peers that do not share our memory; a multiple of 64.
  std::size_t piece_bytes = std::size_t{256} << 10;
  ForeignForm foreign = ForeignForm::cheaper;
  // Outputs from here up bypass the caches: they would not stay there, and reading a line before
  // overwriting it costs as much as writing it.
  std::size_t streaming_bytes = std::size_t{8} << 20;
  bool check_graph = true;
  std::uint32_t slots = 4;
  std::uint32_t job = 0;
  std::uint16_t context = 0;
  ScratchPool* scratch = nullptr;  // the lane's; nullptr: one of its own
  TraceRing* trace =
      nullptr;  // never null in an Execution: the lane's ring, perhaps one that is off
};

// What the names of a shape mean in one call. Spans must live as long as the execution runs. `in`
// and `out` follow the plan's edge indices, ascending ranks.
struct Call {
  std::span<Contact*const> in, out;
  Collective collective = Collective::barrier;
  DataType type = DataType::u8;
  Reduction reduction = Reduction::sum;  // of Combining::reduce
  // Number in the context, modulo 2^32; of an operation of some ranks a hash of its members.
  std::uint32_t operation = 0;
  std::uint32_t epoch = 0;
  const void* input = nullptr;
  std::size_t input_count = 0;
  void* output = nullptr;
  std::size_t output_count = 0;
  double self_weight = 1.0;
  double scale = 1.0;
  std::span<const double> receive_weights;  // by in-edge; empty: 1. kUnused: the data is not used
  std::span<const double> send_weights;     // by out-edge; empty: 1
  std::span<const Range> given;             // the output's blocks where its partition is `given`
  std::span<const Range> given_input;       // the input's
  bool checks_graph = true;     // false: no credits, so a copied message waits for nobody
  std::uint16_t agreement = 0;  // agreement_of() the request
  // Where ranks that disagree may not hear each other in this operation: a root for example only
  // sends. Its end is the time to look for notices that belong to no operation.
  bool looks_for_strays = false;
};
// A receive weight that means: take the message and do not use it; a send weight that means: say
// that there is no data. Negative zero is never a weight of a caller's.
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

  // Begins an operation; only when not running.
  Status start(const Plan& plan, const Call& call);
  // The same plan as the last time, and the same call but for its number, its epoch and the values
  // of its weights: nothing is bound anew.
  Status start_again(std::uint32_t operation, std::uint32_t epoch, double self_weight);
  State advance();
  // Ends a running operation badly.
  void fail(Status status);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] const Call& call() const { return call_; }
  // Did the last advance() get anything done?
  [[nodiscard]] bool moved() const { return moved_; }
  // Whether a rank that it waits for is bound to this rank's core: that one runs when we yield.
  [[nodiscard]] bool waits_for_this_core();
  // Whether any byte of the output may have been written.
  [[nodiscard]] bool touched_output() const { return touched_output_; }

  // What is missing, for people: "data from rank 2", "rank 3 to read its data". And the peers
  // concerned.
  struct Missing {
    Contact* contact;
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
  enum class Form : std::uint8_t { inlined, copied, viewed, process, staged, carried };

  // A send in progress.
  struct Sending {
    const Step* step;
    const std::byte* source;
    std::uint64_t bytes;
    std::uint64_t most;          // of a piece
    std::uint32_t first_cursor;  // in cursors_: per edge of the step, where its next piece begins
    std::uint32_t blocks;        // of the staging area: those that it holds, and
    std::uint32_t most_blocks;   // those that it may hold
    std::uint64_t copied;        // bytes that went into slots because the staging area was full
    Form form;
    bool finished;  // all pieces are posted on all edges
  };
  // A block of the staging area.
  struct Staged {
    std::byte* data;
    std::size_t send;     // whose message it holds a part of: index in sends_
    std::uint64_t begin;  // of that part
  };
  // What a notice says of its piece, and where the bytes are.
  struct Piece {
    Form form;
    std::uint64_t bytes;
    const std::byte* source;
    std::size_t staged;  // of form `staged`: index in staged_
  };
  // What this operation knows of an edge.
  struct OutEdge {
    Endpoint* endpoint;
    std::uint64_t
        mark;      // settled() that proves that all our data there was read; 0: nothing to wait for
    bool mutual;   // the peer sends to us too
    bool spoken;   // a first notice went out, and with it the credit
    bool blocked;  // a send waits for this edge's slots
  };
  struct InEdge {
    Endpoint* endpoint;
    bool mutual;  // we send to the peer too
    bool heard;   // its first notice came, and with it the credit
    // On the brief way: the message once it is there, and the weight that its sender gave it.
    bool is_there;
    const std::byte* data;
    double weight;
  };
  // One term of the running combine.
  struct Source {
    Endpoint* peer;  // nullptr: local memory
    std::uint32_t edge;
    bool used;
    bool opened;  // the first piece was seen
    bool loaded;  // a piece is at the front
    bool last;    // … and it is the message's last
    PieceForm form;
    const std::byte* data;  // where the next byte is; nullptr: read through `word`
    std::uint64_t word;
    std::uint64_t left;  // bytes of the piece not yet combined
    double weight;
  };
  // A slice in this call.
  struct Bytes {
    std::byte* data;
    std::uint64_t count;
  };

  // binding.cc
  Status run();
  Status bind_buffers();
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
  void begin_send(const Step& step);
  [[nodiscard]] Form form_of(const Step& step, const Bytes& source) const;
  [[nodiscard]] bool is_read_privately(const Step& step, std::uint64_t bytes) const;
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

  // brief.cc
  [[nodiscard]] bool is_brief() const;
  void bind_brief_heads();
  void bind_brief_slices();
  bool advance_brief();
  [[nodiscard]] bool takes_messages(const Step& step) const;
  bool post_brief(const Step& step);
  bool hear_brief();
  [[nodiscard]] bool is_as_expected(const InEdge& edge, const WireHeader& header,
                                    std::uint64_t bytes) const;
  void combine_brief(const Step& step);

  // combine.cc
  [[nodiscard]] CombineFunction function_of(const Step& step) const;
  [[nodiscard]] double weight_of(const Weight& weight) const;
  bool run_combine(const Step& step);
  bool begin_combine(const Step& step);
  bool load(Source& source);
  bool check_notice(const Source& source, const WireHeader& header);
  void combine_range(const Step& step, std::uint64_t bytes);
  [[nodiscard]] std::byte* chunk(std::size_t source);
  bool fetch(const Source& source, std::span<std::byte> into);
  void consume(Source& source, std::uint64_t bytes);
  bool take_credits();

  ExecutionOptions options_;
  State state_ = State::idle;
  Status status_;
  bool moved_ = false;
  bool touched_output_ = false;
  const Plan* plan_ = nullptr;
  Call call_;
  bool check_graph_ = true;
  std::size_t element_ = 1;  // bytes
  WireHeader header_;        // what all notices of this operation have in common
  std::vector<InEdge> in_;
  std::vector<OutEdge> out_;
  std::vector<Endpoint*> kept_to_rails_;  // by the operation that ran last

  std::uint32_t pc_ = 0;
  // Sends, in the order begun; send_of_step_ maps a step to its index here.
  std::vector<Sending> sends_;
  static constexpr std::uint64_t kAllPosted = ~std::uint64_t{0};
  std::vector<std::uint64_t> cursors_;  // Sending::first_cursor; kAllPosted: no piece is left
  std::size_t first_unfinished_ = 0;
  static constexpr std::uint32_t kSentBriefly = ~0U;
  std::vector<std::uint32_t> send_of_step_;
  std::vector<std::uint64_t>
      read_marks_;  // [send][out edge]: OutEdge::mark of that send alone, for hazards
  std::uint32_t credit_posts_ = 0;  // in-edges handled by post_credits
  std::uint32_t credit_takes_ = 0;  // out-edges handled by take_credits
  // Pieces that an edge may have unread while it takes blocks of the staging area: a slow reader
  // then leaves blocks to the others.
  static constexpr std::uint32_t kStagedUnread = 8;
  std::vector<Staged> staged_;
  std::vector<std::uint64_t> staged_marks_;  // [staged][out edge]: OutEdge::mark of that piece
  // The readers of a message may wait for one another: it is the plan's only one, and the ranks take
  // all that comes to them in one combine, so none of them reads elsewhere first.
  bool reads_in_step_ = false;

  bool is_brief_ = false;  // the operation can go the brief way, and
  bool brief_ = false;     // has so far
  // There: where the plan's steps and its local operands lie. Empty: yet to be found.
  std::vector<Bytes> brief_slices_;
  std::vector<const std::byte*> brief_operands_;
  std::vector<WireHeader> brief_heads_;  // by out-edge: a send's only message there
  std::uint32_t brief_takes_ = 0;        // the first step that takes messages
  bool is_bound_ = false;                // nothing is to be bound anew when it is run again
  std::uint32_t brief_posts_ = 0;        // edges of the send at pc_ that have their message by it
  std::uint32_t brief_step_ = 0;   // the combine, from pc_ on, whose messages are being heard, and
  std::uint32_t brief_heard_ = 0;  // how many of its operands were looked at

  bool combining_ = false;
  std::vector<Source> sources_;
  std::vector<Term> terms_;
  std::byte* destination_ = nullptr;
  std::uint64_t combined_ = 0;  // bytes of the destination
  std::uint64_t wanted_ = 0;
  CombineFunction function_ = nullptr;

  ScratchPool own_scratch_;
  ScratchPool::Block scratch_;     // while it runs; after a failure peers may still read it
  std::vector<std::byte> chunks_;  // where process memory is read to, a chunk per source
  std::uint64_t allocations_ = 0;
  CombineFunction functions_[kDataTypes][kReductions] = {};
};

}  // namespace weft
