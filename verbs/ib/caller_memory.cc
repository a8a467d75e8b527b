// Registering memory of the caller: of another device, or of the host.
#include "verbs/ib/caller_memory.h"

#include <unistd.h>

namespace weft::ib {

Result<Registered> CallerMemory::add(void* address, std::size_t bytes) {
  WEFT_ASSIGN(const std::optional<Registered> given, add_dma_buf(address, bytes));
  if (given) return *given;
  return device_.registrations().add(address, bytes);
}

Result<Registered> CallerMemory::share(void* address, std::size_t bytes) {
  WEFT_ASSIGN(std::optional<Registered> given, add_dma_buf(address, bytes));
  if (!given) return device_.registrations().share(address, bytes);
  // Addresses of the heap that stand for such memory are announced when they go.
  given->watched = heap_offset(address, bytes) != kNotInHeap;
  return *given;
}

Result<std::optional<Registered>> CallerMemory::add_dma_buf(void* address, std::size_t bytes) {
  if (!exporter_) return std::optional<Registered>();
  const Result<std::optional<DmaBuf>> buffer = exporter_(address, bytes);
  if (!buffer.ok()) return device_.registrar().refused(buffer.status());
  if (!buffer.value()) return std::optional<Registered>();
  WEFT_ASSIGN(Owned<ibv_mr> region,
              device_.registrar().add_device(address, bytes, *buffer.value()));
  // Nothing here is told when the memory is freed, so the registration ends with its use.
  Registered given{region->lkey, region->rkey, region.get()};
  given.watched = false;
  (void)region.release();
  return std::optional<Registered>(given);
}

// Of whole pages, as dma-bufs are.
Result<std::shared_ptr<const ExposedMemory>> CallerMemory::expose(std::span<std::byte> memory) {
  if (!exporter_ || memory.empty()) return device_.expose(memory);
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(memory.data()) + memory.size() + page - 1;
  auto* const pages = reinterpret_cast<void*>(begin);
  const std::size_t bytes = end / page * page - begin;
  WEFT_ASSIGN(const std::optional<DmaBuf> buffer, exporter_(pages, bytes));
  if (!buffer) return device_.expose(memory);
  auto exposed = std::make_shared<ExposedMemory>();
  WEFT_ASSIGN(exposed->region,
              device_.registrar().add_device(pages, bytes, *buffer, Registrar::For::peers));
  return std::shared_ptr<const ExposedMemory>(std::move(exposed));
}

}  // namespace weft::ib
