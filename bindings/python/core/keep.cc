// keep: giving references back with the GIL, or not at all.
#include "bindings/python/core/keep.h"

#include <atomic>

#include "bindings/python/core/gil.h"

namespace weft::python {
namespace {

std::atomic<bool> exiting{false};

}  // namespace

bool is_exiting() {
  return exiting.load(std::memory_order_acquire) || !nb::is_alive();
}

void set_exiting() {
  exiting.store(true, std::memory_order_release);
}

Kept::~Kept() {
  if (!object_.is_valid()) return;
  if (is_exiting()) {
    (void)object_.release();
    return;
  }
  const GilAcquired acquired;
  object_.reset();
}

}  // namespace weft::python
