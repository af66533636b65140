// SPDX-License-Identifier: MIT
#pragma once

/// Checkpoints of the state of all stages, written so that a crash never leaves a damaged one. Needs
/// FlatBuffers and xxHash: component `bytes`.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// Reads the newest complete checkpoint.
#include "cleave/checkpoint/checkpoint.hpp"
/// Writes a checkpoint.
#include "cleave/checkpoint/checkpoint_writer.hpp"
/// Writes and loads checkpoints of ranks that are processes.
#include "cleave/checkpoint/checkpoint_ranks.hpp"
/// The contents of a checkpoint.
#include "cleave/checkpoint/checkpoint_data.hpp"
