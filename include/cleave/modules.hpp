// SPDX-License-Identifier: MIT
#pragma once

/// Graphs of modules: the library's own IR, and what torch.fx, Slapo and DDPOptimizer cut of it.

/// Nodes that call functions and modules, as torch.fx has them.
#include "cleave/graph/module_graph.hpp"
/// Arguments: values nested in lists, tuples, dicts and slices.
#include "cleave/graph/argument.hpp"
/// An argument as Python writes it.
#include "cleave/graph/argument_text.hpp"
/// Regions of a module graph.
#include "cleave/graph/module_scopes.hpp"
/// A module graph with costs and sizes.
#include "cleave/graph/costed_module_graph.hpp"
/// Positional and keyword arguments bound to placeholders.
#include "cleave/graph/bind_arguments.hpp"
/// Sizes of tensors as one number for each dimension, so that no tuple of sizes crosses a cut.
#include "cleave/graph/decompose_sizes.hpp"
/// Runs a module graph on values of yours.
#include "cleave/graph/interpreter.hpp"
/// Nodes for the elements of nested results.
#include "cleave/graph/result_structure.hpp"
/// Torch.fx's split_module.
#include "cleave/split/modules/split_module.hpp"
/// Torch.fx's split_by_tags.
#include "cleave/split/modules/split_by_tags.hpp"
/// A module cut at gradient buckets.
#include "cleave/split/modules/split_buckets.hpp"
/// Buckets of the parameters that a graph reads, also those that end a step soonest, and their sizes in rows.
#include "cleave/partition/buckets/module_buckets.hpp"
/// Stages of a tree of modules, as Slapo cuts them.
#include "cleave/split/modules/split_hierarchy.hpp"
/// The cuts of such a tree.
#include "cleave/partition/named/hierarchical_cut.hpp"
/// Values alive between stages of a tree.
#include "cleave/split/modules/liveness.hpp"
/// A stage with the wrapper that Slapo gives it.
#include "cleave/split/modules/wrapped_stage.hpp"
/// Pieces that are the same up to names.
#include "cleave/split/modules/compile_pieces.hpp"
/// A group of nodes made a module of its own.
#include "cleave/split/modules/outline.hpp"
