// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <optional>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/split/plan.hpp"

namespace cleave::inline v0_2::detail {

/// Thrown if a piece does not have exactly the arguments, nodes, results, values or outputs that the plan
/// lists for its stage. The witness is the stage.
using piece_error = tagged_error<struct piece_tag, stage_id>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Joins the written stages of a plan into one graph again: the inverse of emitting them.
///
/// `pieces[i]` is stage i as a graph. Its `inputs()`, followed by its `state()` if it has one, are the
/// stage's inputs and state in the plan's order. Its `nodes()` are the stage's nodes, and its `outputs()` the
/// stage's outputs. `b` builds the joined graph:
/// - `b.argument(v, from)` returns a name for a value that no stage makes; `v` is its number in `s`.
/// - `b.clone(piece, n, lookup)` copies node `n` of `pieces[piece]` and returns names for its results.
///   `lookup(v)` returns the name of a value `v` of the piece that `n` reads.
/// - `b.result(v, made)` receives the outputs of the joined graph, in the order of `s.outputs`.
///
/// A replicable node that several stages have is cloned once. Nodes that enter or leave a scope are cloned in
/// each stage. Expected O(V + E).
/// \pre there is one piece for each stage
/// \throws piece_error if a piece does not match the plan of its stage
template <std::unsigned_integral Index, function_graph Piece, class Builder>
void inline_stages(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p,
                   std::vector<Piece> const& pieces, Builder& b) {
  using made = std::remove_cvref_t<decltype(b.argument(Index{}, source::input))>;
  std::vector<std::optional<made>> whole(s.values());  // by value: its name in the joined graph
  auto const argument = [&](Index v) {
    if (!whole[v]) whole[v] = b.argument(v, s.from[v]);
  };
  for (auto const* list : {&s.inputs, &s.state})
    for (Index const v : *list) argument(v);

  expects(pieces.size() == p.stages.size(), "a piece for each stage");
  auto const require = [](bool ok, stage_id i, char const* what) {
    if (!ok)
      detail::raise(detail::piece_error("inline_stages: stage " + std::to_string(index(i)) +
                                            " does not have the " + what + " that the plan lists",
                                        i));
  };
  for (stage_id const i : p.order) {
    auto const& stage = p.stages[index(i)];
    auto const& piece = pieces[index(i)];
    numbering<value_t<Piece>, std::size_t> values;  // values of the piece …
    std::vector<made> names;                        // … and their names in the joined graph
    auto const name = [&](value_t<Piece> const& v, made m) {
      auto const at = values.insert(v);
      at == names.size() ? names.push_back(std::move(m)) : void(names[at] = std::move(m));
    };

    auto const called = [&](value_t<Piece> const& v) -> made const& {
      auto const at = values.find(v);
      require(at != none<std::size_t>, i, "values");
      return names[at];
    };

    std::vector<Index> given = stage.inputs;
    given.insert(given.end(), stage.state.begin(), stage.state.end());
    std::size_t taken = 0;
    auto const take = [&](value_t<Piece> const& v) {
      require(taken < given.size(), i, "arguments");
      argument(given[taken]);
      name(v, *whole[given[taken++]]);
    };
    for (auto v : piece.inputs()) take(v);
    if constexpr (stateful_graph<Piece>)
      for (auto v : piece.state()) take(v);
    require(taken == given.size(), i, "arguments");

    std::size_t done = 0;
    for (auto n : piece.nodes()) {
      require(done < stage.nodes.size(), i, "nodes");
      auto const original = stage.nodes[done++];
      auto const results = s.results[original];
      bool const again = detail::is_replicable(s, original) && !results.empty() && whole[results.front()];
      if (again) {
        for (std::size_t r = 0; auto v : detail::results_of(piece, n)) {
          require(r < results.size(), i, "results");
          name(v, *whole[results[r++]]);
        }
        continue;
      }
      auto&& clones = b.clone(index(i), n, [&](value_t<Piece> const& v) -> made { return called(v); });
      auto clone = std::ranges::begin(clones);
      for (std::size_t r = 0; auto v : detail::results_of(piece, n)) {
        expects(clone != std::ranges::end(clones), "clone to return a name for each result");
        name(v, *clone);
        if (r < results.size()) whole[results[r++]] = *clone;
        ++clone;
      }
    }
    require(done == stage.nodes.size(), i, "nodes");

    std::size_t returned = 0;
    for (auto v : piece.outputs()) {
      require(returned < stage.outputs.size(), i, "outputs");
      whole[stage.outputs[returned++]] = called(v);
    }
    require(returned == stage.outputs.size(), i, "outputs");
  }
  for (Index const v : s.outputs) {
    argument(v);
    b.result(v, *whole[v]);
  }
}

}  // namespace cleave
