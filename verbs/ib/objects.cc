// Registered memory of ours.
#include "verbs/ib/objects.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include "verbs/ib/verbs_errors.h"

namespace weft::ib {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

void Buffer::Unmap::operator()(std::byte* pages) const {
  ::munmap(pages, bytes);
}

Result<Buffer> Buffer::make(const Library& library, ibv_pd* domain, std::size_t bytes, int access) {
  Buffer buffer;
  buffer.bytes_ = (bytes + kPage - 1) / kPage * kPage;
  // New pages are zeroed by the kernel: one pass over memory that may be large, and not two.
  void* pages =
      ::mmap(nullptr, buffer.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    return Status(Code::exhausted, fmt::format("no memory for {} bytes of buffers", buffer.bytes_));
  }
  buffer.memory_ = {static_cast<std::byte*>(pages), Unmap{buffer.bytes_}};
  ibv_mr* region = library.reg_mr(domain, buffer.data(), buffer.bytes_, access);
  WEFT_RETURN_IF_ERROR(check_pointer(region, fmt::format("registering {} bytes", buffer.bytes_)));
  buffer.region_ = Owned<ibv_mr>(region, {&library});
  return buffer;
}

}  // namespace weft::ib
