// named: Context::named(), and what operations by name need of the context beneath.
#include "engine/named/named.h"

#include <fmt/core.h>

#include <vector>

#include "engine/context/core.h"

namespace weft {
namespace {

constexpr std::size_t kMostCached = 65'536;

// The context of a Named, which nobody else knows.
class CoreHost final : public NamedHost {
 public:
  explicit CoreHost(std::shared_ptr<Context::Core> core) : core_(std::move(core)) {}

  [[nodiscard]] Rank rank() const override { return core_->config().rank; }
  [[nodiscard]] int size() const override { return core_->config().size; }
  [[nodiscard]] std::int64_t deadline_ms() const override { return core_->config().deadline_ms; }
  [[nodiscard]] bool is_one_machine() const override {
    return !core_->config().transports.networks();
  }
  [[nodiscard]] std::size_t piece_bytes() const override {
    return core_->shared_lane()->interface().piece_bytes();
  }
  [[nodiscard]] std::string metric_labels() const override { return core_->metric_labels(); }
  [[nodiscard]] const std::shared_ptr<GpuBell>& bell() override { return core_->bell(); }
  [[nodiscard]] GpuOperandOptions gpu_options() const override { return core_->gpu_options(); }
  [[nodiscard]] Trace& trace() override { return core_->trace(); }
  [[nodiscard]] std::shared_ptr<Lane> shared_lane() override { return core_->shared_lane(); }

  Status check(const Request& request) override { return core_->check(request); }
  Status leave() override { return core_->run(Request{.collective = Collective::barrier}); }
  Status attend(ProgressHook& hook) override {
    const std::shared_ptr<Lane> lane = core_->shared_lane();
    const Lane::Hold hold(*lane);
    WEFT_RETURN_IF_ERROR(lane->start_thread());
    lane->attend(&hook);
    lane->serve();
    return {};
  }
  void close() override {
    core_->close();
    const std::shared_ptr<Lane> lane = core_->shared_lane();
    const Lane::Hold hold(*lane);
    lane->attend(nullptr);
  }

  Result<std::shared_ptr<Operation>> begin(const Request& request, std::size_t piece_bytes,
                                           bool by_nccl) override {
    return core_->begin(request, piece_bytes, by_nccl);
  }
  void send(Rank to, named::Letter letter, std::span<const std::byte> message) override {
    scratch_.assign(1, static_cast<std::byte>(letter));
    scratch_.insert(scratch_.end(), message.begin(), message.end());
    if (Status status = core_->mail().send(to, scratch_); !status.ok()) core_->fail(status);
  }
  bool advance_mail(const Mail::Reader& read) override {
    core_->hear_all();
    const bool moved = core_->mail().advance(read);
    if (!core_->mail().failure().ok()) core_->fail(core_->mail().failure());
    return moved;
  }
  PeerConnection* shared_with(Rank rank) override {
    const Result<PeerConnection*> connection = core_->connection(rank);
    return connection.ok() && (*connection)->endpoint->properties().shares_memory ? *connection
                                                                                  : nullptr;
  }
  bool has_left(Rank rank) override { return core_->has_left(rank); }
  void fail(const Status& why) override { core_->fail(why); }

 private:
  const std::shared_ptr<Context::Core> core_;
  std::vector<std::byte> scratch_;
};

Status check(const NamedOptions& options) {
  if (options.cache_capacity <= kMostCached) {
    if (options.stall_ms > 0) return {};
    return Status(Code::invalid_argument, "named: stall_ms must be positive");
  }
  return Status(Code::invalid_argument, fmt::format("named: a cache of {} names is larger than {}",
                                                    options.cache_capacity, kMostCached));
}

}  // namespace

Result<Named> Context::Core::named(const NamedOptions& options) {
  WEFT_RETURN_IF_ERROR(weft::check(options));
  named::GraphOfCalls graph{edges_.graph(), edges_.is_weighted()};
  WEFT_ASSIGN(std::shared_ptr<Core> core, with_mail());
  {
    const Lane::Hold hold(lane_);
    core->machine_graph_ = machine_graph_;
  }
  auto host = std::make_unique<CoreHost>(std::move(core));
  NamedHost& beneath = *host;
  auto object = std::make_shared<NamedObject>(options, std::move(host), graph);
  WEFT_RETURN_IF_ERROR(beneath.attend(*object));
  return Named(std::move(object));
}

}  // namespace weft
