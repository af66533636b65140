// SPDX-License-Identifier: MIT
#pragma once

/// Binary formats of stages and pipes that are safe to read from untrusted sources. Needs FlatBuffers and
/// xxHash: component `bytes`.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// The format of a stage.
#include "cleave/formats/stage_buffer.hpp"
/// The format of a pipe: its stages, and the graph that calls them.
#include "cleave/formats/pipe_buffer.hpp"
/// A registry of functions by name, which readers use to resolve calls.
#include "cleave/formats/bytes/registry.hpp"
