// Registering a large region ahead, in chunks and by several threads.
#include <algorithm>
#include <atomic>

#include "verbs/memory/registrations.h"

namespace weft {

// First, threads register what they can. Then look_up() registers each chunk that is still missing,
// and evicts others to make room, or returns the error. Chunks that are ready are held meanwhile,
// because otherwise they might be evicted.
Status Registrations::prepare(const void* address, std::size_t bytes) {
  if (!keeps(address, bytes)) return {};
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  if (watch_.changed()) forget_changed();
  std::vector<Use> held;
  std::vector<Pages> missing;
  for (const Pages& chunk : chunks(Pages{start, start + bytes})) {
    if (Registration* ready = covering(chunk.start, chunk.bytes())) {
      held.push_back(use(ready));
    } else {
      missing.push_back(chunk);
    }
  }
  const std::vector<Use> added = add_in_parallel(missing);
  for (const Pages& chunk : missing) {
    WEFT_ASSIGN(Use use, look_up(chunk.start, chunk.bytes()));
    held.push_back(std::move(use));
  }
  return {};
}

// Each chunk but the last reaches kMostPiece into the next. Where the chunks are cut depends on the
// region alone, so that they are found when the same region is prepared again.
std::vector<Registrations::Pages> Registrations::chunks(const Pages& whole) const {
  const auto threads = static_cast<std::size_t>(std::max(options_.threads, 1));
  const std::size_t parts = std::min(threads, whole.bytes() / kLeastChunk);
  if (parts < 2) return {whole};
  const std::size_t step = whole.bytes() / parts / page_bytes_ * page_bytes_ + page_bytes_;
  std::vector<Pages> all;
  std::uintptr_t at = whole.start;
  do {
    all.push_back({at, std::min(whole.end, at + step + kMostPiece)});
    at += step;
  } while (all.back().end != whole.end);
  return all;
}

std::vector<Registrations::Use> Registrations::add_in_parallel(std::vector<Pages> missing) {
  std::vector<Use> added;
  std::size_t bytes = 0;
  const std::uintptr_t in_page = page_bytes_ - 1;
  for (Pages& chunk : missing) {
    chunk = {chunk.start & ~in_page, (chunk.end + in_page) & ~in_page};
    forget_idle_within(chunk);
    bytes += chunk.bytes();
  }
  if (missing.size() < 2 || !make_room(bytes).ok()) return added;
  std::vector<std::size_t> ranges;
  for (const Pages& chunk : missing) {
    if (const auto range = watch_with_room(chunk)) ranges.push_back(*range);
  }
  missing.resize(ranges.size());
  const std::vector<Result<Registered>> given = call_backend(missing);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (given[i].ok()) {
      added.push_back(insert(missing[i], given[i].value(), ranges[i]));
    } else {
      watch_.end(ranges[i]);
    }
  }
  return added;
}

// One call per chunk. The caller's thread takes its share, and all of it where no thread can start.
std::vector<Result<Registered>> Registrations::call_backend(const std::vector<Pages>& missing) {
  std::vector<Result<Registered>> given(missing.size(), Registered{});
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < missing.size(); i = next++) {
      given[i] = ask_backend(missing[i], true);  // add_in_parallel() watches them
    }
  };
  std::vector<Thread> others;  // where no more can be started, fewer do the work
  while (others.size() + 1 < missing.size()) {
    Result<Thread> other = start_thread("weft-register", work);
    if (!other.ok()) break;
    others.push_back(*std::move(other));
  }
  work();
  for (Thread& other : others) other.join();
  return given;
}

}  // namespace weft
