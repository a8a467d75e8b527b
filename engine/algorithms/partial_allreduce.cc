// partial_allreduce: checks what the ranks were given, and drives the service of groups (engine/partial).
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "engine/algorithms/algorithms.h"
#include "engine/algorithms/host_models.h"
#include "engine/kernels/kernels.h"
#include "engine/partial/partial.h"

namespace weft {
namespace {

std::string title_of(const PartialAllreduceOptions& options) {
  return fmt::format("partial all-reduce \"{}\"", options.name);
}

Result<GroupLaw> law_of(const PartialAllreduceOptions& options) {
  WEFT_ASSIGN(GroupLaw law, group_law(options.law));
  law.threshold = options.threshold;
  WEFT_RETURN_IF_ERROR(check(law));
  return law;
}

// What the ranks must have in common, each under its name.
constexpr std::array<std::string_view, 8> kCommon = {
    "count of elements", "type",    "law of groups", "group size",
    "threshold",         "section", "seed",          "hash of the name"};
using Common = std::array<std::int64_t, kCommon.size()>;

Common common(const Output& model, const GroupLaw& law, const PartialAllreduceOptions& options) {
  return {static_cast<std::int64_t>(model.count),
          static_cast<std::int64_t>(model.type),
          static_cast<std::int64_t>(law.kind),
          law.group_size,
          law.threshold,
          options.section,
          static_cast<std::int64_t>(options.seed),
          static_cast<std::int64_t>(std::hash<std::string>()(options.name))};
}

// All ranks have the same error, which compares the first rank that differs with rank 0.
Status check_common(GroupHost& host, const std::string& title, const Common& own) {
  std::vector<Common> all(static_cast<std::size_t>(host.size()));
  WEFT_RETURN_IF_ERROR(
      host.run(Request{.collective = Collective::allgather,
                       .input = {own.data(), own.size(), DataType::i64},
                       .output = {all.data(), all.size() * own.size(), DataType::i64}}));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto [differs, first] = std::ranges::mismatch(all[rank], all.front());
    if (differs == all[rank].end()) continue;
    const auto place = static_cast<std::size_t>(differs - all[rank].begin());
    return Status(Code::mismatch,
                  fmt::format("{}: rank {} has {} {}, rank 0 has {}", title, rank, kCommon[place],
                              *differs, *first),
                  static_cast<Rank>(rank));
  }
  return {};
}

Status check_own(const Output& model, const PartialAllreduceOptions& options) {
  if (!is_floating(model.type)) {
    return Status(Code::invalid_argument, fmt::format("{}: a model of {} cannot be averaged",
                                                      title_of(options), name(model.type)));
  }
  if (options.section >= 1) return {};
  return Status(Code::invalid_argument,
                fmt::format("{}: a section of {} iterations has less than 1", title_of(options),
                            options.section));
}

}  // namespace

class PartialAllreduce::State {
 public:
  State(std::unique_ptr<GroupService> service, int section)
      : service_(std::move(service)), section_(section) {}

  // Requests are for the last iteration of a section.
  Status begin() { return is_last_of_section() ? service_->ask() : Status(); }
  Result<std::vector<Rank>> average() {
    if (!is_last_of_section()) {
      ++iterations_;
      WEFT_RETURN_IF_ERROR(begin());
      return std::vector<Rank>();
    }
    WEFT_ASSIGN(std::vector<Rank> group, service_->average(section_ == 1));
    ++iterations_;
    return group;
  }
  [[nodiscard]] Usage usage() const {
    const GroupService::Usage& usage = service_->usage();
    return {usage.messages_sent, usage.messages_received, usage.groups, usage.successions};
  }
  Status end() { return service_->end(); }

 private:
  [[nodiscard]] bool is_last_of_section() const {
    return (iterations_ + 1) % static_cast<std::uint64_t>(section_) == 0;
  }

  const std::unique_ptr<GroupService> service_;
  const int section_;
  std::uint64_t iterations_ = 0;
};

Result<PartialAllreduce> PartialAllreduce::create(Context& context, const Output& model,
                                                  const PartialAllreduceOptions& options) {
  WEFT_RETURN_IF_ERROR(check_own(model, options));
  WEFT_ASSIGN(const GroupLaw law, law_of(options));
  WEFT_RETURN_IF_ERROR(check_host_models(context, "partial all-reduce", model.data));
  WEFT_ASSIGN(std::unique_ptr<GroupHost> host, open_group_host(context));
  const std::string title = title_of(options);
  WEFT_RETURN_IF_ERROR(check_common(*host, title, common(model, law, options)));
  WEFT_ASSIGN(std::unique_ptr<GroupService> service,
              GroupService::open(std::move(host), {title, law, options.seed, model}));
  return PartialAllreduce(std::make_unique<State>(std::move(service), options.section));
}

PartialAllreduce::PartialAllreduce(std::unique_ptr<State> state) : state_(std::move(state)) {}
PartialAllreduce::~PartialAllreduce() = default;
PartialAllreduce::PartialAllreduce(PartialAllreduce&&) noexcept = default;
PartialAllreduce& PartialAllreduce::operator=(PartialAllreduce&&) noexcept = default;

Status PartialAllreduce::begin() {
  return state_->begin();
}
Result<std::vector<Rank>> PartialAllreduce::average() {
  return state_->average();
}
PartialAllreduce::Usage PartialAllreduce::usage() const {
  return state_->usage();
}
Status PartialAllreduce::end() {
  return state_->end();
}

}  // namespace weft
