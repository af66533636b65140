// SPDX-License-Identifier: MIT
#pragma once
#include <nanobind/nanobind.h>

#include <string>

namespace binding {

/// Sets the Python exception `cleave.errors.NAME`, with the fields of the witness as attributes.
void set_error(char const* name, std::string const& message, nanobind::dict const& witness);

}  // namespace binding
