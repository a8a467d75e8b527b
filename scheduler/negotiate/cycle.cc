// cycle: who talks to whom, and the bytes of each message.
#include "scheduler/negotiate/cycle.h"

#include <algorithm>
#include <bit>

namespace weft::negotiate {
namespace {

constexpr unsigned kHasNew = 1;
constexpr unsigned kInquires = 2;
constexpr unsigned kHasInvalid = 4;
constexpr unsigned kTells = 8;

constexpr std::size_t kMostTextBytes = std::size_t{1} << 20;

}  // namespace

void Contribution::merge(const Contribution& other) {
  has_new |= other.has_new;
  inquires |= other.inquires;
  pending &= other.pending;
  told = std::max(told, other.told);
  if (other.invalid.size() == 0) return;
  if (invalid.size() == 0) invalid = Bits(other.invalid.size());
  invalid |= other.invalid;
}

std::vector<Rank> children_of(Rank rank, int size) {
  std::vector<Rank> children;
  const std::int64_t first = std::int64_t{rank} * kFanOut + 1;
  for (std::int64_t child = first; child < std::min<std::int64_t>(first + kFanOut, size); ++child)
    children.push_back(static_cast<Rank>(child));
  return children;
}

std::vector<Step> exchange_steps(Rank rank, int size) {
  const auto power = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  std::vector<Step> steps;
  if (rank >= power) {
    steps.push_back({rank - power, true, false, false, false});
    steps.push_back({rank - power, false, true, true, false});
    return steps;
  }
  const bool has_guest = rank + power < size;
  if (has_guest) steps.push_back({rank + power, false, true, false, true});
  for (int hop = 1; hop < power; hop *= 2) steps.push_back({rank ^ hop, true, true, false, false});
  if (has_guest) steps.push_back({rank + power, true, false, false, false});
  return steps;
}

void write(Writer& writer, const Contribution& contribution) {
  const bool has_invalid = contribution.invalid.size() != 0;
  writer.number((contribution.has_new ? kHasNew : 0U) | (contribution.inquires ? kInquires : 0U) |
                (has_invalid ? kHasInvalid : 0U) | (contribution.told != 0 ? kTells : 0U));
  if (contribution.told != 0) writer.number(contribution.told);
  writer.number(contribution.pending.size());
  contribution.pending.write(writer.room(contribution.pending.bytes()));
  if (has_invalid) contribution.invalid.write(writer.room(contribution.invalid.bytes()));
}

Contribution read_contribution(Reader& reader, std::size_t places) {
  Contribution contribution;
  const std::uint64_t flags = reader.number(kHasNew | kInquires | kHasInvalid | kTells);
  if ((flags & kTells) != 0) contribution.told = reader.number();
  contribution.has_new = (flags & kHasNew) != 0;
  contribution.inquires = (flags & kInquires) != 0;
  const auto bits = [&] {
    Bits read(places);
    const auto bytes = reader.bytes(read.bytes());
    if (!reader.is_broken()) read.read(bytes.data());
    return read;
  };
  if (reader.number() != places) (void)reader.bytes(~std::size_t{0});  // it is broken
  contribution.pending = bits();
  if ((flags & kHasInvalid) != 0) contribution.invalid = bits();
  return contribution;
}

void write(Writer& writer, const Told& told) {
  writer.number(static_cast<std::uint64_t>(told.rank)).number(told.joins ? 1 : 0);
  writer.number(told.requests.size());
  for (const NamedRequest& request : told.requests) writer.request(request);
  writer.number(told.pending.size());
  for (const std::string& name : told.pending) writer.text(name);
}

Told read_told(Reader& reader, int ranks) {
  Told told;
  told.rank = static_cast<Rank>(reader.number(static_cast<std::uint64_t>(ranks) - 1));
  told.joins = reader.number(1) != 0;
  const std::size_t requests = reader.length();
  for (std::size_t i = 0; i < requests && !reader.is_broken(); ++i)
    told.requests.push_back(reader.request(ranks));
  const std::size_t pending = reader.length();
  for (std::size_t i = 0; i < pending && !reader.is_broken(); ++i)
    told.pending.push_back(reader.text(kMostNameBytes));
  return told;
}

void write(Writer& writer, const Decision& decision) {
  writer.number(static_cast<std::uint64_t>(decision.kind));
  switch (decision.kind) {
    case Decision::Kind::run:
      writer.request(decision.request);
      break;
    case Decision::Kind::fail:
      writer.text(decision.request.name);
      [[fallthrough]];
    case Decision::Kind::stalled:
      writer.number(static_cast<std::uint64_t>(decision.status.code()));
      writer.number(static_cast<std::uint64_t>(decision.status.rank()) + 1);
      writer.text(decision.status.text());
      break;
    case Decision::Kind::all_joined:
      writer.number(static_cast<std::uint64_t>(decision.rank));
      break;
  }
}

Decision read_decision(Reader& reader, int ranks) {
  Decision decision;
  decision.kind = static_cast<Decision::Kind>(
      reader.number(static_cast<std::uint64_t>(Decision::Kind::stalled)));
  switch (decision.kind) {
    case Decision::Kind::run:
      decision.request = reader.request(ranks);
      break;
    case Decision::Kind::fail:
      decision.request.name = reader.text(kMostNameBytes);
      [[fallthrough]];
    case Decision::Kind::stalled: {
      const Code code = reader.code();
      const Rank rank = static_cast<Rank>(reader.number(static_cast<std::uint64_t>(ranks))) - 1;
      decision.status = Status(code, reader.text(kMostTextBytes), rank);
      break;
    }
    case Decision::Kind::all_joined:
      decision.rank = static_cast<Rank>(reader.number(static_cast<std::uint64_t>(ranks) - 1));
      break;
  }
  return decision;
}

}  // namespace weft::negotiate
