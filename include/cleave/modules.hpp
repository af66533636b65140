// SPDX-License-Identifier: MIT
#pragma once

/// Module graphs: the library's own IR, and the cuts of torch.fx, Slapo and DDPOptimizer.

/// Refuses compilers without exceptions in one line.
#include "cleave/core/needs_exceptions.hpp"
/// The module graph: nodes that call functions and modules, as in torch.fx.
#include "cleave/graph/module_graph.hpp"
/// Arguments: constants and node values nested in lists, tuples, dicts and slices.
#include "cleave/graph/argument.hpp"
/// Prints an argument in Python's syntax.
#include "cleave/graph/argument_text.hpp"
/// Scopes of a module graph, such as autocast.
#include "cleave/graph/module_scopes.hpp"
/// A module graph with the costs of its nodes and the sizes of their results.
#include "cleave/graph/costed_module_graph.hpp"
/// Binds positional and keyword arguments to placeholders.
#include "cleave/graph/bind_arguments.hpp"
/// Replaces each size of a tensor by its dimensions, so that no tuple of sizes crosses a cut.
#include "cleave/graph/decompose_sizes.hpp"
/// Evaluates a module graph on values of your own type.
#include "cleave/graph/interpreter.hpp"
/// Restores the nested structure of a graph's result.
#include "cleave/graph/result_structure.hpp"
/// The `split_module` of torch.fx.
#include "cleave/split/modules/split_module.hpp"
/// The `split_by_tags` of torch.fx.
#include "cleave/split/modules/split_by_tags.hpp"
/// Cuts a module at gradient buckets, as DDPOptimizer does.
#include "cleave/split/modules/split_buckets.hpp"
/// Assigns the parameters of a graph to gradient buckets, also optimally for the length of a step, and lists
/// the buckets' sizes.
#include "cleave/partition/buckets/module_buckets.hpp"
/// Cuts a tree of modules into stages, as Slapo does.
#include "cleave/split/modules/split_hierarchy.hpp"
/// The cut points in a tree of modules.
#include "cleave/partition/named/hierarchical_cut.hpp"
/// Liveness analysis: the values that are live between stages of a module tree.
#include "cleave/split/modules/liveness.hpp"
/// A stage with the wrapper module that Slapo adds.
#include "cleave/split/modules/wrapped_stage.hpp"
/// Writes the nodes of pieces back in place of their calls.
#include "cleave/split/modules/inline_pieces.hpp"
/// What is done with pieces that a compiler refuses.
#include "cleave/split/modules/compile_failure.hpp"
/// Finds pieces that are identical up to names, so that each is compiled once.
#include "cleave/split/modules/compile_pieces.hpp"
/// Outlines a group of nodes into a module of its own.
#include "cleave/split/modules/outline.hpp"
