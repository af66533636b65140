// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
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
#include "cleave/graph/csr.hpp"
#include "cleave/graph/interpreter.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/split/modules/compile_failure.hpp"
#include "cleave/split/modules/split_module.hpp"
#include "cleave/split/plan.hpp"

/// Compilation of pieces, where isomorphic pieces share one compiled form: of N equal layers only one is
/// compiled. Two parts are isomorphic if they have the same nodes in the same order, corresponding nodes read
/// corresponding values, and their outputs correspond in order. The order of nodes counts because nothing
/// else orders writes in place.
namespace cleave::inline v0_2 {

/// The classes of isomorphic parts.
struct isomorphism {
  std::vector<std::uint32_t> like;  ///< by part: the first part that is isomorphic to it, perhaps itself
  std::size_t classes = 0;          ///< number of classes
  /// By piece: the original paths of its attributes. Entry i of one piece stands for entry i of each piece
  /// that is isomorphic to it.
  std::vector<std::vector<std::string>> holds{};

  bool operator==(isomorphism const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Groups parts into classes. Each part is given as a list of numbers that describes it. Lists with equal
/// hashes are compared in full.
class class_finder {
 public:
  void add(std::vector<std::uint64_t> part) {
    auto const me = static_cast<std::uint32_t>(found_.like.size());
    auto const h = hashes_.insert(hash(part));
    if (h == known_.size()) known_.emplace_back();
    for (auto const& [first, at] : known_[h])
      if (first_of_class_[at] == part) {
        found_.like.push_back(first);
        return;
      }
    known_[h].emplace_back(me, first_of_class_.size());
    first_of_class_.push_back(std::move(part));
    found_.like.push_back(me);
    ++found_.classes;
  }
  isomorphism finish() && { return std::move(found_); }

 private:
  static std::uint64_t hash(std::vector<std::uint64_t> const& part) {
    std::uint64_t h = part.size();
    for (auto const x : part) {
      h = (h ^ x) * 0x9e3779b97f4a7c15u;
      h ^= h >> 29;
    }
    return h;
  }

  isomorphism found_;
  numbering<std::uint64_t, std::uint32_t> hashes_;  // in step with …
  // … the classes with each hash: first part, position in `first_of_class_`
  std::vector<std::vector<std::pair<std::uint32_t, std::size_t>>> known_;
  std::vector<std::vector<std::uint64_t>> first_of_class_;
};

/// Returns which stages of `p`, a plan of `s`, are isomorphic. `node_key(n)` returns a key of a node, and
/// `value_key(v)` one of a value that a stage is given. Stages are isomorphic only if their keys are equal. A
/// key has any type with a hash. Expected O(size of the plan).
template <std::unsigned_integral Index, class NodeKey, class ValueKey>
isomorphism isomorphic_stages(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p,
                              NodeKey node_key, ValueKey value_key) {
  numbering<std::remove_cvref_t<decltype(node_key(Index{}))>, Index> nodes;
  numbering<std::remove_cvref_t<decltype(value_key(Index{}))>, Index> values;
  std::vector<Index> value_at(s.values(), none<Index>), node_at(s.nodes(), none<Index>);
  std::vector<std::size_t> seen_in(s.nodes(), p.stages.size());
  class_finder classes;
  for (std::size_t i = 0; i < p.stages.size(); ++i) {
    auto const& stage = p.stages[i];
    std::vector<std::uint64_t> part{stage.inputs.size(), stage.state.size(), stage.nodes.size(),
                                    stage.outputs.size()};
    Index next = 0;
    for (auto const* given : {&stage.inputs, &stage.state})
      for (Index const v : *given) {
        value_at[v] = next++;
        part.push_back(values.insert(value_key(v)));
      }
    for (std::size_t at = 0; at < stage.nodes.size(); ++at) {
      Index const n = stage.nodes[at];
      node_at[n] = static_cast<Index>(at);
      seen_in[n] = i;
      part.insert(part.end(), {nodes.insert(node_key(n)), s.operands[n].size(), s.results[n].size()});
      for (Index const v : s.operands[n]) part.push_back(value_at[v]);
      for (Index const v : s.results[n]) value_at[v] = next++;
      auto const before = part.size();
      part.push_back(0);
      for (Index const m : s.after[n])
        if (seen_in[m] == i) part.push_back(node_at[m]);
      part[before] = part.size() - before - 1;
    }
    for (Index const v : stage.outputs) part.push_back(value_at[v]);
    classes.add(std::move(part));
  }
  return std::move(classes).finish();
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The keys of a module_graph's nodes and attributes, as text. Pieces are isomorphic only if these keys are
/// equal, in addition to structure and targets. To change a key, derive from this class and hide the member.
struct piece_keys {
  /// Returns the key of a node: its shape, its symbolic expression, the symbol it binds and its metadata.
  std::string node(module_node const& n) const {
    std::string key = n.shape ? "shape" : "none";
    if (n.shape)
      for (auto const& d : *n.shape) key += dimension_text(d);
    key += "|" + sized(n.expression) + sized(n.binds);
    for (auto const& m : n.metadata) key += sized(m.key) + text(m.value);
    return key;
  }
  /// Returns the key of an attribute. A module without a graph inside is isomorphic only to itself, so its
  /// key has its original path. Tensors have equal keys if their metadata are equal.
  std::string attribute(module_attribute const& a) const {
    bool const closed = a.what == module_attribute::kind::module && a.body.empty();
    std::string key = closed ? sized(a.original.empty() ? a.path : a.original) : "";
    for (auto const& m : a.metadata) key += sized(m.key) + text(m.value);
    return key;
  }

  /// Returns `s` after its length, so that keys can be joined without ambiguity.
  static std::string sized(std::string const& s) { return std::to_string(s.size()) + ":" + s; }
  static std::string dimension_text(dimension const& d) {
    auto const* number = std::get_if<std::int64_t>(&d);
    return number ? " " + std::to_string(*number) : " " + sized(std::get<std::string>(d));
  }
  /// Returns an argument as text, in which nodes are positions.
  static std::string text(module_argument const& a) {
    std::string all;
    for (auto const& t : a) {
      all += "," + std::to_string(t.index());
      if (auto const* b = std::get_if<bool>(&t)) all += *b ? "1" : "0";
      if (auto const* i = std::get_if<std::int64_t>(&t)) all += "i" + std::to_string(*i);
      if (auto const* d = std::get_if<double>(&t))
        all += "d" + std::to_string(std::bit_cast<std::uint64_t>(*d));
      if (auto const* s = std::get_if<std::string>(&t)) all += sized(*s);
      if (auto const* o = std::get_if<opaque>(&t)) all += sized(o->kind) + sized(o->text);
      if (auto const* r = std::get_if<node_ref>(&t)) all += "#" + std::to_string(r->node);
      if (auto const* c = std::get_if<container>(&t))
        all += std::to_string(static_cast<unsigned>(c->what)) + "x" + std::to_string(c->size);
    }
    return all;
  }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Writes a graph, and the graphs inside it, as numbers. Used by `isomorphic_pieces`.
template <class Keys>
class graph_numbers {
 public:
  graph_numbers(Keys const& keys, numbering<std::string, std::uint32_t>& texts)
      : keys_(keys), texts_(texts) {}

  /// Returns the numbers of `g`. Appends to `holds` the original paths of the attributes, in the order in
  /// which they are met.
  std::vector<std::uint64_t> write(module_graph const& g, std::vector<std::string>& holds) {
    std::vector<module_graph const*> rest{&g};
    for (std::size_t i = 0; i < rest.size(); ++i)  // `rest` grows by nested bodies
      write_one(*rest[i], rest, holds);
    return std::move(out_);
  }

 private:
  void write_one(module_graph const& g, std::vector<module_graph const*>& rest,
                 std::vector<std::string>& holds) {
    numbering<std::string, std::uint32_t> attributes;
    put(g.list().size());
    for (auto const& n : g.list()) {
      bool const named = n.kind == node_kind::call_module || n.kind == node_kind::get_attr;
      bool const target = n.kind == node_kind::call_function || n.kind == node_kind::call_method;
      put(static_cast<std::uint64_t>(n.kind));
      put(named ? attributes.insert(n.target) : target ? text(n.target) : 0);
      put(text(keys_.node(n)));
      put(n.args.size());
      for (auto const& a : n.args) put(text(Keys::text(a)));
      put(n.kwargs.size());
      for (auto const& k : n.kwargs) {
        put(text(k.key));
        put(text(Keys::text(k.value)));
      }
      put(n.after.size());
      for (auto const m : n.after) put(m);
    }
    numbering<std::string, std::uint32_t> storages;
    put(attributes.size());
    for (auto const& path : attributes.handles()) {
      module_attribute const unknown{path, module_attribute::kind::module, {}, {}, {}, {}};
      auto const* found = g.find_attribute(path);
      auto const& a = found ? *found : unknown;
      put(static_cast<std::uint64_t>(a.what));
      put(storages.insert(a.storage.empty() ? "path " + path : "storage " + a.storage));
      put(text(keys_.attribute(a)));
      put(a.body.size());
      for (auto const& body : a.body) rest.push_back(&body);
      holds.push_back(a.original.empty() ? a.path : a.original);
    }
  }

  void put(std::uint64_t x) { out_.push_back(x); }
  std::uint64_t text(std::string const& s) { return texts_.insert(s); }

  Keys const& keys_;
  numbering<std::string, std::uint32_t>& texts_;
  std::vector<std::uint64_t> out_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns which pieces of `r` are isomorphic by `keys`. Names of nodes and inputs do not count. Expected
/// O(size of the pieces).
template <class Keys = piece_keys>
isomorphism isomorphic_pieces(split_module_result const& r, Keys const& keys = {}) {
  numbering<std::string, std::uint32_t> texts;
  detail::class_finder classes;
  std::vector<std::vector<std::string>> holds;
  for (auto const& piece : r.pieces)
    classes.add(detail::graph_numbers<Keys>(keys, texts).write(r.graph(piece), holds.emplace_back()));
  auto found = std::move(classes).finish();
  found.holds = std::move(holds);
  return found;
}

/// The input of a compiler: a piece, a slice of a piece that was cut again, or a graph that was not split.
template <class Value>
struct compile_request {
  std::string_view path;            ///< as in `piece_report`; empty for a whole graph
  module_graph const& graph;        ///< a piece returns a tuple, also for one result or none
  std::span<Value const> examples;  ///< one for each placeholder of the graph
  std::size_t results = 0;          ///< elements of the tuple; 0 for a whole graph, which may return any form
  std::string_view reason = {};     ///< why it is a piece or a slice of its own; empty for a whole graph
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The type that `Compile` returns for a piece. It is called as `c(arguments, holds)` or `c(arguments)`.
/// `arguments` is a span of values, and `holds` has the original paths of the piece's attributes. The call
/// returns the elements of the tuple as a vector.
template <class Value, class Compile>
using compiled_t = std::invoke_result_t<Compile&, compile_request<Value> const&>;

/// A compiled piece that takes the paths of a piece's attributes, so that it can stand for pieces with other
/// parameters.
template <class Compiled, class Value>
concept told_what_it_holds = std::invocable<Compiled&, std::span<Value const>, std::span<std::string const>>;

/// Thrown if a compiler throws. The compiler's exception is nested in it (`std::rethrow_if_nested`). The
/// witness is the path of the piece, empty for a whole graph.
using compile_error = tagged_error<struct compile_tag, std::string>;

/// Thrown if a compiled piece returns the wrong number of results. The witness is the path of the piece.
using result_count_error = tagged_error<struct result_count_tag, std::string>;

/// Returns the text of the exception that is being handled.
inline std::string text_of_failure() {
  try {
    throw;
  } catch (std::exception const& e) {
    return e.what();
  } catch (...) {
    return "the compiler threw something other than a std::exception";
  }
}

/// Throws a compile_error with the exception that is being handled nested in it.
[[noreturn]] inline void throw_compile_error(std::string_view path) {
  auto const what = path.empty() ? "the whole graph" : "piece " + quoted(path);
  auto const fix = path.empty() ? "" : "; compile_failure::interpret runs such pieces without the compiler";
  std::throw_with_nested(compile_error("compile: " + what + " cannot be compiled: " + text_of_failure() + fix,
                                       std::string(path)));
}

/// Compiles a graph that was not split. Returns the compiler's result unchanged.
/// \throws compile_error with the compiler's exception nested in it
template <class Value, class Compile>
compiled_t<Value, Compile> compile_whole(module_graph const& g, std::vector<Value> const& examples,
                                         Compile& compile) {
  try {
    return compile(compile_request<Value>{"", g, examples});
  } catch (...) {
    throw_compile_error("");
  }
}

/// Returns true if `output`, the output node of a piece, returns one value that is not in a tuple.
inline bool gives_bare_value(module_node const& output) {
  return output.args.size() == 1 && std::holds_alternative<node_ref>(output.args.front().front());
}

/// Returns `piece` in the form that compilers receive: a single bare result is wrapped in a tuple.
inline module_graph wrap_result_in_tuple(module_graph const& piece) {
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

/// A split graph whose pieces are compiled by `compile(compile_request)`, each before its first run.
/// Isomorphic pieces share one compiled form. A run returns the same result as the whole graph: bare results
/// are taken out of their tuples, and the interpretation evaluates all nodes between the pieces.
template <class Value, std::invocable<compile_request<Value> const&> Compile>
class compiled_split {
 public:
  using compiled = compiled_t<Value, Compile>;
  using position = module_graph::position;

  /// `same`, unless it is empty, says which pieces are isomorphic. A compiled piece that does not take the
  /// paths of attributes is shared only by pieces that have the same attributes.
  compiled_split(split_module_result const& split, Compile compile, isomorphism const& same = {},
                 compile_options options = {})
      : compile_(std::move(compile)),
        same_(same),
        options_(std::move(options)),
        forms_(split.pieces.size()),
        slices_(split.pieces.size()) {
    expects(same.like.empty() || same.like.size() == split.pieces.size(), "an isomorphism of these pieces");
    for (std::uint32_t i = 0; i < split.pieces.size(); ++i) {
      auto const& piece = split.pieces[i];
      paths_.push_back(piece.path);
      outputs_.push_back(piece.outputs.size());
      auto const& inside = split.graph(piece);
      auto const output = inside.output();
      bare_.push_back(output && gives_bare_value(inside[*output]) ? 1 : 0);
      graphs_.push_back(wrap_result_in_tuple(inside));
      graphs_.back().metadata = split.outer.metadata;
      slot_.push_back(find_slot(i));
      reasons_.push_back(piece.reason.empty() ? "part " + quoted(piece.label) + " of the split"
                                              : piece.reason);
      forms_[i].slices.push_back({0, graphs_.back().nodes().size(), reasons_.back()});
    }
    write_outer(split);
  }

  /// Returns the outer graph. It calls `compiled_submod_0` where the split graph called `submod_0`.
  module_graph const& outer() const { return outer_; }
  /// Returns the pieces in the order in which they were handed to the compiler.
  std::vector<std::uint32_t> const& asked() const { return asked_; }
  /// Returns the graph of piece i as the compiler receives it.
  module_graph const& graph(std::uint32_t piece) const { return graphs_[piece]; }
  /// Returns the number of times that the compiler was called.
  std::size_t compiles() const { return compiles_; }
  /// Returns the reports on piece i: first on the piece, then on the halves of each slice that was cut again.
  /// The list is empty before the first run. Pieces that share a compiled form share it.
  std::vector<piece_report> const& report(std::uint32_t piece) const { return forms_[slot_[piece]].report; }

  /// Returns the result of the whole graph for `inputs`. A piece that is met for the first time is compiled,
  /// with its arguments as examples. If a compilation fails, the pieces compiled before stay compiled.
  /// \throws compile_error, result_count_error, and the errors of the compiled pieces and of `i`
  template <interpretation<Value> I>
  Value operator()(std::vector<Value> inputs, I& i) {
    auto const run = [](compile_request<Value> const& r, compiled& c, std::span<std::string const> holds) {
      return call(c, r.examples, holds);
    };
    return through(std::move(inputs), i, run);
  }

  /// Compiles all pieces in the order in which they run. `propagate(request, compiled)` returns the results
  /// of a piece for its examples. They are the examples of later pieces.
  /// \throws compile_error, result_count_error, and the errors of `propagate` and `i`
  template <interpretation<Value> I, class Propagate>
  void compile_all(std::vector<Value> examples, I& i, Propagate propagate) {
    auto const step = [&](compile_request<Value> const& r, compiled& c, std::span<std::string const>) {
      return std::vector<Value>(propagate(r, c));
    };
    through(std::move(examples), i, step);
  }

 private:
  using request = compile_request<Value>;

  /// Neighbouring calls of the pieces of a slot, which run together: by `code`, or by the interpretation.
  struct slice {
    std::size_t first, calls;
    std::string reason;
    bool settled = false;  // it is compiled, or will always be interpreted
    std::optional<compiled> code{};
  };
  /// The slices as which the pieces of a slot run, in order; at first a single one.
  struct form {
    std::vector<slice> slices{};
    std::vector<piece_report> report{};
    std::size_t compiles = 0;
  };
  /// A slice of one piece as a graph.
  struct own_slice {
    std::size_t first, calls;
    std::string path;
    piece_slice cut;
    std::vector<std::string> holds;
  };

  /// An interpretation that evaluates pieces by `step` and everything between them by `i`.
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
      auto results = all.run(piece, args, i, step);
      if (all.bare_[piece]) return std::move(results.front());
      return i.collect({container::kind::tuple, static_cast<std::uint32_t>(results.size())}, results);
    }
  };

  template <class I, class Step>
  Value through(std::vector<Value> inputs, I& i, Step step) {
    passage<I, Step> p{*this, i, step};
    return evaluate(outer_, std::move(inputs), p);
  }

  template <class I, class Step>
  std::vector<Value> run(std::uint32_t piece, std::span<Value const> args, I& i, Step& step) {
    auto& f = forms_[slot_[piece]];
    if (f.slices.size() == 1) {
      request const r{paths_[piece], graphs_[piece], args, outputs_[piece], reasons_[piece]};
      std::span<std::string const> holds;
      if (!same_.holds.empty()) holds = same_.holds[piece];
      if (f.slices[0].settled || settle(piece, 0, r)) return run_slice(f.slices[0], r, holds, i, step);
    }
    return run_slices(piece, args, i, step);
  }

  /// Runs a piece that was cut again, slice by slice. O(size of the piece), without its calls.
  template <class I, class Step>
  std::vector<Value> run_slices(std::uint32_t piece, std::span<Value const> args, I& i, Step& step) {
    auto const& g = graphs_[piece];
    auto& slices = forms_[slot_[piece]].slices;
    std::vector<std::optional<Value>> values(g.list().size());  // by node of the piece
    for (std::size_t k = 0; k < args.size(); ++k) values[g.inputs()[k]] = args[k];
    auto const value_of = [&](position n) {
      if (!values[n]) values[n] = i.attribute(g, n);
      return *values[n];
    };
    std::vector<Value> list;
    for (std::size_t k = 0; k < slices.size();) {
      auto const& own = find_slice(piece, k);
      list.clear();
      for (auto const n : own.cut.inputs) list.push_back(value_of(n));
      request const r{own.path, own.cut.graph, list, own.cut.outputs.size(), slices[k].reason};
      if (!slices[k].settled && !settle(piece, k, r)) continue;
      auto results = run_slice(slices[k++], r, own.holds, i, step);
      for (std::size_t j = 0; j < results.size(); ++j) values[own.cut.outputs[j]] = std::move(results[j]);
    }
    list.clear();
    for (auto const n : g.outputs()) list.push_back(value_of(n));
    return list;
  }

  template <class I, class Step>
  static std::vector<Value> run_slice(slice& s, request const& r, std::span<std::string const> holds, I& i,
                                      Step& step) {
    if (!s.code) return interpret_piece(r.graph, r.examples, r.results, i);
    auto results = step(r, *s.code, holds);
    if (results.size() != r.results)
      throw result_count_error("compile: piece " + quoted(r.path) + " has " + std::to_string(r.results) +
                                   " results, but its compiled form returned " +
                                   std::to_string(results.size()) +
                                   " results; return compile_request::results values",
                               std::string(r.path));
    return results;
  }

  /// Compiles slice k of a piece, or lets it be interpreted. Returns false if it is replaced by its halves
  /// instead.
  bool settle(std::uint32_t piece, std::size_t k, request const& r) {
    auto& f = forms_[slot_[piece]];
    auto& s = f.slices[k];
    using enum compile_failure;
    piece_report told{
        std::string(r.path), std::string(r.reason), piece_state::compiled, {}, s.first, s.calls};
    bool const raises = options_.on_failure == raise;
    told.attempted = raises || f.compiles < options_.most_compiles;
    if (told.attempted) {
      if (f.slices.size() == 1) asked_.push_back(piece);
      ++f.compiles;
      ++compiles_;
      try {
        s.code.emplace(compile_(r));
      } catch (...) {
        if (raises) throw_compile_error(r.path);
        told.failure = text_of_failure();
      }
    }
    std::vector<own_slice> halves;
    if (!s.code) {
      told.state = piece_state::interpreted;
      bool const again = told.attempted && options_.on_failure == split_again && s.calls > 1;
      if (!told.attempted || (again && f.compiles >= options_.most_compiles))
        told.failure += (told.failure.empty() ? "" : "; ") + limit_text(paths_[piece]);
      else if (again)
        halves = cut_in_halves(piece, s, told);
    }
    f.report.push_back(told);
    if (halves.empty()) return s.settled = true;
    replace_by_halves(piece, k, std::move(halves),
                      "half of " + quoted(told.path) + ", which the compiler refused: " + told.failure);
    return false;
  }

  void replace_by_halves(std::uint32_t piece, std::size_t k, std::vector<own_slice> halves,
                         std::string const& reason) {
    std::vector<slice> now;  // compiled forms can be moved into it, but perhaps not assigned
    auto& slices = forms_[slot_[piece]].slices;
    now.reserve(slices.size() + 1);
    for (std::size_t j = 0; j < slices.size(); ++j)
      if (j != k)
        now.push_back(std::move(slices[j]));
      else
        for (auto const& half : halves) now.push_back({half.first, half.calls, reason});
    slices.swap(now);
    auto& own = slices_[piece];
    auto const at = static_cast<std::ptrdiff_t>(k);
    if (k < own.size()) own.erase(own.begin() + at);
    own.insert(own.begin() + at, std::make_move_iterator(halves.begin()),
               std::make_move_iterator(halves.end()));
  }

  std::string limit_text(std::string const& path) const {
    return "the compiler was called " + std::to_string(options_.most_compiles) + " times for piece " +
           quoted(path) + ", and compile_options::most_compiles allows no more";
  }

  /// Returns both halves of a slice; nothing, with the reason in `told`, if scopes forbid to cut it.
  std::vector<own_slice> cut_in_halves(std::uint32_t piece, slice const& s, piece_report& told) const {
    auto const half = s.calls / 2;
    try {
      std::vector<own_slice> halves;
      halves.push_back(cut_slice(piece, s.first, half));
      halves.push_back(cut_slice(piece, s.first + half, s.calls - half));
      told.state = piece_state::split_again;
      return halves;
    } catch (error const& e) {
      told.failure += std::string("; it cannot be cut in halves: ") + e.what();
      return {};
    }
  }

  own_slice cut_slice(std::uint32_t piece, std::size_t first, std::size_t calls) const {
    own_slice made{first,
                   calls,
                   slice_path(paths_[piece], first, calls),
                   slice_piece(graphs_[piece], first, calls, options_.scopes),
                   {}};
    made.cut.graph.metadata = graphs_[piece].metadata;
    numbering<std::string, std::uint32_t> texts;
    if (!same_.holds.empty()) graph_numbers<piece_keys>({}, texts).write(made.cut.graph, made.holds);
    return made;
  }

  /// Returns slice k of a piece, whose predecessors have been found before.
  own_slice const& find_slice(std::uint32_t piece, std::size_t k) {
    auto const& s = forms_[slot_[piece]].slices[k];
    auto& list = slices_[piece];
    if (k < list.size() && list[k].first == s.first && list[k].calls == s.calls) return list[k];
    list.resize(k);  // another piece with the same form has cut it again since
    list.push_back(cut_slice(piece, s.first, s.calls));
    return list.back();
  }

  static std::vector<Value> call(compiled& c, std::span<Value const> args,
                                 std::span<std::string const> holds) {
    if constexpr (told_what_it_holds<compiled, Value>)
      return c(args, holds);
    else
      return c(args);
  }

  /// Returns the slot of piece i's compiled form, perhaps shared with an earlier isomorphic piece.
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
  isomorphism same_;
  compile_options options_;
  module_graph outer_;
  numbering<std::string, std::uint32_t> piece_at_;  // maps the path of a compiled form to its piece
  std::vector<std::string> paths_, reasons_;
  std::vector<module_graph> graphs_;
  std::vector<std::size_t> outputs_;
  std::vector<char> bare_;
  std::vector<std::uint32_t> slot_;             // by piece: the piece whose compiled form it uses
  std::vector<form> forms_;                     // by slot
  std::vector<std::vector<own_slice>> slices_;  // by piece: of one that was cut again
  std::vector<std::uint32_t> asked_;
  std::size_t compiles_ = 0;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the pieces of `split`, each to be compiled when it first runs, with its arguments as examples.
/// `same`, unless it is empty, says which pieces are isomorphic and may share a compiled form. `options`
/// choose the treatment of pieces that the compiler refuses.
template <class Value, class Compile>
detail::compiled_split<Value, Compile> compile_on_first_call(split_module_result const& split,
                                                             Compile compile, isomorphism const& same = {},
                                                             compile_options options = {}) {
  return {split, std::move(compile), same, std::move(options)};
}

/// Compiles the pieces of `split` now, in the order in which they run.
///
/// \param examples values that stand for the inputs of the graph
/// \param i evaluates the nodes between the pieces, and what the compiler refuses, unless that is an error
/// \param propagate `propagate(request, compiled)` returns the results of a piece for its examples, by shapes
/// alone or by running the compiled piece
/// \param same unless it is empty: which pieces are isomorphic and may share a compiled form
/// \param options the treatment of pieces that the compiler refuses
/// \throws compile_error, which names the piece and has the compiler's exception nested in it, and
/// result_count_error
template <class Value, interpretation<Value> I, class Compile, class Propagate>
  requires std::invocable<Propagate&, compile_request<Value> const&, detail::compiled_t<Value, Compile>&>
detail::compiled_split<Value, Compile> compile_pieces(split_module_result const& split,
                                                      std::vector<Value> examples, I& i, Compile compile,
                                                      Propagate propagate, isomorphism const& same = {},
                                                      compile_options options = {}) {
  detail::compiled_split<Value, Compile> all(split, std::move(compile), same, std::move(options));
  all.compile_all(std::move(examples), i, std::move(propagate));
  return all;
}

/// Compiles the pieces of a split. The results of a piece come from running its compiled form on its
/// examples.
template <class Value, interpretation<Value> I, class Compile>
detail::compiled_split<Value, Compile> compile_pieces(split_module_result const& split,
                                                      std::vector<Value> examples, I& i, Compile compile,
                                                      isomorphism const& same = {},
                                                      compile_options options = {}) {
  detail::compiled_split<Value, Compile> all(split, std::move(compile), same, std::move(options));
  all(std::move(examples), i);
  return all;
}

}  // namespace cleave
