// slot_reader: validated copies, bases, and the value of a slot.
#include "engine/window/slot_reader.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "engine/compress/compress.h"
#include "verbs/transport/transport.h"

namespace weft::window {

Status SlotReader::fill(const void* x) {
  WEFT_RETURN_IF_ERROR(carry_.make(tensor_));
  if (tensor_.bytes() != 0)
    std::memcpy(carry_.data(), x, tensor_.bytes());  // no memory of no elements
  has_carry_ = true;
  return {};
}

Control& SlotReader::control(std::uint32_t buffer) const {
  return *reinterpret_cast<Control*>(part_ + ours_.control(index_, buffer));
}

// The buffer of the newest message; kNoBuffer: none has come.
std::uint32_t SlotReader::newest() const {
  std::uint32_t newest = kNoBuffer;
  std::uint64_t number = 0;
  for (std::uint32_t buffer = 0; buffer < kBuffers; ++buffer) {
    const std::uint64_t done = load_word(&control(buffer).done);
    if (done > number) {
      number = done;
      newest = buffer;
    }
  }
  return newest;
}

// Returns false if the message is not there any more.
bool SlotReader::read_header(std::uint32_t buffer, std::uint64_t number, Header& header) const {
  const Control& from = control(buffer);
  if (load_word(&from.done) != number) return false;
  copy_shared(reinterpret_cast<std::byte*>(&header),
              reinterpret_cast<const std::byte*>(&from.header), sizeof header);
  return still_holds(from, number);
}

// Copies the message into copy_. Returns false if it is not there any more.
Result<bool> SlotReader::read(std::uint32_t buffer, std::uint64_t number, const Header& header) {
  copy_.number = 0;
  std::span<std::byte> to(copy_.data.data(), tensor_.bytes());
  const bool is_encoded = header.compression != Compression::none;
  if (is_encoded) {
    if (tensor_.type != DataType::f32 || header.compression >= Compression::low_rank) {
      return from_rank(from_, Status(Code::mismatch,
                                     "a message of a window is encoded in no way "
                                     "that tensors like this one have"));
    }
    encoded_.resize(std::min(tensor_.bytes(), encoded_bytes(header.compression, tensor_.count)));
    to = encoded_;
  }
  say_reading(buffer + 1);
  copy_shared(to.data(), part_ + ours_.data(index_, buffer), to.size());
  say_reading(0);
  if (!still_holds(control(buffer), number)) return false;
  if (is_encoded) {
    const Result<Encoded> encoded = Encoded::open(encoded_, header.compression, tensor_.count);
    if (!encoded.ok()) return from_rank(from_, encoded.status());
    encoded->decode({reinterpret_cast<float*>(copy_.data.data()), tensor_.count});
  }
  copy_.number = number;
  copy_.scale = header.scale;
  copy_.p = header.p;
  return true;
}

void SlotReader::say_reading(std::uint32_t buffer_plus_1) {
  store_word(part_ + ours_.reading(index_), buffer_plus_1);
}

Status SlotReader::visit(const Deadline& deadline) {
  constexpr int kTriesPerYield = 4;
  for (int tries = 1;; ++tries) {
    WEFT_ASSIGN(const bool done, try_visit());
    if (done) return {};
    if (tries % kTriesPerYield != 0) continue;
    if (deadline.passed()) {
      return Status(Code::timed_out,
                    fmt::format("rank {} overwrites its slot faster than it can be read", from_),
                    from_);
    }
    sched_yield();
  }
}

// Returns false if the writer was faster, so that there is a newer message.
Result<bool> SlotReader::try_visit() {
  const std::uint32_t buffer = newest();
  if (buffer == kNoBuffer) return true;
  const std::uint64_t number = load_word(&control(buffer).done);
  if (number == newest_) return true;
  Header header;
  if (!read_header(buffer, number, header)) return false;
  WEFT_RETURN_IF_ERROR(copy_.data.make(tensor_));
  if (header.base != base_) {
    WEFT_ASSIGN(const bool done, go_on_from(header));
    if (!done) return false;
  }
  WEFT_ASSIGN(const bool is_there, read(buffer, number, header));
  if (!is_there) return false;
  newest_ = number;
  puts_read_ = header.puts;
  puts_ = std::max(puts_, puts_read_);
  wants_word_ = header.accumulates != 0;
  return true;
}

// Goes to the base of the header. If it goes on from another one, the value at the end of that one
// is carried.
Result<bool> SlotReader::go_on_from(const Header& header) {
  if (header.previous == 0) {
    drop();
  } else if (header.previous != taken_.number) {
    Header last;
    if (!read_header(header.previous_buffer, header.previous, last)) return false;
    if (copy_.number != header.previous) {
      WEFT_ASSIGN(const bool is_there, read(header.previous_buffer, header.previous, last));
      if (!is_there) return false;
    }
    if (last.base != base_) drop();
    newest_ = header.previous;
    std::vector<Term> terms;
    add_terms(1.0, terms);
    const double p = this->p();
    WEFT_RETURN_IF_ERROR(carry_.make(tensor_));
    add_up(tensor_, terms, carry_.data());
    has_carry_ = true;
    carry_scale_ = 1.0;
    carry_p_ = p;
  }
  taken_.number = 0;
  base_ = header.base;
  newest_ = 0;
  return true;
}

void SlotReader::drop() {
  has_carry_ = false;
  carry_p_ = 0;
  taken_.number = 0;
}

void SlotReader::add_terms(double weight, std::vector<Term>& terms) const {
  if (has_carry_) terms.push_back({carry_.data(), weight * carry_scale_});
  if (newest_ == 0 || is_newest_taken()) return;
  terms.push_back({copy_.data.data(), weight * copy_.scale});
  if (taken_.number != 0) terms.push_back({taken_.data.data(), -weight * taken_.scale});
}

double SlotReader::p() const {
  if (newest_ == 0 || is_newest_taken()) return carry_p_;
  return carry_p_ + copy_.p - (taken_.number != 0 ? taken_.p : 0.0);
}

void SlotReader::reset() {
  has_carry_ = false;
  carry_p_ = 0;
  if (newest_ == 0 || is_newest_taken()) return;
  std::swap(copy_, taken_);
  copy_.number = 0;
}

void SlotReader::take_incoming(double scale, double p) {
  reset();
  std::swap(carry_, incoming_);
  has_carry_ = true;
  carry_scale_ = scale;
  carry_p_ = scale * p;
  ++gets_;
}

// Looks at the newest message's header alone. If its writer is faster, there is a newer one.
std::uint64_t SlotReader::versions() {
  constexpr int kTries = 64;
  for (int tries = 0; tries < kTries; ++tries) {
    const std::uint32_t buffer = newest();
    Header header;
    if (buffer == kNoBuffer) break;
    if (!read_header(buffer, load_word(&control(buffer).done), header)) continue;
    puts_ = std::max(puts_, header.puts);
    break;
  }
  return puts_ - puts_seen_ + gets_;
}

void SlotReader::clear_versions() {
  puts_seen_ = puts_read_;
  gets_ = 0;
}

// A word that a failed path delivers late may hide a newer one, so the same word is said again if
// the neighbor does not act on it.
const std::uint64_t* SlotReader::base_to_tell() {
  constexpr std::uint64_t kPatience = 64;  // messages
  if (!wants_word_ || (told_ == base_ && newest_ < told_at_ + kPatience)) return nullptr;
  told_ = base_;
  told_at_ = newest_;
  return &told_;
}

}  // namespace weft::window
