// SPDX-License-Identifier: MIT
#pragma once

/// Reads and writes graphs, plans, costs and schedules as JSON, METIS, Matrix Market, DIMACS, edge lists and
/// CSV.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// Module graphs as JSON.
#include "cleave/formats/graph_json.hpp"
/// Module graphs and the stages in them as code.
#include "cleave/formats/module_code.hpp"
/// Plans as JSON.
#include "cleave/formats/plan_json.hpp"
/// Pipes in the text format that PyTorch prints.
#include "cleave/formats/pipe_info.hpp"
/// The stage of each node as JSON.
#include "cleave/formats/stage_map_json.hpp"
/// The stages of a decoder in the configuration of onnxruntime-genai.
#include "cleave/formats/genai_pipeline.hpp"
/// Schedules as JSON.
#include "cleave/formats/schedule_json.hpp"
/// Costs of stages as CSV.
#include "cleave/formats/cost_table.hpp"
/// Devices and links as JSON, and from the output of nvidia-smi.
#include "cleave/formats/device_file.hpp"
/// Reads any graph file, chosen by its suffix.
#include "cleave/formats/graph_files/graph_file.hpp"
/// The METIS format.
#include "cleave/formats/graph_files/metis_graph.hpp"
/// The METIS format row by row, for graphs larger than memory.
#include "cleave/formats/graph_files/metis_rows.hpp"
/// The hypergraphs of hMETIS.
#include "cleave/formats/graph_files/hmetis_hypergraph.hpp"
/// The hypergraphs of PaToH.
#include "cleave/formats/graph_files/patoh_hypergraph.hpp"
/// The Matrix Market format.
#include "cleave/formats/graph_files/matrix_market.hpp"
/// The formats of the DIMACS challenges.
#include "cleave/formats/graph_files/dimacs_graph.hpp"
/// Edge lists.
#include "cleave/formats/graph_files/edge_list.hpp"
/// Directed acyclic graphs with costs.
#include "cleave/formats/graph_files/cost_dag.hpp"
/// The JSON workloads of published planners.
#include "cleave/formats/graph_files/workload_json.hpp"
/// Converts a module graph to an acyclic graph with costs.
#include "cleave/formats/graph_files/module_dag.hpp"
/// Part files as METIS writes them: the part of each node, one per line.
#include "cleave/formats/graph_files/part_file.hpp"
