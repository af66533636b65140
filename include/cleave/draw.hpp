// SPDX-License-Identifier: MIT
#pragma once

/// Draws graphs, stages, schedules and runs as DOT, SVG, HTML and traces.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// Writes a graph and its parts in DOT, the language of Graphviz.
#include "cleave/draw/dot.hpp"
/// Draws a graph as SVG, in the colours of its parts.
#include "cleave/draw/graph_svg.hpp"
/// Writes an HTML page about a plan and its run.
#include "cleave/draw/report.hpp"
/// Draws the graph of stages.
#include "cleave/draw/stage_graph.hpp"
/// Prints a schedule as text.
#include "cleave/draw/schedule_chart.hpp"
/// Draws a schedule as SVG.
#include "cleave/draw/schedule_svg.hpp"
/// Writes a schedule as an HTML page.
#include "cleave/draw/schedule_page.hpp"
/// Writes a placement on devices as an HTML page.
#include "cleave/draw/placement_page.hpp"
/// Writes a simulated schedule as a trace for Chrome's trace viewer.
#include "cleave/draw/schedule_trace.hpp"
/// Writes a measured run as a trace for Chrome's trace viewer.
#include "cleave/draw/trace.hpp"
/// Prints gradient buckets as a text table.
#include "cleave/draw/bucket_table.hpp"
