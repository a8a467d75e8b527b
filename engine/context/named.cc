// named: Context::named(), and what operations by name need of the context beneath.
#include "engine/named/named.h"

#include <fmt/core.h>

#include <vector>

#include "engine/context/core.h"
#include "engine/context/on_core.h"
#include "engine/context/operands.h"

namespace weft {
namespace {

constexpr std::size_t kMostCached = 65'536;

Status check_named(const NamedOptions& options) {
  if (options.cache_capacity <= kMostCached) {
    if (options.stall_ms > 0) return {};
    return Status(Code::invalid_argument, "named: stall_ms must be positive");
  }
  return Status(Code::invalid_argument, fmt::format("named: a cache of {} names is larger than {}",
                                                    options.cache_capacity, kMostCached));
}

}  // namespace

// The core of a Named, which nobody else knows, and which has mail.
class Context::Core::NamedHost final : public OnCore<weft::NamedHost> {
 public:
  using OnCore::OnCore;

  [[nodiscard]] bool is_one_machine() const override {
    return !core_->config_.transports.networks();
  }
  [[nodiscard]] std::size_t piece_bytes() const override {
    return core_->lane_.interface().piece_bytes();
  }
  [[nodiscard]] std::int64_t fusion_bytes() const override { return core_->config_.fusion_bytes; }
  [[nodiscard]] std::string metric_labels() const override { return core_->metric_labels(); }
  [[nodiscard]] const std::shared_ptr<GpuBell>& bell() override { return core_->bell_; }
  [[nodiscard]] GpuOperandOptions gpu_options() const override {
    return core_->devices_.gpu_options();
  }
  [[nodiscard]] Bits bits() const override { return core_->config_.bits; }
  [[nodiscard]] Trace& trace() override { return core_->trace_; }

  Status check(const Request& request) override;
  Status check_choice(AllreduceAlgorithm asked, Bits bits, std::size_t bytes) override {
    const Bits meant = bits == Bits::automatic ? this->bits() : bits;
    return core_->binder_.check_choice(asked, meant, bytes);
  }
  bool holds_back() override { return core_->live_rails_.holds(); }
  Result<std::shared_ptr<Operation>> begin(const Request& request, const How& how) override;
  void send(Rank to, named::Letter letter, std::span<const std::byte> message) override {
    scratch_.assign(1, static_cast<std::byte>(letter));
    scratch_.insert(scratch_.end(), message.begin(), message.end());
    send_mail(to, scratch_);
  }
  PeerConnection* shared_with(Rank rank) override {
    const Result<PeerConnection*> connection = core_->peers_.connection(rank);
    return connection.ok() && (*connection)->endpoint->properties().shares_memory ? *connection
                                                                                  : nullptr;
  }

 private:
  std::vector<std::byte> scratch_;
};

// The usual operations are checked without the token, as many tensors are submitted at once.
Status Context::Core::NamedHost::check(const Request& request) {
  if (is_compressed(request)) return Compressed::check(request);
  WEFT_RETURN_IF_ERROR(Binder::check_algorithm(request, bits()));
  if (request.algorithm == AllreduceAlgorithm::nccl) {
    const Lane::Hold hold(core_->lane_);
    WEFT_RETURN_IF_ERROR(core_->nccl_.job_of(request).status());
  }
  if (request.collective == Collective::allreduce) {
    WEFT_RETURN_IF_ERROR(Binder::check_allreduce_operands(request));
    const std::size_t bytes = request.input.count * size_of(request.input.type);
    if (core_->binder_.chooses(request.algorithm, bytes)) return {};
    const Lane::Hold hold(core_->lane_);
    return check_choice(request.algorithm, request.bits, bytes);
  }
  if (request.collective == Collective::neighbor_allreduce ||
      request.collective == Collective::pair_average ||
      request.collective == Collective::group_average)
    return check_same_count(name(request.collective), request.input, request.output);
  if (request.collective == Collective::neighbor_allgather ||
      request.collective == Collective::send)
    return check_memory(name(request.collective), request.input, request.output);
  BoundCall bound_call;
  const Lane::Hold hold(core_->lane_);
  return core_->binder_.bind(request, bound_call);
}

Result<std::shared_ptr<Operation>> Context::Core::NamedHost::begin(const Request& request,
                                                                   const How& how) {
  if (core_->has_failed()) return core_->lane_.failure();
  if (core_->plans_by_rails(request)) WEFT_RETURN_IF_ERROR(core_->live_rails_.adopt());
  std::shared_ptr<Operation> operation = Lane::new_operation(shared_lane());
  WEFT_RETURN_IF_ERROR(
      core_->bind(request, *operation, {.by_nccl = how.by_nccl, .is_there = true}));
  Call& call = operation->bound_call.call;
  call.piece_bytes = how.piece_bytes;
  call.share = how.share;
  if (!how.input.is_null()) call.input = how.input;
  if (!how.output.is_null()) call.output = how.output;
  WEFT_RETURN_IF_ERROR(core_->admit(operation));
  return operation;
}

Result<Named> Context::Core::named(const NamedOptions& options) {
  WEFT_RETURN_IF_ERROR(check_named(options));
  named::GraphOfCalls graph{edges_.graph(), edges_.is_weighted()};
  const std::uint32_t number = splits_++;
  WEFT_ASSIGN(std::shared_ptr<Core> core,
              among(ranks_of_size(config_.size), "named", std::to_string(number), Extra::mail));
  {
    const Lane::Hold hold(lane_);
    core->machine_graph_ = machine_graph_;
  }
  auto host = std::make_unique<NamedHost>(std::move(core));
  NamedHost& beneath = *host;
  auto object = std::make_shared<NamedObject>(options, std::move(host), graph);
  WEFT_RETURN_IF_ERROR(beneath.attend(*object));
  return Named(std::move(object));
}

}  // namespace weft
