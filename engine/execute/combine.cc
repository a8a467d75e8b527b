// combine: receiving messages, checking their headers, and reducing them with local memory in one
// pass.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/execute/checksum.h"
#include "engine/execute/execute.h"

namespace weft {
namespace {

// Private memory of peers is read in chunks of this size, so that a chunk is still in the cache
// when it is combined.
constexpr std::uint64_t kReadChunk = std::uint64_t{128} << 10;
// The most bytes of a step that one advance() combines, so that the lane's other operations do not
// wait long.
constexpr std::uint64_t kCombineTurn = std::uint64_t{4} << 20;
// The same where a GPU combines: the lane does not wait for it.
constexpr std::uint64_t kMostOffload = std::uint64_t{64} << 20;

}  // namespace

Execution::State Execution::advance() {
  moved_ = false;
  if (state_ != State::running) return state_;
  if (call_.gate != nullptr && !await_input()) return state_;
  if (is_fast_ && !advance_fast()) return state_;
  const bool credits_posted = post_credits();
  pump_sends();
  for (; pc_ < plan_->steps.size(); ++pc_) {
    const Step& step = plan_->steps[pc_];
    if (step.kind == Step::Kind::send) {
      if (!collect_offloads()) return state_;  // it may be what is sent
      begin_send(step);
      pump_sends();
      moved_ = true;
    } else if (!run_combine(step)) {
      return state_;
    }
  }
  if (!collect_offloads() || !credits_posted || first_unfinished_ != sends_.size() ||
      !take_credits() || !compare_results() || !all_readers_done()) {
    return state_;
  }
  moved_ = true;
  end();
  return state_;
}

// Returns whether the input is there, or the first part of it.
bool Execution::await_input() {
  const InputGate::State state = call_.gate->input_state();
  if (state == InputGate::State::awaited) return false;
  if (state == InputGate::State::arriving) return !is_fast_;
  moved_ = true;
  const Status status = std::exchange(call_.gate, nullptr)->input_status();
  if (!status.ok()) {
    fail(status);
  } else if (state == InputGate::State::unneeded) {
    end();
  }
  return state_ == State::running;
}

Reduction Execution::reduction_of(const Step& step) const {
  return step.combining == Combining::weighted ? Reduction::weighted_sum
         : step.combining == Combining::reduce ? call_.reduction
                                               : Reduction::sum;
}

double Execution::divisor_of(const Step& step) {
  if (step.is_whole) return call_.divisor;
  return step.combining == Combining::weighted ? take_divisor(terms_) : 1.0;
}

CombineFunction Execution::function_of(const Step& step) const {
  const auto reduction = static_cast<std::size_t>(reduction_of(step));
  return functions_[static_cast<std::size_t>(call_.type)][reduction];
}

double Execution::weight_of(const Weight& weight) const {
  switch (weight.kind) {
    case Weight::Kind::one:
      return 1.0;
    case Weight::Kind::self:
      return call_.self_weight;
    case Weight::Kind::scale:
      return call_.scale;
    case Weight::Kind::edge:
      return call_.receive_weights.empty() ? 1.0 : call_.receive_weights[weight.index];
  }
  return 1.0;
}

// Returns true if the combine is complete.
bool Execution::run_combine(const Step& step) {
  if (!combining_ && !begin_combine(step)) return false;
  // A part of this step is waited for; work of earlier steps goes on.
  if (!offloads_.empty() && !offloads_.back().is_step_over && !collect_offloads()) return false;
  std::uint64_t turn = kCombineTurn;
  bool is_complete = combined_ == wanted_ && wanted_ != 0;
  while (!is_complete) {
    for (Source& source : sources_)
      if (source.peer != nullptr && !source.loaded && !load(source)) return false;
    const bool may_offload = call_.reducer != nullptr;
    std::uint64_t ready = std::min(wanted_ - combined_, may_offload ? kMostOffload : turn);
    for (const Source& source : sources_) {
      if (source.peer == nullptr) continue;
      ready = std::min(ready, source.left);
      if (source.at.data() == nullptr && (may_offload || step.combining != Combining::copy))
        ready = std::min(ready, kReadChunk);
    }
    if (may_offload) ready = lying_together(ready);
    if (may_offload && ready != 0 && begin_offload(step, ready)) {
      if (!offloads_.back().is_step_over) return false;
      break;
    }
    if (state_ != State::running || !collect_offloads()) return false;
    if (call_.gate != nullptr) return false;  // this thread may need all of the input
    ready = std::min(ready, turn);
    if (options_.checks_pieces) ready = std::min(ready, kReadChunk);  // read twice, from the cache
    if (ready != 0 && state_ == State::running) {
      const auto number = static_cast<std::uint16_t>(pc_);
      options_.trace->add(Event::combine_begin, call_.operation, kNoRank, number);
      combine_range(step, ready);
      options_.trace->add(Event::combine_end, call_.operation, kNoRank, number);
    }
    if (state_ != State::running) return false;
    moved_ = true;
    combined_ += ready;
    turn -= ready;
    is_complete = combined_ == wanted_;
    if (!is_complete && turn == 0) return false;
  }
  combining_ = false;
  return true;
}

// Whether a step sends from the output or combines what is there.
bool Execution::is_output_read() const {
  for (const Step& step : plan_->steps) {
    if (step.kind == Step::Kind::send && step.slice.buffer == Buffer::output) return true;
    for (std::uint32_t k = 0; step.kind == Step::Kind::combine && k < step.count; ++k) {
      const Operand& operand = plan_->operands[step.first + k];
      if (operand.kind == Operand::Kind::local && operand.slice.buffer == Buffer::output)
        return true;
    }
  }
  return false;
}

// Whether this thread cannot combine what the sources have, or cannot write the result.
bool Execution::must_offload() const {
  return call_.reducer->is_in_device_memory(destination_.data()) ||
         std::ranges::any_of(sources_, [this](const Source& source) {
           return source.used && source.at.data() != nullptr &&
                  call_.reducer->is_in_device_memory(source.at.data());
         });
}

// Hands the next `bytes` of all sources to the reducer. Returns whether it has taken them. Private
// memory of peers has to be read first, which is done only for what this thread cannot combine.
bool Execution::begin_offload(const Step& step, std::uint64_t bytes) {
  const bool is_unread = std::ranges::any_of(
      sources_, [](const Source& source) { return source.used && source.at.data() == nullptr; });
  if (is_unread && !must_offload()) return false;
  terms_.clear();
  for (std::size_t k = 0; k < sources_.size(); ++k) {
    Source& source = sources_[k];
    if (!source.used) continue;
    const std::byte* data = source.at.data();
    if (data == nullptr && !fetch(source, {chunk(k), bytes})) return false;
    if (data == nullptr) data = chunk(k);
    if (!is_intact(source, data, bytes)) return false;
    terms_.push_back({data, source.weight});
  }
  Reducer::Job job = job_of(step, bytes);
  job.is_last = step.slice.buffer == Buffer::output && !is_output_read();
  Result<std::unique_ptr<Reducer::Work>> work = call_.reducer->begin(job);
  if (!work.ok()) fail(work.status());
  if (!work.ok() || *work == nullptr) return false;
  if (step.slice.buffer == Buffer::output) touched_output_ = true;
  const auto number = static_cast<std::uint16_t>(pc_);
  options_.trace->add(Event::combine_begin, call_.operation, kNoRank, number);
  Offload& offload = offloads_.emplace_back(Offload{*std::move(work), number, bytes, {}, false});
  moved_ = true;
  const bool is_whole =
      combined_ + bytes == wanted_ && std::ranges::all_of(sources_, [&](const Source& source) {
        return source.peer == nullptr || (source.last && source.left == bytes);
      });
  if (!is_whole || !offload.work->is_in_order()) return true;
  offload.is_step_over = true;
  for (const Source& source : sources_)
    if (source.peer != nullptr) offload.read.push_back(source.peer);
  return true;
}

// Ends what the reducer has done, in the order in which it began. Returns whether nothing is under
// way, and all went well.
bool Execution::collect_offloads() {
  std::size_t over = 0;
  for (; over < offloads_.size() && offloads_[over].work->is_over(); ++over) {
    Offload& offload = offloads_[over];
    options_.trace->add(Event::combine_end, call_.operation, kNoRank, offload.step);
    moved_ = true;
    if (Status status = offload.work->status(); !status.ok()) {
      fail(std::move(status));
      return false;
    }
    for (Endpoint* peer : offload.read) peer->release(options_.channel);
    if (offload.is_step_over) continue;
    for (Source& source : sources_) consume(source, offload.bytes);
    destination_.advance(offload.bytes);
    combined_ += offload.bytes;
  }
  offloads_.erase(offloads_.begin(), offloads_.begin() + static_cast<std::ptrdiff_t>(over));
  return offloads_.empty();
}

// Whether the first message of this peer is one that the reducer still reads.
bool Execution::is_read_by_offload(const Endpoint* peer) const {
  return std::ranges::any_of(offloads_, [&](const Offload& offload) {
    return std::ranges::find(offload.read, peer) != offload.read.end();
  });
}

bool Execution::begin_combine(const Step& step) {
  for (std::uint32_t h = 0; h < step.hazard_count; ++h) {
    const std::uint32_t hazard = plan_->hazards[step.hazard_first + h];
    if (!readers_done(send_of_step_[hazard])) return false;
  }
  const Bytes destination = bytes_of(step.slice);
  destination_ = destination.at;
  wanted_ = destination.count;
  combined_ = 0;
  function_ = function_of(step);
  store_ = store_for(wanted_);
  sources_.clear();
  for (std::uint32_t k = 0; k < step.count; ++k) {
    const Operand& operand = plan_->operands[step.first + k];
    Source& source = sources_.emplace_back();
    source.weight = weight_of(operand.weight);
    source.used = operand.weight.kind != Weight::Kind::edge || !is_unused(source.weight);
    if (operand.kind == Operand::Kind::local) {
      source.at = bytes_of(operand.slice).at;
    } else {
      source.edge = operand.edge;
      source.peer = in_[operand.edge].endpoint;
    }
  }
  combining_ = true;
  return true;
}

// Looks for the next piece of a message. Returns false if it has not arrived, or if it is wrong,
// which fails the operation.
bool Execution::load(Source& source) {
  if (is_read_by_offload(source.peer)) (void)collect_offloads();
  if (state_ != State::running || is_read_by_offload(source.peer)) return false;
  const Notice notice = source.peer->front(options_.channel);
  if (notice.header == nullptr) return false;
  const WireHeader& head = *notice.header;
  if (!check_notice(source, head)) return false;
  if (!source.opened) {
    source.opened = true;
    source.weight *= head.weight;
    if ((head.flags & kFlagNothing) != 0) source.used = false;
  }
  source.left = head.bytes;
  source.last = (head.flags & kFlagLast) != 0;
  source.form = head.form;
  source.word = head.word;
  source.checksum = (head.flags & kFlagDeviceMemory) == 0 ? head.checksum : kNoChecksum;
  if (source.checksum != kNoChecksum) {
    source.checked = checksum_of_weight(head.weight);
    source.unchecked = head.bytes;
  }
  // After private memory, scratch may follow, which is in the shared heap whatever the way.
  const bool names_memory = head.form == PieceForm::view || head.form == PieceForm::process;
  has_read_in_place_ |= names_memory || head.form == PieceForm::runs;
  if (source.edge == imitated_edge_ && names_memory && imitated_form_ != PieceForm::process)
    imitated_form_ = head.form;
  switch (head.form) {
    case PieceForm::inlined:
      source.at = Cursor(reinterpret_cast<const std::byte*>(&head.word));
      break;
    case PieceForm::payload:
      source.at = Cursor(notice.payload);
      break;
    case PieceForm::view:
    case PieceForm::process:
      source.at = Cursor(source.peer->view({head.form, head.word, head.bytes}));
      break;
    case PieceForm::runs:
      source.at = read_list(source, head);
      break;
    case PieceForm::region:  // no rank sends one
      source.at = Cursor();
      break;
  }
  if ((head.flags & kFlagDeviceMemory) != 0 && call_.reducer == nullptr) {
    if (options_.reducer_for_peers) call_.reducer = options_.reducer_for_peers();
    if (call_.reducer == nullptr) source.at = Cursor();
  }
  if (source.at.data() == nullptr && head.form != PieceForm::process) {
    fail(Status(Code::mismatch,
                fmt::format("{}: rank {} names {} bytes at {:#x} outside its shared heap{}",
                            name(call_.collective), source.peer->peer(), head.bytes, head.word,
                            (head.flags & kFlagDeviceMemory) == 0 ? "" : ", on a GPU"),
                source.peer->peer()));
    return false;
  }
  source.loaded = true;
  // An empty message has one empty piece, which is released at once.
  if (head.bytes == 0) consume(source, 0);
  return true;
}

// The runs of a piece, copied so that they stay what they were found to be. Nowhere: one of them is
// empty, cuts an element, or is outside the peer's heap, or they have other bytes than the piece.
Cursor Execution::read_list(const Source& source, const WireHeader& head) {
  message_runs_.resize(std::max(message_runs_.size(), sources_.size()));
  std::vector<Run>& runs = message_runs_[static_cast<std::size_t>(&source - sources_.data())];
  runs.clear();
  std::uint64_t at = head.word;
  for (std::uint64_t left = head.bytes; left != 0; at += sizeof(WireRun)) {
    const std::byte* const entry = source.peer->view({PieceForm::view, at, sizeof(WireRun)});
    if (entry == nullptr) return Cursor();
    WireRun run;
    std::memcpy(&run, entry, sizeof run);
    if (run.bytes == 0 || run.bytes > left || run.bytes % element_ != 0) return Cursor();
    const std::byte* const data = source.peer->view({PieceForm::view, run.offset, run.bytes});
    if (data == nullptr) return Cursor();
    runs.push_back({const_cast<std::byte*>(data), run.bytes});
    left -= run.bytes;
  }
  return runs.empty() ? Cursor() : Cursor(runs, 0);
}

// Compares a piece with what this rank expects: operation, agreement, type, size and credit. If
// they differ, the two ranks disagree about the operation, and it fails.
bool Execution::check_notice(const Source& source, const WireHeader& head) {
  const Rank peer = source.peer->peer();
  const auto differ = [&](std::string text) {
    fail(Status(Code::mismatch, std::move(text), peer));
    return false;
  };
  if (head.operation != call_.operation ||
      head.collective != static_cast<std::uint8_t>(call_.collective)) {
    return differ(fmt::format(
        "{}: rank {} sent a piece of {}: the ranks do not call the same operations in the same "
        "order, or one has an edge that the other has not",
        label(), peer, label(static_cast<Collective>(head.collective), head.operation)));
  }
  if (head.agreement != call_.agreement) {
    return differ(fmt::format(
        "{}: {}", label(), disagreement(call_.collective, call_.agreement, peer, head.agreement)));
  }
  if (head.kind == NoticeKind::data && !is_mode_alike(head, peer)) return false;
  if (head.kind != NoticeKind::data) {
    return differ(
        fmt::format("{}: this rank expects data from rank {}, but rank {} has no edge "
                    "to it and expects data itself",
                    label(), peer, peer));
  }
  if (head.data_type != static_cast<std::uint8_t>(call_.type)) {
    return differ(fmt::format("{}: rank {} sends {}, this rank {}", label(), peer,
                              name(static_cast<DataType>(head.data_type)), name(call_.type)));
  }
  const std::uint64_t most = head.form == PieceForm::inlined           ? kInlineBytes
                             : head.form != PieceForm::payload         ? wanted_
                             : source.peer->properties().shares_memory ? options_.payload_bytes
                                                                       : most_carried();
  if (head.bytes > most) {
    return differ(fmt::format("{}: rank {} claims {} bytes in a piece that holds {}", label(), peer,
                              head.bytes, most));
  }
  InEdge& edge = in_[source.edge];
  if (check_graph_ && !edge.heard) {
    const bool credit = (head.flags & kFlagCredit) != 0;
    if (credit && !edge.mutual) {
      return differ(fmt::format("{}: rank {} expects data from this rank, which has no edge to it",
                                label(), peer));
    }
    if (!credit && edge.mutual) {
      return differ(
          fmt::format("{}: this rank has an edge to rank {}, which does not expect data "
                      "from it",
                      label(), peer));
    }
  }
  edge.heard = true;
  const std::uint64_t left = wanted_ - combined_;
  const bool last = (head.flags & kFlagLast) != 0;
  if (head.bytes > left || (last && head.bytes != left) || head.bytes % element_ != 0) {
    return differ(fmt::format(
        "{}: rank {} sends {} bytes where this rank expects {}", label(), peer,
        last ? fmt::format("{}", combined_ + head.bytes) : fmt::format("more than {}", wanted_),
        wanted_));
  }
  return true;
}

// The combine of terms_, which are the next `bytes` of all sources.
Reducer::Job Execution::job_of(const Step& step, std::uint64_t bytes) {
  const double divisor = divisor_of(step);
  return {.type = call_.type,
          .reduction = reduction_of(step),
          .is_copy = step.combining == Combining::copy,
          .terms = terms_,
          .destination = destination_.data(),
          .count = bytes / element_,
          .divisor = divisor,
          .is_last = false};
}

// How many of the next `bytes` lie together at the destination and in each source.
std::uint64_t Execution::lying_together(std::uint64_t bytes) const {
  bytes = std::min(bytes, destination_.left());
  for (const Source& source : sources_) bytes = std::min(bytes, source.at.left());
  return bytes;
}

// Reduces the next `bytes` of all sources. All of them have so many.
void Execution::combine_range(const Step& step, std::uint64_t bytes) {
  if (step.slice.buffer == Buffer::output) touched_output_ = true;
  while (bytes != 0 && state_ == State::running) {
    const std::uint64_t run = lying_together(bytes);
    combine_run(step, run);
    bytes -= run;
  }
}

void Execution::combine_run(const Step& step, std::uint64_t bytes) {
  terms_.clear();
  for (std::size_t k = 0; k < sources_.size(); ++k) {
    Source& source = sources_[k];
    if (!source.used) continue;
    const std::byte* data = source.at.data();
    if (data == nullptr) {
      std::byte* const here = step.combining == Combining::copy ? destination_.data() : chunk(k);
      if (!fetch(source, {here, bytes})) return;
      data = here;
    }
    if (!is_intact(source, data, bytes)) return;
    terms_.push_back({data, source.weight});
  }
  reduce_here(job_of(step, bytes), function_, store_);
  destination_.advance(bytes);
  for (Source& source : sources_) consume(source, bytes);
}

// The buffer into which a source's private memory is read before it is combined.
std::byte* Execution::chunk(std::size_t source) {
  if (chunks_.size() < sources_.size() * kReadChunk) {
    chunks_.resize(sources_.size() * kReadChunk);
    ++allocations_;
  }
  return chunks_.data() + source * kReadChunk;
}

// Reads the next bytes of a peer's private memory.
bool Execution::fetch(const Source& source, std::span<std::byte> into) {
  Status status = source.peer->read_now(into, {source.form, source.word, source.left});
  if (status.ok()) return true;
  fail(std::move(status));
  return false;
}

// Advances a source by `bytes`. If the piece is used up, releases it.
void Execution::consume(Source& source, std::uint64_t bytes) {
  source.at.advance(bytes);
  if (source.peer == nullptr) return;
  source.word += bytes;
  source.left -= bytes;
  if (source.left != 0) return;
  source.peer->release(options_.channel);
  moved_ = true;
  // A message whose last piece is used up stays `loaded`, because no piece follows.
  source.loaded = source.last;
}

// Takes the credit of each out-neighbor that sends no data to this rank. Returns whether all are there.
bool Execution::take_credits() {
  if (!check_graph_) return true;
  for (; credit_takes_ < out_.size(); ++credit_takes_) {
    if (out_[credit_takes_].mutual) continue;
    Endpoint& peer = *out_[credit_takes_].endpoint;
    const Notice notice = peer.front(options_.channel);
    if (notice.header == nullptr) return false;
    if (notice.header->kind != NoticeKind::credit || notice.header->operation != call_.operation ||
        notice.header->collective != static_cast<std::uint8_t>(call_.collective)) {
      fail(Status(Code::mismatch,
                  fmt::format("{}: rank {} sends data to this rank, which has no edge from it",
                              label(), peer.peer()),
                  peer.peer()));
      return false;
    }
    if (notice.header->agreement != call_.agreement) {
      fail(Status(Code::mismatch,
                  fmt::format("{}: {}", label(),
                              disagreement(call_.collective, call_.agreement, peer.peer(),
                                           notice.header->agreement)),
                  peer.peer()));
      return false;
    }
    peer.release(options_.channel);
    moved_ = true;
  }
  return true;
}

bool Execution::waits_for_this_core() {
  if (state_ != State::running) return false;
  if (is_fast_) {
    return std::ranges::any_of(in_, [this](const InEdge& edge) {
      return !edge.is_there && edge.endpoint->properties().shares_core &&
             edge.endpoint->front(options_.channel).header == nullptr;
    });
  }
  if (combining_) {
    return std::ranges::any_of(sources_, [this](const Source& source) {
      return source.peer != nullptr && !source.loaded && source.peer->properties().shares_core &&
             source.peer->front(options_.channel).header == nullptr;
    });
  }
  return std::ranges::any_of(out_, [this](const OutEdge& edge) {
    return edge.mark != 0 && edge.endpoint->properties().shares_core &&
           edge.endpoint->locally_completed(options_.channel) < edge.mark;
  });
}

// A message that has arrived is not missing, even if the combine has not taken it because an
// earlier one is missing.
void Execution::missing(std::vector<Missing>& into) {
  into.clear();
  if (call_.gate != nullptr && call_.gate->input_state() != InputGate::State::arriving)
    return;  // it waits for no rank yet
  const auto silent = [this](Endpoint* endpoint) {
    return endpoint->front(options_.channel).header == nullptr;
  };
  if (combining_) {
    for (const Source& source : sources_) {
      if (source.peer != nullptr && !source.loaded && silent(source.peer)) {
        into.push_back({call_.in[source.edge], Missing::What::data});
      }
    }
  }
  for (std::size_t edge = 0; is_fast_ && edge < in_.size(); ++edge) {
    if (!in_[edge].is_there && silent(in_[edge].endpoint))
      into.push_back({call_.in[edge], Missing::What::data});
  }
  const bool awaits_results = compares() && pc_ == plan_->steps.size();
  for (std::size_t edge = result_takes_; awaits_results && edge < in_.size(); ++edge) {
    if (silent(in_[edge].endpoint)) into.push_back({call_.in[edge], Missing::What::data});
  }
  for (std::size_t edge = 0; edge < out_.size(); ++edge) {
    const OutEdge& out = out_[edge];
    const bool owes_credit = check_graph_ && !out.mutual && edge >= credit_takes_;
    if (owes_credit && pc_ == plan_->steps.size() && silent(out.endpoint)) {
      into.push_back({call_.out[edge], Missing::What::credit});
    } else if ((out.mark != 0 && out.endpoint->locally_completed(options_.channel) < out.mark) ||
               waits_for_slots(static_cast<std::uint32_t>(edge))) {
      into.push_back({call_.out[edge], Missing::What::read});
    }
  }
}

std::string Execution::describe() const {
  static constexpr const char* kForms[] = {"inlined in the notice",
                                           "copied to the peer's slot",
                                           "read in place by the peer",
                                           "read in place by the peer, in several runs",
                                           "read from private memory by the peer",
                                           "staged in blocks in the shared heap",
                                           "carried in pieces"};
  std::string text;
  const auto add = [&text](std::uint64_t bytes, std::size_t peers, Form form) {
    text += fmt::format("  {} bytes to {} peers: {}\n", bytes, peers,
                        kForms[static_cast<std::size_t>(form)]);
  };
  for (const Step& step : plan_ == nullptr ? std::span<const Step>() : std::span(plan_->steps)) {
    const auto index = static_cast<std::size_t>(&step - plan_->steps.data());
    if (step.kind != Step::Kind::send || send_of_step_[index] != kSentFast) continue;
    const std::uint64_t bytes = bytes_of(step.slice).count;
    add(bytes, step.count, bytes <= kInlineBytes ? Form::inlined : Form::copied);
  }
  for (const Sending& send : sends_) {
    add(send.bytes, send.step->count, send.form);
    if (send.copied != 0)
      text += fmt::format("    {} bytes of it copied to slots, the staging area being full\n",
                          send.copied);
  }
  return text;
}

}  // namespace weft
