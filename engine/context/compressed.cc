// compressed: see the header.
#include "engine/context/compressed.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/compress/compress.h"
#include "engine/context/operands.h"
#include "engine/gpu/gpu.h"
#include "verbs/memory/memory.h"

namespace weft {
namespace {

std::span<std::byte> bytes_at(const Memory& memory, std::size_t offset, std::size_t count) {
  return {memory.as<std::byte>() + offset, count};
}

std::span<const float> floats(const Input& x) {
  return {static_cast<const float*>(x.data), x.count};
}
std::span<float> floats(const Output& y) {
  return {static_cast<float*>(y.data), y.count};
}

std::span<const float> block_of(const Input& x, std::size_t each, std::size_t block) {
  const std::span<const float> all = floats(x);
  const std::size_t begin = std::min(all.size(), block * each);
  return all.subspan(begin, std::min(each, all.size() - begin));
}

// Elements of a block: a number of whole units, so that all but the last blocks have equally many.
std::size_t block_elements(std::size_t unit, std::size_t count, std::size_t blocks) {
  const std::size_t units = count / unit;
  return (units + blocks - 1) / blocks * unit;
}

// Operands of the host, whose input is there when the gate says so, and whose output is there when ended()
// returns.
class HostOperands : public DeviceOperands {
 public:
  State input_state() override { return State::arrived; }
  Status input_status() override { return {}; }
  void ended(const Status& status) final {
    if (status.ok()) output_status_ = take();
    is_whole_ = status.ok();
  }
  bool is_over() final { return true; }
  void wait_until_over() final {}
  Status output_status() final { return output_status_; }

 protected:
  // Brings the output to where it belongs.
  virtual Status take() = 0;
  // Whether the operation has ended well. Peers may still read the memory of one that has not.
  [[nodiscard]] bool has_ended_well() const { return is_whole_; }

 private:
  Status output_status_;
  bool is_whole_ = false;
};

}  // namespace

// neighbor_allreduce: its own bytes, and those of its in-neighbors one after the other.
class Compressed::Neighbors final : public HostOperands {
 public:
  Neighbors(std::shared_ptr<Encodings> encodings, const Request& request, Memory sent,
            Memory received, std::vector<Rank> sources, std::vector<Term> weights)
      : encodings_(std::move(encodings)),
        x_(request.input),
        y_(request.output),
        encoding_(request),
        sent_(std::move(sent)),
        received_(std::move(received)),
        sources_(std::move(sources)),
        weights_(std::move(weights)) {}
  ~Neighbors() override {
    if (!has_ended_well()) return;
    encodings_->give(std::move(sent_));
    encodings_->give(std::move(received_));
  }

 private:
  Status take() override {
    const std::size_t each = encoded_bytes(encoding_, x_.count);
    weights_.front().data = x_.data;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      Term& term = weights_[i + 1];
      if (!is_unused(term.weight)) term.data = received_.as<std::byte>() + i * each;
    }
    return combine_encoded(encoding_, weights_, sources_, floats(y_));
  }

  const std::shared_ptr<Encodings> encodings_;
  const Input x_;
  const Output y_;
  const Encoding encoding_;
  Memory sent_, received_;
  const std::vector<Rank> sources_;
  std::vector<Term> weights_;  // this rank's, and those of the sources; no data
};

// What the two operations of an allreduce share.
class Compressed::Blocks {
 public:
  Blocks(std::shared_ptr<Encodings> encodings, const Request& request, Rank rank, int size)
      : encodings_(std::move(encodings)),
        x_(request.input),
        y_(request.output),
        op_(request.op),
        encoding_(request),
        rank_(static_cast<std::size_t>(rank)),
        size_(static_cast<std::size_t>(size)),
        each_(block_elements(encoding_.unit(x_.count), x_.count, size_)),
        bytes_(encoded_bytes(encoding_of(each_), each_)) {}
  ~Blocks() {
    if (!is_whole) return;
    for (Memory* memory : {&sent_, &received_, &sum_}) encodings_->give(std::move(*memory));
  }

  // Encodes this rank's tensor, block by block.
  Status encode(const ErrorFeedback* feedback) {
    WEFT_ASSIGN(residual_, ResidualUse::begin(feedback, "allreduce", x_.count));
    WEFT_ASSIGN(sent_, encodings_->take(size_ * bytes_));
    WEFT_ASSIGN(received_, encodings_->take(size_ * bytes_));
    WEFT_ASSIGN(sum_, encodings_->take(bytes_ + each_ * sizeof(float)));
    for (std::size_t block = 0; block < size_; ++block) {
      if (block != rank_)
        encodings_->encode(encoding_of(block_of(x_, each_, block).size()),
                           block_of(x_, each_, block), encoded_block(sent_, block), lost_of(block));
    }
    return {};
  }
  // The sum of what all ranks have sent of this rank's block, encoded.
  Status add_up() {
    const std::span<const float> own = block_of(x_, each_, rank_);
    const std::span<float> sum(reinterpret_cast<float*>(sum_.as<std::byte>() + sum_offset()),
                               own.size());
    const std::span<float> lost = lost_of(rank_);
    std::ranges::copy(own, sum.begin());
    for (std::size_t i = 0; i < lost.size(); ++i) sum[i] += lost[i];
    for (std::size_t rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      const Result<Encoded> encoded = open(rank, own.size());
      if (!encoded.ok()) return encoded.status();
      encoded->add(1, sum);
    }
    if (op_ == ReduceOp::average) {
      for (float& value : sum) value /= static_cast<float>(size_);
    }
    const Encoding encoding = encoding_of(sum.size());
    const std::span<std::byte> encoded = bytes_at(sum_, 0, encoded_bytes(encoding, sum.size()));
    encodings_->encode(encoding, sum, encoded);
    keep_what_was_lost(sum, encoded);
    return {};
  }
  // What the sum has lost is this rank's to give again: all others have it from here.
  void keep_what_was_lost(std::span<const float> sum, std::span<const std::byte> encoded) {
    const std::span<float> lost = lost_of(rank_);
    if (!lost.empty()) {
      std::ranges::copy(sum, lost.begin());
      Encoded::open(encoded, encoding_of(sum.size()), sum.size())->add(-1.0F, lost);
      if (op_ == ReduceOp::average) {
        for (float& value : lost) value *= static_cast<float>(size_);
      }
      drop_what_is_not_finite(lost);
    }
    residual_.end();
  }
  // All sums, into the output.
  Status decode() {
    for (std::size_t rank = 0; rank < size_; ++rank) {
      const std::size_t count = block_of(x_, each_, rank).size();
      const Result<Encoded> encoded = open(rank, count);
      if (!encoded.ok()) return encoded.status();
      if (count != 0) encoded->decode(floats(y_).subspan(rank * each_, count));
    }
    is_whole = true;
    return {};
  }

  [[nodiscard]] Request alltoall() const {
    const std::size_t all = size_ * bytes_;
    return {.collective = Collective::alltoall,
            .input = {sent_.data(), all, DataType::u8},
            .output = {received_.data(), all, DataType::u8}};
  }
  [[nodiscard]] Request allgather() const {
    return {.collective = Collective::allgather,
            .input = {sum_.data(), bytes_, DataType::u8},
            .output = {received_.data(), size_ * bytes_, DataType::u8}};
  }

 private:
  // That of a block with so many elements.
  [[nodiscard]] Encoding encoding_of(std::size_t count) const {
    return encoding_.of_part(x_.count, count);
  }
  // The block of the residual; empty: there is none.
  [[nodiscard]] std::span<float> lost_of(std::size_t block) const {
    const std::span<float> all = residual_.values();
    if (all.empty()) return all;
    const std::size_t begin = std::min(all.size(), block * each_);
    return all.subspan(begin, std::min(each_, all.size() - begin));
  }
  // The floats of the sum lie behind its encoded bytes.
  [[nodiscard]] std::size_t sum_offset() const { return (bytes_ + 3) / 4 * 4; }
  [[nodiscard]] std::span<std::byte> encoded_block(const Memory& memory, std::size_t block) const {
    const std::size_t count = block_of(x_, each_, block).size();
    return bytes_at(memory, block * bytes_, encoded_bytes(encoding_of(count), count));
  }
  [[nodiscard]] Result<Encoded> open(std::size_t rank, std::size_t count) const {
    const Encoding encoding = encoding_of(count);
    Result<Encoded> encoded = Encoded::open(
        bytes_at(received_, rank * bytes_, encoded_bytes(encoding, count)), encoding, count);
    if (!encoded.ok()) return from_rank(static_cast<Rank>(rank), encoded.status());
    return encoded;
  }

  const std::shared_ptr<Encodings> encodings_;
  const Input x_;
  const Output y_;
  const ReduceOp op_;
  const Encoding encoding_;
  const std::size_t rank_, size_;
  const std::size_t each_;   // elements of a block; the last ones may have fewer
  const std::size_t bytes_;  // of an encoded block
  Memory sent_, received_, sum_;
  ResidualUse residual_;
  bool is_whole = false;  // peers may still read the memory of an operation that has failed
};

// The operands of either operation.
class Compressed::Sums final : public HostOperands {
 public:
  // `first`: the operation before; null: this is the first one.
  Sums(std::shared_ptr<Blocks> blocks, std::shared_ptr<Operation> first)
      : blocks_(std::move(blocks)), first_(std::move(first)) {}

  State input_state() override {
    const bool is_there = first_ == nullptr || first_->done.load(std::memory_order_acquire);
    return is_there ? State::arrived : State::awaited;
  }
  Status input_status() override { return first_ == nullptr ? Status() : first_->status; }

 private:
  Status take() override { return first_ == nullptr ? blocks_->add_up() : blocks_->decode(); }

  const std::shared_ptr<Blocks> blocks_;
  const std::shared_ptr<Operation> first_;
};

Status Compressed::check(const Request& request) {
  const std::string_view what = name(request.collective);
  const bool is_sum = request.op == ReduceOp::sum || request.op == ReduceOp::average;
  if (request.compression == Compression::none)
    return invalid(fmt::format("{}: error feedback is for compressed tensors", what));
  if (request.collective != Collective::neighbor_allreduce &&
      request.collective != Collective::allreduce) {
    return invalid(
        fmt::format("{}: cannot be compressed; neighbor_allreduce and allreduce can", what));
  }
  WEFT_RETURN_IF_ERROR(check_same_count(what, request.input, request.output));
  if (request.input.type != DataType::f32) {
    return invalid(fmt::format("{}: compression ({}) takes f32, not {}", what,
                               name(request.compression), name(request.input.type)));
  }
  WEFT_RETURN_IF_ERROR(Encoding(request).check(what, request.input.count));
  if (request.collective == Collective::allreduce && !is_sum) {
    return invalid(
        fmt::format("allreduce: {} of compressed tensors has no meaning; use sum or average",
                    name(request.op)));
  }
  if (request.algorithm != AllreduceAlgorithm::automatic &&
      request.algorithm != AllreduceAlgorithm::split) {
    return invalid(
        fmt::format("allreduce: compressed tensors travel by the algorithm split, not {}",
                    name(request.algorithm)));
  }
  if (request.weights != nullptr && request.weights->destinations) {
    for (const NeighborWeight& each : *request.weights->destinations) {
      if (each.weight != 1.0 || !request.weights->sources) {
        return invalid(
            "neighbor_allreduce: compressed tensors are weighed by their receivers; dst_weights "
            "must be "
            "1, beside src_weights");
      }
    }
  }
  return {};
}

Status Compressed::bind(const Request& request, Operation& operation) {
  WEFT_RETURN_IF_ERROR(check(request));
  if (request.stream || !is_on_host(request)) {
    return Status(Code::unavailable,
                  fmt::format("{}: compression takes memory of the host, not of a GPU",
                              name(request.collective)));
  }
  if (encodings_ == nullptr) encodings_ = std::make_shared<Encodings>();
  return request.collective == Collective::allreduce ? bind_allreduce(request, operation)
                                                     : bind_neighbors(request, operation);
}

Status Compressed::bind_neighbors(const Request& request, Operation& operation) {
  const Encoding encoding(request);
  const std::size_t each = encoded_bytes(encoding, request.input.count);
  BoundCall& bound_call = operation.bound_call;
  std::vector<Term> weights;
  WEFT_RETURN_IF_ERROR(binder_.bind_encoded_neighbors(request, each, bound_call, weights));
  std::vector<Rank> sources;
  for (const PeerConnection* peer : bound_call.call.in) sources.push_back(peer->rank);
  WEFT_ASSIGN(Memory sent, encodings_->take(each));
  WEFT_ASSIGN(Memory received, encodings_->take(sources.size() * each));
  {
    WEFT_ASSIGN(const ResidualUse residual,
                ResidualUse::begin(request.feedback, "neighbor_allreduce", request.input.count));
    encodings_->encode(encoding, floats(request.input), bytes_at(sent, 0, each), residual.values());
  }
  bound_call.call.input = sent.data();
  bound_call.call.output = received.data();
  operation.operands =
      std::make_shared<Neighbors>(encodings_, request, std::move(sent), std::move(received),
                                  std::move(sources), std::move(weights));
  return {};
}

Status Compressed::bind_allreduce(const Request& request, Operation& operation) {
  const auto blocks = std::make_shared<Blocks>(encodings_, request, config_.rank, config_.size);
  WEFT_RETURN_IF_ERROR(blocks->encode(request.feedback));
  const std::shared_ptr<Operation> first = operations_.make();
  WEFT_RETURN_IF_ERROR(binder_.bind_encoded(blocks->alltoall(), request, first->bound_call));
  WEFT_RETURN_IF_ERROR(binder_.bind_encoded(blocks->allgather(), request, operation.bound_call));
  first->operands = std::make_shared<Sums>(blocks, nullptr);
  operation.operands = std::make_shared<Sums>(blocks, first);
  operation.bound_call.call.gate = operation.operands.get();
  return operations_.admit(first);
}

}  // namespace weft
