// bindings/bind.hpp: what each file of this room adds to the module. Only this room knows Python.
#pragma once

#include <pybind11/pybind11.h>

namespace cule {

void bind_game(pybind11::module_& m);
void bind_console(pybind11::module_& m);
void bind_batch(pybind11::module_& m);
void bind_pieces(pybind11::module_& m);
void bind_replay(pybind11::module_& m);
void bind_xla(pybind11::module_& m);
void bind_cuda(pybind11::module_& m);

}  // namespace cule
