// Windows: MPI's one-sided operations, done in the way that programs without epochs do them:
// passive target, MPI_Win_lock_all for good, and a flush after each operation. Rank 0 works on the
// memory of rank 1, which meanwhile waits in MPI_Recv, so that MPI can make progress there.
// Elements are floats. One object per rank.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tools/limits/limits.h"

namespace weft::peers {

enum class WindowOp : std::uint8_t { put, get, accumulate };

// "win_put", …; nothing if it is another name.
[[nodiscard]] std::optional<WindowOp> window_op(std::string_view name);

// Who allocates the memory of a window.
enum class WindowKind : std::uint8_t {
  allocate,  // MPI_Win_allocate; inside a machine the memory is shared
  create,    // the program, by malloc, and MPI_Win_create makes a window of it
};

class Windows {
 public:
  // Collective. Two ranks at least.
  static Result<std::unique_ptr<Windows>> make(WindowKind kind, std::size_t most_bytes);
  // Collective. Where a rank has failed nobody calls it, because it would wait for all ranks.
  void close();
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;

  // A trial of one operation of `bytes`. Returns the record at rank 0, and one without laps
  // elsewhere.
  Result<Laps> time(WindowOp op, std::size_t bytes, const Trial& trial);

 private:
  Windows() = default;
  Result<Laps> lead(const Trial& trial);
  void rewrite(std::uint64_t lap);
  Status run(int times);
  Status check(std::uint64_t lap);
  int call();

  int rank_ = 0;
  MPI_Win window_ = MPI_WIN_NULL;
  float* exposed_ = nullptr;
  std::unique_ptr<float[]> own_memory_;  // of WindowKind::create
  std::unique_ptr<float[]> x_;           // what rank 0 puts, or gets
  WindowOp op_ = WindowOp::put;
  int count_ = 0;
};

}  // namespace weft::peers
