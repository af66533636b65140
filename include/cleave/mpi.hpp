// SPDX-License-Identifier: MIT
#pragma once

/// Runs ranks as MPI processes. Needs MPI: component `mpi`.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// Initialises and finalises MPI.
#include "cleave/mpi/environment.hpp"
/// A pipeline whose ranks are MPI processes.
#include "cleave/mpi/pipeline.hpp"
/// Measures the links between processes.
#include "cleave/mpi/measure_links.hpp"
