// /sys/class/infiniband_verbs names the file of each device; access(2) asks the kernel.
#include "verbs/device/uverbs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "verbs/device/sysfs.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// access(2) asks every guard that open(2) would, the container's device rules among them.
std::string open_fault(const fs::path& file) {
  if (::faccessat(AT_FDCWD, file.c_str(), R_OK | W_OK, AT_EACCESS) == 0) return {};
  const int error = errno;
  const std::string name = file.string();
  if (error == ENOENT)
    return "device file " + name +
           " missing: the container was started without --device /dev/infiniband, or udev has not "
           "made it";
  if (error == EPERM)
    return "the container's device rules forbid " + name + ": start it with --device " + name;
  return "this user may not open " + name + " (" + errno_text(error) +
         "): see its owner, group and mode";
}

}  // namespace

namespace device {

std::string access_fault(const std::string& device, const RdmaSources& from) {
  for (const fs::path& folder : entries(fs::path(from.sys) / "class" / "infiniband_verbs")) {
    if (text(folder / "ibdev") == device)
      return open_fault(fs::path(from.dev) / "infiniband" / folder.filename());
  }
  return "the kernel offers no verbs for it (modprobe ib_uverbs)";
}

}  // namespace device

std::string why_no_rdma(const RdmaSources& from) {
  const auto files = device::entries(fs::path(from.dev) / "infiniband");
  const bool has_files = std::ranges::any_of(
      files, [](const fs::path& file) { return file.filename().string().starts_with("uverbs"); });
  if (has_files)
    return "device files are here, but the kernel shows no device in this network namespace: it "
           "belongs to another one (`rdma system show`; a container shares the host's with "
           "--network host)";
  return "the kernel lists none in " + from.sys +
         "/class/infiniband: no such card, or its driver is not loaded (mlx5_ib, bnxt_re, irdma); "
         "without a card: rdma link add rxe0 type rxe netdev INTERFACE. A container also needs "
         "--device /dev/infiniband, of which nothing is here";
}

}  // namespace weft
