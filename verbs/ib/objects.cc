// Registered memory of ours.
#include "verbs/ib/objects.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "verbs/ib/answers.h"

namespace weft::ib {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

void Buffer::Free::operator()(std::byte* pages) const {
  std::free(pages);
}

Result<Buffer> Buffer::make(const Library& library, ibv_pd* domain, std::size_t bytes, int access) {
  Buffer buffer;
  buffer.bytes_ = (bytes + kPage - 1) / kPage * kPage;
  buffer.memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, buffer.bytes_)));
  if (!buffer) {
    return Status(Code::exhausted, fmt::format("no memory for {} bytes of buffers", buffer.bytes_));
  }
  std::memset(buffer.data(), 0, buffer.bytes_);
  ibv_mr* region = library.reg_mr(domain, buffer.data(), buffer.bytes_, access);
  WEFT_RETURN_IF_ERROR(made(region, fmt::format("registering {} bytes", buffer.bytes_)));
  buffer.region_ = Owned<ibv_mr>(region, {&library});
  return buffer;
}

// Memory that may only be read is registered for sending alone.
Result<Registered> Registrar::add(void* address, std::size_t bytes) {
  ibv_mr* region = library_.reg_mr(domain_, address, bytes, IBV_ACCESS_LOCAL_WRITE);
  if (region == nullptr && errno != ENOMEM) region = library_.reg_mr(domain_, address, bytes, 0);
  WEFT_RETURN_IF_ERROR(made(region, fmt::format("{}: registering {} bytes", name_, bytes)));
  return Registered{region->lkey, region->rkey, region};
}

void Registrar::remove(void* native) {
  (void)library_.dereg_mr(static_cast<ibv_mr*>(native));
}

}  // namespace weft::ib
