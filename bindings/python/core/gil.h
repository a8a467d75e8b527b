// gil: releasing and taking the GIL in threads that may be caught by the end of the interpreter.
//
// A thread that asks for the GIL while the interpreter is finalized is ended by Python before 3.14
// with pthread_exit, which would unwind through C++ frames that do not allow it and end the process
// with an error. Such a thread sleeps here instead, as Python itself does from 3.14 on; the end of
// the process ends it.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

namespace weft::python {

[[noreturn]] inline void sleep_until_the_end() {
  while (true) pause();
}

class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      sleep_until_the_end();
    }
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* const state_;
};

class GilAcquired {
 public:
  GilAcquired() : state_(ensure()) {}
  ~GilAcquired() { PyGILState_Release(state_); }
  GilAcquired(const GilAcquired&) = delete;
  GilAcquired& operator=(const GilAcquired&) = delete;

 private:
  static PyGILState_STATE ensure() {
    try {
      return PyGILState_Ensure();
    } catch (...) {
      sleep_until_the_end();
    }
  }
  const PyGILState_STATE state_;
};

}  // namespace weft::python
