// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/interpreter.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_scopes.hpp"
#include "cleave/split/modules/module_builder.hpp"
#include "cleave/split/modules/module_call_graph.hpp"
#include "cleave/split/modules/outer_builder.hpp"
#include "cleave/split/modules/split_module.hpp"

/// Options and reports for pieces whose compiler throws.
namespace cleave::inline v0_2 {

/// The treatment of a piece whose compiler throws.
/// - `raise`: `compile_error` ends the run; the next run tries the piece again
/// - `interpret`: the interpretation evaluates the piece, now and in later runs
/// - `split_again`: the piece is cut into halves of its calls, and these are compiled. A half that is refused
///   is cut again, down to single calls, which the interpretation evaluates.
enum class compile_failure : std::uint8_t { raise, interpret, split_again };

/// Options of `compile_pieces` and `compile_on_first_call`.
struct compile_options {
  compile_failure on_failure = compile_failure::raise;
  /// Limit on calls of the compiler for one piece and its slices. Slices that are left then are interpreted.
  /// A piece of n calls takes at most 2n - 1 calls of the compiler.
  std::size_t most_compiles = 64;
  /// The scopes that hold where a refused piece is cut, as in `split_module_options`.
  std::vector<module_scope> scopes = detail::torch_scopes();
};

/// The way in which a piece runs. A piece that is `split_again` runs as its slices, each with a state of its
/// own.
enum class piece_state : std::uint8_t { compiled, interpreted, split_again };

/// A report on one piece, or on one slice of a piece that was cut again.
struct piece_report {
  std::string path;       ///< the piece; for calls 2 and 3 of it: `submod_1[2:4]`
  std::string reason;     ///< why it is a piece or a slice of its own
  piece_state state;      ///< how it runs
  std::string failure{};  ///< why it is not compiled, such as the text of the compiler's exception
  std::size_t first = 0;  ///< the first of its calls, counted within the piece
  std::size_t calls = 0;  ///< the number of its calls
  bool attempted = true;  ///< the compiler was asked for it

  bool operator==(piece_report const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Neighbouring calls of a piece as a graph that returns a tuple. Inputs and outputs are nodes of the piece.
struct piece_slice {
  module_graph graph;
  std::vector<module_graph::position> inputs, outputs;
};

/// Returns the calls that bind symbols. A slice needs such a symbol together with a value from another slice
/// whose shape has it.
inline std::vector<module_graph::position> symbol_calls(module_graph const& g) {
  symbol_binders const binders(g);
  std::vector<module_graph::position> found;
  for (auto const n : g.nodes())
    if (!g[n].binds.empty() && binders.find(g[n].binds) == n) found.push_back(n);
  return found;
}

/// Returns a copy of `g` that returns these values too.
inline module_graph return_also(module_graph const& g, std::vector<module_graph::position> const& values) {
  module_graph made;
  made.reserve(g.list().size());
  for (auto n : g.list()) {
    if (n.kind == node_kind::output) n.args.push_back(tuple_argument(values));
    made.add(std::move(n));
  }
  for (auto const& a : g.attributes()) made.add_attribute(a);
  return made;
}

/// Returns calls `first` to `first + calls - 1` of `piece`. Each runs under the state of `scopes` that it has
/// in the piece. Tensors that the piece reads are inputs of the slice. What a slice is given is returned by
/// the slices before it, whatever these are. Expected O(size of the piece).
/// \throws the errors of `split_module` if scopes cannot be cut there
inline piece_slice slice_piece(module_graph const& piece, std::size_t first, std::size_t calls,
                               std::vector<module_scope> const& scopes) {
  expects(calls > 0 && first + calls <= piece.nodes().size(), "calls of the piece");
  auto const begin = piece.nodes()[first], last = piece.nodes()[first + calls - 1];
  auto const cut_out = [&](module_graph const& g) -> piece_slice {
    auto const place = [&](module_node const& n) {  // before the slice, in it, or behind it
      auto const here = static_cast<module_graph::position>(&n - g.list().data());
      return here < begin ? 0 : here <= last ? 1 : 2;
    };
    auto const cut = split_module(g, place,
                                  {.symbols = symbol_rule::bound_before_use,
                                   .scopes = scopes,
                                   .pieces = {.results = result_form::tuple}});
    auto const slice = std::ranges::find(cut.pieces, "1", &module_piece::label);
    return {cut.graph(*slice), slice->inputs, slice->outputs};
  };
  auto const symbols = symbol_calls(piece);
  return cut_out(symbols.empty() ? piece : return_also(piece, symbols));
}

/// Returns the path of a slice of a piece, such as `submod_1[2:4]`.
inline std::string slice_path(std::string const& piece, std::size_t first, std::size_t calls) {
  return piece + "[" + std::to_string(first) + ":" + std::to_string(first + calls) + "]";
}

/// An interpretation that keeps the elements of the last tuple of a given size. The result of a piece is the
/// last tuple that it makes.
template <class Value, class I>
struct result_keeper {
  I& i;
  std::size_t size;
  std::vector<Value> kept{};

  Value constant(token const& t) { return i.constant(t); }
  Value collect(container const& c, std::span<Value const> elements) {
    if (c == container{container::kind::tuple, static_cast<std::uint32_t>(size)})
      kept.assign(elements.begin(), elements.end());
    return i.collect(c, elements);
  }
  Value attribute(module_graph const& g, module_graph::position n) { return i.attribute(g, n); }
  Value call(module_graph const& g, module_graph::position n, std::span<Value const> args,
             std::span<Value const> kwargs) {
    return i.call(g, n, args, kwargs);
  }
};

/// Evaluates a graph that returns a tuple of `results` elements, and returns these.
template <class Value, interpretation<Value> I>
std::vector<Value> interpret_piece(module_graph const& g, std::span<Value const> args, std::size_t results,
                                   I& i) {
  result_keeper<Value, I> keeper{i, results};
  evaluate(g, std::vector<Value>(args.begin(), args.end()), keeper);
  return std::move(keeper.kept);
}

}  // namespace cleave::detail
