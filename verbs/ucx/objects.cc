// Buffers of an interface, and how UCX tells that something has ended.
#include "verbs/ucx/objects.h"

namespace weft::ucx {
namespace {

void finished(void* request, ucs_status_t, void* pending) {
  *static_cast<bool*>(pending) = false;
  (*library())->request_free(request);
}

}  // namespace

Lines make_lines(std::size_t bytes) {
  const std::size_t whole = (bytes + kLine - 1) / kLine * kLine;
  return Lines(new (std::align_val_t{kLine}) std::byte[whole]);
}

Lines Pool::take() {
  if (free_.empty()) {
    counted_ += bytes_;
    return make_lines(bytes_);
  }
  Lines lines = std::move(free_.back());
  free_.pop_back();
  return lines;
}

ucp_request_param_t until_finished(bool* pending, std::uint32_t flags) {
  ucp_request_param_t how{};
  how.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = flags;
  how.cb.send = finished;
  how.user_data = pending;
  return how;
}

}  // namespace weft::ucx
