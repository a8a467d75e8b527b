// sender: rooms, and the steps of a message.
#include "bindings/nccl/sender.h"

#include <fmt/core.h>

#include <cstring>

namespace weft::nccl {
namespace {

// Whether another path may do what this one did not.
bool is_of_the_path(Code code) {
  return code == Code::unavailable || code == Code::timed_out || code == Code::system;
}

Status broken(std::string_view what) {
  return Status(Code::mismatch, fmt::format("the receiver sent {}", what), kReceiver);
}

}  // namespace

Result<std::unique_ptr<Sender>> Sender::make(std::unique_ptr<Link> link,
                                             std::string_view board_key) {
  std::unique_ptr<Sender> sender(new Sender(std::move(link)));
  WEFT_ASSIGN(sender->board_, sender->link_->peer().import_region(board_key));
  for (Message& message : sender->messages_) message.sender = sender.get();
  return sender;
}

Result<Registration*> Sender::add(Registration memory) {
  if (memory.gpu) {
    WEFT_ASSIGN(const Region region, link_->interface().expose(memory.memory));
    memory.number = region.number;
  }
  return new Registration(std::move(memory));
}

void Sender::remove(Registration* registration) {
  if (registration->number != 0) link_->interface().withdraw(registration->number);
  delete registration;
}

one_sided::Place Sender::place(std::uint32_t region, std::size_t offset, std::size_t bytes) const {
  return {kReceiver, &link_->peer(), {{PieceForm::region, offset, bytes, region}}};
}

Status Sender::take(std::span<const std::byte> notice) {
  Word word{};
  if (notice.size() < sizeof word) return broken("a notice without a word");
  std::memcpy(&word, notice.data(), sizeof word);
  if (word == Word::room) {
    Room room;
    if (notice.size() != sizeof room.word) return broken("a room of another size");
    std::memcpy(&room.word, notice.data(), sizeof room.word);
    if (room.word.count == 0 || room.word.count > kMostTags) return broken("a room without tags");
    for (std::uint32_t part = 0; part < room.word.count; ++part) {
      if (!regions_.contains(room.word.parts[part].region)) return broken("an unknown region");
    }
    rooms_.push_back(room);
    return {};
  }
  RegionWord region;
  if (notice.size() < sizeof region) return broken("a word that is cut short");
  std::memcpy(&region, notice.data(), sizeof region);
  if (word == Word::region) {
    const auto key = notice.subspan(sizeof region);
    WEFT_ASSIGN(
        const std::uint32_t number,
        link_->peer().import_region({reinterpret_cast<const char*>(key.data()), key.size()}));
    regions_[region.region] = number;
    return {};
  }
  const auto found = regions_.find(region.region);
  if (word != Word::drop || found == regions_.end()) return broken("an unknown word");
  link_->peer().drop_region(found->second);
  regions_.erase(found);
  return {};
}

Status Sender::listen() {
  link_->progress();
  Endpoint& peer = link_->peer();
  for (Notice notice = peer.front(kRoomChannel); notice.header != nullptr;
       notice = peer.front(kRoomChannel)) {
    const Status taken = take({notice.payload, notice.header->bytes});
    peer.release(kRoomChannel);
    if (!taken.ok()) link_->fail(taken);
  }
  return link_->check();
}

Result<Request*> Sender::send(const void* data, std::size_t bytes, int tag) {
  WEFT_RETURN_IF_ERROR(listen());
  Message& message = messages_[next_ % messages_.size()];
  if (rooms_.empty() || !message.is_free) return nullptr;
  Room& room = rooms_.front();
  std::uint32_t part = 0;
  while (part < room.word.count &&
         ((room.taken >> part & 1) != 0 || room.word.parts[part].tag != tag))
    ++part;
  if (part == room.word.count) return nullptr;
  const RoomPart& into = room.word.parts[part];
  if (bytes > into.bytes) {
    return Status(Code::invalid_argument,
                  fmt::format("a message of {} bytes with tag {}, for which the receiver has {}",
                              bytes, tag, into.bytes));
  }
  ++next_;
  message.is_free = false;
  message.there = place(regions_.at(into.region), into.offset, bytes);
  message.word_place = board_place(room.word.number, part);
  message.board = place(board_, message.word_place, sizeof message.word);
  // The const is cast away for one type that serves both directions; a write only reads.
  message.data = {static_cast<std::byte*>(const_cast<void*>(data)), bytes};
  message.word = board_word(room.word.number, bytes);
  room.taken |= 1U << part;
  if (room.taken == (1U << room.word.count) - 1) rooms_.pop_front();
  message.begin();
  return &message;
}

void Sender::Message::begin() {
  status_ = {};
  step_ = Step::writes;
  if (spread_.begin(WorkKind::write, there, data, 0, sender->link_->patience_ns()))
    step_ = Step::spreads;
  else
    write_all();
  advance();
}

void Sender::Message::write_all() {
  step_ = Step::writes;
  chain_.begin(there, sender->link_->patience_ns(), one_sided::Repeats::never);
  if (!data.empty()) chain_.write(data.data(), data.size(), 0);
  chain_.then();
  chain_.go_to(board.memory);
  chain_.write(&word, sizeof word, 0);
}

void Sender::Message::write_word() {
  step_ = Step::writes;
  chain_.begin(board, sender->link_->patience_ns(), one_sided::Repeats::never);
  chain_.write(&word, sizeof word, 0);
}

// A path has failed, or the message is whole.
void Sender::Message::ended(const Status& status) {
  const bool may_repeat = is_of_the_path(status.code()) && sender->link_->peer().failure().ok();
  if (status.ok() || !may_repeat) {
    status_ = status;
    step_ = Step::over;
    return;
  }
  deadline_ns_ = now_ns() + sender->link_->patience_ns();
  status_ = status;
  step_ = Step::waits;
}

void Sender::Message::advance() {
  switch (step_) {
    case Step::spreads:
      spread_.advance();
      if (!spread_.is_over()) return;
      if (spread_.status().ok()) {
        write_word();
        chain_.advance();
      } else {
        ended(spread_.status());
      }
      return;
    case Step::writes:
      chain_.advance();
      if (chain_.is_over()) ended(chain_.status());
      return;
    case Step::waits:
      if (now_ns() > deadline_ns_ || !sender->link_->peer().failure().ok()) {
        step_ = Step::over;
      } else if (!sender->link_->peer().work_may_linger()) {
        step_ = Step::asks;
        chain_.begin(board, sender->link_->patience_ns());
        chain_.read(&found_, sizeof found_, 0);
      }
      return;
    case Step::asks:
      chain_.advance();
      if (!chain_.is_over()) return;
      status_ = chain_.status();
      step_ = Step::over;
      if (status_.ok() && found_ != word) write_all();
      return;
    case Step::over:
      return;
  }
}

Result<bool> Sender::Message::test(int* sizes) {
  const Status peer = sender->listen();
  advance();
  if (step_ != Step::over) {
    WEFT_RETURN_IF_ERROR(peer);
    return false;
  }
  is_free = true;
  WEFT_RETURN_IF_ERROR(status_);
  if (sizes != nullptr) *sizes = static_cast<int>(data.size());
  return true;
}

}  // namespace weft::nccl
