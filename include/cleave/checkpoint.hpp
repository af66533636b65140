// SPDX-License-Identifier: MIT
#pragma once

/// Checkpoints: the state of all stages, written so that a crash loses nothing. Needs FlatBuffers and xxHash:
/// component `bytes`.

/// Reads the newest complete checkpoint.
#include "cleave/checkpoint/checkpoint.hpp"
/// Writes one.
#include "cleave/checkpoint/checkpoint_writer.hpp"
/// The same by many ranks.
#include "cleave/checkpoint/checkpoint_ranks.hpp"
/// What is in one.
#include "cleave/checkpoint/checkpoint_data.hpp"
