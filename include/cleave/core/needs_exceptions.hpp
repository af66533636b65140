// SPDX-License-Identifier: MIT
#pragma once

// Checks that the compiler has exceptions. The fronts include this one first, except those of graph,
// partition and split: these work without exceptions, and end the program where they would throw.
#include "cleave/core/language.hpp"
#if !defined(__cpp_exceptions) && !defined(_CPPUNWIND)
#include "cleave needs exceptions: compile without -fno-exceptions, or include only the fronts cleave, graph, partition and split"
#endif
