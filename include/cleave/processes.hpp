// SPDX-License-Identifier: MIT
#pragma once

/// Runs stages on ranks that are processes and meet over TCP. Needs libsodium: the component `processes`.

/// Ranks as processes.
#include "cleave/run/processes/process_pipeline.hpp"
/// Where processes meet.
#include "cleave/run/board/tcp_board.hpp"
/// Rank, number of ranks and address, from the environment.
#include "cleave/run/board/process_start.hpp"
