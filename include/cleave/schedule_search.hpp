// SPDX-License-Identifier: MIT
#pragma once

/// Searches for a schedule under given costs and memory limits, and proves a lower bound.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// The search problem: stages, costs and limits.
#include "cleave/schedule/list/search_problem.hpp"
/// Finds the best schedule within a given time.
#include "cleave/schedule/search/search_schedule.hpp"
/// A certificate: how far the schedule can be from the optimum.
#include "cleave/schedule/search/schedule_certificate.hpp"
/// Finds the optimal schedule of small problems.
#include "cleave/schedule/search/exact_schedule.hpp"
/// Reorders a schedule whose costs have changed.
#include "cleave/schedule/search/reschedule.hpp"
/// Chooses the stages and the schedule together.
#include "cleave/schedule/search/cut_for_schedule.hpp"
/// A row of units of work, to be cut into stages.
#include "cleave/schedule/model/unit_row.hpp"
