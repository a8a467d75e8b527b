// SharedDevice: one RDMA device of this process, opened once for all interfaces on it: those of
// several lanes, of several contexts, and of both ports of a card with two. It has what they share:
// the open device, the protection domain, the registered memory and the device's events. What an
// interface works with alone (queue pairs, completion queues, rings) is its own, so no lock enters
// the data path.
//
//   IbInterface (lane 0) ──┐                 ┌─ context, protection domain
//   IbInterface (lane 1) ──┼─► SharedDevice ─┼─ Registrar ◄─ SharedRegistrations, Exposures
//   IbInterface (port 2) ──┘                 └─ DeviceEvents
//
// Owner: its interfaces together; the last one that closes closes the device. A device that is gone
// is not given to new interfaces: they open it again, as it may have come back. A forked child
// never gets its parent's.
//
// Threads: all functions from any thread. Locks: each member has its own, and none is held while
// another is taken. Internal to the module.
#pragma once

#include <memory>
#include <string>

#include "verbs/ib/device_events.h"
#include "verbs/ib/exposures.h"
#include "verbs/ib/objects.h"
#include "verbs/ib/registrar.h"
#include "verbs/memory/memory.h"

namespace weft::ib {

// The device of that name, or why it cannot be opened.
[[nodiscard]] Result<Owned<ibv_context>> open_named(const Library& library,
                                                    const std::string& name);

class SharedDevice {
 public:
  // The device of that name: the one that is open already, or opened now. `unavailable` says why it
  // cannot be.
  static Result<std::shared_ptr<SharedDevice>> open(const Library& library,
                                                    const std::string& name);
  SharedDevice(const SharedDevice&) = delete;
  SharedDevice& operator=(const SharedDevice&) = delete;

  [[nodiscard]] ibv_context* context() const { return context_.get(); }
  [[nodiscard]] ibv_pd* domain() const { return domain_.get(); }
  [[nodiscard]] const ibv_device_attr& attributes() const { return attributes_; }
  [[nodiscard]] DeviceEvents& events() { return events_; }
  [[nodiscard]] Registrar& registrar() { return registrar_; }
  // Host memory of the callers.
  [[nodiscard]] SharedRegistrations& registrations() { return registrations_; }
  // The answer to a peer that asks for a chunk of our heap (Exposures).
  [[nodiscard]] Control expose(std::uint64_t chunk, Status& why) {
    return exposures_.expose(chunk, registrar_, why);
  }
  // Memory of ours as a region, registered while somebody has a share in it.
  [[nodiscard]] Result<std::shared_ptr<const ExposedMemory>> expose(std::span<std::byte> memory) {
    return exposures_.expose(memory, registrar_);
  }

 private:
  static Result<std::shared_ptr<SharedDevice>> open_new(const Library& library,
                                                        const std::string& name);
  SharedDevice(const Library& library, const std::string& name, Owned<ibv_context> context,
               Owned<ibv_pd> domain, const ibv_device_attr& attributes);

  Owned<ibv_context> context_;
  Owned<ibv_pd> domain_;
  ibv_device_attr attributes_;
  DeviceEvents events_;
  Registrar registrar_;
  SharedRegistrations registrations_;
  Exposures exposures_;
};

}  // namespace weft::ib
