// Notes about paths: how they are sent and taken. recovery.cc says what they mean.
#include "verbs/bond/notes.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "verbs/bond/interface.h"

namespace weft::bond {

void Notes::say(PathNote::What what, const Path& about, const Path* over) {
  const Generations& generation = about.generation;
  waiting_.push_back({{what, static_cast<std::uint16_t>(about.number),
                       what == PathNote::What::fence ? generation.lived : generation.now},
                      over});
}

void Notes::probe_first(const Path& path) {
  say(PathNote::What::probe, path, &path);
  std::rotate(waiting_.rbegin(), std::next(waiting_.rbegin()), waiting_.rend());
}

void Notes::say_again(const PathNote& fence, const Path& over) {
  waiting_.push_back({{PathNote::What::fenced, fence.path, fence.generation}, &over});
}

void Notes::send() {
  for (std::size_t left = waiting_.size(); left != 0; --left) {
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    const bool any = next.over == nullptr ||
                     (next.note.what == PathNote::What::fenced && !next.over->carries_notes());
    const Path* const over =
        any ? endpoint_.selector().choose(0, endpoint_.bond().now()) : next.over;
    if (over == nullptr || !over->carries_notes()) continue;
    const std::vector<std::byte> text = text_of(next.note);
    WireHeader header;
    header.kind = NoticeKind::path;
    header.form = PieceForm::payload;
    header.bytes = static_cast<std::uint32_t>(text.size());
    if (over->endpoint->post_notice(kControlChannel, header, text) == Posted::full)
      waiting_.push_back(next);
  }
}

std::vector<std::byte> Notes::text_of(const PathNote& note) const {
  std::vector<std::byte> text;
  const auto add = [&text](const auto& words) {
    text.resize(text.size() + sizeof words);
    std::memcpy(text.data() + text.size() - sizeof words, &words, sizeof words);
  };
  add(note);
  const Path& path = endpoint_.paths()[note.path];
  if (note.what == PathNote::What::fence)
    add(FenceWords{path.retry.wait_ns, path.retry.is_reserve ? 1U : 0U});
  if (note.what == PathNote::What::fenced) {
    for (const std::uint64_t taken : endpoint_.streams().taken_in(path, note.generation))
      add(taken);
  }
  return text;
}

bool Notes::take() {
  bool news = false;
  for (Path& path : endpoint_.paths()) {
    while (true) {
      const Notice notice = endpoint_.streams().next_note(path);
      if (notice.header == nullptr) break;
      std::vector<std::byte> text;
      if (notice.header->form == PieceForm::payload) {
        const std::size_t bytes = std::min<std::size_t>(notice.header->bytes, kControlBytes);
        text.assign(notice.payload, notice.payload + bytes);
      }
      endpoint_.streams().release_note(path);
      news = true;
      PathNote note;
      if (text.size() < sizeof note) continue;
      std::memcpy(&note, text.data(), sizeof note);
      if (note.path < endpoint_.paths().size())
        endpoint_.recovery().hear(path, note, std::span(text).subspan(sizeof note));
    }
  }
  return news;
}

}  // namespace weft::bond
