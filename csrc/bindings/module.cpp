// bindings/module.cpp: the Python module cule._core.
#include <pybind11/pybind11.h>

#include "bindings/bind.hpp"
#include "host/step_queue.hpp"

namespace cule {
namespace {

thread_local bool is_in_signal_handler = false;

// As WithoutGil.
PyGILState_STATE take_gil() {
  try {
    return PyGILState_Ensure();
  } catch (...) {
    sleep_for_ever();
  }
}

}  // namespace

bool has_signal() {
  const PyGILState_STATE gil = take_gil();
  is_in_signal_handler = true;
  const bool has_raised = PyErr_CheckSignals() != 0;
  is_in_signal_handler = false;
  PyGILState_Release(gil);
  return has_raised;
}

void refuse_in_signal_handler() {
  if (is_in_signal_handler)
    throw CallOutOfTurn("a signal handler calls an environment whose call it interrupts");
}

}  // namespace cule

PYBIND11_MODULE(_core, m) {
  m.doc() = "Native module of cule: single consoles, batches of environments, replay memories.";
  cule::bind_game(m);
  cule::bind_console(m);
  cule::bind_batch(m);
  cule::bind_pieces(m);
  cule::bind_replay(m);
  cule::bind_xla(m);
  cule::forbid_empty_instances(m);
}
