// fused_set: see the header.
#include "engine/named/fused_set.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "scheduler/fuse/fuse.h"
#include "verbs/memory/memory.h"

namespace weft::named {
namespace {

// What is smaller is packed: a run of its own would cost as much as the copies (measured:
// docs/performance.md).
constexpr std::size_t kLeastInPlace = std::size_t{2} << 10;

// How many of the tensor's first bytes can be a run: all but a tail that would not fill a cache line,
// after which the set has zeros.
std::size_t bytes_in_place(const void* data, std::size_t bytes) {
  const bool is_there =
      data != nullptr && bytes >= kLeastInPlace && heap_offset(data, bytes) != kNotInHeap;
  return is_there ? bytes / kFuseAlignment * kFuseAlignment : 0;
}

}  // namespace

Result<FusedSet> FusedSet::make(Kind kind, std::vector<FusedTensor> tensors, std::size_t bytes,
                                Buffers& buffers) {
  FusedSet set;
  const bool is_overwriting =
      kind == Kind::overwriting || std::ranges::all_of(tensors, [](const FusedTensor& each) {
        return each.bytes == 0 || each.input == each.output;
      });
  WEFT_ASSIGN(set.in_, buffers.take(bytes));
  if (!is_overwriting) {
    WEFT_ASSIGN(set.out_, buffers.take(bytes));
  }
  set.members_.reserve(tensors.size());
  for (const FusedTensor& tensor : tensors) {
    Member& member = set.members_.emplace_back(Member{tensor, 0, 0});
    if (kind == Kind::in_place && bytes <= kLargestListed) set.place(member);
  }
  return set;
}

// The tensors follow one another without a gap. If results go to other memory than inputs, a tensor
// for which they are the same is read from the buffer: its peers still read it when the result comes.
void FusedSet::place(Member& member) {
  const bool is_kept = is_one_buffer() || member.input != member.output;
  if (is_kept) member.read = bytes_in_place(member.input, member.bytes);
  member.written = bytes_in_place(member.output, member.bytes);
  const auto both = [&member](std::vector<Run>& runs, const void* data, std::size_t there,
                              std::byte* buffer) {
    add(runs, static_cast<std::byte*>(const_cast<void*>(data)), there);
    add(runs, buffer + member.offset + there, fused_bytes(member.bytes) - there);
  };
  both(input_runs_, member.input, member.read, in_.data);
  if (!is_one_buffer()) both(output_runs_, member.output, member.written, out_.data);
}

void FusedSet::add(std::vector<Run>& runs, std::byte* data, std::size_t bytes) {
  if (bytes == 0) return;
  if (!runs.empty() && runs.back().data + runs.back().bytes == data) {
    runs.back().bytes += bytes;
  } else {
    runs.push_back({data, bytes});
  }
}

// The gaps behind tensors are zeros: they are reduced, too.
void FusedSet::pack() const {
  for (const Member& member : members_) {
    const std::size_t given = member.input == nullptr ? 0 : member.bytes;
    std::byte* const at = in_.data + member.offset;
    if (given != member.read) {
      std::memcpy(at + member.read, static_cast<const std::byte*>(member.input) + member.read,
                  given - member.read);
    }
    if (const std::size_t gap = fused_bytes(member.bytes) - given; gap != 0)
      std::memset(at + given, 0, gap);
  }
}

void FusedSet::unpack() const {
  for (const Member& member : members_) {
    if (member.output == nullptr || member.written == member.bytes) continue;
    std::memcpy(static_cast<std::byte*>(member.output) + member.written,
                output_buffer() + member.offset + member.written, member.bytes - member.written);
  }
}

void FusedSet::give_back(Buffers& buffers) const {
  buffers.give_back(in_);
  buffers.give_back(out_);
}

}  // namespace weft::named
