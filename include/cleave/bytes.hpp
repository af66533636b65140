// SPDX-License-Identifier: MIT
#pragma once

/// Stages and pipes as bytes that can be read from anybody. Needs FlatBuffers and xxHash: component `bytes`.

/// A stage.
#include "cleave/formats/stage_buffer.hpp"
/// A pipe: its stages and the graph that calls them.
#include "cleave/formats/pipe_buffer.hpp"
/// Functions by name, for those who read them.
#include "cleave/formats/bytes/registry.hpp"
