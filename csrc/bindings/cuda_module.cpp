// bindings/cuda_module.cpp: the Python module cule._cuda.
#include <pybind11/pybind11.h>

#include "bindings/bind.hpp"

PYBIND11_MODULE(_cuda, m) {
  m.doc() = "Native module of cule: batches of environments on a GPU.";
  pybind11::module_::import("cule._core");  // knows cule._core.Game
  cule::bind_cuda(m);
  cule::forbid_empty_instances(m);
}
