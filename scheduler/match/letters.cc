// letters: see the header.
#include "scheduler/match/letters.h"

#include <bit>
#include <cstring>

namespace weft::match {
namespace {

constexpr std::size_t kMostTextBytes = 4096;

void break_off(negotiate::Reader& reader) {
  (void)reader.bytes(~std::size_t{0});
}

}  // namespace

void Outbox::name(const std::string& name) {
  if (const auto known = numbers_.find(name); known != numbers_.end()) {
    writer_.number(known->second << 1);
    return;
  }
  const std::size_t number = next_;
  next_ = (next_ + 1) % kMostNames;
  if (number < names_.size()) {
    numbers_.erase(names_[number]);
    names_[number] = name;
  } else {
    names_.push_back(name);
  }
  numbers_.emplace(name, number);
  writer_.number(number << 1 | 1).text(name);
}

// Most rounds have one count, which began when the clock did: then the token says all.
void Outbox::round(const Round& round) {
  const bool is_plain = round.size == 1 && round.counts[0].origin == 0;
  const std::size_t code = round.size == 0 ? 0 : is_plain ? 1 : 1 + round.size;
  writer_.number((round.token >> 1) << 3 | code);
  if (code < 2) return;
  writer_.number(round.counts[0].origin);
  for (std::size_t i = 1; i < round.size; ++i)
    writer_.number(round.counts[i].origin).number(round.counts[i].number);
}

void Outbox::add(const Entry& entry) {
  is_empty_ = false;
  writer_.number(static_cast<std::uint64_t>(entry.kind));
  name(entry.name);
  round(entry.round);
  if (entry.kind == EntryKind::want) {
    writer_.number(static_cast<std::uint64_t>(entry.collective));
    writer_.number(static_cast<std::uint64_t>(entry.type)).number(entry.count).shape(entry.shape);
    writer_.number(static_cast<std::uint64_t>(entry.compression));
    if (entry.compression == Compression::low_rank)
      writer_.number(entry.low_rank.rows).number(entry.low_rank.rank);
    writer_.number(entry.may_skip ? 1 : 0);
  } else if (entry.kind == EntryKind::refuse) {
    writer_.number(static_cast<std::uint64_t>(entry.code));
    writer_.number(static_cast<std::uint64_t>(entry.rank) + 1);
    writer_.text(std::string_view(entry.text).substr(0, kMostTextBytes));
  }
}

void Outbox::add_batch(std::size_t names) {
  is_empty_ = false;
  writer_.number(static_cast<std::uint64_t>(EntryKind::batch)).number(names);
}

// Most weights are 1 and need no bytes of their own.
void Outbox::add_item(const std::string& name, std::uint64_t token, double weight) {
  this->name(name);
  writer_.number(token);
  const bool is_one = weight == 1.0;
  writer_.number(is_one ? 0 : 1);
  if (is_one) return;
  const auto bits = std::bit_cast<std::uint64_t>(weight);
  std::memcpy(writer_.room(sizeof bits), &bits, sizeof bits);
}

std::string Inbox::name(negotiate::Reader& reader) {
  const std::uint64_t code = reader.number(2 * kMostNames - 1);
  const std::size_t number = code >> 1;
  if ((code & 1) == 0) {
    if (number < names_.size()) return names_[number];
    break_off(reader);
    return {};
  }
  if (number > names_.size()) {
    break_off(reader);
    return {};
  }
  if (number == names_.size()) names_.emplace_back();
  return names_[number] = reader.text(kMostNameBytes);
}

Round Inbox::round(negotiate::Reader& reader) {
  Round round;
  const std::uint64_t head = reader.number();
  const std::uint64_t code = head & 7;
  const std::uint64_t first = head >> 3;
  round.size = code < 2 ? code : code - 1;
  round.token = 2 * first + (code == 0 ? 1 : 0);
  if (round.size > Round::kMost) break_off(reader);
  if (round.size == 0 || reader.is_broken()) return round;
  const std::uint64_t origin = code < 2 ? 0 : reader.number(first);
  round.counts[0] = {origin, first - origin};
  for (std::size_t i = 1; i < round.size; ++i) round.counts[i] = {reader.number(), reader.number()};
  return round;
}

Entry Inbox::next(negotiate::Reader& reader, int ranks) {
  Entry entry;
  const std::uint64_t kind = reader.number(static_cast<std::uint64_t>(EntryKind::batch));
  if (kind == 0) break_off(reader);
  entry.kind = static_cast<EntryKind>(kind);
  if (entry.kind == EntryKind::batch) {
    entry.count = reader.length();
    return entry;
  }
  entry.name = name(reader);
  entry.round = round(reader);
  if (entry.kind == EntryKind::want) {
    entry.collective = static_cast<Collective>(reader.number(kCollectives));
    entry.type = static_cast<DataType>(reader.number(kDataTypes - 1));
    entry.count = reader.number(std::uint64_t{1} << 60);
    entry.shape = reader.shape();
    entry.compression = static_cast<Compression>(reader.number(kCompressions - 1));
    if (entry.compression == Compression::low_rank) {
      entry.low_rank.rows = reader.number();
      entry.low_rank.rank = static_cast<std::uint32_t>(reader.number(~std::uint32_t{0}));
    }
    entry.may_skip = reader.number(1) != 0;
  } else if (entry.kind == EntryKind::refuse) {
    entry.code = reader.code();
    entry.rank = static_cast<Rank>(reader.number(static_cast<std::uint64_t>(ranks))) - 1;
    entry.text = reader.text(kMostTextBytes);
  }
  return entry;
}

Entry Inbox::item(negotiate::Reader& reader) {
  Entry entry;
  entry.kind = EntryKind::batch;
  entry.name = name(reader);
  entry.round.token = reader.number();
  if (reader.number(1) == 0) return entry;
  const auto bytes = reader.bytes(sizeof(double));
  if (!reader.is_broken()) std::memcpy(&entry.weight, bytes.data(), sizeof entry.weight);
  return entry;
}

}  // namespace weft::match
