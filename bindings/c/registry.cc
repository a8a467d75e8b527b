// registry: see the header.
#include "bindings/c/registry.h"

#include <pthread.h>

#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace weft::c {
namespace {

struct Entry {
  Kind kind = Kind::context;
  std::shared_ptr<void> object;
};

struct Table {
  std::mutex mutex;
  std::unordered_map<std::uintptr_t, Entry> entries;
  std::unordered_set<const void*> memory;
  std::uintptr_t last = 0x1000;  // not 0, and no address that the system gives out
};

Table& table();

Table& make_table() {
  pthread_atfork([] { table().mutex.lock(); }, [] { table().mutex.unlock(); },
                 [] { table().mutex.unlock(); });
  return *new Table;
}

Table& table() {
  static Table& instance = make_table();
  return instance;
}

std::uintptr_t number_of(const void* handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}

}  // namespace

void* register_object(Kind kind, std::shared_ptr<void> object) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  all.entries.emplace(all.last + 1, Entry{kind, std::move(object)});
  return reinterpret_cast<void*>(++all.last);
}

Found find_object(Kind kind, const void* handle) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const auto found = all.entries.find(number_of(handle));
  if (found == all.entries.end() || found->second.kind != kind) return {};
  return {true, found->second.object};
}

Found close_object(Kind kind, const void* handle) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const auto found = all.entries.find(number_of(handle));
  if (found == all.entries.end() || found->second.kind != kind) return {};
  return {true, std::exchange(found->second.object, nullptr)};
}

Found remove_object(Kind kind, const void* handle) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const auto found = all.entries.find(number_of(handle));
  if (found == all.entries.end() || found->second.kind != kind) return {};
  Found taken{true, std::move(found->second.object)};
  all.entries.erase(found);
  return taken;
}

void note_memory(const void* memory) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  all.memory.insert(memory);
}

bool forget_memory(const void* memory) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  return all.memory.erase(memory) != 0;
}

std::unique_lock<std::mutex> lock_objects() {
  return std::unique_lock(table().mutex);
}

}  // namespace weft::c
