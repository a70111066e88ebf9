// bindings/bind.hpp: what each file of this room adds to the module. Only this room knows Python.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <thread>

namespace cule {

// Other Python threads run while this exists. As py::gil_scoped_release, except for a thread that
// comes back to an interpreter that is ending: Python 3.13 and older end it by unwinding, which
// aborts the process in a destructor; here it sleeps until the process ends, as in Python 3.14.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      while (true) std::this_thread::sleep_for(std::chrono::hours(1));
    }
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

void bind_game(pybind11::module_& m);
void bind_console(pybind11::module_& m);
void bind_batch(pybind11::module_& m);
void bind_pieces(pybind11::module_& m);
void bind_replay(pybind11::module_& m);
void bind_xla(pybind11::module_& m);
void bind_cuda(pybind11::module_& m);

}  // namespace cule
