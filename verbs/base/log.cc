// Records from whoever speaks to the process's sink.
#include "verbs/base/log.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

namespace weft {
namespace {

struct Sink {
  std::mutex mutex;
  std::shared_ptr<const LogSink> sink;  // null: standard error
};

// Never destroyed: a host's static object may own a context, which logs while it is destroyed.
Sink& sink() {
  static Sink& instance = *new Sink;
  return instance;
}

constinit std::atomic<LogVoice> voice_of_process{LogVoice{}};

void print(const LogRecord& record) {
  const std::string rank = record.rank == kNoRank ? "" : fmt::format("[{}]", record.rank);
  const std::string line = fmt::format("weft{} {}: {}\n", rank, name(record.level), record.text);
  (void)std::fwrite(line.data(), 1, line.size(), stderr);  // one call, so lines stay whole
}

}  // namespace

std::string_view name(LogLevel level) {
  constexpr std::array<std::string_view, 5> kNames{"debug", "info", "warning", "error", "off"};
  return kNames[static_cast<std::size_t>(level)];
}

constinit thread_local const LogVoice* log_scope::current = nullptr;

LogVoice log_voice() {
  if (log_scope::current != nullptr) return *log_scope::current;
  return voice_of_process.load(std::memory_order_relaxed);
}

void set_log(LogLevel lowest, Rank rank) {
  voice_of_process.store({lowest, rank}, std::memory_order_relaxed);
}

void set_log_sink(LogSink made) {
  auto next = made ? std::make_shared<const LogSink>(std::move(made)) : nullptr;
  const std::lock_guard lock(sink().mutex);
  sink().sink.swap(next);
}

void log(LogLevel level, std::string_view text) {
  const LogVoice voice = log_voice();
  if (level < voice.lowest || level == LogLevel::off) return;
  std::shared_ptr<const LogSink> taken;
  {
    const std::lock_guard lock(sink().mutex);
    taken = sink().sink;
  }
  const LogRecord record{level, voice.rank, text};
  if (taken == nullptr) return print(record);
  try {
    (*taken)(record);
  } catch (...) {  // NOLINT: the host's; whoever logs has no use for it
  }
}

}  // namespace weft
