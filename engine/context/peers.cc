// Peers: connecting to them, and which of our network interfaces carry what goes to them.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>

#include "engine/context/core.h"

namespace weft {
namespace {

// A rank that has not joined is not waited for, but asked again: after these times, doubled. An
// answer has a tenth of that to come, within these bounds.
constexpr std::int64_t kFirstWaitNs = 50'000'000;
constexpr std::int64_t kLongestWaitNs = 10'000'000'000;
constexpr std::int64_t kLeastPatienceMs = 5;
constexpr std::int64_t kMostPatienceMs = 200;

std::string address_key(std::uint16_t context, Rank rank) {
  return fmt::format("context/{}/address/{}", context, rank);
}

}  // namespace

Status Context::Core::tell_address() {
  return roster_.put(address_key(number_, config_.rank), interface_->address());
}

Result<std::string> Context::Core::address_of(Rank rank) {
  return roster_.get_from(rank, address_key(number_, rank),
                          Deadline::after_ms(config_.deadline_ms));
}

// For an operation.
Result<Contact*> Context::Core::contact(Rank rank) {
  if (Contact* recent = recent_contact(rank)) return recent;
  WEFT_ASSIGN(Contact * known, connected(rank));
  if (!known->are_rails_chosen) WEFT_RETURN_IF_ERROR(choose_rails_to(*known));
  if (!known->are_rails_chosen) return known;
  return recent_contacts_[static_cast<std::size_t>(rank) % recent_contacts_.size()] = known;
}

// Connected at the first operation that needs the rank, or when it asks for something, so memory
// grows with the ranks talked to.
Result<Contact*> Context::Core::connected(Rank rank) {
  if (const auto known = contacts_.find(rank); known != contacts_.end()) return known->second.get();
  WEFT_ASSIGN(const std::string address, address_of(rank));
  WEFT_ASSIGN(Endpoint * endpoint, interface_->connect(rank, address));
  const bool local = endpoint->shares_memory();
  if (local && config_.foreign == ForeignPath::cma && !endpoint->process_access().ok())
    return endpoint->process_access();
  auto made = std::make_unique<Contact>();
  made->rank = rank;
  made->endpoint = endpoint;
  Contact* raw = made.get();
  {
    const std::lock_guard lock(contacts_mutex_);
    contacts_.emplace(rank, std::move(made));
  }
  WEFT_ASSIGN(const std::optional<std::int32_t> process, process_behind(address));
  if (local && process && *process != getpid()) {
    // Without a watch the end of that process is still told by the store, only later.
    if (Status status = membership_.watch(rank, *process); !status.ok())
      log(LogLevel::warning, status.to_string());
  }
  return raw;
}

Status Context::Core::contacts(std::span<const Rank> ranks, std::vector<Contact*>& into) {
  for (const Rank rank : ranks) {
    WEFT_ASSIGN(Contact * found, contact(rank));
    into.push_back(found);
  }
  return {};
}

bool Context::Core::has_left(Rank rank) {
  const std::lock_guard lock(contacts_mutex_);
  const auto known = contacts_.find(rank);
  return known != contacts_.end() && known->second->endpoint->peer_closed();
}

// Whether this rank may have to use some of its interfaces and not others: two of one kind, which
// stand together.
bool Context::Core::has_choice_of_rails() const {
  return config_.rails != RailChoice::all &&
         std::ranges::adjacent_find(rails_, std::ranges::equal_to(), &RailRecord::kind) !=
             rails_.end();
}

// Which rails carry is known when all ranks have said what they have; until then all do. A mistake
// of the job is an error, and what else goes wrong a warning: every rail leads to the peer.
Status Context::Core::ask_for_machines() {
  if (choose_again_ns_ != 0 && now_ns() < choose_again_ns_) return {};
  const std::size_t known = machine_records_.size();
  const std::int64_t patience_ms =
      std::clamp(choose_wait_ns_ / 10'000'000, kLeastPatienceMs, kMostPatienceMs);
  const Status status = machines_told_by(Deadline::after_ms(patience_ms)).status();
  if (status.ok() || status.code() == Code::mismatch) return status;
  if (status.code() == Code::timed_out) {
    const bool is_news = machine_records_.size() != known;
    choose_wait_ns_ =
        is_news ? kFirstWaitNs : std::clamp(2 * choose_wait_ns_, kFirstWaitNs, kLongestWaitNs);
    choose_again_ns_ = now_ns() + choose_wait_ns_;
    return {};
  }
  uses_all_rails_ = true;
  log(LogLevel::warning, fmt::format("all rails carry what goes to other machines, near or far: {}",
                                     status.to_string()));
  return {};
}

Status Context::Core::choose_rails_to(Contact& contact) {
  const auto has_choice = [&] {
    return !contact.endpoint->shares_memory() && has_choice_of_rails() && !uses_all_rails_;
  };
  if (has_choice() && !machines_) WEFT_RETURN_IF_ERROR(ask_for_machines());
  if (has_choice() && !machines_) return {};
  contact.are_rails_chosen = true;
  if (has_choice()) use_rails_to(contact);
  return {};
}

void Context::Core::use_rails_to(Contact& contact) {
  const auto used = [this](Rank rank) -> const std::vector<int>& {
    return machines_->used[static_cast<std::size_t>(rank)];
  };
  contact.endpoint->use_members(used(config_.rank), used(contact.rank));
}

// For the peers that were talked to before it was known who has what.
void Context::Core::choose_rails() {
  if (!has_choice_of_rails()) return;
  for (const std::string& rail : used_rails()) log(LogLevel::info, rail);
  for (const auto& [rank, contact] : contacts_) {
    if (!contact->endpoint->shares_memory()) use_rails_to(*contact);
    contact->are_rails_chosen = true;
  }
}

// "uses rail 1: mlx5_1 and GPU 1 are below one PCI switch" and so on; nothing where all are used.
std::vector<std::string> Context::Core::used_rails() const {
  const std::vector<int>& used = machines_->used[static_cast<std::size_t>(config_.rank)];
  std::vector<std::string> lines;
  if (!has_choice_of_rails() || used.size() == rails_.size()) return lines;
  for (const int rail : used) {
    lines.push_back(
        fmt::format("uses rail {}: {}", rail, rail_reasons_[static_cast<std::size_t>(rail)]));
  }
  return lines;
}

// A line for each peer of a call.
std::string Context::Core::describe_paths(const Call& call) const {
  std::map<Rank, const Endpoint*> peers;
  for (const Contact* contact : call.in) peers.emplace(contact->rank, contact->endpoint);
  for (const Contact* contact : call.out) peers.emplace(contact->rank, contact->endpoint);
  std::string text;
  for (const auto& [rank, endpoint] : peers)
    text += fmt::format("  rank {}: {}\n", rank, interface_->path_to(*endpoint));
  return text;
}

}  // namespace weft
