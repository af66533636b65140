// SPDX-License-Identifier: MIT
#pragma once

/// Ranks as processes of MPI. Needs MPI: component `mpi`.

/// MPI begun and ended.
#include "cleave/mpi/environment.hpp"
/// A pipeline whose ranks are processes.
#include "cleave/mpi/pipeline.hpp"
