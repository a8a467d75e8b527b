#include "tests/sim/pair.h"

#include <algorithm>
#include <cstring>

#include "verbs/bond/interface.h"

namespace weft {
namespace {

InterfaceOptions options_of(const PairOptions& options) {
  InterfaceOptions made;
  made.channels = kSimChannels;
  made.slots = options.slots;
  made.payload_bytes = kSimPayload;
  made.context = 1;
  return made;
}

// Message `number` is a part of this that begins at a place of its own.
const std::byte* text_of(std::uint32_t number) {
  constexpr std::size_t kPlaces = 4099;
  static const auto text = [] {
    std::vector<std::byte> bytes(std::size_t{64} << 10);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>((i * 2654435761U) >> 13);
    return bytes;
  }();
  return text.data() + number % kPlaces;
}

std::vector<std::shared_ptr<SimNetwork>> networks_of(const PairOptions& options) {
  std::vector<std::shared_ptr<SimNetwork>> made;
  for (const SimOptions& rail : options.rails) made.push_back(std::make_shared<SimNetwork>(rail));
  return made;
}

}  // namespace

std::int64_t& simulated_ns() {
  static std::int64_t now = 0;
  return now;
}

Pair::Pair(PairOptions options) : Pair(options, networks_of(options)) {}

Pair::Pair(PairOptions options, Networks networks) : networks_(std::move(networks)) {
  for (const Rank rank : {0, 1}) {
    const auto r = static_cast<std::size_t>(rank);
    std::vector<BondMember> members;
    for (std::size_t k = 0; k < networks_.size(); ++k) {
      members.push_back(
          {"sim", "rail" + std::to_string(k), [&, rank, r, k](AddressResolver) {
             if (rank == 0 && k == options.gone)
               return Result<std::unique_ptr<Interface>>(Status(Code::unavailable, "it is gone"));
             std::unique_ptr<Interface> opened =
                 networks_[k]->open(rank, options_of(options), "sim" + std::to_string(k));
             members_[r].push_back(opened.get());
             return Result<std::unique_ptr<Interface>>(std::move(opened));
           }});
    }
    BondOptions bond;
    bond.rank = rank;
    bond.channels = kSimChannels;
    bond.slots = options.slots;
    bond.payload_bytes = kSimPayload;
    bond.silence_ms = options.silence_ms;
    bond.return_ms = options.return_ms;
    bond.slow_ms = options.slow_ms;
    bond.clock = [] { return simulated_ns(); };
    if (rank == 0)
      bond.left_out = [this](std::size_t network, const Status&) { left_out_.push_back(network); };
    ends_[r] = open_bond(bond, nullptr, std::move(members), [this](Rank peer) {
                 return Result<std::string>(ends_[static_cast<std::size_t>(peer)]->address());
               }).value();
  }
}

Interface& Pair::at(Rank rank) {
  Interface& end = *ends_[static_cast<std::size_t>(rank)];
  static_cast<const bond::BondInterface&>(end).check();
  return end;
}

std::string Pair::path(Rank rank, std::size_t rail) {
  const std::string all = paths(rank);
  const std::size_t begin = all.find(" sim" + std::to_string(rail));
  return all.substr(begin, all.find(" sim" + std::to_string(rail + 1)) - begin);
}

bool Pair::lives(std::size_t rail) {
  return std::ranges::all_of(std::array{0, 1}, [&](Rank rank) {
    const std::string text = path(rank, rail);
    return text.find("given up") == std::string::npos &&
           text.find("coming back") == std::string::npos;
  });
}

void PairStream::turn() {
  if (sent_ < total_) post();
  take();
}

void PairStream::take() {
  forget();
  const Notice notice = receiver_.front(channel_);
  if (notice.header == nullptr) return;
  const std::size_t bytes = size_(received_);
  ASSERT_EQ(notice.header->piece, received_);
  ASSERT_EQ(notice.header->bytes, bytes);
  const bool is_right = bytes == 0 || std::memcmp(text_of(received_), notice.payload, bytes) == 0;
  ASSERT_TRUE(is_right) << "message " << received_;
  receiver_.release(channel_);
  ++received_;
}

void PairStream::post() {
  const std::size_t size = size_(sent_);
  const std::byte* text = text_of(sent_);
  std::vector<std::byte> bytes(text, text + size);
  WireHeader header;
  header.kind = NoticeKind::data;
  header.form = PieceForm::payload;
  header.piece = sent_;
  header.bytes = static_cast<std::uint32_t>(size);
  const Posted posted = size <= kSimPayload ? sender_.post_notice(channel_, header, bytes)
                                            : sender_.post_piece(channel_, header, bytes);
  if (posted == Posted::full) return;
  sources_.push_back(std::move(bytes));
  ++sent_;
}

// A locally completed source belongs to the caller again, who writes something else there. What was
// sent last is kept for a while, so that a late read finds the wrong text and not freed memory.
void PairStream::forget() {
  const std::uint64_t locally_completed = sender_.locally_completed(channel_);
  constexpr std::size_t kSpoilt = 256;
  for (; forgotten_ < locally_completed; ++forgotten_) {
    const std::size_t behind = sources_.size() - (sent_ - forgotten_);
    std::vector<std::byte>& source = sources_[behind];
    if (!source.empty()) std::memset(source.data(), 0xEE, source.size());
    if (behind == kSpoilt) sources_.pop_front();
  }
}

}  // namespace weft
