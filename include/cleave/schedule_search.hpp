// SPDX-License-Identifier: MIT
#pragma once

/// Searches for a schedule: under costs and memory limits, with a bound beside what is found.

/// What is searched for.
#include "cleave/schedule/list/search_problem.hpp"
/// The best schedule found in a given time.
#include "cleave/schedule/search/search_schedule.hpp"
/// How far from the optimum it can be.
#include "cleave/schedule/search/schedule_certificate.hpp"
/// The optimum, of small problems.
#include "cleave/schedule/search/exact_schedule.hpp"
/// A new order of a schedule whose costs have changed.
#include "cleave/schedule/search/reschedule.hpp"
/// Stages and schedule found together.
#include "cleave/schedule/search/cut_for_schedule.hpp"
/// Units of work in a row, to be cut into stages.
#include "cleave/schedule/search/unit_row.hpp"
