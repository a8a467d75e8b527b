// Registered memory of ours.
#include "verbs/ib/objects.h"

#include <fmt/core.h>

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

}  // namespace weft::ib
