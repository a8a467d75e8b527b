// The devices that are open in this process.
#include "verbs/ib/shared_device.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

#include "verbs/ib/verbs_errors.h"

namespace weft::ib {
namespace {

struct OpenDevice {
  const Library* library;  // tests have devices of their own
  std::string name;
  pid_t process;
  std::weak_ptr<SharedDevice> device;
};

struct OpenDevices {
  std::mutex mutex;
  std::vector<OpenDevice> all;
};

// Never destroyed: a static context may be the last that uses it.
OpenDevices& open_devices() {
  static auto& devices = *new OpenDevices;
  return devices;
}

// Whether the device is not to be given out any more: it has closed, it is gone, or this is a forked
// child and it is the parent's.
bool is_over(const OpenDevice& open) {
  if (open.process != getpid()) return true;
  const std::shared_ptr<SharedDevice> device = open.device.lock();
  return device == nullptr || device->events().is_gone();
}

}  // namespace

Result<Owned<ibv_context>> open_named(const Library& library, const std::string& name) {
  int count = 0;
  ibv_device** devices = library.get_device_list(&count);
  WEFT_RETURN_IF_ERROR(check_pointer(devices, "listing RDMA devices"));
  Status why;
  Owned<ibv_context> context;
  std::vector<std::string> names;
  for (int d = 0; d < count; ++d) {
    names.emplace_back(library.get_device_name(devices[d]));
    if (names.back() != name) continue;
    context = Owned<ibv_context>(library.open_device(devices[d]), {&library});
    why = check_pointer(context.get(), "opening RDMA device " + name);
  }
  library.free_device_list(devices);
  WEFT_RETURN_IF_ERROR(why);
  if (context != nullptr) return context;
  return Status(Code::unavailable,
                fmt::format("there is no RDMA device {}; there are: {}", name,
                            names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

// The lock is held while the driver opens a device, so that two interfaces do not open it twice.
Result<std::shared_ptr<SharedDevice>> SharedDevice::open(const Library& library,
                                                         const std::string& name) {
  if (is_forked_child()) return forked_child_error("opening " + name);
  OpenDevices& devices = open_devices();
  const std::scoped_lock lock(devices.mutex);
  std::erase_if(devices.all, is_over);
  for (const OpenDevice& open : devices.all) {
    if (open.library != &library || open.name != name) continue;
    if (std::shared_ptr<SharedDevice> device = open.device.lock()) return device;
  }
  WEFT_ASSIGN(std::shared_ptr<SharedDevice> device, open_new(library, name));
  devices.all.push_back({&library, name, getpid(), device});
  return device;
}

Result<std::shared_ptr<SharedDevice>> SharedDevice::open_new(const Library& library,
                                                             const std::string& name) {
  WEFT_ASSIGN(Owned<ibv_context> context, open_named(library, name));
  ibv_device_attr attributes{};
  WEFT_RETURN_IF_ERROR(check_return(library.query_device(context.get(), &attributes),
                                    fmt::format("asking ib:{}", name)));
  Owned<ibv_pd> domain(library.alloc_pd(context.get()), {&library});
  WEFT_RETURN_IF_ERROR(
      check_pointer(domain.get(), fmt::format("ib:{}: a protection domain", name)));
  const int events = context->async_fd;
  if (::fcntl(events, F_SETFL, ::fcntl(events, F_GETFL) | O_NONBLOCK) != 0)
    return system_error(fmt::format("ib:{}: events without waiting", name), errno);
  return std::shared_ptr<SharedDevice>(
      new SharedDevice(library, name, std::move(context), std::move(domain), attributes));
}

SharedDevice::SharedDevice(const Library& library, const std::string& name,
                           Owned<ibv_context> context, Owned<ibv_pd> domain,
                           const ibv_device_attr& attributes)
    : context_(std::move(context)),
      domain_(std::move(domain)),
      attributes_(attributes),
      events_(library, context_.get()),
      registrar_(library, context_.get(), domain_.get(), "ib:" + name),
      registrations_(registrar_) {}

}  // namespace weft::ib
