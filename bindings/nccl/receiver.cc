// receiver: rooms and the board.
#include "bindings/nccl/receiver.h"

#include <fmt/format.h>

#include <cstring>

#include "engine/one_sided/one_sided.h"

namespace weft::nccl {
namespace {

template <typename T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

Receiver::Receiver(std::unique_ptr<Link> link) : link_(std::move(link)) {
  for (Room& room : rooms_) room.receiver = this;
}

Result<std::unique_ptr<Receiver>> Receiver::make(std::unique_ptr<Link> link) {
  std::unique_ptr<Receiver> made(new Receiver(std::move(link)));
  WEFT_ASSIGN(const Region board,
              made->link_->interface().expose(std::as_writable_bytes(std::span(made->board_))));
  made->board_key_ = board.key;
  return made;
}

Result<Registration> export_memory(std::span<std::byte> memory, int dma_buf, std::uint64_t offset) {
  WEFT_ASSIGN(const std::optional<GpuMemory> gpu, find_gpu_memory(memory.data()));
  if (!gpu) {
    return Status(Code::invalid_argument,
                  fmt::format("{} is no GPU memory", fmt::ptr(memory.data())));
  }
  Registration made{memory, 0, gpu};
  WEFT_ASSIGN(made.exported, ExportedMemory::of(memory.data(), memory.size(), dma_buf, offset));
  return made;
}

Result<Registration*> Receiver::add(Registration memory) {
  WEFT_RETURN_IF_ERROR(link_->check());
  WEFT_ASSIGN(const Region region, link_->interface().expose(memory.memory));
  auto made = std::make_unique<Registration>(std::move(memory));
  made->number = region.number;
  Registration* const registration = made.get();
  registrations_.emplace(registration, std::move(made));
  say(bytes_of(RegionWord{Word::region, region.number}) + region.key);
  return registration;
}

void Receiver::remove(Registration* registration) {
  const auto found = registrations_.find(registration);
  if (found == registrations_.end()) return;
  link_->interface().withdraw(registration->number);
  say(bytes_of(RegionWord{Word::drop, registration->number}));
  registrations_.erase(found);
}

void Receiver::say(std::string payload) {
  to_say_.push_back(std::move(payload));
  (void)tell();
}

bool Receiver::tell() {
  while (!to_say_.empty()) {
    const std::string& next = to_say_.front();
    WireHeader header;
    header.kind = NoticeKind::data;
    header.form = PieceForm::payload;
    header.bytes = static_cast<std::uint32_t>(next.size());
    const auto payload = std::as_bytes(std::span(next));
    if (link_->peer().post_notice(kRoomChannel, header, payload) == Posted::full) return false;
    to_say_.pop_front();
  }
  return true;
}

Result<Request*> Receiver::receive(std::span<const Into> parts) {
  link_->progress();
  WEFT_RETURN_IF_ERROR(link_->check());
  if (parts.empty() || parts.size() > kMostTags) {
    return Status(Code::invalid_argument,
                  fmt::format("a receive of {} messages; 1 to {} can be received at once",
                              parts.size(), kMostTags));
  }
  Room& room = rooms_[made_ % rooms_.size()];
  if (!room.is_free) return nullptr;
  RoomWord word;
  word.count = static_cast<std::uint32_t>(parts.size());
  word.number = made_ + 1;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const Into& part = parts[k];
    if (!registrations_.contains(part.registration))
      return Status(Code::invalid_argument, "a receive to memory that is not registered here");
    const std::span<std::byte> memory = part.registration->memory;
    const auto offset = static_cast<std::byte*>(part.data) - memory.data();
    if (offset < 0 || static_cast<std::size_t>(offset) > memory.size() ||
        part.bytes > memory.size() - static_cast<std::size_t>(offset))
      return Status(Code::invalid_argument, "a receive that leaves its registered memory");
    word.parts[k] = {static_cast<std::uint64_t>(offset), part.bytes, part.registration->number,
                     part.tag};
  }
  ++made_;
  room.is_free = false;
  room.number = word.number;
  room.count = parts.size();
  say(bytes_of(word));
  return &room;
}

// What is there is there, also if the peer has gone since.
Result<bool> Receiver::Room::test(int* sizes) {
  receiver->link_->progress();
  (void)receiver->tell();
  constexpr std::uint64_t kSizes = (std::uint64_t{1} << kSizeBits) - 1;
  for (std::size_t k = 0; k < count; ++k) {
    const std::uint64_t word = one_sided::load_word(receiver->board() + board_place(number, k));
    if (word >> kSizeBits != board_word(number, 0) >> kSizeBits) {
      WEFT_RETURN_IF_ERROR(receiver->link_->check());
      return false;
    }
  }
  for (std::size_t k = 0; k < count && sizes != nullptr; ++k) {
    sizes[k] =
        static_cast<int>(one_sided::load_word(receiver->board() + board_place(number, k)) & kSizes);
  }
  is_free = true;
  return true;
}

}  // namespace weft::nccl
