// SPDX-License-Identifier: MIT
#pragma once
#include <nanobind/nanobind.h>

/// Each function adds what one file of this folder binds to the extension module.
void bind_errors(nanobind::module_& m);
void bind_files(nanobind::module_& m);
void bind_hypergraph(nanobind::module_& m);
void bind_joint_graph(nanobind::module_& m);
void bind_partition(nanobind::module_& m);
void bind_plan(nanobind::module_& m);
void bind_schedule(nanobind::module_& m);
