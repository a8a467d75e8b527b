// recording: see the header.
#include "engine/context/recording.h"

#include <utility>

#include "engine/digest/digest.h"

namespace weft {
namespace {

// The operands are the caller's own; what is of interest is their end.
class RecordedOperands final : public DeviceOperands {
 public:
  RecordedOperands(std::shared_ptr<Recorder> recorder, std::uint64_t number, const void* output,
                   std::size_t bytes)
      : recorder_(std::move(recorder)), number_(number), output_(output), bytes_(bytes) {}

  State input_state() override { return State::arrived; }
  Status input_status() override { return {}; }
  void ended(const Status& status) override {
    const std::uint32_t digest =
        status.ok() && output_ != nullptr ? crc32c(output_, bytes_) : std::uint32_t{0};
    recorder_->result({number_, digest, status.code()});
  }
  bool is_over() override { return true; }
  void wait_until_over() override {}
  Status output_status() override { return {}; }

 private:
  const std::shared_ptr<Recorder> recorder_;
  const std::uint64_t number_;
  const void* const output_;
  const std::size_t bytes_;
};

// The memory of an operand; null: it has none.
const std::byte* memory_of(const Runs& runs, std::size_t count) {
  return runs.is_null() || count == 0 ? nullptr : runs.at(0).data();
}

}  // namespace

void record_edges(const Call& call, RecordedCall& to) {
  const auto add = [](const auto& peers, std::span<const double> weights, auto& edges) {
    for (std::size_t i = 0; i < peers.size(); ++i)
      edges.push_back({peers[i]->rank, weights.empty() ? 1.0 : weights[i] + 0.0});
  };
  add(call.in, call.receive_weights, to.sources);
  add(call.out, call.send_weights, to.destinations);
  to.self_weight = call.self_weight;
}

void record_call(const std::shared_ptr<Recorder>& recorder, const Request& request,
                 Operation& operation) {
  if (operation.operands != nullptr) return recorder->leave_out();
  const Call& bound = operation.bound_call.call;
  RecordedCall call;
  call.collective = request.collective;
  call.type = bound.type;
  call.op = request.op;
  call.algorithm = request.algorithm;
  call.receives = request.receives;
  call.root = request.root;
  call.peer = request.peer;
  call.self_weight = request.self_weight;
  call.pair_weight = request.pair_weight;
  call.counts.assign(request.counts.begin(), request.counts.end());
  call.receive_counts.assign(request.receive_counts.begin(), request.receive_counts.end());
  call.group.assign(request.group.begin(), request.group.end());
  if (request.collective == Collective::neighbor_allreduce) record_edges(bound, call);
  const std::byte* const input = memory_of(bound.input, bound.input_count);
  const std::byte* const output = memory_of(bound.output, bound.output_count);
  call.has_input = input != nullptr;
  call.has_output = output != nullptr;
  call.in_place = input != nullptr && input == output && bound.input_count == bound.output_count;
  call.input_count = bound.input_count;
  call.output_count = bound.output_count;
  const std::size_t element = size_of(bound.type);
  const auto number = recorder->call(call, input, call.has_input ? bound.input_count * element : 0);
  if (!number) return;
  operation.operands = std::make_shared<RecordedOperands>(
      recorder, *number, output, call.has_output ? bound.output_count * element : 0);
}

}  // namespace weft
