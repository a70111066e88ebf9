// bindings/parse.hpp: numpy arrays as pointers. Python states and checks what users may ask for;
// what is checked here keeps every access within the memory of an array.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "host/checks.hpp"

namespace cule {

namespace py = pybind11;

template <class T>
using Contiguous = py::array_t<T, py::array::c_style>;

inline std::string shape_text(const std::vector<py::ssize_t>& shape) {
  std::string text = "(";
  for (const py::ssize_t n : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  return text + (shape.size() == 1 ? ",)" : ")");
}

inline std::vector<py::ssize_t> shape_of(const py::array& a) {
  return {a.shape(), a.shape() + a.ndim()};
}

inline std::string shape_text(const py::array& a) { return shape_text(shape_of(a)); }

template <class T>
const T* parse_array(const py::object& o, const char* name, const std::vector<py::ssize_t>& shape) {
  if (!py::isinstance<Contiguous<T>>(o)) {
    refuse(std::string(name) + " is " + std::string(py::str(py::type::of(o))) +
           "; it must be a contiguous array of " + std::string(py::str(py::dtype::of<T>())));
  }
  const auto a = py::reinterpret_borrow<Contiguous<T>>(o);
  if (shape_of(a) != shape) {
    refuse(std::string(name) + " has shape " + shape_text(shape_of(a)) + "; it must be " +
           shape_text(shape));
  }
  return a.data();
}

// Of `size` entries; of any number where it is negative.
template <class T>
const T* parse_vector(const py::object& o, const char* name, i32 size) {
  return parse_array<T>(o, name, {size < 0 ? py::ssize_t(py::len(o)) : py::ssize_t(size)});
}

template <class T>
const T* parse_indices(const py::object& o, const char* name, i32 n, size_t size) {
  const T* indices = parse_vector<T>(o, name, n);
  for (i32 k = 0; k < n; ++k) {
    if (indices[k] < 0 || indices[k] >= T(size))
      check_range(name + ("[" + std::to_string(k) + "]"), indices[k], 0, i64(size) - 1);
  }
  return indices;
}

}  // namespace cule
