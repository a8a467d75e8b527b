// MPI_Put, MPI_Get and MPI_Accumulate with MPI_Win_flush.
#include "bench/peers/windows.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace weft::peers {
namespace {

constexpr int kTarget = 1;
constexpr int kEndTag = 2;
constexpr std::array<std::string_view, 3> kNames = {"win_put", "win_get", "win_accumulate"};

float value(int rank, std::uint64_t lap) {
  return static_cast<float>(rank + 1) + static_cast<float>(lap % 16);
}

Status status_of(int error, const char* call) {
  if (error == MPI_SUCCESS) return {};
  return Status(Code::system, std::string(call) + ": MPI error " + std::to_string(error));
}

}  // namespace

std::optional<WindowOp> window_op(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<WindowOp>(found - kNames.begin());
}

Result<std::unique_ptr<Windows>> Windows::make(WindowKind kind, std::size_t most_bytes) {
  std::unique_ptr<Windows> made(new Windows);
  MPI_Comm_rank(MPI_COMM_WORLD, &made->rank_);
  const std::size_t count = std::max<std::size_t>(most_bytes / sizeof(float), 2);
  const auto bytes = static_cast<MPI_Aint>(count * sizeof(float));
  const int unit = sizeof(float);
  int error = MPI_SUCCESS;
  if (kind == WindowKind::allocate) {
    error = MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &made->exposed_,
                             &made->window_);
  } else {
    made->own_memory_ = std::make_unique<float[]>(count);
    made->exposed_ = made->own_memory_.get();
    error =
        MPI_Win_create(made->exposed_, bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &made->window_);
  }
  WEFT_RETURN_IF_ERROR(status_of(error, "a window"));
  made->x_ = std::make_unique<float[]>(count);
  // Pages are touched before they are timed. A get finds the target's number.
  std::fill_n(made->exposed_, count, value(made->rank_, 0));
  WEFT_RETURN_IF_ERROR(status_of(MPI_Win_lock_all(0, made->window_), "MPI_Win_lock_all"));
  MPI_Win_sync(made->window_);
  MPI_Barrier(MPI_COMM_WORLD);
  return made;
}

void Windows::close() {
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
}

Result<Laps> Windows::time(WindowOp op, std::size_t bytes, const Trial& trial) {
  op_ = op;
  count_ = static_cast<int>(bytes / sizeof(float));
  if (rank_ == 0) return lead(trial);
  if (rank_ == kTarget) {
    // What a get finds, whatever was put before.
    std::fill_n(exposed_, count_, value(rank_, 0));
    MPI_Win_sync(window_);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == kTarget)
    MPI_Recv(nullptr, 0, MPI_CHAR, 0, kEndTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return Laps{};
}

Result<Laps> Windows::lead(const Trial& trial) {
  MPI_Barrier(MPI_COMM_WORLD);
  const Subject subject{[this](std::uint64_t lap) { rewrite(lap); },
                        [this](int times) { return run(times); },
                        [this](std::uint64_t lap) { return check(lap); }};
  Meeting::Shared nobody{};
  Meeting alone(nobody, 1, false);
  Result<Laps> laps = time_laps(trial, subject, alone);
  MPI_Send(nullptr, 0, MPI_CHAR, kTarget, kEndTag, MPI_COMM_WORLD);
  return laps;
}

// An accumulate begins at zero where check() looks.
void Windows::rewrite(std::uint64_t lap) {
  std::fill_n(x_.get(), count_, value(0, lap));
  if (op_ != WindowOp::accumulate) return;
  const float zero = 0;
  for (const int at : {0, count_ - 1})
    MPI_Put(&zero, 1, MPI_FLOAT, kTarget, at, 1, MPI_FLOAT, window_);
  MPI_Win_flush(kTarget, window_);
}

int Windows::call() {
  switch (op_) {
    case WindowOp::put:
      return MPI_Put(x_.get(), count_, MPI_FLOAT, kTarget, 0, count_, MPI_FLOAT, window_);
    case WindowOp::get:
      return MPI_Get(x_.get(), count_, MPI_FLOAT, kTarget, 0, count_, MPI_FLOAT, window_);
    case WindowOp::accumulate:
      return MPI_Accumulate(x_.get(), count_, MPI_FLOAT, kTarget, 0, count_, MPI_FLOAT, MPI_SUM,
                            window_);
  }
  return MPI_ERR_OP;
}

Status Windows::run(int times) {
  int error = MPI_SUCCESS;
  for (int i = 0; i < times && error == MPI_SUCCESS; ++i) {
    error = call();
    if (error == MPI_SUCCESS) error = MPI_Win_flush(kTarget, window_);
  }
  return status_of(error, kNames[static_cast<std::size_t>(op_)].data());
}

// The first and the last element, which are read back from the target.
Status Windows::check(std::uint64_t lap) {
  std::array<float, 2> ends{x_[0], x_[static_cast<std::size_t>(count_ - 1)]};
  if (op_ != WindowOp::get) {
    MPI_Get(&ends[0], 1, MPI_FLOAT, kTarget, 0, 1, MPI_FLOAT, window_);
    MPI_Get(&ends[1], 1, MPI_FLOAT, kTarget, count_ - 1, 1, MPI_FLOAT, window_);
    MPI_Win_flush(kTarget, window_);
  }
  const float wanted = op_ == WindowOp::get ? value(kTarget, 0) : value(0, lap);
  for (const float end : ends) {
    if (end == wanted) continue;
    return Status(Code::mismatch, "the peer's result is " + std::to_string(end) + " and not " +
                                      std::to_string(wanted));
  }
  return {};
}

}  // namespace weft::peers
