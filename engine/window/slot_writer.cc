// slot_writer: messages.
#include "engine/window/slot_writer.h"

#include <fmt/core.h>

#include <utility>

namespace weft::window {
SlotWriter::SlotWriter(const Place& there, const Shape& theirs, std::size_t index,
                       const TensorShape& tensor, const std::uint64_t* ack)
    : there_(there), theirs_(theirs), index_(index), tensor_(tensor), ack_(ack) {}

// A message needs a buffer that holds neither the newest message nor the last one of the base
// before, both of which the reader may want.
Status SlotWriter::choose_buffer() {
  if (std::exchange(is_suspect_, false)) suspects_.set(buffer_);
  given_up_ = {};
  if (suspects_.any() && !there_.endpoint->work_may_linger()) suspects_.reset();
  // Where the part is mapped, the buffer that was written two messages ago is still in the cache.
  if (there_.memory.mapped != nullptr && before_ != kNoBuffer && is_free(before_) &&
      !is_being_read(before_)) {
    buffer_ = before_;
    return {};
  }
  for (std::uint32_t step = 1; step <= kBuffers; ++step) {
    buffer_ = (last_ + step) % kBuffers;
    if (is_free(buffer_)) return {};
  }
  return Status(
      Code::unavailable,
      fmt::format("paths to rank {} failed again and again, and it has not confirmed that "
                  "they are closed",
                  there_.rank),
      there_.rank);
}

bool SlotWriter::is_free(std::uint32_t buffer) const {
  return buffer != last_ && buffer != header_.previous_buffer && !suspects_.test(buffer);
}

// A reader whose buffer is overwritten begins again, so this may be out of date.
bool SlotWriter::is_being_read(std::uint32_t buffer) const {
  return load_word(there_.memory.mapped + theirs_.reading(index_)) == buffer + 1;
}

Status SlotWriter::put(const void* x, const Message& message) {
  WEFT_RETURN_IF_ERROR(make_room(message));
  WEFT_RETURN_IF_ERROR(choose_buffer());
  message_ = message;
  base_ = ++number_;
  is_sum_known_ = false;
  header_ = {.base = base_,
             .scale = message.scale,
             .p = message.scale * message.p,
             .puts = header_.puts + 1};
  send(x);
  return {};
}

Status SlotWriter::accumulate(const void* x, const Message& message) {
  WEFT_RETURN_IF_ERROR(sum_.make(tensor_));
  WEFT_RETURN_IF_ERROR(make_room(message));
  WEFT_RETURN_IF_ERROR(choose_buffer());
  x_ = x;
  message_ = message;
  const bool is_read = number_ != 0 && load_word(ack_) >= base_;
  if (is_read) {
    begin_base();
    write();
  } else if (is_sum_known_ || number_ == 0) {
    add_to_sum(number_ == 0);
    write();
  } else if (header_.compression != Compression::none) {
    last_encoded().decode(sum());
    add_to_sum(false);
    write();
  } else if (there_.memory.mapped != nullptr) {
    copy_shared(sum_.data(), there_.memory.mapped + theirs_.data(index_, last_), tensor_.bytes());
    add_to_sum(false);
    write();
  } else {
    step_ = Step::reads_back;
    chain_.begin(there_, message_.patience_ns);
    chain_.read(sum_.data(), tensor_.bytes(), theirs_.data(index_, last_));
  }
  return {};
}

Status SlotWriter::make_room(const Message& message) {
  return message.compression == Compression::none ? Status() : encoded_.make(tensor_);
}

std::span<float> SlotWriter::sum() const {
  return {reinterpret_cast<float*>(sum_.data()), tensor_.count};
}

// What was encoded here can be read here.
Encoded SlotWriter::last_encoded() const {
  const std::size_t bytes = encoded_bytes(header_.compression, tensor_.count);
  return *Encoded::open({encoded_.data(), bytes}, header_.compression, tensor_.count);
}

// A base that goes on from the one before.
void SlotWriter::begin_base() {
  header_.previous = number_;
  header_.previous_buffer = last_;
  base_ = number_ + 1;
  const bool has_lost = is_sum_known_ && header_.compression != Compression::none;
  if (has_lost) {
    last_encoded().add(-1.0F, sum());
    drop_what_is_not_finite(sum());
  }
  header_.p = 0.0;
  add_to_sum(!has_lost);
}

// Adds x to the running sum, or begins that with x.
void SlotWriter::add_to_sum(bool replaces) {
  const Term terms[] = {{sum_.data(), is_sum_known_ ? 1.0 : header_.scale}, {x_, message_.scale}};
  add_up(tensor_, replaces ? std::span(terms).last(1) : std::span(terms), sum_.data());
  header_.p += message_.scale * message_.p;
  is_sum_known_ = true;
}

void SlotWriter::write() {
  ++number_;
  header_.base = base_;
  header_.scale = 1.0;
  header_.accumulates = 1;
  send(sum_.data());
}

void SlotWriter::send(const void* data) {
  data_ = data;
  bytes_ = tensor_.bytes();
  header_.compression = Compression::none;
  const Compression asked = message_.compression;
  if (asked != Compression::none && encoded_bytes(asked, tensor_.count) < bytes_) {
    bytes_ = encoded_bytes(asked, tensor_.count);
    encoder_.encode(asked, {static_cast<const float*>(data), tensor_.count},
                    {encoded_.data(), bytes_});
    data_ = encoded_.data();
    header_.compression = asked;
  }
  before_ = last_;
  last_ = buffer_;
  is_suspect_ = false;
  if (there_.memory.mapped != nullptr) return write_mapped();
  spread() ? open() : write_all();
}

// The message is over when this returns.
void SlotWriter::write_mapped() {
  std::byte* const part = there_.memory.mapped;
  const auto publish = [](std::byte* to, const void* from, std::size_t bytes) {
    publish_bytes(to, static_cast<const std::byte*>(from), bytes);
  };
  std::byte* const control = part + this->control(buffer_);
  publish(control + offsetof(Control, begin), &number_, sizeof number_);
  publish(part + theirs_.data(index_, buffer_), data_, bytes_);
  publish(control + offsetof(Control, header), &header_, sizeof header_);
  publish(control + offsetof(Control, done), &number_, sizeof number_);
  status_ = {};
  step_ = Step::idle;
  if (message_.signal < 0) return;
  std::uint64_t& raised = raised_[static_cast<std::size_t>(message_.signal)];
  ++raised;
  publish(part + theirs_.signal(index_, message_.signal), &raised, sizeof raised);
  there_.endpoint->wake_peer();
}

// Whether the data can go over several rails; then they are about to.
bool SlotWriter::spread() {
  // The const is cast away for one class that serves both directions; a write only reads.
  auto* const from = static_cast<std::byte*>(const_cast<void*>(data_));
  return spread_.begin(WorkKind::write, there_, {from, bytes_}, theirs_.data(index_, buffer_),
                       message_.patience_ns);
}

// A reader must see the beginning before any of the data, which take other rails. The read behind
// it says that it does.
void SlotWriter::open() {
  step_ = Step::opens;
  chain_.begin(there_, message_.patience_ns);
  const std::size_t begin = control(buffer_) + offsetof(Control, begin);
  chain_.write(&number_, sizeof number_, begin);
  chain_.then();
  chain_.read(&seen_, sizeof seen_, begin);
}

// A completion does not say that the peer's processor sees what came over one of several rails. A read behind it
// does.
void SlotWriter::write_all() {
  chain_.begin(there_, message_.patience_ns);
  Endpoint* const rail = bytes_ < kLeastForRail ? nullptr : freest_rail(*there_.endpoint);
  if (rail != nullptr) chain_.take_rail(*rail);
  chain_.write(&number_, sizeof number_, control(buffer_) + offsetof(Control, begin));
  chain_.then();
  if (bytes_ != 0) chain_.write(data_, bytes_, theirs_.data(index_, buffer_));
  close();
  if (rail == nullptr) return;
  chain_.then();
  chain_.read(&seen_, sizeof seen_, control(buffer_) + offsetof(Control, begin));
}

void SlotWriter::close() {
  step_ = Step::writes;
  chain_.write(&header_, sizeof header_, control(buffer_) + offsetof(Control, header));
  chain_.then();
  chain_.write(&number_, sizeof number_, control(buffer_) + offsetof(Control, done));
  if (message_.signal >= 0) raise(chain_, message_.signal);
}

void SlotWriter::raise(Chain& chain, int signal) {
  std::uint64_t& raised = raised_[static_cast<std::size_t>(signal)];
  ++raised;
  chain.then();
  chain.write(&raised, sizeof raised, theirs_.signal(index_, signal));
}

void SlotWriter::give_up(const Status& why) {
  chain_.give_up(why);
  if (step_ == Step::spreads) spread_.give_up(why);
  given_up_ = why;
}

bool SlotWriter::advance() {
  if (step_ == Step::idle) return false;
  const bool spreads = step_ == Step::spreads;
  const bool moved = spreads ? spread_.advance() : chain_.advance();
  if (!(spreads ? spread_.is_over() : chain_.is_over())) return moved;
  if (!spreads) {
    repeats_ += chain_.repeats();
    is_suspect_ |= chain_.repeats() != 0;
  }
  go_on();
  return true;
}

// The step has ended; what comes next?
void SlotWriter::go_on() {
  if (step_ == Step::spreads) {
    if (spread_.status().ok()) {
      chain_.begin(there_, message_.patience_ns);
      return close();
    }
    if (given_up_.ok() && there_.endpoint->failure().ok()) {
      ++repeats_;
      is_suspect_ = true;
      return write_all();
    }
    status_ = spread_.status();
  } else {
    status_ = chain_.status();
    if (status_.ok() && step_ == Step::reads_back) {
      add_to_sum(false);
      return write();
    }
    if (status_.ok() && step_ == Step::opens) {
      if (!spread()) return write_all();
      step_ = Step::spreads;
      return;
    }
  }
  if (message_.signal >= 0) there_.endpoint->wake_peer();
  step_ = Step::idle;
}

}  // namespace weft::window
