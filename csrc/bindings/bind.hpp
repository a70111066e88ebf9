// bindings/bind.hpp: what each file of this room adds to the module. Only this room knows Python.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <thread>
#include <type_traits>

#include "base/int.hpp"

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

// A field of a part of some options, as a field of the options; a flag of one byte is a bool.
template <class Options, class Part, class Of, class T>
void bind_part(pybind11::class_<Options>& options, Of part, const char* name, T Part::* field) {
  using Value = std::conditional_t<std::is_same_v<T, u8>, bool, T>;
  options.def_property(
      name, [=](Options& o) { return Value(part(o).*field); },
      [=](Options& o, Value value) { part(o).*field = T(value); });
}

void bind_game(pybind11::module_& m);
void bind_console(pybind11::module_& m);
void bind_batch(pybind11::module_& m);
void bind_pieces(pybind11::module_& m);
void bind_replay(pybind11::module_& m);
void bind_xla(pybind11::module_& m);
void bind_cuda(pybind11::module_& m);

}  // namespace cule
