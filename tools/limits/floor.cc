// The bare exchanges. Nothing here is clever on purpose: what the engine adds to these loops is its
// cost.
#include "tools/limits/floor.h"

#include <algorithm>
#include <cstring>

namespace weft {
namespace {

// Piece of private memory per source: several of them and the output fit a core's second-level
// cache, and the system call's fixed cost is a few percent of the copy.
constexpr std::size_t kPrivatePiece = 128 << 10;

Reduction reduction_for(const Recipe& recipe, DataType type) {
  const bool copies = recipe.concatenates || recipe.sources.size() == 1;
  return !copies && is_floating(type) ? Reduction::weighted_sum : Reduction::sum;
}

// Bytes are only copied: a sum of one term is a copy.
CombineFunction function_for(const Recipe& recipe, DataType type) {
  return select_combine(type == DataType::bytes ? DataType::u8 : type, reduction_for(recipe, type));
}

}  // namespace

Floor::Floor(const Spec& spec, Recipe recipe, Places places, Meeting& meeting)
    : spec_(spec),
      recipe_(std::move(recipe)),
      places_(std::move(places)),
      meeting_(&meeting),
      combine_(function_for(recipe_, spec.type)),
      element_bytes_(size_of(spec.type)) {
  terms_.resize(recipe_.sources.size());
  const auto mapped = [](const Sight& sight) { return sight.mapped != nullptr; };
  if (!std::all_of(places_.inputs.begin(), places_.inputs.end(), mapped)) {
    scratch_.resize(kPrivatePiece * recipe_.sources.size());
  }
}

FloorBoard& Floor::board(Rank rank) const {
  const Sight& sight = places_.boards[static_cast<std::size_t>(rank)];
  return *reinterpret_cast<FloorBoard*>(sight.mapped);
}

std::byte* Floor::output() const {
  return places_.outputs[static_cast<std::size_t>(spec_.rank)].mapped;
}

Status Floor::run(int times, bool streaming) {
  const std::size_t bytes = spec_.count * element_bytes_;
  const auto& slots = board(spec_.rank).slots;
  number_ = std::max(slots[0].number.load(std::memory_order_relaxed),
                     slots[1].number.load(std::memory_order_relaxed));
  for (int i = 0; i < times; ++i) {
    WEFT_RETURN_IF_ERROR(bytes <= kBatchedBytes ? exchange_small() : read_large(streaming));
  }
  return {};
}

Status Floor::wait_for(Rank rank, std::uint64_t number) const {
  const std::atomic<std::uint64_t>& word = board(rank).slots[number & 1].number;
  return meeting_->wait_until([&] { return word.load(std::memory_order_acquire) >= number; });
}

Status Floor::exchange_small() {
  const std::uint64_t number = ++number_;
  const std::size_t bytes = spec_.count * element_bytes_;
  const auto payload = [&](Rank rank) {
    FloorBoard::Slot& slot = board(rank).slots[number & 1];
    return bytes <= FloorBoard::kInline ? slot.with_number : slot.payload;
  };
  const std::byte* input = places_.inputs[static_cast<std::size_t>(spec_.rank)].mapped;
  // A reader that has sent message number - 1 has done with number - 2, whose slot this one takes.
  for (Rank reader : recipe_.readers) WEFT_RETURN_IF_ERROR(wait_for(reader, number - 1));
  if (!recipe_.readers.empty() && bytes != 0) std::memcpy(payload(spec_.rank), input, bytes);
  board(spec_.rank).slots[number & 1].number.store(number, std::memory_order_release);

  for (std::size_t i = 0; i < terms_.size(); ++i) {
    const Recipe::Source& source = recipe_.sources[i];
    const bool own = source.rank == spec_.rank;
    if (!own) WEFT_RETURN_IF_ERROR(wait_for(source.rank, number));
    terms_[i] = {own ? input : payload(source.rank), source.weight};
  }
  if (spec_.count == 0) return {};
  if (!recipe_.concatenates) {
    combine_(terms_, output(), spec_.count, StoreKind::cached, 1.0);
    return {};
  }
  for (std::size_t i = 0; i < terms_.size(); ++i) {
    std::memcpy(output() + i * bytes, terms_[i].data, bytes);
  }
  return {};
}

Status Floor::read_large(bool streaming) {
  if (recipe_.concatenates) return concatenate(streaming);
  if (spec_.collective == Collective::allreduce) return allreduce_by_shares(streaming);
  return combine_range(0, spec_.count, streaming);
}

Status Floor::combine_range(std::size_t first, std::size_t count, bool streaming) {
  const std::size_t piece = scratch_.empty() ? count : kPrivatePiece / element_bytes_;
  for (const std::size_t end = first + count; first < end; first += piece) {
    const std::size_t now = std::min(piece, end - first);
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      const Recipe::Source& source = recipe_.sources[i];
      const Sight& from = places_.inputs[static_cast<std::size_t>(source.rank)];
      terms_[i].weight = source.weight;
      if (from.mapped != nullptr) {
        terms_[i].data = from.mapped + first * element_bytes_;
        continue;
      }
      std::byte* bounce = scratch_.data() + i * kPrivatePiece;
      WEFT_RETURN_IF_ERROR(read_from(from, first * element_bytes_, bounce, now * element_bytes_));
      terms_[i].data = bounce;
    }
    combine_(terms_, output() + first * element_bytes_, now,
             streaming ? StoreKind::streaming : StoreKind::cached, 1.0);
  }
  return {};
}

Status Floor::copy(const Sight& from, std::size_t first, std::size_t count, std::byte* to,
                   bool streaming) {
  if (from.mapped == nullptr) {
    return read_from(from, first * element_bytes_, to, count * element_bytes_);
  }
  const Term term{from.mapped + first * element_bytes_, 1};
  combine_({&term, 1}, to, count, streaming ? StoreKind::streaming : StoreKind::cached, 1.0);
  return {};
}

Status Floor::concatenate(bool streaming) {
  for (std::size_t i = 0; i < recipe_.sources.size(); ++i) {
    const auto source = static_cast<std::size_t>(recipe_.sources[i].rank);
    WEFT_RETURN_IF_ERROR(copy(places_.inputs[source], 0, spec_.count,
                              output() + i * spec_.count * element_bytes_, streaming));
  }
  return {};
}

// Reads 2 M (n-1)/n per rank instead of the (n-1) M of everybody reading everybody.
Status Floor::allreduce_by_shares(bool streaming) {
  const std::size_t ranks = recipe_.sources.size();
  const std::size_t line = 64 / element_bytes_;
  const auto first = [&](std::size_t share) {
    return share == ranks ? spec_.count : spec_.count / line * share / ranks * line;
  };
  const auto own = static_cast<std::size_t>(spec_.rank);
  WEFT_RETURN_IF_ERROR(combine_range(first(own), first(own + 1) - first(own), streaming));
  WEFT_RETURN_IF_ERROR(meeting_->wait());
  for (std::size_t share = 0; share < ranks; ++share) {
    if (share == own) continue;
    WEFT_RETURN_IF_ERROR(copy(places_.outputs[share], first(share), first(share + 1) - first(share),
                              output() + first(share) * element_bytes_, streaming));
  }
  return meeting_->wait();  // nobody's next call rewrites a share that another still copies
}

}  // namespace weft
