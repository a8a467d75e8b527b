// window: the calls of a window.
#include "engine/window/window.h"

#include <fmt/core.h>
#include <weft/context.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "engine/gpu/gpu.h"
#include "engine/window/prepared_transfer.h"
#include "verbs/transport/transport.h"

namespace weft {
using window::CallName;
using window::FlushTask;
using window::GetTask;
using window::Gone;
using window::Locks;
using window::PutTask;
using window::RawTask;
using window::SlotReader;
using window::SlotWriter;
using window::Staging;
using window::WaitTask;

namespace {

std::string_view name_of_put(bool accumulates) {
  return accumulates ? "win_accumulate" : "win_put";
}

}  // namespace

WindowObject::WindowObject(WindowSetup setup, const std::shared_ptr<Lane>& lane)
    : setup_(std::move(setup)),
      title_(fmt::format("window \"{}\"", setup_.name)),
      shape_{setup_.tensor.count, setup_.tensor.type},
      names_(setup_.timeline->names_of(setup_.name)),
      lane_(lane) {
  for (const WindowNeighbor& from : setup_.in) in_ranks_.push_back(from.part.rank);
  for (const WindowNeighbor& to : setup_.out) out_ranks_.push_back(to.part.rank);
}

Status WindowObject::open() {
  std::byte* const part = setup_.part->as<std::byte>();
  const window::Shape& ours = setup_.own.shape;
  head().p = 1.0;
  for (std::size_t in = 0; in < setup_.in.size(); ++in) {
    readers_.push_back(std::make_unique<SlotReader>(in_ranks_[in], part, ours, in, shape_));
    if (!setup_.zero_init) WEFT_RETURN_IF_ERROR(readers_.back()->fill(host_tensor()));
  }
  raised_.resize(setup_.in.size());
  for (std::size_t out = 0; out < setup_.out.size(); ++out) {
    const WindowNeighbor& to = setup_.out[out];
    are_mapped_ &= to.part.memory.mapped != nullptr;
    const auto* ack = reinterpret_cast<const std::uint64_t*>(part + ours.ack(out));
    writers_.push_back(std::make_unique<SlotWriter>(to.part, to.shape, to.in_index, shape_, ack));
  }
  return {};
}

Status WindowObject::invalid(std::string_view what, std::string_view why) const {
  return Status(Code::invalid_argument, fmt::format("{}: {} {}", what, title_, why));
}

Status WindowObject::check_open() const {
  if (is_open_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(open_mutex_);
  if (is_suspended_) return invalid("window", "is being freed");
  return ended_;
}

Status WindowObject::named(std::string_view what, const Status& status) const {
  if (status.ok()) return {};
  return Status(status.code(), fmt::format("{}: {}: {}", what, title_, status.text()),
                status.rank());
}

Status WindowObject::check_tensor(std::string_view what, const Output& x) const {
  if (x.count != shape_.count || x.type != shape_.type) {
    return invalid(what, fmt::format("has {} elements of {}, the tensor {} of {}", shape_.count,
                                     weft::name(shape_.type), x.count, weft::name(x.type)));
  }
  if (x.data == nullptr && x.count != 0) return invalid(what, "was given a null tensor");
  return {};
}

Status WindowObject::check_raw(std::string_view what, const void* data, std::size_t count,
                               DataType type) const {
  if (data == nullptr && count != 0) return invalid(what, "was given null memory");
  if (count > std::numeric_limits<std::size_t>::max() / size_of(type))
    return invalid(what, fmt::format("was given {} elements, which fit in no memory", count));
  return {};
}

Result<Staging> WindowObject::stage(const std::optional<Stream>& stream) const {
  Staging staging(stream, setup_.bell);
  if (setup_.on_gpu.fetched != nullptr)
    WEFT_RETURN_IF_ERROR(staging.fetches(setup_.on_gpu.fetched));
  return staging;
}

Result<Output> WindowObject::place(const Output& x, Staging& staging, Staging::Use use) const {
  const std::size_t bytes = x.count * size_of(x.type);
  if (bytes == 0) return x;
  const std::shared_ptr<HostCopy>& fetched = setup_.on_gpu.fetched;
  if (fetched != nullptr && x.data == setup_.tensor.data && bytes == shape_.bytes() &&
      use != Staging::Use::writes) {
    if (use == Staging::Use::both) staging.stores(fetched);
    return Output{fetched->data(), x.count, x.type};
  }
  WEFT_ASSIGN(std::byte* const here,
              staging.place({{static_cast<std::byte*>(x.data), bytes}}, use));
  return here == nullptr ? x : Output{here, x.count, x.type};
}

Status WindowObject::check_stream(std::string_view what, const std::optional<Stream>& stream,
                                  const Staging& staging) const {
  if (!stream || !staging.is_empty() || shape_.count == 0) return {};
  return invalid(what, "was given a stream, and no GPU memory");
}

Status WindowObject::check_signal(std::string_view what, int number) const {
  if (number >= 0 && number < kWindowSignals) return {};
  return invalid(what, fmt::format("has signals 0 to {}, not {}", kWindowSignals - 1, number));
}

Status WindowObject::check_weight(std::string_view what, double weight) const {
  if (!std::isfinite(weight)) return invalid(what, fmt::format("was given a weight of {}", weight));
  if (weight != 1.0 && !is_floating(shape_.type)) {
    return invalid(what, fmt::format("has elements of {}, which cannot be multiplied by {}",
                                     weft::name(shape_.type), weight));
  }
  return {};
}

Status WindowObject::for_each(std::string_view what, std::string_view list,
                              std::span<const Rank> neighbors,
                              const std::optional<std::span<const NeighborWeight>>& given,
                              const std::function<void(std::size_t, double)>& take) const {
  if (!given) {
    for (std::size_t index = 0; index < neighbors.size(); ++index) take(index, 1.0);
    return {};
  }
  std::vector<bool> named(neighbors.size());
  for (const NeighborWeight& each : *given) {
    WEFT_RETURN_IF_ERROR(check_weight(what, each.weight));
    const auto found = std::ranges::lower_bound(neighbors, each.rank);
    if (found == neighbors.end() || *found != each.rank) {
      return invalid(what, fmt::format("has no {} {} at rank {}", list, each.rank, setup_.self));
    }
    const auto index = static_cast<std::size_t>(found - neighbors.begin());
    if (named[index]) return invalid(what, fmt::format("was given {} {} twice", list, each.rank));
    named[index] = true;
    take(index, each.weight);
  }
  return {};
}

Status WindowObject::run(Lane& lane, window::Task& task) {
  line_up(&task, task.call());
  lane.run(task);
  return task.status();
}

Status WindowObject::start_turn(const std::shared_ptr<Lane>& lane,
                                std::shared_ptr<window::Task> task, Handle& handle) {
  WEFT_RETURN_IF_ERROR(lane->start_thread());
  line_up(task.get(), task->call());
  task->keep_window();
  return start(lane, std::move(task), handle);
}

Status WindowObject::start(const std::shared_ptr<Lane>& lane, std::shared_ptr<OperationStep> task,
                           Handle& handle) {
  WEFT_RETURN_IF_ERROR(lane->start_thread());
  std::shared_ptr<Operation> operation = Lane::new_operation(lane);
  handle = Handle(operation);
  lane->begin(std::move(task), std::move(operation));
  lane->leave();
  return {};
}

void WindowObject::end_turn(const window::Task& task) {
  if (task.has_handle() && unheard_.ok()) unheard_ = task.status();
  setup_.timeline->ends(turns_.front().number, task.status());
  turns_.pop_front();
}

Status WindowObject::check_put(bool accumulates, const Output& x, const WindowPut& how) const {
  const std::string_view what = name_of_put(accumulates);
  WEFT_RETURN_IF_ERROR(check_tensor(what, x));
  WEFT_RETURN_IF_ERROR(check_weight(what, how.self_weight));
  if (how.signal != -1) WEFT_RETURN_IF_ERROR(check_signal(what, how.signal));
  if (how.compression == Compression::low_rank)
    return invalid(what, "compression (low_rank) is for operations, not for windows");
  if (how.compression != Compression::none && shape_.type != DataType::f32) {
    return invalid(what, fmt::format("has elements of {}; compression ({}) takes f32",
                                     weft::name(shape_.type), weft::name(how.compression)));
  }
  if (accumulates && !is_floating(shape_.type))
    return invalid(
        what, fmt::format("has elements of {}, not of a floating type", weft::name(shape_.type)));
  return {};
}

Result<Prepared> WindowObject::prepare_put(bool accumulates, const Output& x,
                                           const WindowPut& how) {
  WEFT_RETURN_IF_ERROR(check_open());
  WEFT_RETURN_IF_ERROR(check_put(accumulates, x, how));
  const std::string_view what = name_of_put(accumulates);
  std::vector<NeighborWeight> named;
  std::vector<Rank> ranks;
  WEFT_RETURN_IF_ERROR(for_each(what, "out-neighbor", out_ranks_, how.destinations,
                                [&](std::size_t index, double weight) {
                                  ranks.push_back(out_ranks_[index]);
                                  named.push_back({out_ranks_[index], weight});
                                }));
  auto call = [self = shared_from_this(), accumulates, x, how, named](Handle* handle) {
    WindowPut kept = how;
    if (kept.destinations) kept.destinations = named;
    return self->put(accumulates, x, kept, handle);
  };
  auto is_quick = [self = shared_from_this(), ranks, waits = how.require_mutex] {
    return !waits && self->is_quick(ranks, &WindowNeighbor::part);
  };
  return Prepared(std::make_shared<window::PreparedTransfer>(what, std::move(call), is_quick));
}

Status WindowObject::put(bool accumulates, const Output& x, const WindowPut& how, Handle* handle) {
  const std::string_view what = name_of_put(accumulates);
  WEFT_RETURN_IF_ERROR(check_put(accumulates, x, how));
  const auto use = how.self_weight == 1.0 ? Staging::Use::reads : Staging::Use::both;
  Staging staging;
  Output here = x;
  if (may_have_gpu_memory()) {
    WEFT_ASSIGN(staging, stage(how.stream));
    WEFT_ASSIGN(here, place(x, staging, use));
  }
  WEFT_RETURN_IF_ERROR(check_stream(what, how.stream, staging));
  const std::shared_ptr<Lane> lane = lane_.lock();
  if (lane == nullptr) return check_open();
  const Lane::Hold hold(*lane);
  WEFT_RETURN_IF_ERROR(check_open());
  if (handle == nullptr && !how.require_mutex && are_mapped_ && turns_.empty() &&
      staging.is_empty())
    return put_now(accumulates, x, how);
  std::shared_ptr<PutTask> task = handle == nullptr ? std::move(put_) : nullptr;
  if (task == nullptr) task = std::make_shared<PutTask>(*this);
  std::vector<PutTask::Target>& targets = task->targets();
  targets.clear();
  WEFT_RETURN_IF_ERROR(for_each(what, "out-neighbor", out_ranks_, how.destinations,
                                [&](std::size_t index, double weight) {
                                  targets.push_back({writers_[index].get(), weight});
                                }));
  std::unique_ptr<Locks> locks;
  if (how.require_mutex && !targets.empty()) {
    std::vector<Rank> ranks;
    for (const PutTask::Target& each : targets) ranks.push_back(each.writer->there().rank);
    WEFT_ASSIGN(locks, locks_of(what, std::move(ranks), Gone::pass));
  }
  task->prepare(accumulates, here, how, std::move(locks));
  task->set_staging(std::move(staging));
  if (handle != nullptr) return start_turn(lane, std::move(task), *handle);
  Status status = run(*lane, *task);
  task->set_staging({});
  put_ = std::move(task);
  return status;
}

// All out-neighbors are mapped here, and nothing is under way.
Status WindowObject::put_now(bool accumulates, const Output& x, const WindowPut& how) {
  const CallName call = accumulates ? CallName::accumulate : CallName::put;
  const std::string_view what = window::name(call);
  if (how.destinations) {
    WEFT_RETURN_IF_ERROR(
        for_each(what, "out-neighbor", out_ranks_, how.destinations, [](std::size_t, double) {}));
  }
  const std::uint32_t number = setup_.timeline->begins(names_, call);
  SlotWriter::Message message{.p = p_to_send(),
                              .signal = how.signal,
                              .compression = how.compression,
                              .patience_ns = patience_ns()};
  Status first;
  const auto put = [&](std::size_t index, double weight) {
    SlotWriter& writer = *writers_[index];
    Status status = check_alive(writer.there());
    if (status.ok()) {
      message.scale = weight;
      status = accumulates ? writer.accumulate(x.data, message) : writer.put(x.data, message);
    }
    if (!status.ok() && first.ok()) first = status;
  };
  if (how.destinations) {
    (void)for_each(what, "out-neighbor", out_ranks_, how.destinations, put);
  } else {
    for (std::size_t index = 0; index < writers_.size(); ++index) put(index, 1.0);
  }
  if (how.self_weight != 1.0) scale(x, how.self_weight);
  setup_.timeline->ends(number, first);
  return named(what, first);
}

Status WindowObject::get(const WindowGet& how, Handle* handle) {
  WEFT_ASSIGN(Staging staging, stage(how.stream));
  WEFT_RETURN_IF_ERROR(check_stream("win_get", how.stream, staging));
  const std::shared_ptr<Lane> lane = lane_.lock();
  if (lane == nullptr) return check_open();
  const Lane::Hold hold(*lane);
  WEFT_RETURN_IF_ERROR(check_open());
  std::vector<GetTask::Source> sources;
  std::vector<Rank> ranks;
  Status access;
  WEFT_RETURN_IF_ERROR(for_each("win_get", "in-neighbor", in_ranks_, how.sources,
                                [&](std::size_t index, double weight) {
                                  const WindowNeighbor& from = setup_.in[index];
                                  if (access.ok()) access = from.tensor_access;
                                  sources.push_back({.reader = readers_[index].get(),
                                                     .weight = weight,
                                                     .tensor = from.tensor,
                                                     .part = from.part});
                                  ranks.push_back(in_ranks_[index]);
                                }));
  WEFT_RETURN_IF_ERROR(named("win_get", access));
  std::unique_ptr<Locks> locks;
  if (how.require_mutex && !ranks.empty()) {
    WEFT_ASSIGN(locks, locks_of("win_get", std::move(ranks), Gone::pass));
  }
  auto task = std::make_shared<GetTask>(*this, std::move(locks), std::move(sources));
  task->set_staging(std::move(staging));
  return handle != nullptr ? start_turn(lane, std::move(task), *handle) : run(*lane, *task);
}

Status WindowObject::flush(const std::optional<Stream>& stream) {
  WEFT_ASSIGN(Staging staging, stage(stream));
  const std::shared_ptr<Lane> lane = lane_.lock();
  if (lane == nullptr) return check_open();
  const Lane::Hold hold(*lane);
  WEFT_RETURN_IF_ERROR(check_open());
  Status status;
  if (staging.is_empty()) {
    WaitTask wait([this] { return turns_.empty(); }, WaitTask::kNever);
    lane->run(wait);
  } else {
    FlushTask task(*this);
    task.set_staging(std::move(staging));
    status = run(*lane, task);
  }
  const Status unheard = std::exchange(unheard_, {});
  return unheard.ok() ? status : unheard;
}

// mutex_ is held. Late bytes of a path that failed could set a count back, so the highest counts.
std::uint64_t WindowObject::count_signal(int number) {
  const std::byte* const part = setup_.part->as<std::byte>();
  std::uint64_t sum = 0;
  for (std::size_t in = 0; in < raised_.size(); ++in) {
    std::uint64_t& seen = raised_[in][static_cast<std::size_t>(number)];
    seen = std::max(seen, window::load_word(part + setup_.own.shape.signal(in, number)));
    sum += seen;
  }
  return sum;
}

Result<std::uint64_t> WindowObject::signal(int number) {
  WEFT_RETURN_IF_ERROR(check_open());
  WEFT_RETURN_IF_ERROR(check_signal("win_signal", number));
  const std::lock_guard lock(mutex_);
  return count_signal(number);
}

bool WindowObject::has_lost_path_to(Rank rank) const {
  const auto is_lost = [rank](const WindowNeighbor& each) {
    return each.part.rank == rank && each.part.endpoint != nullptr &&
           !each.part.endpoint->failure().ok();
  };
  return std::ranges::any_of(setup_.in, is_lost) || std::ranges::any_of(setup_.out, is_lost);
}

Status WindowObject::check_in_neighbors() const {
  Status first;
  std::string all;
  for (const WindowNeighbor& from : setup_.in) {
    const Status alive = check_alive(from.part);
    if (alive.ok()) return {};
    const bool is_worse = first.code() == Code::peer_left && alive.code() == Code::peer_died;
    if (first.ok() || is_worse) first = alive;
    all += (all.empty() ? "" : ", ") + std::string(alive.text());
  }
  if (first.ok()) return {};  // a window of one rank: its waits end with their patience
  return Status(first.code(), all, first.rank());
}

Status WindowObject::wait_signal(int number, std::uint64_t count, std::int64_t patience_ns,
                                 Handle* handle) {
  constexpr std::string_view kName = "win_wait_signal";
  WEFT_RETURN_IF_ERROR(check_signal(kName, number));
  const std::shared_ptr<Lane> lane = lane_.lock();
  if (lane == nullptr) return check_open();
  const Lane::Hold hold(*lane);
  WEFT_RETURN_IF_ERROR(check_open());
  const std::int64_t most = deadline_ns();
  const std::int64_t end = patience_ns < 0 ? most : std::min(most, now_ns() + patience_ns);
  const auto found = [self = shared_from_this(), number] {
    const std::lock_guard lock(self->mutex_);
    return self->count_signal(number);
  };
  const auto missed = [kName, title = title_, number, count, found] {
    return fmt::format("{}: {}: signal {} was raised {} times, not {}", kName, title, number,
                       found(), count);
  };
  const auto late = [missed] { return Status(Code::timed_out, missed()); };
  const auto is_there = [found, count] { return found() >= count; };
  const auto lost = [self = shared_from_this(), missed] {
    const Status gone = self->check_in_neighbors();
    if (gone.ok()) return gone;
    return Status(gone.code(),
                  fmt::format("{}, and nobody is left to raise it: {}", missed(), gone.text()),
                  gone.rank());
  };
  const auto ended = [self = shared_from_this(),
                      call = setup_.timeline->begins(names_, CallName::wait_signal)](
                         const Status& status) { self->setup_.timeline->ends(call, status); };
  if (handle != nullptr)
    return start(lane, std::make_shared<WaitTask>(is_there, end, late, lost, ended), *handle);
  WaitTask wait(is_there, end, late, lost, ended);
  lane->run(wait);
  return wait.status();
}

Status WindowObject::suspend() {
  const std::shared_ptr<Lane> lane = lane_.lock();
  if (lane == nullptr) return check_open();
  const Lane::Hold hold(*lane);
  const auto check_unused = [this]() -> Status {
    if (!turns_.empty()) {
      return Status(Code::invalid_argument,
                    fmt::format("it is in use: {} of its calls are under way", turns_.size()));
    }
    if (held_ != nullptr)
      return Status(Code::invalid_argument, "it is in use: the rank holds mutexes of it");
    return {};
  };
  WEFT_RETURN_IF_ERROR(check_unused());
  // A swap that is under way may not reach memory that is exposed no more.
  const auto are_idle = [this] {
    return std::ranges::all_of(hands_, [](const auto& each) {
      return each.second == nullptr || each.second->is_idle();  // null: it could not be made
    });
  };
  WaitTask wait(are_idle, deadline_ns(), [] {
    return Status(Code::timed_out, "it is in use: a rank has not answered for its mutex");
  });
  lane->run(wait);
  WEFT_RETURN_IF_ERROR(wait.status());
  WEFT_RETURN_IF_ERROR(check_unused());  // another thread may have called meanwhile
  const std::lock_guard lock(open_mutex_);
  is_suspended_ = true;
  is_open_ = false;
  return ended_;
}

void WindowObject::resume() {
  const std::lock_guard lock(open_mutex_);
  is_suspended_ = false;
  is_open_ = ended_.ok();
}

std::string WindowObject::describe() const {
  std::string text = fmt::format("{}: {} x {}", title_, shape_.count, weft::name(shape_.type));
  std::map<std::string, std::string> by_way;  // the ranks
  for (const WindowNeighbor& to : setup_.out) {
    const Endpoint& endpoint = *to.part.endpoint;
    std::string way = to.part.memory.mapped != nullptr ? "mapped" : endpoint.describe();
    if (!endpoint.properties().keeps_order) way += ", which keeps no order";
    if (endpoint.properties().work_needs_peer) way += ", served by the peer";
    std::string& ranks = by_way[way];
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", to.part.rank);
  }
  for (const auto& [way, ranks] : by_way) text += fmt::format("; puts to {}: {}", ranks, way);
  if (setup_.on_gpu.image != nullptr) {
    text += fmt::format("; on GPU {}, and neighbors read a copy on the host",
                        setup_.on_gpu.image->device());
  }
  return text;
}

void WindowObject::close(const Status& why) {
  const std::lock_guard lock(open_mutex_);
  if (ended_.ok()) ended_ = why;
  is_suspended_ = false;
  is_open_ = false;
}

}  // namespace weft
