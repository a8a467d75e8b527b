// partial_allreduce: checks what the ranks were given, and drives the service of groups (engine/partial).
#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/algorithms/agreement.h"
#include "engine/algorithms/algorithms.h"
#include "engine/algorithms/models.h"
#include "engine/gpu/gpu.h"
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

Status check_all(const Output& model, const Status& law, const PartialAllreduceOptions& options) {
  const std::string title = title_of(options);
  WEFT_RETURN_IF_ERROR(check_model(title, model));
  if (!law.ok()) return Status(law.code(), fmt::format("{}: {}", title, law.text()));
  if (options.section >= 1) return {};
  return Status(
      Code::invalid_argument,
      fmt::format("{}: a section of {} iterations has less than 1", title, options.section));
}

// The model for the host, if everything is right.
Result<Staged> staged_model(const Context& context, const Output& model, const Status& law,
                            const PartialAllreduceOptions& options) {
  WEFT_RETURN_IF_ERROR(check_all(model, law, options));
  return Staged::make(model.data, model.count * size_of(model.type), context.config().deadline_ms);
}

CommonArguments described(const Output& model, const Result<GroupLaw>& law,
                          const PartialAllreduceOptions& options) {
  return {fmt::format("\"{}\"", options.name),
          fmt::format("law {}, threshold {}, section {}, seed {}, {} elements of {}",
                      law.ok() ? name(*law) : options.law, options.threshold, options.section,
                      options.seed, model.count, name(model.type))};
}

}  // namespace

class PartialAllreduce::State {
 public:
  State(std::unique_ptr<GroupService> service, Staged model, const PartialAllreduceOptions& options)
      : service_(std::move(service)),
        model_(std::move(model)),
        stream_(options.stream),
        section_(options.section),
        title_(title_of(options)) {}

  // Requests are for the last iteration of a section.
  Status begin() {
    WEFT_RETURN_IF_ERROR(ended_);
    return is_last_of_section() ? service_->ask() : Status();
  }
  Result<std::vector<Rank>> average() {
    WEFT_RETURN_IF_ERROR(ended_);
    if (!is_last_of_section()) {
      ++iterations_;
      WEFT_RETURN_IF_ERROR(begin());
      return std::vector<Rank>();
    }
    WEFT_RETURN_IF_ERROR(model_.fetch(stream_));
    WEFT_ASSIGN(std::vector<Rank> group, service_->average(section_ == 1));
    WEFT_RETURN_IF_ERROR(model_.store(stream_));
    ++iterations_;
    return group;
  }
  [[nodiscard]] Usage usage() const {
    const GroupService::Usage& usage = service_->usage();
    return {usage.messages_sent, usage.messages_received, usage.groups, usage.successions};
  }
  // Groups that this rank is in already run yet.
  Status end() {
    WEFT_RETURN_IF_ERROR(model_.fetch(stream_));
    WEFT_RETURN_IF_ERROR(service_->end());
    ended_ = Status(Code::closed, title_ + ": has ended");
    return model_.store(stream_);
  }

 private:
  [[nodiscard]] bool is_last_of_section() const {
    return (iterations_ + 1) % static_cast<std::uint64_t>(section_) == 0;
  }

  const std::unique_ptr<GroupService> service_;
  Staged model_;
  const std::optional<Stream> stream_;
  const int section_;
  const std::string title_;
  std::uint64_t iterations_ = 0;
  Status ended_;  // why begin() and average() fail after end()
};

Result<PartialAllreduce> PartialAllreduce::create(Context& context, const Output& model,
                                                  const PartialAllreduceOptions& options) {
  const std::string title = title_of(options);
  const Result<GroupLaw> law = law_of(options);
  Result<Staged> staged = staged_model(context, model, law.status(), options);
  WEFT_RETURN_IF_ERROR(agree(context, title, described(model, law, options), staged.status()));
  WEFT_ASSIGN(std::unique_ptr<GroupHost> host, open_group_host(context));
  const Output here{staged->data(), model.count, model.type};
  WEFT_ASSIGN(std::unique_ptr<GroupService> service,
              GroupService::open(std::move(host), {title, *law, options.seed, here}));
  return PartialAllreduce(std::make_unique<State>(std::move(service), *std::move(staged), options));
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
