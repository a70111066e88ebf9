// bindings/bind.hpp: what each file of this room adds to the module. Only this room knows Python.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <thread>
#include <type_traits>

#include "base/int.hpp"
#include "host/interruption.hpp"

namespace cule {

// In place of what ends the thread where the interpreter is ending (WithoutGil).
[[noreturn]] inline void sleep_for_ever() {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

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
      sleep_for_ever();
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

// Whether a signal handler of Python has raised. Called without the GIL.
bool has_signal();

// Throws CallOutOfTurn if a signal handler that has_signal() runs makes this call: the call that it
// interrupts is still under way.
void refuse_in_signal_handler();

// call(Interruption*) without the GIL; a signal handler that raises, such as that of Ctrl-C, ends
// it between frames.
template <class Call>
void run_interruptibly(const Call& call) {
  Interruption interruption(&has_signal);
  try {
    WithoutGil without_gil;
    call(&interruption);
  } catch (...) {
    if (PyErr_Occurred() != nullptr) throw pybind11::error_already_set();
    throw;
  }
  if (PyErr_Occurred() != nullptr) throw pybind11::error_already_set();
}

// Takes `__new__` from the module's classes, which would make objects without a value: a crash in
// their first call. Calling a class does not look it up.
inline void forbid_empty_instances(const pybind11::module_& m) {
  static PyMethodDef refusal{"__new__",
                             [](PyObject*, PyObject*) -> PyObject* {
                               PyErr_SetString(PyExc_TypeError, "call the class to make an object");
                               return nullptr;
                             },
                             METH_VARARGS, nullptr};
  const auto refuse =
      pybind11::reinterpret_steal<pybind11::object>(PyCFunction_New(&refusal, nullptr));
  for (const auto& [name, value] : m.attr("__dict__").cast<pybind11::dict>()) {
    if (PyType_Check(value.ptr()) == 0) continue;
    auto* const type = reinterpret_cast<PyTypeObject*>(value.ptr());
    if (pybind11::detail::get_type_info(type) == nullptr) continue;
    PyDict_SetItemString(type->tp_dict, "__new__", refuse.ptr());
    PyType_Modified(type);
  }
}

void bind_game(pybind11::module_& m);
void bind_console(pybind11::module_& m);
void bind_batch(pybind11::module_& m);
void bind_pieces(pybind11::module_& m);
void bind_replay(pybind11::module_& m);
void bind_xla(pybind11::module_& m);
void bind_cuda_xla(pybind11::module_& m);
void bind_cuda(pybind11::module_& m);

}  // namespace cule
