// SPDX-License-Identifier: MIT
#pragma once

/// Runs stages on ranks that are processes and meet over TCP. Needs libsodium: component `processes`.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// A pipeline whose ranks are processes.
#include "cleave/run/processes/process_pipeline.hpp"
/// A rendezvous of processes over TCP.
#include "cleave/run/rendezvous/tcp_rendezvous.hpp"
/// Reads the rank, the number of ranks and the address from the environment.
#include "cleave/run/rendezvous/process_start.hpp"
