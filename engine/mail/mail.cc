// mail: see the header.
#include "engine/mail/mail.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace weft {

WireHeader Mail::header() const {
  WireHeader header;
  header.kind = NoticeKind::mail;
  header.form = PieceForm::payload;
  header.job = options_.job;
  header.context = options_.context;
  return header;
}

Mail::Line& Mail::line_to(Rank rank, Endpoint& endpoint) {
  std::unique_ptr<Line>& line = lines_[rank];
  if (line == nullptr) {
    line = std::make_unique<Line>();
    line->rank = rank;
    order_.push_back(line.get());
  }
  line->endpoint = &endpoint;
  return *line;
}

void Mail::hear(Rank from, Endpoint& endpoint) {
  line_to(from, endpoint);
}

Status Mail::send(Rank to, Message message) {
  if (message.size() > options_.most_bytes) {
    return Status(Code::invalid_argument,
                  fmt::format("a message of {} bytes to rank {} is longer than {} bytes",
                              message.size(), to, options_.most_bytes),
                  to);
  }
  const auto known = lines_.find(to);
  Line* line = known == lines_.end() ? nullptr : known->second.get();
  if (line == nullptr) {
    WEFT_ASSIGN(Endpoint * endpoint, connect_(to));
    line = &line_to(to, *endpoint);
  }
  line->waiting.emplace_back(message.begin(), message.end());
  ++waiting_;
  pump(*line);
  return {};
}

// Asks a rank that may never have heard of this one to connect. The notice carries nothing.
bool Mail::knock(Line& line) {
  if (line.has_knocked) return true;
  WireHeader knock = header();
  knock.form = PieceForm::inlined;
  if (line.endpoint->post_notice(kControlChannel, knock, {}) == Posted::full) return false;
  return line.has_knocked = true;
}

bool Mail::pump(Line& line) {
  bool moved = false;
  while (!line.waiting.empty() && knock(line)) {
    const std::vector<std::byte>& message = line.waiting.front();
    const std::size_t bytes = std::min(message.size() - line.sent, options_.payload_bytes);
    const bool is_last = line.sent + bytes == message.size();
    WireHeader piece = header();
    piece.piece = line.next_piece;
    piece.bytes = static_cast<std::uint32_t>(bytes);
    if (is_last) piece.flags = kFlagLast;
    const Message payload(message.data() + line.sent, bytes);
    if (line.endpoint->post_notice(options_.channel, piece, payload) == Posted::full) break;
    moved = true;
    line.sent += bytes;
    ++line.next_piece;
    if (!is_last) continue;
    ++counts_.messages_sent;
    counts_.bytes_sent += message.size();
    line.waiting.pop_front();
    --waiting_;
    line.sent = line.next_piece = 0;
  }
  return moved;
}

Status Mail::check(const Line& line, const WireHeader& header) const {
  if (header.kind != NoticeKind::mail || header.form != PieceForm::payload || header.bytes == 0 ||
      header.bytes > options_.payload_bytes || header.piece != line.pieces) {
    return Status(Code::mismatch,
                  fmt::format("rank {} sent a piece of a message that is out of order", line.rank),
                  line.rank);
  }
  if (line.arriving.size() + header.bytes > options_.most_bytes) {
    return Status(
        Code::mismatch,
        fmt::format("rank {} sends a message longer than {} bytes", line.rank, options_.most_bytes),
        line.rank);
  }
  return {};
}

bool Mail::read_from(Line& line, const Reader& read) {
  bool moved = false;
  while (failure_.ok()) {
    const Notice notice = line.endpoint->front(options_.channel);
    if (notice.header == nullptr) return moved;
    moved = true;
    const WireHeader header = *notice.header;
    failure_ = check(line, header);
    if (!failure_.ok()) return moved;
    line.arriving.insert(line.arriving.end(), notice.payload, notice.payload + header.bytes);
    ++line.pieces;
    line.endpoint->release(options_.channel);
    if ((header.flags & kFlagLast) == 0) continue;
    ++counts_.messages_read;
    counts_.bytes_read += line.arriving.size();
    read(line.rank, line.arriving);
    line.arriving.clear();
    line.pieces = 0;
  }
  return moved;
}

bool Mail::advance(const Reader& read) {
  bool moved = false;
  // Reading may add lines.
  for (std::size_t i = 0; i < order_.size(); ++i) moved |= read_from(*order_[i], read);
  if (waiting_ == 0) return moved;
  for (Line* line : order_) moved |= pump(*line);
  return moved;
}

}  // namespace weft
