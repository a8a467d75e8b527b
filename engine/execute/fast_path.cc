// fast_path: the fast path, for one round of messages that each fit a slot. It keeps no records of
// sends, because a copied message needs its source no longer. It keeps none of combines, because
// each runs in one go when all messages have arrived.
#include <algorithm>
#include <cstring>

#include "engine/execute/checksum.h"
#include "engine/execute/execute.h"

namespace weft {
namespace {

// Up to eight bytes as a word. The usual counts are loaded with the width at which they were
// stored, and the word is then stored as one. A load that is wider than the stores before it would
// wait until all earlier stores have left the core, those of the last message among them.
std::uint64_t word_of(const std::byte* data, std::uint64_t count) {
  std::uint64_t word = 0;
  if (count == sizeof word) {
    std::memcpy(&word, data, sizeof word);
  } else if (count == sizeof(std::uint32_t)) {
    std::uint32_t half = 0;
    std::memcpy(&half, data, sizeof half);
    word = half;
  } else if (count != 0) {
    std::memcpy(&word, data, count);
  }
  return word;
}

}  // namespace

bool Execution::may_be_fast() const {
  return plan_->is_one_round && call_.input.is_one() && call_.output.is_one() &&
         std::max(call_.input_count, call_.output_count) * element_ <= options_.payload_bytes &&
         std::ranges::none_of(call_.receive_weights, is_unused);
}

// Fills in the fields of each message's header that stay the same when the operation is run again.
void Execution::bind_fast_heads() {
  fast_heads_.assign(out_.size(), header_);
  for (const Step& step : plan_->steps) {
    if (step.kind != Step::Kind::send) continue;
    const std::uint64_t bytes = bytes_of(step.slice).count;
    for (const std::uint32_t edge : edges_of(step)) {
      WireHeader& head = fast_heads_[edge];
      head.kind = NoticeKind::data;
      head.form = bytes > kInlineBytes ? PieceForm::payload : PieceForm::inlined;
      head.bytes = static_cast<std::uint32_t>(bytes);
      address(head, edge, true);
    }
  }
  const auto takes =
      std::ranges::find_if(plan_->steps, [this](const Step& step) { return takes_messages(step); });
  fast_takes_ = static_cast<std::uint32_t>(takes - plan_->steps.begin());
}

void Execution::bind_fast_slices() {
  for (const Step& step : plan_->steps) fast_slices_.push_back(bytes_of(step.slice));
  fast_operands_.clear();
  for (const Operand& operand : plan_->operands) {
    fast_operands_.push_back(operand.kind == Operand::Kind::local ? bytes_of(operand.slice).data()
                                                                  : nullptr);
  }
}

// Returns true if the general path has to continue: after all steps, to wait for credits, or at
// step pc_, if the fast path has given up. Returns false if nothing more can be done now, or the
// operation has ended.
bool Execution::advance_fast() {
  for (; pc_ < fast_takes_; ++pc_) {
    const Step& step = plan_->steps[pc_];
    if (step.kind == Step::Kind::send) {
      is_fast_ = post_fast(step);
      if (!is_fast_) return true;
    } else {
      combine_fast(step);
    }
  }
  is_fast_ = post_credits();
  if (!is_fast_) return true;
  if (!hear_fast()) return !is_fast_;
  for (; pc_ < plan_->steps.size(); ++pc_) combine_fast(plan_->steps[pc_]);
  for (const InEdge& edge : in_) {
    if (edge.is_there) edge.endpoint->release(options_.channel);
  }
  moved_ = true;
  is_fast_ = false;
  if ((check_graph_ && !take_credits()) || compares()) return true;
  if (state_ == State::running) end();
  return false;
}

bool Execution::takes_messages(const Step& step) const {
  if (step.kind == Step::Kind::send) return false;
  const auto operands = std::span(plan_->operands).subspan(step.first, step.count);
  return std::ranges::any_of(
      operands, [](const Operand& operand) { return operand.kind == Operand::Kind::message; });
}

// Returns false if a peer has no free slot.
bool Execution::post_fast(const Step& step) {
  const Bytes source = fast_slices_[pc_];
  const bool is_inlined = source.count <= kInlineBytes;
  const std::uint64_t word = is_inlined ? word_of(source.data(), source.count) : 0;
  const std::span<const std::byte> payload(source.data(), is_inlined ? 0 : source.count);
  moved_ = true;
  const bool is_weighted = !call_.send_weights.empty();
  std::uint32_t checksum = kNoChecksum;
  for (; fast_posts_ < step.count; ++fast_posts_) {
    const std::uint32_t edge = plan_->edges[step.first + fast_posts_];
    OutEdge& out = out_[edge];
    WireHeader& head = fast_heads_[edge];
    head.word = word;
    if (options_.checks_pieces && (is_weighted || checksum == kNoChecksum))
      checksum = piece_checksum(source.data(), source.count, head.weight);
    head.checksum = checksum;
    if (out.endpoint->post_notice(options_.channel, head, payload) == Posted::full) return false;
    out.spoken = true;
    call_.out[edge]->sent_bytes += source.count;
    options_.trace->add(Event::send_posted, call_.operation, call_.out[edge]->rank,
                        static_cast<std::uint16_t>(pc_));
  }
  fast_posts_ = 0;
  send_of_step_[pc_] = kSentFast;
  return true;
}

// Looks for the messages of all steps from pc_ on. Returns false if a message is missing, or if one
// is not as expected; in the second case it clears `is_fast_`.
bool Execution::hear_fast() {
  fast_step_ = std::max(fast_step_, pc_);
  for (; fast_step_ < plan_->steps.size(); ++fast_step_, fast_heard_ = 0) {
    const Step& step = plan_->steps[fast_step_];
    for (; fast_heard_ < step.count; ++fast_heard_) {
      const Operand& operand = plan_->operands[step.first + fast_heard_];
      if (operand.kind == Operand::Kind::local) continue;
      InEdge& edge = in_[operand.edge];
      const Notice notice = edge.endpoint->front(options_.channel);
      if (notice.header == nullptr) return false;
      is_fast_ = is_as_expected(edge, *notice.header, fast_slices_[fast_step_].count);
      if (!is_fast_) return false;
      edge.is_there = true;
      edge.data = notice.header->form == PieceForm::inlined
                      ? reinterpret_cast<const std::byte*>(&notice.header->word)
                      : notice.payload;
      edge.weight = notice.header->weight;
      if (!options_.checks_pieces) continue;
      is_fast_ =
          piece_checksum(edge.data, notice.header->bytes, edge.weight) == notice.header->checksum;
      if (!is_fast_) return false;  // the general path finds the same, and says so
    }
  }
  return true;
}

// Whether the header announces a whole message whose data is used. The general path handles all
// other notices, and reports those that are errors.
bool Execution::is_as_expected(const InEdge& edge, const WireHeader& header,
                               std::uint64_t bytes) const {
  const PieceForm form = bytes <= kInlineBytes ? PieceForm::inlined : PieceForm::payload;
  const int credit = !check_graph_ ? header.flags & kFlagCredit : edge.mutual ? kFlagCredit : 0;
  return header.operation == call_.operation && header.bytes == bytes &&
         header.agreement == header_.agreement && header.collective == header_.collective &&
         header.data_type == header_.data_type && header.kind == NoticeKind::data &&
         header.form == form && header.flags == (header_.flags | kFlagLast | credit);
}

// Runs a combine whose messages, if it takes any, have all arrived.
void Execution::combine_fast(const Step& step) {
  const auto number = static_cast<std::uint16_t>(&step - plan_->steps.data());
  const Bytes destination = fast_slices_[number];
  if (destination.count == 0) return;
  options_.trace->add(Event::combine_begin, call_.operation, kNoRank, number);
  terms_.clear();
  for (std::uint32_t i = 0; i < step.count; ++i) {
    const Operand& operand = plan_->operands[step.first + i];
    const double weight = weight_of(operand.weight);
    if (operand.kind == Operand::Kind::local) {
      terms_.push_back({fast_operands_[step.first + i], weight});
    } else {
      terms_.push_back({in_[operand.edge].data, weight * in_[operand.edge].weight});
    }
  }
  if (step.slice.buffer == Buffer::output) touched_output_ = true;
  if (step.combining == Combining::copy) {
    if (terms_[0].data != destination.data())
      std::memcpy(destination.data(), terms_[0].data, destination.count);
  } else {
    const double divisor = divisor_of(step);
    function_of(step)(terms_, destination.data(), destination.count / element_, StoreKind::cached,
                      divisor);
  }
  options_.trace->add(Event::combine_end, call_.operation, kNoRank, number);
}

}  // namespace weft
