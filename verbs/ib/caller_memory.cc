// Registering memory of the caller: of another device, or of the host.
#include "verbs/ib/caller_memory.h"

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
  WEFT_ASSIGN(const Registered given,
              device_.registrar().add_dma_buf(address, bytes, *buffer.value()));
  return std::optional<Registered>(given);
}

}  // namespace weft::ib
