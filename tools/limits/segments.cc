// The exchange of cards: where a rank's memory is, for others to map or to read by system call.
#include "tools/limits/segments.h"

#include <unistd.h>

#include <cstring>

namespace weft {
namespace {

struct Card {
  HeapIdentity heap;
  std::uint64_t offset = kNotInHeap;
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;
  std::int64_t process = 0;
};

Result<Card> card_of(const void* mine, std::size_t bytes) {
  Card card;
  card.offset = heap_offset(mine, bytes);
  card.bytes = bytes;
  card.address = reinterpret_cast<std::uintptr_t>(mine);
  card.process = getpid();
  if (card.offset != kNotInHeap) {
    WEFT_ASSIGN(card.heap, heap_identity());
  }
  return card;
}

}  // namespace

Result<Segments> Segments::exchange(Store& store, const std::string& name, const void* mine,
                                    std::size_t bytes, Deadline deadline) {
  WEFT_ASSIGN(const Card own, card_of(mine, bytes));
  std::string text(sizeof(Card), '\0');
  std::memcpy(text.data(), &own, sizeof(own));
  WEFT_RETURN_IF_ERROR(store.put(name + "/" + std::to_string(store.rank()), text));

  Segments all;
  for (Rank rank = 0; rank < store.size(); ++rank) {
    WEFT_ASSIGN(const std::string shown,
                store.get_from(rank, name + "/" + std::to_string(rank), deadline));
    Card card;
    if (shown.size() != sizeof(card)) {
      return Status(Code::mismatch,
                    "rank " + std::to_string(rank) + " shows its memory as " +
                        std::to_string(shown.size()) + " bytes",
                    rank);
    }
    std::memcpy(&card, shown.data(), sizeof(card));
    Sight sight{nullptr, card.address, static_cast<std::int32_t>(card.process)};
    if (card.offset != kNotInHeap) {
      WEFT_ASSIGN(std::shared_ptr<const PeerHeap> heap, PeerHeap::open(card.heap));
      sight.mapped = static_cast<std::byte*>(heap->at(card.offset, card.bytes));
      all.heaps_.push_back(std::move(heap));
    }
    if (rank == store.rank()) {
      sight.mapped = static_cast<std::byte*>(const_cast<void*>(mine));
    }
    all.sights_.push_back(sight);
  }
  return all;
}

Status Segments::check_readable() const {
  for (const Sight& sight : sights_) {
    std::byte first{};
    if (sight.mapped == nullptr) WEFT_RETURN_IF_ERROR(read_from(sight, 0, &first, 1));
  }
  return {};
}

}  // namespace weft
