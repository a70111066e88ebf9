// bindings/module.cpp: the Python module cule._core.
#include <pybind11/pybind11.h>

#include "bindings/bind.hpp"

PYBIND11_MODULE(_core, m) {
  m.doc() = "Native module of cule: single consoles, batches of environments, replay memories.";
  cule::bind_game(m);
  cule::bind_console(m);
  cule::bind_batch(m);
  cule::bind_pieces(m);
  cule::bind_replay(m);
  cule::bind_xla(m);
}
