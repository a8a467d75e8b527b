// spread: handing pieces to rails.
#include "engine/one_sided/spread.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace weft::one_sided {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
constexpr int kMostUnderWay = 4;  // pieces of a rail
constexpr int kMostMembers = 16;  // of a bond

}  // namespace

Endpoint* freest_rail(Endpoint& to) {
  Endpoint* freest = nullptr;
  std::pair<std::uint64_t, std::uint64_t> least;
  int rails = 0;
  for (int member = 0; member < kMostMembers; ++member) {
    Endpoint* const rail = to.over(member);
    if (rail == nullptr) continue;
    const WorkState state = rail->work_state();
    const std::pair work{state.posted - state.ended, state.posted};
    if (rails++ != 0 && work >= least) continue;
    freest = rail;
    least = work;
  }
  return rails < 2 ? nullptr : freest;
}

void Spread::Rail::work_ended(const Status& status) {
  --under_way;
  if (whole.status_.ok() && !status.ok()) whole.status_ = status;
}

bool Spread::begin(WorkKind kind, const Place& place, std::span<std::byte> local,
                   std::size_t offset, std::int64_t patience_ns) {
  if (local.size() < kLeast || place.memory.mapped != nullptr) return false;
  rails_.clear();
  for (int member = 0; member < kMostMembers; ++member) {
    if (Endpoint* const rail = place.endpoint->over(member)) rails_.emplace_back(*this, *rail);
  }
  if (rails_.size() < 2) return false;
  kind_ = kind;
  place_ = place;
  local_ = local;
  offset_ = offset;
  begun_ = 0;
  patience_ns_ = patience_ns;
  deadline_ns_ = 0;
  status_ = {};
  return true;
}

bool Spread::post_next(Rail& rail) {
  const std::size_t bytes = std::min(kPieceBytes, local_.size() - begun_);
  const std::span<std::byte> piece = local_.subspan(begun_, bytes);
  const RemoteBuffer remote = place_.memory.part(offset_ + begun_, bytes);
  if (rail.endpoint.post_work({kind_, remote, bytes, piece.data(), rail.ticket()}) == Posted::full)
    return false;
  begun_ += bytes;
  ++rail.under_way;
  rail.has_written = kind_ == WorkKind::write && rail.endpoint.properties().keeps_order;
  return true;
}

// Reads the first word of the peer's memory behind the rail's writes.
bool Spread::confirm(Rail& rail) {
  const std::span<std::byte> word = std::as_writable_bytes(std::span(&rail.seen, 1));
  if (rail.endpoint.post_read(word, place_.memory.part(0, sizeof rail.seen), rail.ticket()) ==
      Posted::full)
    return false;
  ++rail.under_way;
  rail.has_written = false;
  return true;
}

bool Spread::advance() {
  bool moved = false;
  for (Rail& rail : rails_) {
    while (status_.ok() && begun_ < local_.size() && rail.under_way < kMostUnderWay &&
           post_next(rail))
      moved = true;
    if (status_.ok() && begun_ == local_.size() && rail.has_written) moved |= confirm(rail);
  }
  if (!moved) check_deadline();
  return moved;
}

// As Chain::check_deadline().
void Spread::check_deadline() {
  const std::int64_t now = now_ns();
  if (deadline_ns_ == 0) deadline_ns_ = now + patience_ns_;
  if (now < deadline_ns_ || is_over()) return;
  give_up(no_answer(place_.rank));
  place_.endpoint->abandon(status_);
}

void Spread::give_up(const Status& why) {
  if (!status_.ok()) return;
  status_ = why;
  patience_ns_ = std::min(patience_ns_, kEndingNs);
  deadline_ns_ = 0;
}

bool Spread::is_over() const {
  const auto is_at_work = [](const Rail& rail) { return rail.under_way != 0; };
  if (std::ranges::any_of(rails_, is_at_work)) return false;
  return !status_.ok() ||
         (begun_ == local_.size() && std::ranges::none_of(rails_, &Rail::has_written));
}

}  // namespace weft::one_sided
