// lasting: algorithms whose memory other ranks may write to until they have ended. One that Python drops before
// that stays with its context until the context is closed.
#pragma once

#include <weft/macros.h>
#include <weft/weft.h>

#include <memory>
#include <mutex>
#include <utility>

#include "bindings/python/core/algorithms.h"

namespace weft::python {

// An algorithm, and what it needs until it has ended.
template <typename Algorithm>
struct Lasting {
  Lasting(Algorithm made, SharedKept array, std::weak_ptr<Opened> on)
      : model(std::move(array)), opened(std::move(on)), algorithm(std::move(made)) {}

  const SharedKept model;
  const std::weak_ptr<Opened> opened;
  std::mutex mutex;  // a call that a signal has interrupted goes on, and the next one waits for it
  Algorithm algorithm;
};

template <typename Algorithm>
using PyLasting = PyAlgorithm<std::shared_ptr<Lasting<Algorithm>>>;

// The result of a call, which may wait for other ranks. `kept`: what it uses beside the algorithm.
template <typename T, typename Algorithm, typename Call>
T run_lasting(const PyLasting<Algorithm>& self, Call call, SharedKept kept = nullptr) {
  return self.template run<T>(
      [call = std::move(call)](const std::shared_ptr<Lasting<Algorithm>>& it) {
        const std::lock_guard lock(it->mutex);
        return call(it->algorithm);
      },
      std::move(kept));
}

template <typename Algorithm, typename Make>
PyLasting<Algorithm> make_lasting(const PyContext& context, nb::object array, Make made) {
  using Shared = std::shared_ptr<Lasting<Algorithm>>;
  return make<Shared>(context, nb::none(),
                      [opened = context->context().opened(), kept = keep(std::move(array)),
                       made = std::move(made)](Context& on) -> Result<Shared> {
                        WEFT_ASSIGN(Algorithm algorithm, made(on));
                        auto open = std::make_shared<Lasting<Algorithm>>(std::move(algorithm), kept,
                                                                         opened);
                        opened->add_unended(open);
                        return open;
                      });
}

template <typename Algorithm>
void end_lasting(const PyLasting<Algorithm>& self) {
  check(self.template run<Status>([](const std::shared_ptr<Lasting<Algorithm>>& it) -> Status {
    const std::lock_guard lock(it->mutex);
    WEFT_RETURN_IF_ERROR(it->algorithm.end());
    if (const auto opened = it->opened.lock()) opened->remove_unended(it.get());
    return {};
  }));
}

// A method that takes nothing and returns nothing.
template <typename Algorithm>
auto plain_lasting(Status (Algorithm::*call)()) {
  return [call](const PyLasting<Algorithm>& self) {
    check(run_lasting<Status>(self, [call](Algorithm& it) { return (it.*call)(); }));
  };
}

}  // namespace weft::python
