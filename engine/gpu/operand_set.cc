// Device aliases and blocks in place of GPU memory, and the copies between both.
#include "engine/gpu/operand_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/gpu/ways_so_far.h"

namespace weft {
namespace {

Span span_of(const Input& x) {
  // The engine never writes to an input; Span is for both kinds.
  return {const_cast<std::byte*>(static_cast<const std::byte*>(x.data)), x.count * size_of(x.type)};
}
Span span_of(const Output& y) {
  return {static_cast<std::byte*>(y.data), y.count * size_of(y.type)};
}

Result<std::optional<GpuMemory>> gpu_of(const Span& span) {
  if (span.bytes == 0) return std::optional<GpuMemory>();
  return find_gpu_memory(span.data);
}

// Whether the operation writes this rank's output.
bool has_result(const Request& request, Rank rank) {
  switch (request.collective) {
    case Collective::reduce:
    case Collective::gather:
      return request.root == rank;
    case Collective::send:
      return request.receives;
    case Collective::barrier:
      return false;
    default:
      return true;
  }
}

constexpr const char* kSmall = "the operation is small";

bool are_over(const std::vector<std::unique_ptr<GpuMark>>& marks) {
  return std::ranges::all_of(marks, [](const auto& mark) { return mark->is_over(); });
}

}  // namespace

std::shared_ptr<const PeerHeap> heap_of(const PeerConnection& connection) {
  const std::byte* const begin = connection.endpoint->view({PieceForm::view, 0, 1});
  return begin == nullptr ? nullptr : PeerHeap::around(begin, 1);
}

Status OperandSet::find(std::span<Request> requests) {
  stream_ = requests.front().stream;
  for (std::size_t each = 0; each < requests.size(); ++each) {
    Request& request = requests[each];
    Found found{.request = each, .x = span_of(request.input), .y = span_of(request.output)};
    WEFT_ASSIGN(found.gpu_x, gpu_of(found.x));
    WEFT_ASSIGN(found.gpu_y, gpu_of(found.y));
    if (!found.gpu_x && !found.gpu_y) continue;
    found.has_result = has_result(request, rank_);
    if (found.gpu_x && found.gpu_y && found.x.overlaps(found.y)) {
      const bool is_one = found.x.data == found.y.data && found.x.bytes == found.y.bytes;
      found.is_shifted = !is_one;
      if (is_one) request.input.data = found.y.end();
    }
    found_.push_back(std::move(found));
  }
  return {};
}

Status OperandSet::check_peers(std::span<PeerConnection* const> in,
                               std::span<PeerConnection* const> out) const {
  const auto no = [](std::string text) { return Status(Code::unavailable, std::move(text)); };
  const auto is_far = [](const PeerConnection* peer) {
    return !peer->endpoint->properties().shares_memory;
  };
  const bool has_near = !std::ranges::all_of(out, is_far) || out.empty();
  if (!options_.shares && has_near) return no("WEFT_GPU_IPC is off");
  if (way_ == Way::in_place) return no(kSmall);
  if (in.empty() && out.empty()) return no("there is no peer");
  if (!has_kernels_) return no("sums are the host's");
  const auto far_in = std::ranges::find_if(in, is_far);
  const bool sends_far = std::ranges::any_of(out, is_far);
  if (sends_far && !options_.lends) return no("WEFT_GPU_RDMA is off");
  if (far_in != in.end() && !sends_far)
    return no(fmt::format("rank {}, from which data come, is on another machine", (*far_in)->rank));
  for (const PeerConnection* peer : out) {
    if (is_far(peer)) continue;  // check_interfaces()
    const std::shared_ptr<const PeerHeap> heap = heap_of(*peer);
    if (heap == nullptr) return no(fmt::format("the heap of rank {} is not known", peer->rank));
    for (const Found& each : found_) {
      for (const auto& gpu : {each.gpu_x, each.gpu_y}) {
        if (!gpu) continue;
        if (const Status read = is_read_by(*gpu, *heap); !read.ok())
          return no(fmt::format("rank {}: {}", peer->rank, read.text()));
      }
    }
  }
  if (is_small()) return no(kSmall);
  return {};
}

bool OperandSet::is_small() const {
  return std::ranges::none_of(found_,
                              [this](const Found& each) { return each.bytes() >= options_.least; });
}

// The sums are of the GPU that has the result; a rank without one may be told to send.
Status OperandSet::find_kernels() {
  for (const Found& each : found_) {
    const std::optional<GpuMemory>& gpu = each.gpu_y ? each.gpu_y : each.gpu_x;
    if (options_.reduce == GpuReduce::host) break;
    const Status kernels = GpuKernels::of(*gpu).status();
    if (!kernels.ok() && options_.reduce == GpuReduce::gpu) return kernels;
    has_kernels_ = kernels.ok();
  }
  return {};
}

// Tells the peers of this machine which GPUs there are, and tries theirs. check_peers() has the errors.
void OperandSet::offer_to(std::span<PeerConnection* const> peers) {
  if (!has_kernels_ || !(options_.shares || options_.lends)) return;
  for (const Found& each : found_)
    for (const auto& gpu : {each.gpu_x, each.gpu_y})
      if (gpu) (void)offer_gpu(*gpu);
  const std::optional<GpuMemory> reader = gpu_for_reductions();
  for (const PeerConnection* peer : peers) {
    if (!options_.shares || !reader || !peer->endpoint->properties().shares_memory) continue;
    if (const auto heap = heap_of(*peer); heap != nullptr) try_gpus_of(heap, *reader);
  }
}

Status OperandSet::place(std::span<Request> requests, std::span<PeerConnection* const> in,
                         std::span<PeerConnection* const> out) {
  offer_to(in);
  offer_to(out);
  alias_status_ = check_peers(in, out);
  if (alias_status_.ok()) way_ = Way::aliases;
  WEFT_RETURN_IF_ERROR(place_all(requests));
  if (way_ == Way::aliases) alias_status_ = check_interfaces(out);
  if (way_ == Way::aliases && !alias_status_.ok()) {
    way_ = Way::blocks;
    WEFT_RETURN_IF_ERROR(place_all(requests));
  }
  written_.resize(outputs_.size());
  for (Request& each : requests) each.stream.reset();  // the set follows it
  return {};
}

Status OperandSet::leave(std::span<Request> requests) {
  way_ = Way::in_place;
  WEFT_RETURN_IF_ERROR(place(requests, {}, {}));
  return bring();
}

// A later step may send parts of the output, and scratch, which is as the rest.
Status OperandSet::check_interfaces(std::span<PeerConnection* const> out) const {
  const auto no = [](const PeerConnection& peer, std::string_view why) {
    return Status(Code::unavailable,
                  fmt::format("rank {} is on another machine, and {}", peer.rank, why));
  };
  for (const PeerConnection* peer : out) {
    if (peer->endpoint->properties().shares_memory) continue;
    if (inputs_.empty() && outputs_.empty()) return no(*peer, "nothing that is sent is on a GPU");
    for (const auto* operands : {&inputs_, &outputs_}) {
      for (const GpuOperand& each : *operands) {
        if (each.device == nullptr) return no(*peer, "input and output overlap");
        const Status sent =
            peer->endpoint->expect_pieces({each.here, each.there.bytes}, PieceMemory::device);
        if (!sent.ok()) return no(*peer, sent.text());
      }
    }
  }
  return {};
}

Status OperandSet::place_all(std::span<Request> requests) {
  inputs_.clear();
  outputs_.clear();
  aliases_.clear();
  blocks_->device.clear();
  for (const Found& each : found_) WEFT_RETURN_IF_ERROR(place(requests[each.request], each));
  return {};
}

Status OperandSet::place(Request& request, const Found& found) {
  if (stays(found)) {
    request.input.data = found.x.data;
    return {};
  }
  if (found.is_shifted) return place_both(request, found);
  if (found.gpu_x) {
    const bool is_in_place = found.gpu_y && found.x.data == found.y.data;
    WEFT_ASSIGN(GpuOperand x, place_input(*found.gpu_x, found.x, is_in_place));
    x.follower = found.follower;
    inputs_.push_back(x);
    request.input.data = x.here;
  }
  if (found.gpu_y) {
    WEFT_ASSIGN(const GpuOperand y, place_output(*found.gpu_y, found.y));
    if (found.has_result) outputs_.push_back(y);
    request.output.data = y.here;
  }
  return {};
}

// An input that is the output, too, is copied: peers read it while the output is written.
Result<GpuOperand> OperandSet::place_input(const GpuMemory& gpu, const Span& x, bool is_output) {
  GpuOperand made{gpu, x};
  if (way_ != Way::aliases) {
    WEFT_ASSIGN(made.here, pinned_block(x.bytes, gpu));
    return made;
  }
  made.device = x.data;
  if (!is_output && alias_of(made).ok()) return made;
  WEFT_ASSIGN(made.device, device_block(x.bytes, gpu));
  WEFT_RETURN_IF_ERROR(alias_of(made));
  return made;
}

Result<GpuOperand> OperandSet::place_output(const GpuMemory& gpu, const Span& y) {
  GpuOperand made{gpu, y};
  if (way_ != Way::aliases) {
    WEFT_ASSIGN(made.here, pinned_block(y.bytes, gpu));
    return made;
  }
  made.device = y.data;
  if (alias_of(made).ok()) return made;
  WEFT_ASSIGN(made.device, device_block(y.bytes, gpu));
  WEFT_RETURN_IF_ERROR(alias_of(made));
  return made;
}

Status OperandSet::place_both(Request& request, const Found& found) {
  const Span &x = found.x, &y = found.y;
  std::byte* const begin = std::min(x.data, y.data);
  const Span both{begin, static_cast<std::size_t>(std::max(x.end(), y.end()) - begin)};
  GpuOperand made{*found.gpu_x, both};
  // A block of a GPU would have to be copied back whole, with what is not the output's.
  made.device = way_ == Way::aliases ? both.data : nullptr;
  if (made.device == nullptr || !alias_of(made).ok()) {
    made.device = nullptr;
    WEFT_ASSIGN(made.here, pinned_block(both.bytes, made.gpu));
  }
  const auto part = [&](const Span& span) {
    const auto offset = span.data - begin;
    return GpuOperand{made.gpu, span, made.here + offset,
                      made.device == nullptr ? nullptr : made.device + offset, found.follower};
  };
  inputs_.push_back(part(x));
  if (found.has_result) outputs_.push_back(part(y));
  request.input.data = part(x).here;
  request.output.data = part(y).here;
  return {};
}

Status OperandSet::alias_of(GpuOperand& operand) {
  WEFT_ASSIGN(DeviceAlias made, DeviceAlias::of(operand.gpu, operand.device, operand.there.bytes));
  operand.here = made.address();
  aliases_.push_back(std::move(made));
  return {};
}

Result<std::byte*> OperandSet::pinned_block(std::size_t bytes, const GpuMemory& gpu) {
  WEFT_ASSIGN(PinnedBlock block, PinnedBlock::take(bytes, gpu));
  blocks_->pinned.push_back(std::move(block));
  return blocks_->pinned.back().data();
}

Result<std::byte*> OperandSet::device_block(std::size_t bytes, const GpuMemory& gpu) {
  WEFT_ASSIGN(DeviceBlock block, DeviceBlock::take(bytes, gpu));
  blocks_->device.push_back(std::move(block));
  return blocks_->device.back().data();
}

// The driver's thread keeps the blocks until the copy is done, even if the operation has failed and
// the set is gone.
Status OperandSet::mark(GpuQueue& queue, Marks& marks) {
  WEFT_ASSIGN(std::unique_ptr<GpuMark> mark,
              queue.mark([bell = bell_, blocks = blocks_] { bell->ring(); }));
  marks.push_back(std::move(mark));
  return {};
}

// What is queued in the stream from now on does not hold the operation up.
Status OperandSet::follow() {
  WEFT_RETURN_IF_ERROR(find_kernels());
  const GpuMemory first = found_.front().gpu_x ? *found_.front().gpu_x : *found_.front().gpu_y;
  for (const Found& each : found_)
    for (const auto& gpu : {each.gpu_x, each.gpu_y})
      if (gpu) WEFT_RETURN_IF_ERROR(GpuQueue::prepare(*gpu));
  if (stream_ && options_.holds == HoldsStream::yes) {
    // The operation has its own deadline, which comes first.
    constexpr std::int64_t kNsOfMs = 1'000'000, kLaterNs = 1'000 * kNsOfMs;
    WEFT_ASSIGN(gate_, make_gpu_gate(first, now_ns() + options_.deadline_ms * kNsOfMs + kLaterNs));
  }
  const Stream behind = stream_.value_or(Stream{});
  const auto follow = [&](const GpuMemory& gpu) -> Result<std::shared_ptr<GpuQueue>> {
    if (options_.is_there) return GpuQueue::free_of(gpu);
    WEFT_ASSIGN(std::shared_ptr<GpuQueue> queue, GpuQueue::out_of(gpu, behind));
    WEFT_RETURN_IF_ERROR(queue->wait_for(behind));
    return queue;
  };
  bool has_input = false;
  for (Found& each : found_) {
    if (!each.gpu_x) continue;
    has_input = true;
    WEFT_ASSIGN(each.follower, follow(*each.gpu_x));
  }
  if (has_input) return {};
  WEFT_ASSIGN(found_.front().follower, follow(first));  // the stream may still use the output
  return {};
}

Status OperandSet::bring() {
  if (!std::ranges::all_of(found_, [this](const Found& each) { return stays(each); }))
    note_way(alias_status_);
  for (const Found& each : found_) {
    const bool is_placed = each.gpu_x && !stays(each);
    if (each.follower != nullptr && !is_placed) WEFT_RETURN_IF_ERROR(mark(*each.follower, ins_));
  }
  std::vector<bool> is_packed(inputs_.size());
  for (Packed& each : find_packed(inputs_)) {
    each.queue = inputs_[each.operands.front()].follower;
    WEFT_RETURN_IF_ERROR(copy_packed(each, true));
    for (const std::size_t operand : each.operands) {
      is_packed[operand] = true;
      parts_.push_back({inputs_[operand].span(), ins_.size() - 1});
    }
  }
  for (std::size_t each = 0; each < inputs_.size(); ++each) {
    const GpuOperand& x = inputs_[each];
    GpuQueue& queue = *x.follower;
    if (is_packed[each]) continue;
    if (x.device == nullptr) {
      WEFT_RETURN_IF_ERROR(copy_out(queue, x));
      continue;
    }
    if (x.device != x.there.data)
      WEFT_RETURN_IF_ERROR(queue.copy_inside(x.device, x.there.data, x.there.bytes));
    WEFT_RETURN_IF_ERROR(mark(queue, ins_));
  }
  return {};
}

// A copy of its own for each would cost more than the bytes. They lie in blocks, on one GPU each time, and
// its kernels reach those.
std::vector<OperandSet::Packed> OperandSet::find_packed(
    const std::vector<GpuOperand>& operands) const {
  constexpr std::size_t kMostBytes = std::size_t{256} << 10, kFew = 4;
  std::vector<Packed> found;
  for (std::size_t each = 0; has_kernels_ && each < operands.size(); ++each) {
    const GpuOperand& operand = operands[each];
    if (operand.device != nullptr || operand.there.bytes > kMostBytes) continue;
    if (gpu_view(operand.gpu, operand.here, operand.there.bytes) == nullptr) continue;
    auto at = std::ranges::find_if(
        found, [&](const Packed& packed) { return packed.gpu.context == operand.gpu.context; });
    if (at == found.end()) at = found.insert(at, {operand.gpu, nullptr, {}});
    at->operands.push_back(each);
  }
  std::erase_if(found, [](const Packed& packed) { return packed.operands.size() < kFew; });
  return found;
}

Status OperandSet::copy_packed(const Packed& packed, bool is_input) {
  std::vector<GpuKernels::Copy> copies;
  for (const std::size_t each : packed.operands) {
    const GpuOperand& operand = (is_input ? inputs_ : outputs_)[each];
    const std::size_t bytes = operand.there.bytes;
    void* const block = const_cast<void*>(gpu_view(packed.gpu, operand.here, bytes));
    void* const tensor = operand.there.data;
    copies.push_back({is_input ? tensor : block, is_input ? block : tensor, bytes});
  }
  WEFT_ASSIGN(const GpuKernels* kernels, GpuKernels::of(packed.gpu));
  WEFT_RETURN_IF_ERROR(kernels->copy(*packed.queue, copies));
  return mark(*packed.queue, is_input ? ins_ : outs_);
}

std::optional<GpuOperands::OnGpu> OperandSet::on_one_gpu() const {
  if (found_.size() != 1 || found_.front().is_shifted) return std::nullopt;
  const Found& only = found_.front();
  if (!only.gpu_y || (only.x.bytes != 0 && !only.gpu_x)) return std::nullopt;
  if (only.gpu_x && only.gpu_x->device != only.gpu_y->device) return std::nullopt;
  OnGpu found{*only.gpu_y, only.x.data, only.y.data, std::nullopt};
  if (!options_.is_there) found.stream = stream_.value_or(Stream{});
  return found;
}

// In parts, so that the first ones are on their way to peers while the last ones are copied.
Status OperandSet::copy_out(GpuQueue& queue, const GpuOperand& x) {
  constexpr std::size_t kLeastPart = std::size_t{4} << 20, kMostParts = 8;
  const std::size_t part =
      std::max(kLeastPart, (x.there.bytes / kMostParts + kLeastPart - 1) / kLeastPart * kLeastPart);
  std::size_t at = 0;
  do {
    const std::size_t bytes = std::min(part, x.there.bytes - at);
    WEFT_RETURN_IF_ERROR(queue.copy_out(x.here + at, x.there.data + at, bytes));
    WEFT_RETURN_IF_ERROR(mark(queue, ins_));
    parts_.push_back({{x.here + at, bytes}, ins_.size() - 1});
    at += bytes;
  } while (at < x.there.bytes);
  return {};
}

Status OperandSet::begin_outputs() {
  std::vector<bool> is_packed(outputs_.size());
  for (Packed& each : find_packed(outputs_)) {
    WEFT_ASSIGN(each.queue, GpuQueue::into(each.gpu));
    WEFT_RETURN_IF_ERROR(copy_packed(each, false));
    for (const std::size_t operand : each.operands) is_packed[operand] = true;
  }
  for (std::size_t each = 0; each < outputs_.size(); ++each) {
    const GpuOperand& y = outputs_[each];
    if (y.device == y.there.data || is_packed[each]) continue;
    WEFT_ASSIGN(const std::shared_ptr<GpuQueue> queue, GpuQueue::into(y.gpu));
    if (y.device != nullptr) {
      WEFT_RETURN_IF_ERROR(queue->copy_inside(y.there.data, y.device, y.there.bytes));
    } else {
      WEFT_RETURN_IF_ERROR(copy_in(*queue, each));
    }
    WEFT_RETURN_IF_ERROR(mark(*queue, outs_));
  }
  return {};
}

// What a GPU has not written itself.
Status OperandSet::copy_in(GpuQueue& queue, std::size_t output) {
  const GpuOperand& y = outputs_[output];
  return written_[output].for_the_rest(y.there.bytes, [&](std::size_t begin, std::size_t bytes) {
    return queue.copy_in(y.there.data + begin, y.here + begin, bytes);
  });
}

// Several lanes may ask.
bool OperandSet::has_all_input() {
  if (has_all_input_.load(std::memory_order_acquire)) return true;
  const std::lock_guard lock(mutex_);
  if (has_all_input_.load(std::memory_order_relaxed))
    return true;  // another lane has seen it first
  if (!are_over(ins_)) return false;
  for (const auto& each : ins_)
    if (input_status_.ok()) input_status_ = each->status();
  has_all_input_.store(true, std::memory_order_release);
  return true;
}

// Where input and output share memory, a part of the block could be overwritten that is not there yet.
InputGate::State OperandSet::input_state() {
  if (has_all_input()) return State::arrived;
  if (has_shifted()) return State::awaited;
  const std::lock_guard lock(mutex_);
  return parts_.size() >= 2 && look_for_parts() != 0 ? State::arriving : State::awaited;
}

// The mutex is held. How many parts are there, from the first one on; an error counts as not there.
std::size_t OperandSet::look_for_parts() {
  while (parts_there_ < parts_.size()) {
    GpuMark& mark = *ins_[parts_[parts_there_].mark];
    if (!mark.is_over() || !mark.status().ok()) break;
    ++parts_there_;
  }
  return parts_there_;
}

std::size_t OperandSet::there(const std::byte* data, std::size_t bytes) {
  if (has_all_input()) return bytes;
  const std::lock_guard lock(mutex_);
  look_for_parts();
  std::size_t count = 0;
  bool is_input = false;
  for (std::size_t each = 0; each < parts_.size(); ++each) {
    const Span& block = parts_[each].block;
    if (!block.has(data + count, 1)) continue;
    is_input = true;
    if (each >= parts_there_) break;
    count += static_cast<std::size_t>(block.end() - (data + count));
    if (count >= bytes) return bytes;
  }
  return is_input ? count : bytes;
}

void OperandSet::ended(const Status& status) {
  if (status.ok()) output_status_ = begin_outputs();
  (void)is_over();  // what waits for the output may go on at once
}

bool OperandSet::is_over() {
  const std::lock_guard lock(mutex_);
  if (!are_over(outs_)) return false;
  for (const auto& each : outs_)
    if (output_status_.ok()) output_status_ = each->status();
  let_go();
  return true;
}

void OperandSet::wait_until_over() {
  for (const auto& each : outs_) each->wait();
}

}  // namespace weft
