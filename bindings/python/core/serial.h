// serial: algorithms of which one thread at a time may use an object. Calls of several threads follow each
// other.
#pragma once

#include <weft/macros.h>
#include <weft/weft.h>

#include <memory>
#include <mutex>
#include <utility>

#include "bindings/python/core/algorithms.h"

namespace weft::python {

template <typename Algorithm>
struct Serial {
  Serial(Algorithm made, SharedKept array) : model(std::move(array)), algorithm(std::move(made)) {}

  const SharedKept model;
  std::mutex mutex;  // a call that a signal has interrupted goes on, and the next one waits for it
  Algorithm algorithm;
};

template <typename Algorithm>
using PySerial = PyAlgorithm<std::shared_ptr<Serial<Algorithm>>>;

// Destroys it without the GIL: it may have connections of its own to close.
template <typename Algorithm>
void destroy(Serial<Algorithm>* serial) {
  if (is_exiting()) return delete serial;
  const GilAcquired acquired;  // which the thread may have already
  const GilReleased released;
  delete serial;
}

// The result of a call, which may wait for other ranks. `kept`: what it uses beside the algorithm.
template <typename T, typename Algorithm, typename Call>
T run_serial(const PySerial<Algorithm>& self, Call call, SharedKept kept = nullptr) {
  return self.template run<T>(
      [call = std::move(call)](const std::shared_ptr<Serial<Algorithm>>& it) {
        const std::lock_guard lock(it->mutex);
        return call(it->algorithm);
      },
      std::move(kept));
}

template <typename Algorithm, typename Make>
PySerial<Algorithm> make_serial(const PyContext& context, SharedKept array, Make made) {
  using Shared = std::shared_ptr<Serial<Algorithm>>;
  return make<Shared>(
      context, [array = std::move(array), made = std::move(made)](Context& on) -> Result<Shared> {
        WEFT_ASSIGN(Algorithm algorithm, made(on));
        return Shared(new Serial<Algorithm>(std::move(algorithm), array), &destroy<Algorithm>);
      });
}

// A method that takes nothing and returns nothing.
template <typename Algorithm>
auto plain_serial(Status (Algorithm::*call)()) {
  return [call](const PySerial<Algorithm>& self) {
    check(run_serial<Status>(self, [call](Algorithm& it) { return (it.*call)(); }));
  };
}

}  // namespace weft::python
