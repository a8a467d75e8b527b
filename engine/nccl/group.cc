// Turns and votes, and how the communicator comes to be.
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <limits>

#include "engine/nccl/communicator.h"
#include "engine/nccl/nccl.h"
#include "scheduler/vocabulary/vocabulary.h"

namespace weft {
namespace {

using nccl::Communicator;
using nccl::Library;
using nccl::status_of;
using nccl::UniqueId;
using nccl::version_text;

// Readiness. With kMust it is NcclUse::on, and counts as that if it is so on all ranks.
constexpr std::int64_t kCould = 1, kReady = 2, kMust = 3;
constexpr std::int64_t kUnknownNs = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kNsOfMs = 1'000'000;
// A rank that refuses an operation votes for more than all others: its obstacle, then its index.
constexpr int kIndexBits = 32;
// Operations of a kind and size that are measured; NCCL's first one makes connections.
constexpr int kTried = 4;

std::atomic<std::uint64_t>& operations() {
  static std::atomic<std::uint64_t> operations{0};
  return operations;
}

bool are_different(const NcclTurn::Vote& combined) {
  return combined[3] != -combined[4];
}

std::string to_hex(const UniqueId& id) {
  std::string text;
  for (const char byte : id.bytes)
    text += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(byte)));
  return text;
}
std::optional<UniqueId> from_hex(std::string_view text) {
  UniqueId id;
  if (text.size() != 2 * id.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < id.bytes.size(); ++i) {
    const std::string two(text.substr(2 * i, 2));
    char* end = nullptr;
    id.bytes[i] = static_cast<char>(std::strtoul(two.c_str(), &end, 16));
    if (end != two.c_str() + 2) return std::nullopt;
  }
  return id;
}

Result<std::string> address_of(const GpuMemory& gpu) {
  WEFT_ASSIGN(const std::vector<GpuDevice> gpus, gpu_devices());
  for (const GpuDevice& each : gpus)
    if (each.number == gpu.device) return each.address;
  return Status(Code::unavailable, fmt::format("there is no GPU {}", gpu.device));
}

}  // namespace

bool NcclJob::is_known() const {
  if (!nccl::type_number(type)) return false;
  if (collective == Collective::broadcast) return true;
  const bool is_sum = collective == Collective::allreduce ||
                      collective == Collective::local_allreduce ||
                      collective == Collective::hierarchical_neighbor_allreduce;
  return is_sum && nccl::reduction_number(op, type).has_value();
}

std::int64_t NcclJob::hash() const {
  const std::array<std::uint64_t, 5> parts{
      static_cast<std::uint64_t>(collective),
      has<kHasOperator>(collective) ? static_cast<std::uint64_t>(op) : 0,
      static_cast<std::uint64_t>(type), count,
      has<kHasRoot>(collective) ? static_cast<std::uint64_t>(root) : 0};
  const std::string_view bytes(reinterpret_cast<const char*>(parts.data()), sizeof(parts));
  return static_cast<std::int64_t>(fnv1a64(bytes) >> 1);
}

Status check_nccl() {
  return nccl::load_library().status();
}

std::uint64_t nccl_operations() {
  return operations().load(std::memory_order_relaxed);
}

NcclTurn::NcclTurn(std::shared_ptr<NcclGroup> group, const NcclJob& job, const GpuMemory& gpu,
                   std::function<void()> wake)
    : group_(std::move(group)), job_(job), gpu_(gpu), wake_(std::move(wake)) {}

NcclTurn::~NcclTurn() {
  group_->forget(*this);
}

void NcclTurn::count(const Result<Vote>& combined) {
  const std::lock_guard lock(group_->mutex_);
  combined_ = combined;
}

NcclTurn::Way NcclTurn::way() {
  const std::lock_guard lock(group_->mutex_);
  group_->decide_all();
  return way_;
}

Status NcclTurn::follow(Stream stream) {
  std::shared_ptr<Communicator> communicator;
  {
    const std::lock_guard lock(group_->mutex_);
    communicator = group_->communicator_;
  }
  return communicator == nullptr ? Status() : communicator->queue().wait_for(stream);
}

Status NcclTurn::begin(const void* x, void* y) {
  begun_ns_ = now_ns();
  end_ns_ = begun_ns_ + group_->peers_.deadline_ms * kNsOfMs;
  const Result<bool> begun = with_->begin(job_, x, y);
  if (!begun.ok()) {
    give_up(begun.status());
    return status_;
  }
  is_being_queued_ = !*begun;
  {
    const std::lock_guard lock(group_->mutex_);
    group_->watched_.insert_or_assign(this, NcclGroup::Watched{end_ns_, wake_, is_being_queued_});
    group_->changed_.notify_one();
  }
  if (!is_being_queued_) note_begun();
  return status_;
}

// The next one may begin.
void NcclTurn::note_begun() {
  is_being_queued_ = false;
  Result<std::unique_ptr<GpuMark>> mark = with_->queue().mark(wake_);
  if (!mark.ok()) return give_up(mark.status());
  mark_ = *std::move(mark);
  const std::lock_guard lock(group_->mutex_);
  is_begun_ = true;
  std::erase(group_->line_, this);
  if (const auto found = group_->watched_.find(this); found != group_->watched_.end())
    found->second.is_being_queued = false;
}

bool NcclTurn::is_over() {
  if (mark_ != nullptr && mark_->is_over()) {
    if (status_.ok()) status_ = mark_->status();
    mark_.reset();
  }
  if (!status_.ok() || (mark_ == nullptr && !is_being_queued_)) return true;
  Result<bool> is_queued = with_->check();
  if (is_queued.ok() && now_ns() >= end_ns_) {
    is_queued =
        Status(Code::timed_out, fmt::format("{}: NCCL has not ended it in {} ms",
                                            name(job_.collective), group_->peers_.deadline_ms));
  }
  if (!is_queued.ok()) {
    give_up(is_queued.status());
    return true;
  }
  if (is_being_queued_ && *is_queued) note_begun();
  return false;
}

// The thread ends what the communicator has: NCCL may wait for the GPU in that.
void NcclTurn::give_up(const Status& why) {
  if (status_.ok()) status_ = why;
  is_being_queued_ = false;
  const std::lock_guard lock(group_->mutex_);
  group_->give_up(why);
  std::erase(group_->line_, this);
  group_->changed_.notify_one();
}

void NcclTurn::ended() {
  const std::lock_guard lock(group_->mutex_);
  if (way_ == Way::undecided || begun_ns_ == 0) return;
  NcclGroup::Times& times = group_->times_[NcclGroup::kind_of(job_)];
  const std::int64_t took = std::max<std::int64_t>(now_ns() - begun_ns_, 1);
  std::int64_t& best = way_ == Way::nccl ? times.nccl_ns : times.weft_ns;
  if (way_ == Way::nccl && times.by_nccl <= 1) return;
  best = best == 0 ? took : std::min(best, took);
}

std::shared_ptr<NcclGroup> NcclGroup::make(NcclPeers peers, NcclUse use) {
  return std::shared_ptr<NcclGroup>(new NcclGroup(std::move(peers), use));
}

NcclGroup::~NcclGroup() {
  close();
}

void NcclGroup::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    changed_.notify_one();
  }
  thread_.join();
  std::shared_ptr<Communicator> ended;
  {
    const std::lock_guard lock(mutex_);
    give_up(Status(Code::closed, "the context was closed"));
    ended = std::move(communicator_);
  }
  if (ended != nullptr) ended->abort();
}

NcclGroup::Kind NcclGroup::kind_of(const NcclJob& job) {
  return {job.collective, std::bit_width(job.bytes())};
}

std::shared_ptr<NcclTurn> NcclGroup::line_up(const NcclJob& job,
                                             const std::optional<GpuMemory>& gpu,
                                             std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  const Obstacle obstacle = obstacle_of(gpu);
  if (obstacle != Obstacle::none && !job.is_asked) return nullptr;
  const std::shared_ptr<NcclTurn> turn(
      new NcclTurn(shared_from_this(), job, gpu.value_or(GpuMemory()), std::move(wake)));
  const Times& times = times_[kind_of(job)];
  const auto told = [](std::int64_t ns) { return ns == 0 ? kUnknownNs : ns; };
  const std::int64_t ready = use_ == NcclUse::on ? kMust : kReady;
  turn->vote_ = no(job);
  turn->vote_[0] = state_ == State::ready ? -ready : -kCould;
  turn->vote_[1] = told(times.nccl_ns);
  turn->vote_[2] = told(times.weft_ns);
  if (obstacle != Obstacle::none)
    turn->vote_[0] = static_cast<std::int64_t>(obstacle) << kIndexBits | peers_.index;
  line_.push_back(turn.get());
  return turn;
}

NcclGroup::Obstacle NcclGroup::obstacle_of(const std::optional<GpuMemory>& gpu) const {
  if (state_ == State::given_up) return Obstacle::given_up;
  if (!gpu) return Obstacle::memory;
  const bool is_other = communicator_ != nullptr && communicator_->device() != gpu->device;
  return is_other ? Obstacle::other_gpu : Obstacle::none;
}

// An operation that NCCL has to begin holds up those behind it until it has.
void NcclGroup::decide_all() {
  while (!line_.empty()) {
    NcclTurn& first = *line_.front();
    if (first.way_ == NcclTurn::Way::nccl && !first.is_begun_) return;
    if (first.way_ == NcclTurn::Way::undecided) {
      if (!first.combined_) return;
      first.way_ = decide(first);
      if (first.way_ == NcclTurn::Way::undecided) return;
      if (first.way_ == NcclTurn::Way::nccl) {
        first.with_ = communicator_;
        ++by_nccl_;
        operations().fetch_add(1, std::memory_order_relaxed);
        return;
      }
      first.begun_ns_ = now_ns();
    }
    line_.pop_front();
  }
}

NcclTurn::Way NcclGroup::decide(NcclTurn& turn) {
  if (turn.job_.is_asked) return decide_asked(turn);
  if (!turn.combined_->ok()) return NcclTurn::Way::weft;
  const NcclTurn::Vote& combined = **turn.combined_;
  if (are_different(combined)) return NcclTurn::Way::weft;  // the plan's messages say how
  const std::int64_t readiness = -combined[0];
  if (readiness >= kCould && state_ == State::idle) start(turn.gpu_);
  if (readiness < kReady || communicator_ == nullptr) return NcclTurn::Way::weft;
  Times& times = times_[kind_of(turn.job_)];
  const bool is_known = combined[1] != kUnknownNs && combined[2] != kUnknownNs;
  const bool tries_nccl = times.by_nccl < kTried;
  const bool tries_weft = !tries_nccl && times.by_weft < kTried;
  const bool is_faster = !is_known || combined[1] <= combined[2];
  const bool takes = readiness >= kMust || tries_nccl || (!tries_weft && is_faster);
  ++(takes ? times.by_nccl : times.by_weft);
  return takes ? NcclTurn::Way::nccl : NcclTurn::Way::weft;
}

NcclTurn::Way NcclGroup::decide_asked(NcclTurn& turn) {
  turn.status_ = turn.combined_->status();
  if (!turn.status_.ok()) return NcclTurn::Way::failed;
  if (are_different(**turn.combined_)) {
    turn.status_ =
        Status(Code::mismatch,
               fmt::format(
                   "allreduce by nccl: the ranks differ in the operator, the type or the number of "
                   "elements; this rank has {} of {} {}",
                   name(turn.job_.op), turn.job_.count, name(turn.job_.type)));
    return NcclTurn::Way::failed;
  }
  const std::int64_t vote = (**turn.combined_)[0];
  if (vote > 0) {
    turn.status_ = refusal(vote);
    return NcclTurn::Way::refused;
  }
  if (state_ == State::idle) start(turn.gpu_);
  if (state_ == State::starting) return NcclTurn::Way::undecided;
  if (state_ == State::ready && communicator_->device() == turn.gpu_.device)
    return NcclTurn::Way::nccl;
  if (state_ == State::ready) {  // both operations began before there was one
    turn.status_ =
        refusal(static_cast<std::int64_t>(Obstacle::other_gpu) << kIndexBits | peers_.index);
    return NcclTurn::Way::failed;
  }
  turn.status_ = Status(why_.code(), fmt::format("allreduce by nccl: {}", why_.text()));
  return all_know_ ? NcclTurn::Way::refused : NcclTurn::Way::failed;
}

Status NcclGroup::refusal(std::int64_t vote) const {
  const std::int64_t index = vote & ((std::int64_t{1} << kIndexBits) - 1);
  switch (static_cast<Obstacle>(vote >> kIndexBits)) {
    case Obstacle::none:
      break;
    case Obstacle::memory:
      return Status(
          Code::invalid_argument,
          fmt::format("allreduce by nccl: rank {} does not have its whole input and output "
                      "on one GPU, apart or in the same place",
                      index));
    case Obstacle::other_gpu:
      return Status(
          Code::invalid_argument,
          fmt::format("allreduce by nccl: rank {} has used NCCL with another GPU before", index));
    case Obstacle::given_up:
      break;
  }
  const std::string why = state_ == State::given_up
                              ? std::string(why_.text())
                              : fmt::format("rank {} does not use it any more", index);
  return Status(Code::unavailable, fmt::format("allreduce by nccl: {}", why));
}

// The mutex is held.
void NcclGroup::give_up(const Status& why) {
  if (state_ == State::given_up) return;
  state_ = State::given_up;
  why_ = why;
}

void NcclGroup::forget(const NcclTurn& turn) {
  const std::lock_guard lock(mutex_);
  watched_.erase(&turn);
  const auto found = std::ranges::find(line_, &turn);
  if (found == line_.end()) return;
  // The other ranks begin it, and this one never will.
  if (turn.way_ == NcclTurn::Way::nccl)
    give_up(Status(Code::unavailable, "an operation ended before NCCL began it"));
  line_.erase(found);
}

// The mutex is held.
void NcclGroup::start(const GpuMemory& gpu) {
  if (is_closing_) return;
  state_ = State::starting;
  Result<Thread> started = start_thread("weft-nccl", [this, gpu] { serve(gpu); });
  if (!started.ok()) return give_up(started.status());
  thread_ = *std::move(started);
}

void NcclGroup::serve(const GpuMemory& gpu) {
  constexpr auto kLook = std::chrono::milliseconds(100), kNap = std::chrono::milliseconds(1);
  make_communicator(gpu);
  std::unique_lock lock(mutex_);
  while (!is_closing_ && communicator_ != nullptr) {
    if (state_ == State::given_up) {
      const std::shared_ptr<Communicator> ended = std::move(communicator_);
      lock.unlock();
      ended->abort();
      return;
    }
    if (watched_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto is_being_queued = [](const auto& each) { return each.second.is_being_queued; };
    const bool hurries = std::ranges::any_of(watched_, is_being_queued);
    changed_.wait_for(lock, hurries ? kNap : kLook);
    if (is_closing_) break;
    const Result<bool> is_queued = communicator_->check();
    std::vector<std::function<void()>> woken;
    for (auto& [turn, each] : watched_) {
      const bool has_news = each.is_being_queued && is_queued.ok() && *is_queued;
      const bool is_late = now_ns() >= each.end_ns;
      if (!has_news && !is_late && is_queued.ok()) continue;
      if (is_late) each.end_ns += kNsOfMs * 100;  // it is told again if it does not go
      woken.push_back(each.wake);
    }
    lock.unlock();
    for (const auto& wake : woken) wake();
    lock.lock();
  }
}

void NcclGroup::make_communicator(const GpuMemory& gpu) {
  Result<std::shared_ptr<Communicator>> made = agree(gpu);
  const std::lock_guard lock(mutex_);
  if (!made.ok()) {
    if (!is_closing_)
      log(LogLevel::warning, fmt::format("NCCL is not used: {}", made.status().text()));
    return give_up(made.status());
  }
  if (state_ != State::starting) return;
  communicator_ = *std::move(made);
  state_ = State::ready;
}

// Each rank says which GPU and which NCCL it has. The first one looks whether these go together, and
// names the communicator, or says why there is none.
Result<std::shared_ptr<Communicator>> NcclGroup::agree(const GpuMemory& gpu) {
  const Deadline deadline = Deadline::after_ms(peers_.deadline_ms);
  const Result<const Library*> library = nccl::load_library();
  const Result<std::string> address = address_of(gpu);
  const Status own = !library.ok() ? library.status() : address.status();
  WEFT_RETURN_IF_ERROR(peers_.put("gpu", own.ok()
                                             ? version_text((*library)->version) + " " + *address
                                             : fmt::format("no {}", own.text())));
  if (peers_.index == 0) {
    WEFT_ASSIGN(std::string answer, compare_all(deadline));
    if (answer.empty()) {
      UniqueId id;
      const Status status = status_of(**library, (*library)->unique_id(&id), "ncclGetUniqueId");
      answer = status.ok() ? fmt::format("id {}", to_hex(id)) : fmt::format("no {}", status.text());
    }
    WEFT_RETURN_IF_ERROR(peers_.put("id", answer));
  }
  constexpr std::size_t kWord = 3;  // "id " or "no "
  WEFT_ASSIGN(const std::string answer, get(0, "id", deadline));
  const std::optional<UniqueId> id =
      answer.starts_with("id ") ? from_hex(std::string_view(answer).substr(kWord)) : std::nullopt;
  all_know_ = !id;
  if (!id) return Status(Code::unavailable, answer.substr(std::min(answer.size(), kWord)));
  return Communicator::make(**library, *id, peers_.index, peers_.size, gpu, deadline,
                            [this] { return !is_closing_.load(); });
}

// Empty: all ranks can have one communicator.
Result<std::string> NcclGroup::compare_all(Deadline deadline) const {
  std::map<std::string, int> owners;  // by the GPU
  std::string version;                // of the first
  for (int index = 0; index < peers_.size; ++index) {
    WEFT_ASSIGN(const std::string told, get(index, "gpu", deadline));
    const auto space = std::ranges::find(told, ' ');
    const std::string its(told.begin(), space);
    const std::string where(space == told.end() ? space : space + 1, told.end());
    if (its == "no") return fmt::format("no rank {} of the machine: {}", index, where);
    if (index == 0) version = its;
    if (its != version) {
      return fmt::format("no ranks 0 and {} of the machine have NCCL {} and {}", index, version,
                         its);
    }
    const auto [owner, is_new] = owners.emplace(where, index);
    if (!is_new) {
      return fmt::format("no ranks {} and {} of the machine share the GPU {}", owner->second, index,
                         where);
    }
  }
  return std::string();
}

// Ends early if the context is being closed.
Result<std::string> NcclGroup::get(int index, const std::string& key, Deadline deadline) const {
  constexpr std::int64_t kLookMs = 200;
  for (;;) {
    Result<std::string> found = peers_.get(index, key, Deadline::after_ms(kLookMs));
    if (found.ok() || found.status().code() != Code::timed_out) return found;
    if (is_closing_) return Status(Code::closed, "the context was closed");
    if (deadline.passed()) return found;
  }
}

std::string NcclGroup::describe() {
  const std::lock_guard lock(mutex_);
  switch (state_) {
    case State::idle:
      return "not used yet";
    case State::starting:
      return "a communicator is being made";
    case State::given_up:
      return fmt::format("not used: {}", why_.text());
    case State::ready:
      break;
  }
  std::string text = fmt::format("{} operations by NCCL {}", by_nccl_,
                                 version_text(communicator_->library().version));
  for (const auto& [kind, times] : times_) {
    if (times.nccl_ns == 0 || times.weft_ns == 0) continue;
    const auto& [collective, bits] = kind;
    text += fmt::format("; {} of {} KiB and more: {:.0f} us, by Weft {:.0f} us", name(collective),
                        (std::uint64_t{1} << (bits - 1)) >> 10,
                        static_cast<double>(times.nccl_ns) / 1e3,
                        static_cast<double>(times.weft_ns) / 1e3);
  }
  return text;
}

}  // namespace weft
