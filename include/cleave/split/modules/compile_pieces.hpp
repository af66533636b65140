// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/interpreter.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/split/modules/congruence.hpp"
#include "cleave/split/modules/split_module.hpp"

namespace cleave {

/// What a compiler is given.
template <class Value>
struct compile_request {
  std::string_view path;            ///< of the piece in the outer graph; empty: the graph is whole
  module_graph const& graph;        ///< a piece gives a tuple, also of one result or none
  std::span<Value const> examples;  ///< one for each of its placeholders
  std::size_t results = 0;          ///< elements of the tuple; 0 for a whole graph, which gives what it gives
};

}  // namespace cleave

namespace cleave::detail {

/// What `Compile` returns for a piece. It is called as `c(arguments, holds)` or `c(arguments)`, with a span
/// of values and the original paths of the attributes that the piece holds, and returns the tuple's elements
/// as a vector.
template <class Value, class Compile>
using compiled_t = std::invoke_result_t<Compile&, compile_request<Value> const&>;

/// Whether a compiled piece is told what it holds, so that one can stand for pieces that hold other
/// parameters.
template <class Compiled, class Value>
concept told_what_it_holds = std::invocable<Compiled&, std::span<Value const>, std::span<std::string const>>;

/// A compiler threw; what it threw is nested in this (`std::rethrow_if_nested`). The witness: the path of the
/// piece, empty for a whole graph.
class compile_error : public witness_error<std::string> {
 public:
  compile_error(std::string const& piece, std::string const& reason)
      : witness_error("compile: " + (piece.empty() ? "the whole graph" : "piece " + quoted(piece)) +
                          " cannot be compiled: " + reason,
                      piece) {}
};

/// A piece gave another number of results than it has. The witness: its path.
class result_count_error : public witness_error<std::string> {
 public:
  result_count_error(std::string const& piece, std::size_t expected, std::size_t given)
      : witness_error("compile: piece " + quoted(piece) + " has " + std::to_string(expected) +
                          " results, and " + std::to_string(given) + " were given",
                      piece) {}
};

/// Calls `f`, a compiler. \throws compile_error with what `f` throws nested in it.
template <class F>
auto naming_piece(std::string_view path, F f) {
  try {
    return f();
  } catch (std::exception const& e) {
    std::throw_with_nested(compile_error(std::string(path), e.what()));
  } catch (...) {
    std::throw_with_nested(compile_error(std::string(path), "it threw what is no std::exception"));
  }
}

/// Compiles a graph that was not split and returns what the compiler returns, as it is.
/// \throws compile_error with what the compiler throws nested in it.
template <class Value, class Compile>
compiled_t<Value, Compile> compile_whole(module_graph const& g, std::vector<Value> const& examples,
                                         Compile& compile) {
  return naming_piece("", [&] { return compile(compile_request<Value>{"", g, examples}); });
}

/// Whether `output`, of a piece, gives one value that is not in a tuple.
inline bool gives_bare_value(module_node const& output) {
  return output.args.size() == 1 && std::holds_alternative<node_ref>(output.args.front().front());
}

/// `piece` as a compiler gets it: its result is a tuple, also if it gives one bare value.
inline module_graph with_tuple_result(module_graph const& piece) {
  module_graph g;
  g.reserve(piece.list().size());
  for (auto n : piece.list()) {
    if (n.kind == node_kind::output && gives_bare_value(n))
      n.args.front().insert(n.args.front().begin(), container{container::kind::tuple, 1});
    g.add(std::move(n));
  }
  for (auto const& a : piece.attributes()) g.add_attribute(a);
  g.metadata = piece.metadata;
  return g;
}

/// A split graph whose pieces are compiled by `compile(compile_request)`, each before it first runs; where
/// pieces are congruent, one for all. Running it gives what the whole graph gives: tuples of one are taken
/// apart, what stands between the pieces is the interpretation's.
template <class Value, std::invocable<compile_request<Value> const&> Compile>
class compiled_split {
 public:
  using compiled = compiled_t<Value, Compile>;
  using position = module_graph::position;

  /// `same`, if it is not empty, says which pieces are congruent. A compiled piece that is not told what it
  /// holds stands only for pieces that hold the same.
  compiled_split(split_module_result const& split, Compile compile, congruence const& same = {})
      : compile_(std::move(compile)), same_(same), compiled_(split.pieces.size()) {
    expects(same.like.empty() || same.like.size() == split.pieces.size(), "the congruence of these pieces");
    for (std::uint32_t i = 0; i < split.pieces.size(); ++i) {
      auto const& piece = split.pieces[i];
      paths_.push_back(piece.path);
      outputs_.push_back(piece.outputs.size());
      auto const& inside = split.graph(piece);
      auto const output = inside.output();
      bare_.push_back(output && gives_bare_value(inside[*output]) ? 1 : 0);
      graphs_.push_back(with_tuple_result(inside));
      graphs_.back().metadata = split.outer.metadata;
      slot_.push_back(find_slot(i));
    }
    write_outer(split);
  }

  /// The outer graph, which calls `compiled_submod_0` where it called `submod_0`.
  module_graph const& outer() const { return outer_; }
  /// The pieces in the order in which the compiler was asked for them.
  std::vector<std::uint32_t> const& asked() const { return asked_; }
  /// The graph of piece i as the compiler gets it.
  module_graph const& graph(std::uint32_t piece) const { return graphs_[piece]; }

  /// What the whole graph gives for `inputs`. A piece that is met for the first time is compiled, its
  /// arguments being the examples; if that fails, what was compiled before stays.
  /// \throws compile_error, result_count_error, and what the compiled pieces and `i` throw.
  template <interpretation<Value> I>
  Value operator()(std::vector<Value> inputs, I& i) {
    auto const run = [](compile_request<Value> const& r, compiled& c, std::span<std::string const> holds) {
      return call(c, r.examples, holds);
    };
    return through(std::move(inputs), i, run);
  }

  /// Compiles all pieces in the order in which they run. `propagate(request, compiled)` gives the results of
  /// a piece for its examples: they are the examples of those after it.
  /// \throws compile_error, result_count_error, and what `propagate` and `i` throw.
  template <interpretation<Value> I, class Propagate>
  void compile_all(std::vector<Value> examples, I& i, Propagate propagate) {
    auto const step = [&](compile_request<Value> const& r, compiled& c, std::span<std::string const>) {
      return std::vector<Value>(propagate(r, c));
    };
    through(std::move(examples), i, step);
  }

 private:
  /// Between the pieces as `i` says, in the pieces as `step` does.
  template <class I, class Step>
  struct passage {
    compiled_split& all;
    I& i;
    Step& step;

    Value constant(token const& t) { return i.constant(t); }
    Value collect(container const& c, std::span<Value const> elements) { return i.collect(c, elements); }
    Value attribute(module_graph const& g, position n) { return i.attribute(g, n); }
    Value call(module_graph const& g, position n, std::span<Value const> args,
               std::span<Value const> kwargs) {
      auto const piece = all.piece_at_.find(g[n].target);
      if (g[n].kind != node_kind::call_module || piece == none<std::uint32_t>)
        return i.call(g, n, args, kwargs);
      auto results = all.run(piece, args, step);
      if (all.bare_[piece]) return std::move(results.front());
      return i.collect({container::kind::tuple, static_cast<std::uint32_t>(results.size())}, results);
    }
  };

  template <class I, class Step>
  Value through(std::vector<Value> inputs, I& i, Step step) {
    passage<I, Step> p{*this, i, step};
    return evaluate(outer_, std::move(inputs), p);
  }

  template <class Step>
  std::vector<Value> run(std::uint32_t piece, std::span<Value const> args, Step& step) {
    compile_request<Value> const request{paths_[piece], graphs_[piece], args, outputs_[piece]};
    auto& c = compiled_[slot_[piece]];
    if (!c) {
      asked_.push_back(piece);
      c.emplace(naming_piece(paths_[piece], [&] { return compile_(request); }));
    }
    std::span<std::string const> holds;
    if (!same_.holds.empty()) holds = same_.holds[piece];
    auto results = step(request, *c, holds);
    if (results.size() != outputs_[piece])
      throw result_count_error(paths_[piece], outputs_[piece], results.size());
    return results;
  }

  static std::vector<Value> call(compiled& c, std::span<Value const> args,
                                 std::span<std::string const> holds) {
    if constexpr (told_what_it_holds<compiled, Value>)
      return c(args, holds);
    else
      return c(args);
  }

  /// Where the compiled form of piece i is, perhaps with those before it that are congruent.
  std::uint32_t find_slot(std::uint32_t i) const {
    if (same_.like.empty() || same_.like[i] == i) return i;
    if (told_what_it_holds<compiled, Value> || same_.holds.empty()) return slot_[same_.like[i]];
    for (std::uint32_t j = same_.like[i]; j < i; ++j)
      if (same_.like[j] == same_.like[i] && same_.holds[j] == same_.holds[i]) return slot_[j];
    return i;
  }

  void write_outer(split_module_result const& split) {
    numbering<std::string_view, std::uint32_t> pieces;
    for (auto const& path : paths_) pieces.insert(path);
    for (auto const& path : paths_) {
      auto free = "compiled_" + path;
      while (split.outer.find_attribute(free)) free += "_";
      piece_at_.insert(free);
    }
    for (auto n : split.outer.list()) {
      if (auto const i = pieces.find(n.target); n.kind == node_kind::call_module && i != none<std::uint32_t>)
        n.target = piece_at_[i];
      outer_.add(std::move(n));
    }
    for (auto const& a : split.outer.attributes())
      if (pieces.find(a.path) == none<std::uint32_t>) outer_.add_attribute(a);
    for (auto const i : split.order)
      outer_.add_attribute({piece_at_[i], module_attribute::kind::module, {}, {}, paths_[i], {}});
    outer_.metadata = split.outer.metadata;
  }

  Compile compile_;
  congruence same_;
  module_graph outer_;
  numbering<std::string, std::uint32_t> piece_at_;  // by the path of its compiled form
  std::vector<std::string> paths_;
  std::vector<module_graph> graphs_;
  std::vector<std::size_t> outputs_;
  std::vector<char> bare_;
  std::vector<std::uint32_t> slot_;  // of a piece: whose compiled form it uses
  std::vector<std::optional<compiled>> compiled_;
  std::vector<std::uint32_t> asked_;
};

}  // namespace cleave::detail

namespace cleave {

/// The pieces of `split`, each compiled when it first runs, with real arguments as examples.
template <class Value, class Compile>
detail::compiled_split<Value, Compile> compile_on_first_call(split_module_result const& split, Compile compile,
                                                     congruence const& same = {}) {
  return {split, std::move(compile), same};
}

/// The pieces of `split`, compiled now in the order in which they run. `examples` stand for the inputs of the
/// graph, `i` gives meaning to what is between the pieces, `propagate(request, compiled)` gives the results
/// of a piece for its examples: by shape alone, or by running the compiled piece.
/// \throws compile_error that names the piece, with what the compiler threw nested in it; result_count_error.
template <class Value, interpretation<Value> I, class Compile, class Propagate>
  requires std::invocable<Propagate&, compile_request<Value> const&, detail::compiled_t<Value, Compile>&>
detail::compiled_split<Value, Compile> compile_pieces(split_module_result const& split, std::vector<Value> examples,
                                              I& i, Compile compile, Propagate propagate,
                                              congruence const& same = {}) {
  detail::compiled_split<Value, Compile> all(split, std::move(compile), same);
  all.compile_all(std::move(examples), i, std::move(propagate));
  return all;
}

/// The same where a piece's results are what the compiled piece gives for its examples.
template <class Value, interpretation<Value> I, class Compile>
detail::compiled_split<Value, Compile> compile_pieces(split_module_result const& split, std::vector<Value> examples,
                                              I& i, Compile compile, congruence const& same = {}) {
  detail::compiled_split<Value, Compile> all(split, std::move(compile), same);
  all(std::move(examples), i);
  return all;
}

}  // namespace cleave
