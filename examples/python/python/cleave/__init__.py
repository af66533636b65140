# SPDX-License-Identifier: MIT
"""Partitions graphs and hypergraphs, cuts models into stages, and makes pipeline schedules.

    import cleave
    parts = cleave.partition(A, 8)       # A: a SciPy sparse matrix, a NetworkX graph, CSR arrays or a file
    parts.labels, parts.cut, parts.imbalance

partition               k parts of an undirected graph with few edges between them
refine                  better parts from given ones
repartition             new parts that move little data, when costs have changed
verify                  what given parts cost, and their faults
partition_hypergraph    k parts of a hypergraph with few cut nets
split                   a PyTorch module in stages that run as a pipeline (needs torch)
plan                    the stages of any computation, from costs and sizes
cut_joint_graph         what a training step saves for its backward pass, and what it runs again instead
schedule                a pipeline schedule by name: rows, CSV for PyTorch, verifier, simulator, picture
read_schedule, search_schedule    the same from PyTorch's CSV, or searched for within limits of memory
cut_for_schedule        stages and their schedule together, for the shortest step
as_graph, read_graph, as_hypergraph    a graph or hypergraph that is converted once, for several calls
"""

from ._graph import Graph, Hypergraph, as_graph, as_hypergraph, read_graph
from ._joint_graph import JointCut, cut_joint_graph
from ._partition import (
    Balance,
    Finding,
    HypergraphParts,
    Options,
    Parts,
    Repartition,
    Report,
    partition,
    partition_hypergraph,
    refine,
    repartition,
    verify,
)
from ._plan import Node, Plan, StageRow, plan
from ._schedule import (
    Fault,
    FoundSchedule,
    Schedule,
    ScheduledCut,
    Simulation,
    cut_for_schedule,
    read_schedule,
    schedule,
    schedule_names,
    search_schedule,
)
from ._split import split
from .errors import (
    Error,
    FileError,
    GraphError,
    HypergraphError,
    InfeasibleError,
    OptionError,
    ScheduleError,
    SplitError,
)

__version__ = "0.2.0"
__all__ = [
    "Balance",
    "Error",
    "Fault",
    "FileError",
    "Finding",
    "FoundSchedule",
    "Graph",
    "GraphError",
    "Hypergraph",
    "HypergraphError",
    "HypergraphParts",
    "InfeasibleError",
    "JointCut",
    "Node",
    "OptionError",
    "Options",
    "Parts",
    "Plan",
    "Repartition",
    "Report",
    "Schedule",
    "ScheduleError",
    "ScheduledCut",
    "Simulation",
    "SplitError",
    "StageRow",
    "as_graph",
    "as_hypergraph",
    "cut_for_schedule",
    "cut_joint_graph",
    "partition",
    "partition_hypergraph",
    "plan",
    "read_graph",
    "read_schedule",
    "refine",
    "repartition",
    "schedule",
    "schedule_names",
    "search_schedule",
    "split",
    "verify",
]
