// SPDX-License-Identifier: MIT
#pragma once

/// Runs stages on ranks that are processes and meet over TCP. Needs libsodium: the component `processes`.

/// Ranks as processes.
#include "cleave/run/processes/process_pipeline.hpp"
/// Where processes meet.
#include "cleave/run/rendezvous/tcp_rendezvous.hpp"
/// Rank, number of ranks and address, from the environment.
#include "cleave/run/rendezvous/process_start.hpp"
