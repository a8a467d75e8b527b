// Registering memory: pinned, on demand, or as a dma-buf.
#include "verbs/ib/registrar.h"

#include <fmt/core.h>

#include <cerrno>

#include "verbs/ib/verbs_errors.h"

namespace weft::ib {
namespace {

// What a connection does with memory of the caller.
constexpr std::uint32_t kNeeded =
    IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;

// The bytes of another device may take any order on the bus: nobody reads them before the completion,
// whose own write is behind them. Older systems may not know the flag.
constexpr int kOfDevices = IBV_ACCESS_LOCAL_WRITE;
// A bus gives no atomic operations on GPU memory.
constexpr int kForPeersToo = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

}  // namespace

// A device that does not answer has nothing on demand.
Registrar::Registrar(const Library& library, ibv_context* context, ibv_pd* domain, std::string name)
    : library_(library), domain_(domain), name_(std::move(name)) {
  ibv_device_attr_ex extended{};
  if (library_.query_device_ex(context, &extended) != 0) return;
  if ((extended.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0)
    on_demand_caps_ = extended.odp_caps.per_transport_caps.rc_odp_caps;
}

bool Registrar::pages_on_demand(int access) const {
  const std::uint32_t atomic =
      (access & IBV_ACCESS_REMOTE_ATOMIC) != 0 ? IBV_ODP_SUPPORT_ATOMIC : 0;
  const std::uint32_t needed = kNeeded | atomic;
  return (on_demand_caps_ & needed) == needed;
}

Result<Owned<ibv_mr>> Registrar::add_host(void* address, std::size_t bytes, int access) {
  ibv_mr* region = library_.reg_mr(domain_, address, bytes, access);
  const Status pinned =
      check_pointer(region, fmt::format("{}: registering {} bytes", name_, bytes));
  if (pinned.code() == Code::exhausted && pages_on_demand(access)) {
    region = library_.reg_mr(domain_, address, bytes, access | IBV_ACCESS_ON_DEMAND);
    if (region != nullptr && on_demand_++ == 0) {
      log(LogLevel::info, fmt::format("{}: memory is registered on demand: the system pins no more "
                                      "(`ulimit -l`)",
                                      name_));
    }
  }
  if (region == nullptr) return pinned;
  return Owned<ibv_mr>(region, {&library_});
}

// Memory that may only be read is registered for sending alone.
Result<Registered> Registrar::add(void* address, std::size_t bytes) {
  Result<Owned<ibv_mr>> region = add_host(address, bytes, IBV_ACCESS_LOCAL_WRITE);
  if (!region.ok() && region.status().code() != Code::exhausted)
    region = add_host(address, bytes, 0);
  WEFT_RETURN_IF_ERROR(region.status());
  ibv_mr* native = region->release();
  return Registered{native->lkey, native->rkey, native};
}

// Work requests name the memory by the caller's pointers.
Result<Owned<ibv_mr>> Registrar::add_device(void* address, std::size_t bytes, const DmaBuf& buffer,
                                            For whom) {
  const int access = kOfDevices | (whom == For::peers ? kForPeersToo : 0);
  const std::string what = fmt::format("{}: registering {} bytes of a dma-buf", name_, bytes);
  Status why = buffer.refusal;
  if (library_.reg_dmabuf_mr == nullptr) {
    why = Status(Code::unavailable, what + ": this libibverbs has no ibv_reg_dmabuf_mr");
  } else if (buffer.fd.valid()) {
    const auto add = [&](int rights) {
      return library_.reg_dmabuf_mr(domain_, buffer.offset, bytes,
                                    reinterpret_cast<std::uintptr_t>(address), buffer.fd.get(),
                                    rights);
    };
    ibv_mr* region = add(access | IBV_ACCESS_RELAXED_ORDERING);
    if (region == nullptr) region = add(access);
    why = check_pointer(region, what);
    if (why.ok()) {
      ++dma_bufs_;
      return Owned<ibv_mr>(region, {&library_});
    }
  }
  if (buffer.pointer == nullptr || library_.reg_mr_iova == nullptr) return refused(why);
  ibv_mr* region = library_.reg_mr_iova(domain_, buffer.pointer, bytes,
                                        reinterpret_cast<std::uintptr_t>(address), access);
  if (const Status answer = check_pointer(region, "by nvidia-peermem"); !answer.ok())
    return refused(Status(answer.code(), fmt::format("{}; {}", why.text(), answer.text())));
  ++by_pointer_;
  return Owned<ibv_mr>(region, {&library_});
}

// A descriptor that is none is refused as such by a device that has dma-bufs.
Status Registrar::check_dma_bufs() const {
  if (library_.reg_dmabuf_mr == nullptr)
    return Status(Code::unavailable, name_ + ": this libibverbs has no ibv_reg_dmabuf_mr");
  constexpr std::size_t kBytes = 4096;
  if (ibv_mr* const region = library_.reg_dmabuf_mr(domain_, 0, kBytes, 0, -1, 0);
      region != nullptr) {
    (void)library_.dereg_mr(region);
    return {};
  }
  if (errno != EOPNOTSUPP && errno != EPROTONOSUPPORT && errno != ENOSYS) return {};
  return Status(Code::unavailable,
                fmt::format("{} registers no dma-bufs: {}", name_, errno_text(errno)));
}

Status Registrar::refused(const Status& why) {
  ++refused_;
  return why;
}

void Registrar::remove(void* native) {
  (void)library_.dereg_mr(static_cast<ibv_mr*>(native));
}

std::string Registrar::exceptions() const {
  std::string text;
  const auto tell = [&](const std::atomic<std::uint64_t>& count, const char* what) {
    if (count != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count.load(), what);
  };
  tell(on_demand_, "regions on demand");
  tell(dma_bufs_, "dma-bufs");
  tell(by_pointer_, "regions by nvidia-peermem");
  tell(refused_, "times another device's memory was refused");
  return text;
}

}  // namespace weft::ib
