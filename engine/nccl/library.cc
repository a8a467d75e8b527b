// Loading NCCL, and its numbers.
#include "engine/nccl/library.h"

#include <fmt/core.h>

namespace weft::nccl {
namespace {

constexpr const char* kFile = "libnccl.so.2";

struct Loaded {
  Library library;
  Status status;
};

Loaded load() {
  Loaded made;
  Library& to = made.library;
  DynamicLibrary file(kFile);
  made.status = file.find("ncclGetVersion", to.get_version)
                    .find("ncclGetUniqueId", to.unique_id)
                    .find("ncclCommInitRankConfig", to.init)
                    .find("ncclCommAbort", to.abort)
                    .find("ncclCommGetAsyncError", to.async_error)
                    .find("ncclGetErrorString", to.error_text)
                    .find("ncclAllReduce", to.allreduce)
                    .find("ncclBroadcast", to.broadcast)
                    .status("loading");
  if (!made.status.ok()) return made;
  if (to.get_version(&to.version) != kSuccess) to.version = 0;
  if (to.version < kLeastVersion || to.version >= kNextMajor) {
    made.status = Status(Code::unavailable,
                         fmt::format("{} has version {}; Weft knows {} and newer ones of NCCL 2",
                                     kFile, version_text(to.version), version_text(kLeastVersion)));
  }
  return made;
}

}  // namespace

Result<const Library*> load_library() {
  static const auto* const loaded = new Loaded(load());
  if (!loaded->status.ok()) return loaded->status;
  return &loaded->library;
}

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
}

Status status_of(const Library& library, Answer answer, const std::string& what) {
  if (answer == kSuccess || answer == kInProgress) return {};
  return Status(Code::system, fmt::format("{}: {} (NCCL {})", what, library.error_text(answer),
                                          version_text(library.version)));
}

std::optional<int> type_number(DataType type) {
  switch (type) {
    case DataType::i8:
      return 0;
    case DataType::u8:
      return 1;
    case DataType::i32:
      return 2;
    case DataType::i64:
      return 4;
    case DataType::f16:
      return 6;
    case DataType::f32:
      return 7;
    case DataType::f64:
      return 8;
    case DataType::bf16:
      return 9;
    default:
      return std::nullopt;
  }
}

std::optional<int> reduction_number(ReduceOp op, DataType type) {
  switch (op) {
    case ReduceOp::sum:
      return 0;
    case ReduceOp::product:
      return 1;
    case ReduceOp::max:
      return 2;
    case ReduceOp::min:
      return 3;
    case ReduceOp::average:
      return is_floating(type) ? std::optional(4) : std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace weft::nccl
