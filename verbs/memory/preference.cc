// preference: see the header.
#include "verbs/memory/preference.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace weft {
namespace {

constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);

}  // namespace

MemoryPreference::MemoryPreference(int node) {
  if (node < 0 || static_cast<std::size_t>(node) >= kWords * kWordBits) return;
  if (syscall(SYS_get_mempolicy, &mode_, mask_, kWords * kWordBits, nullptr, 0) != 0) {
    status_ = system_error("get_mempolicy", errno);
    return;
  }
  unsigned long wanted[kWords] = {};
  wanted[static_cast<std::size_t>(node) / kWordBits] =
      1UL << (static_cast<std::size_t>(node) % kWordBits);
  is_set_ = syscall(SYS_set_mempolicy, MPOL_PREFERRED, wanted, kWords * kWordBits) == 0;
  if (!is_set_) status_ = system_error("set_mempolicy", errno);
}

MemoryPreference::~MemoryPreference() {
  if (is_set_) syscall(SYS_set_mempolicy, mode_, mask_, kWords * kWordBits);
}

}  // namespace weft
