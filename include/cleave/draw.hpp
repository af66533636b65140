// SPDX-License-Identifier: MIT
#pragma once

/// Pictures: graphs, stages, schedules and runs as DOT, SVG, HTML and traces.

/// A graph and its parts in Graphviz's language.
#include "cleave/draw/dot.hpp"
/// A graph in the colours of its parts, as SVG.
#include "cleave/draw/graph_svg.hpp"
/// A plan and its run as one HTML page.
#include "cleave/draw/report.hpp"
/// The graph of stages.
#include "cleave/draw/stage_graph.hpp"
/// A schedule as text.
#include "cleave/draw/schedule_chart.hpp"
/// A schedule.
#include "cleave/draw/schedule_svg.hpp"
/// A schedule as an HTML page.
#include "cleave/draw/schedule_page.hpp"
/// A schedule for Chrome's trace viewer.
#include "cleave/draw/schedule_trace.hpp"
/// A run for the same.
#include "cleave/draw/trace.hpp"
/// Gradient buckets as text.
#include "cleave/draw/bucket_table.hpp"
