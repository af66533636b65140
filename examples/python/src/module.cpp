// SPDX-License-Identifier: MIT
// The extension module of the Python package. The Python files beside it check and convert what users pass.
#include <nanobind/nanobind.h>

#include "bind.hpp"

NB_MODULE(_native, m) {
  m.doc() = "The functions of the C++ library that the package calls. Their names may change.";
  nanobind::set_leak_warnings(false);  // what interpreters keep at exit says nothing about this package
  bind_errors(m);
  bind_files(m);
  bind_hypergraph(m);
  bind_joint_graph(m);
  bind_partition(m);
  bind_plan(m);
  bind_schedule(m);
}
