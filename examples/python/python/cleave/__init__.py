# SPDX-License-Identifier: MIT
"""Partitions graphs and hypergraphs."""

from .errors import Error, FileError, GraphError, HypergraphError, InfeasibleError, OptionError

__version__ = "0.1.0"
__all__ = ["Error", "FileError", "GraphError", "HypergraphError", "InfeasibleError", "OptionError"]
