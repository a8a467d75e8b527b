// DeviceEvents: what a device tells without being asked, dealt out to the interfaces that share it.
// The kernel gives each event once, to whoever reads first. So the interface that reads an event
// leaves it with all that it concerns, and wakes them:
//
//   of the device or of a port             every interface
//   of a queue pair or a queue             the interface that made it (its Listener is the context
//                                          of the object)
//
// An interface learns its news when it next looks. Equal events that wait are one, so no more wait
// than there are kinds of events, ports and queue pairs.
//
// A device that is gone is not read any more. An interface that comes later is told so at once.
//
// Threads: all functions from any thread; one mutex, under which only the device is asked.
// Lifetime: longer than that of the listeners. Internal to the module.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "verbs/ib/library.h"

namespace weft::ib {

struct DeviceEvent {
  ibv_event_type type;
  int port = 0;                  // 0: not of a port
  std::uint32_t queue_pair = 0;  // 0: not of a queue pair
  bool operator==(const DeviceEvent&) const = default;
};

// What an interface has to learn.
struct DeviceNews {
  std::vector<DeviceEvent> events;  // in order
  bool is_room_wanted = false;      // another interface could not register memory
};

class DeviceEvents {
 public:
  // An interface that wants to know. It outlives the queue pairs and queues of which it is the
  // context: one that is destroyed waits until its events have been dealt out.
  class Listener {
   public:
    // `woken`: an eventfd on which the interface sleeps, as on the device's own descriptor.
    Listener(DeviceEvents& device, int woken);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    // Reads what the device tells. Returns what has come for this interface since the last call.
    [[nodiscard]] DeviceNews take();
    // A new queue pair has this number. What waits is of an earlier one, which is gone.
    void forget(std::uint32_t queue_pair);
    // Asks the others to let go of memory that they have registered and do not use.
    void ask_for_room();

   private:
    friend class DeviceEvents;
    void tell(const DeviceEvent& event, bool wakes);
    void wake() const;

    DeviceEvents& device_;
    int woken_;
    DeviceNews news_;
  };

  DeviceEvents(const Library& library, ibv_context* context)
      : library_(library), context_(context) {}
  // Whether the device has ended, as far as it has told by now.
  [[nodiscard]] bool is_gone();

 private:
  // All but the reader are woken.
  void read(const Listener* reader);
  void deal_out(const ibv_async_event& event, const Listener* reader);
  void tell_all(const DeviceEvent& event, const Listener* reader);

  const Library& library_;
  ibv_context* context_;
  std::mutex mutex_;  // guards all that follows, and the news of the listeners
  std::vector<Listener*> listeners_;
  bool is_gone_ = false;
};

}  // namespace weft::ib
