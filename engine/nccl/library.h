// library: the functions of libnccl.so.2, with declarations of our own. Internal to the module.
#pragma once

#include <weft/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "verbs/base/base.h"

namespace weft::nccl {

// As NCCL's documentation has them.
using Answer = int;
using Comm = void*;
inline constexpr Answer kSuccess = 0;
inline constexpr Answer kInProgress = 7;
// Names a communicator to its ranks.
struct UniqueId {
  std::array<char, 128> bytes{};
};
// The first members of ncclConfig_t, as version 2.14 had them; newer versions fill in the others.
struct CommConfig {
  std::size_t size = sizeof(CommConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21'400;
  int blocking = 0;  // no call waits for other ranks
};

// The version must be between these, the second one excluded.
inline constexpr int kLeastVersion = 21'400, kNextMajor = 30'000;

struct Library {
  int version = 0;  // 22803: 2.28.3

  Answer (*get_version)(int* version);
  Answer (*unique_id)(UniqueId* id);
  Answer (*init)(Comm* comm, int size, UniqueId id, int rank, CommConfig* config);
  Answer (*abort)(Comm comm);
  Answer (*async_error)(Comm comm, Answer* error);
  const char* (*error_text)(Answer answer);
  Answer (*allreduce)(const void* x, void* y, std::size_t count, int type, int op, Comm comm,
                      void* stream);
  Answer (*broadcast)(const void* x, void* y, std::size_t count, int type, int root, Comm comm,
                      void* stream);
};

// Loads it, once. `unavailable` says which library, version or function is missing.
[[nodiscard]] Result<const Library*> load_library();
// "2.28.3"
[[nodiscard]] std::string version_text(int version);
// "what: unhandled system error (NCCL 2.28.3)"; ok for kSuccess and kInProgress.
[[nodiscard]] Status status_of(const Library& library, Answer answer, const std::string& what);

// NCCL's numbers. Nothing: NCCL has no such type, or no such reduction of it.
[[nodiscard]] std::optional<int> type_number(DataType type);
[[nodiscard]] std::optional<int> reduction_number(ReduceOp op, DataType type);

}  // namespace weft::nccl
