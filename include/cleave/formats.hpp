// SPDX-License-Identifier: MIT
#pragma once

/// Files: graphs, plans, costs and schedules as JSON, METIS, Matrix Market, DIMACS, edge lists and CSV.

/// A module graph written as JSON.
#include "cleave/formats/graph_json.hpp"
/// Plans.
#include "cleave/formats/plan_json.hpp"
/// Pipes, as PyTorch prints them.
#include "cleave/formats/pipe_info.hpp"
/// Which node is in which stage.
#include "cleave/formats/stage_map_json.hpp"
/// Schedules.
#include "cleave/formats/schedule_json.hpp"
/// Costs of stages as CSV.
#include "cleave/formats/cost_table.hpp"
/// Any graph file, by its suffix.
#include "cleave/formats/graph_files/graph_file.hpp"
/// METIS.
#include "cleave/formats/graph_files/metis_graph.hpp"
/// Matrix Market.
#include "cleave/formats/graph_files/matrix_market.hpp"
/// DIMACS.
#include "cleave/formats/graph_files/dimacs_graph.hpp"
/// Lists of edges.
#include "cleave/formats/graph_files/edge_list.hpp"
/// Acyclic graphs with costs.
#include "cleave/formats/graph_files/cost_dag.hpp"
/// Workloads of published planners.
#include "cleave/formats/graph_files/workload_json.hpp"
/// A module graph as an acyclic graph with costs.
#include "cleave/formats/graph_files/module_dag.hpp"
/// The part of each node, one a line.
#include "cleave/formats/graph_files/part_file.hpp"
