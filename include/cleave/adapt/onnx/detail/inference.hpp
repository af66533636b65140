// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/detail/folding.hpp"
#include "cleave/adapt/onnx/detail/functions.hpp"
#include "cleave/adapt/onnx/detail/numbers.hpp"
#include "cleave/adapt/onnx/detail/shape_rules.hpp"
#include "cleave/adapt/onnx/shape.hpp"

namespace cleave::inline v0_2::detail {

/// Infers the types of all values of a model: of each node once, in order, with the numbers that shapes are
/// computed from. Nodes must be in topological order.
///
/// The rules of this library come first; libonnx knows the other operators. The types that the file declares
/// fill in what remains. Where they contradict, the inferred type holds, but for values in `fixed`. Bodies of
/// Loop are visited up to four times, until their types hold for every iteration.
class onnx_type_inference {
 public:
  struct options {
    bool uses_libonnx = true;
    std::unordered_set<std::string> fixed{};  ///< values of the graph whose declared type holds
  };

  /// Infers, and writes the types into `m`. A dimension with an upper bound has the symbol `<=N` or `<=N
  /// NAME`.
  onnx_type_inference(::onnx::ModelProto& m, options how)
      : functions_(onnx_functions(m)), how_(std::move(how)) {
    set_versions(m.opset_import());
    for (auto const& v : m.graph().input())
      for (auto const& d : v.type().tensor_type().shape().dim()) input_symbols_.insert(d.dim_param());
    {
      scope whole;
      visit(*m.mutable_graph(), whole, {}, true);
    }
    for (auto& [g, types] : found_) write(*g, std::move(types));
  }

  /// Returns the first contradiction between the file and what was inferred, or an empty text.
  std::string const& complaint() const { return complaint_; }

 private:
  using type = ::onnx::TypeProto;
  using graph = ::onnx::GraphProto;
  using node = ::onnx::NodeProto;

  /// The type of a value and, of small tensors, its numbers.
  struct value {
    ::onnx::TypeProto type{};
    std::shared_ptr<onnx_numbers const> numbers{};
  };
  struct scope {
    std::unordered_map<std::string_view, value> values{};
    scope const* outer = nullptr;
    std::size_t depth = 0;  ///< number of bodies and functions around it
  };
  using named_types = std::vector<std::pair<std::string_view, type>>;  // the names are those in the graph
  using declarations = std::unordered_map<std::string_view, type const*>;

  static constexpr std::size_t deepest = 100;            ///< deeper bodies are not visited
  static constexpr int deepest_type = 8;                 ///< a chain of Optional nests a type in each node
  static constexpr std::size_t most_numbers = 1 << 21;   ///< elements kept in all
  static constexpr std::size_t most_visits = 1'000'000;  ///< of nodes; then, bodies are visited once

  template <class Imports>
  void set_versions(Imports const& list) {
    versions_.clear();
    for (auto const& o : list) versions_[o.domain() == "ai.onnx" ? "" : o.domain()] = o.version();
  }

  std::int64_t version_of(std::string const& domain) const {
    auto const at = versions_.find(domain == "ai.onnx" ? std::string() : domain);
    return at == versions_.end() ? 0 : at->second;
  }

  static value const* find(std::string_view name, scope const& in) {
    for (auto const* s = &in; s != nullptr && !name.empty(); s = s->outer)
      if (auto const at = s->values.find(name); at != s->values.end()) return &at->second;
    return nullptr;
  }

  // Types.

  static bool is_set(type const& t) {
    return t.value_case() != type::VALUE_NOT_SET &&
           !(t.has_tensor_type() && t.tensor_type().elem_type() == 0 && !t.tensor_type().has_shape());
  }

  template <class Visit>
  static void each_shape(type& t, Visit visit) {
    for (auto* at = &t; at != nullptr; at = inner(*at))
      if (at->has_tensor_type() && at->tensor_type().has_shape())
        visit(*at->mutable_tensor_type()->mutable_shape());
  }

  /// Returns the type of the elements of a sequence, optional or map, or null.
  static type* inner(type& t) {
    return t.has_sequence_type()   ? t.mutable_sequence_type()->mutable_elem_type()
           : t.has_optional_type() ? t.mutable_optional_type()->mutable_elem_type()
           : t.has_map_type()      ? t.mutable_map_type()->mutable_value_type()
                                   : nullptr;
  }

  /// Forgets a shape of very high rank and a type that is nested very deep. Chains of nodes could make them
  /// as large as memory.
  static void bound(type& t) {
    int depth = 0;
    for (auto* at = &t; at != nullptr; at = inner(*at)) {
      if (++depth > deepest_type) return t.Clear();
      auto const rank = static_cast<std::size_t>(at->tensor_type().shape().dim_size());
      if (rank > onnx_numbers::most_rank) at->mutable_tensor_type()->clear_shape();
    }
  }

  /// Gives each open dimension a symbol of its own, and removes negative sizes.
  void close(type& t) {
    if (!t.has_tensor_type() || !t.tensor_type().has_shape()) return;
    for (auto& d : *t.mutable_tensor_type()->mutable_shape()->mutable_dim())
      if ((d.has_dim_value() && d.dim_value() < 0) || (!d.has_dim_value() && d.dim_param().empty()))
        d = symbols_.dimension_of(symbols_.invent(onnx_symbols::largest));
  }

  /// Removes the symbols that only this class may make.
  static type foreign(type t) {
    each_shape(t, [](auto& dims) {
      for (auto& d : *dims.mutable_dim())
        if (onnx_symbols::invented(d.dim_param())) d.clear_dim_param();
    });
    return t;
  }

  /// Returns a type for the result: bounds are `<=N`, other symbols of this class are removed.
  type finished(type t) const {
    each_shape(t, [&](auto& dims) {
      for (auto& d : *dims.mutable_dim()) {
        if (d.has_dim_value() || d.dim_param().empty()) continue;
        auto const most = symbols_.limit(d.dim_param());
        bool const is_named = !onnx_symbols::invented(d.dim_param()) && !d.dim_param().starts_with("<=");
        if (most)
          d.set_dim_param("<=" + std::to_string(*most) + (is_named ? " " + d.dim_param() : ""));
        else if (onnx_symbols::invented(d.dim_param()) || d.dim_param().starts_with("<="))
          d.clear_dim_param();
      }
    });
    return t;
  }

  void complain(std::string_view name, type const& declared, type const& inferred) {
    if (complaint_.empty())
      complaint_ = "value " + quoted(name) + " is declared as " + onnx::spelling(declared) +
                   ", but its node makes " + onnx::spelling(finished(inferred));
  }

  /// Adds to an inferred type what the file declares.
  void add_declared(std::string_view name, type const& given, bool holds, type& inferred) {
    auto const declared = foreign(given);
    if (!is_set(declared)) return;
    if (!is_set(inferred) || !declared.has_tensor_type() || !inferred.has_tensor_type()) {
      if (!is_set(inferred) || holds) inferred = declared;
      return;
    }
    auto const& from = declared.tensor_type();
    auto& to = *inferred.mutable_tensor_type();
    if (to.elem_type() == 0) to.set_elem_type(from.elem_type());
    if (from.elem_type() != 0 && from.elem_type() != to.elem_type()) complain(name, declared, inferred);
    if (!from.has_shape()) return;
    if (!to.has_shape() || to.shape().dim_size() != from.shape().dim_size()) {
      if (to.has_shape()) complain(name, declared, inferred);
      if (!to.has_shape() || holds) *to.mutable_shape() = from.shape();
      return;
    }
    for (int i = 0; i < from.shape().dim_size(); ++i) {
      auto const& d = from.shape().dim(i);
      auto& known = *to.mutable_shape()->mutable_dim(i);
      bool const sized = d.has_dim_value() && d.dim_value() >= 0;
      if (known.has_dim_value()) {
        if (!sized || known.dim_value() == d.dim_value()) continue;
        complain(name, declared, inferred);
        if (holds) known = d;
      } else if (sized) {
        known = d;
      } else if (!d.dim_param().empty() && onnx_symbols::invented(known.dim_param())) {
        symbols_.number_of(d);
        if (auto const most = symbols_.limit(known.dim_param());
            most && !input_symbols_.contains(d.dim_param()))
          symbols_.limit_to(d.dim_param(), *most);
        known = d;
      }
    }
  }

  static type type_of(onnx_numbers const& numbers) {
    type made;
    made.mutable_tensor_type()->set_elem_type(numbers.element);
    auto& shape = *made.mutable_tensor_type()->mutable_shape();
    for (auto const d : numbers.dims) shape.add_dim()->set_dim_value(d);
    return made;
  }

  static type type_of(::onnx::TensorProto const& t) {
    type made;
    made.mutable_tensor_type()->set_elem_type(t.data_type());
    auto& shape = *made.mutable_tensor_type()->mutable_shape();
    for (auto const d : t.dims()) shape.add_dim()->set_dim_value(d);
    return made;
  }

  /// Returns a list of unknown numbers if the type is a short list of whole numbers. Its length alone, or a
  /// part of it, still says something about a shape.
  static std::optional<onnx_numbers> unknown_numbers(type const& t) {
    auto const element = t.tensor_type().elem_type();
    bool const is_whole = element == ::onnx::TensorProto::INT64 || element == ::onnx::TensorProto::INT32;
    if (!t.has_tensor_type() || !t.tensor_type().has_shape() || !is_whole) return std::nullopt;
    onnx_numbers made{element, {}, {}};
    for (auto const& d : t.tensor_type().shape().dim())
      made.dims.push_back(d.has_dim_value() ? d.dim_value() : -1);
    auto const size = onnx_small_size(made.dims);
    if (!size || *size > 16) return std::nullopt;
    made.data.assign(*size, onnx_arithmetic::unknown(element));
    return made;
  }

  std::shared_ptr<onnx_numbers const> kept(std::optional<onnx_numbers>&& numbers) {
    if (!numbers) return nullptr;
    kept_numbers_ += numbers->data.size() + 1;
    if (kept_numbers_ > most_numbers) return nullptr;
    return std::make_shared<onnx_numbers const>(std::move(*numbers));
  }

  // Graphs.

  /// Visits a graph whose inputs have these values, and returns those of its outputs. Inputs without a value
  /// have the type that the file declares. Recursion is as deep as bodies are nested.
  std::vector<value> visit(graph& g, scope& s, std::vector<value> const& arguments, bool keeps) {
    declarations declared;
    for (auto const* list : {&g.value_info(), &g.output()})
      for (auto const& v : *list) declared.emplace(v.name(), &v.type());
    found_[&g].clear();
    s.values.reserve(static_cast<std::size_t>(g.initializer_size() + g.input_size() + g.node_size()));
    for (auto const& t : g.initializer()) s.values[t.name()] = {type_of(t), kept(onnx_numbers_of(t))};
    for (int i = 0; i < g.input_size(); ++i) {
      auto const& v = g.input(i);
      auto& to = s.values[v.name()];
      if (static_cast<std::size_t>(i) < arguments.size()) to = arguments[static_cast<std::size_t>(i)];
      add_declared(v.name(), v.type(), false, to.type);
      close(to.type);
    }
    for (auto& n : *g.mutable_node()) {
      auto made = results(n, s);
      for (int k = 0; k < n.output_size(); ++k) {
        auto const& name = n.output(k);
        if (name.empty()) continue;
        auto& to = made[static_cast<std::size_t>(k)];
        if (auto const at = declared.find(name); at != declared.end())
          add_declared(name, *at->second, s.outer == nullptr && how_.fixed.contains(name), to.type);
        bound(to.type);
        close(to.type);
        s.values[name] = std::move(to);
      }
    }
    std::vector<value> outputs;
    for (auto const& v : g.output()) {
      auto const* known = find(v.name(), s);
      outputs.push_back(known == nullptr ? value{} : *known);
    }
    if (keeps)
      found_[&g] = taken(g, s);
    else
      found_.erase(&g);
    return outputs;
  }

  /// Takes the types of a graph's values out of its scope: of the inputs of a body, and of all results.
  static named_types taken(graph const& g, scope& s) {
    named_types types;
    types.reserve(s.values.size());
    auto const take = [&](std::string const& name) {
      auto const at = s.values.find(name);
      if (at == s.values.end() || !is_set(at->second.type)) return;  // no type, or taken before
      types.emplace_back(name, std::move(at->second.type));
      at->second.type.Clear();
    };
    if (s.outer != nullptr)
      for (auto const& v : g.input()) take(v.name());
    for (auto const& n : g.node())
      for (auto const& name : n.output()) take(name);
    return types;
  }

  std::vector<value> visit_body(graph& body, scope const& in, std::vector<value> const& arguments) {
    if (in.depth >= deepest) return std::vector<value>(static_cast<std::size_t>(body.output_size()));
    scope inner{{}, &in, in.depth + 1};
    return visit(body, inner, arguments, true);
  }

  static graph* body_of(node& n, std::string_view name) {
    for (auto& a : *n.mutable_attribute())
      if (a.name() == name && a.has_g()) return a.mutable_g();
    return nullptr;
  }

  // Nodes.

  /// Returns the results of a node.
  std::vector<value> results(node& n, scope const& in) {
    ++visits_;
    std::vector<value> made(static_cast<std::size_t>(n.output_size()));
    if (auto const f = functions_.find(onnx_function_key(n.domain(), n.op_type())); f != functions_.end()) {
      call(*f->second, n, in, made);
      return made;
    }
    std::vector<type const*> types;
    std::vector<onnx_numbers const*> numbers;
    std::vector<onnx_numbers> open;  // reserved at its first element, so that elements stay where they are
    for (auto const& name : n.input()) {
      auto const* known = find(name, in);
      types.push_back(known == nullptr || !is_set(known->type) ? nullptr : &known->type);
      numbers.push_back(known == nullptr ? nullptr : known->numbers.get());
      if (types.back() == nullptr || numbers.back() != nullptr) continue;
      if (auto some = unknown_numbers(*types.back())) {
        if (open.empty()) open.reserve(static_cast<std::size_t>(n.input_size()));
        numbers.back() = &open.emplace_back(std::move(*some));
      }
    }
    std::vector<type> inferred(made.size());
    if (is_onnx_operator(n, "If")) {
      choose(n, numbers, in, made);
    } else if (is_onnx_operator(n, "Loop")) {
      repeat(n, in, made);
    } else {
      if (auto const t = onnx_constant_tensor(n); t != nullptr && !inferred.empty())
        inferred[0] = type_of(*t);
      else if (!shape_rules_(n, types, numbers, version_of(n.domain()), inferred))
        ask_libonnx(n, types, numbers, in, inferred);
      for (std::size_t k = 0; k < made.size(); ++k) made[k].type = std::move(inferred[k]);
      auto computed = arithmetic_(n, numbers, types);
      for (std::size_t k = 0; k < made.size(); ++k) {
        if (!computed[k]) continue;
        made[k].type = type_of(*computed[k]);
        made[k].numbers = kept(std::move(computed[k]));
      }
    }
    return made;
  }

  /// Returns a type that holds if either of two does.
  type common(type const& a, type const& b) {
    if (!a.has_tensor_type() || !b.has_tensor_type() ||
        a.tensor_type().elem_type() != b.tensor_type().elem_type())
      return a.SerializeAsString() == b.SerializeAsString() ? a : type();
    type made;
    auto& to = *made.mutable_tensor_type();
    to.set_elem_type(a.tensor_type().elem_type());
    auto const &x = a.tensor_type(), &y = b.tensor_type();
    if (!x.has_shape() || !y.has_shape() || x.shape().dim_size() != y.shape().dim_size()) return made;
    to.mutable_shape();
    for (int i = 0; i < x.shape().dim_size(); ++i) {
      auto const d = symbols_.number_of(x.shape().dim(i)), e = symbols_.number_of(y.shape().dim(i));
      *to.mutable_shape()->add_dim() =
          symbols_.dimension_of(d.same(e) ? d : symbols_.invent((std::max)(d.high, e.high)));
    }
    return made;
  }

  void choose(node& n, std::vector<onnx_numbers const*> const& numbers, scope const& in,
              std::vector<value>& made) {
    auto* const then = body_of(n, "then_branch");
    auto* const otherwise = body_of(n, "else_branch");
    if (then == nullptr || otherwise == nullptr) return;
    auto yes = visit_body(*then, in, {}), no = visit_body(*otherwise, in, {});
    auto const* which = numbers.empty() ? nullptr : numbers[0];
    bool const is_known = which != nullptr && which->data.size() == 1 && which->data[0].whole();
    for (std::size_t k = 0; k < made.size() && k < yes.size() && k < no.size(); ++k) {
      if (is_known) {
        made[k] = which->data[0].low != 0 ? yes[k] : no[k];
        continue;
      }
      made[k].type = common(yes[k].type, no[k].type);
      if (yes[k].numbers && no[k].numbers && yes[k].numbers->element == no[k].numbers->element &&
          yes[k].numbers->dims == no[k].numbers->dims &&
          std::ranges::equal(yes[k].numbers->data, no[k].numbers->data,
                             [](auto const& x, auto const& y) { return x.same(y) || x.real == y.real; }))
        made[k].numbers = yes[k].numbers;
    }
  }

  /// A Loop: its carried values have types that hold before and after each iteration.
  void repeat(node& n, scope const& in, std::vector<value>& made) {
    auto* const body = body_of(n, "body");
    if (body == nullptr || n.input_size() < 2 || body->input_size() != n.input_size() ||
        body->output_size() < n.input_size() - 1)
      return;
    auto const carried = static_cast<std::size_t>(n.input_size() - 2);
    std::vector<value> arguments(carried + 2);
    auto const scalar = [](int element, onnx_number const& x) {
      onnx_numbers one{element, {}, {x}};
      return value{type_of(one), std::make_shared<onnx_numbers const>(one)};
    };
    auto const single = [&](std::string const& name) -> onnx_number {
      auto const* known = find(name, in);
      if (known == nullptr || known->numbers == nullptr || known->numbers->data.size() != 1) return {};
      return known->numbers->data[0];
    };
    auto const trips = n.input(0).empty() ? onnx_number{} : single(n.input(0));
    bool const begins = n.input(1).empty() || single(n.input(1)).is(1);
    arguments[0] =
        scalar(::onnx::TensorProto::INT64,
               {.low = 0, .high = trips.high <= 0 ? 0 : trips.high - (trips.high != onnx_number::highest)});
    arguments[1] = scalar(::onnx::TensorProto::BOOL, onnx_number::of(1));  // else there is no iteration
    for (std::size_t k = 0; k < carried; ++k)
      if (auto const* known = find(n.input(static_cast<int>(k) + 2), in)) arguments[k + 2].type = known->type;

    std::vector<value> after;
    auto const first = symbols_.count();
    bool is_stable = false;
    bool const tries = in.depth < 3 && visits_ < most_visits;
    for (int attempt = tries ? 0 : 3; attempt < 4 && !is_stable; ++attempt) {
      for (std::size_t k = 0; k < carried && attempt == 3; ++k) forget_shapes(arguments[k + 2].type);
      after = visit_body(*body, in, arguments);
      is_stable = true;
      for (std::size_t k = 0; k < carried && attempt < 3; ++k)
        is_stable &= widen(arguments[k + 2].type, after[k + 1].type);
    }
    for (std::size_t k = 0; k < carried && k < made.size(); ++k)
      made[k].type = left(arguments[k + 2].type, first);
    auto const& goes_on = after[0].numbers;
    bool const is_counted =
        begins && trips.whole() && goes_on != nullptr && goes_on->data.size() == 1 && goes_on->data[0].is(1);
    for (std::size_t k = carried; k < made.size() && k + 1 < after.size(); ++k) {
      if (!after[k + 1].type.has_tensor_type() || trips.high <= 0)
        continue;  // engines differ without iterations
      auto& t = made[k].type;
      t = left(after[k + 1].type, first);
      if (!t.tensor_type().has_shape()) continue;
      auto const each = t.tensor_type().shape();
      auto& shape = *t.mutable_tensor_type()->mutable_shape();
      shape.clear_dim();
      *shape.add_dim() = symbols_.dimension_of(
          is_counted ? onnx_number::of((std::max)(trips.low, std::int64_t{0})) : symbols_.invent(trips.high));
      for (auto const& d : each.dim()) *shape.add_dim() = d;
    }
  }

  /// Makes `before` a type that holds for `after` too. Returns true if it already was. A size that differs
  /// becomes open, and then holds for every size.
  bool widen(type& before, type const& after) {
    if (!before.has_tensor_type() || !after.has_tensor_type()) {
      bool const holds = !is_set(before) || before.SerializeAsString() == after.SerializeAsString();
      if (!holds) before.Clear();
      return holds;
    }
    auto& x = *before.mutable_tensor_type();
    auto const& y = after.tensor_type();
    if (!x.has_shape()) return true;
    if (!y.has_shape() || x.shape().dim_size() != y.shape().dim_size()) {
      x.clear_shape();
      return false;
    }
    bool holds = true;
    for (int i = 0; i < x.shape().dim_size(); ++i) {
      auto& d = *x.mutable_shape()->mutable_dim(i);
      if (varying_.contains(d.dim_param()) ||
          symbols_.number_of(d).same(symbols_.number_of(y.shape().dim(i))))
        continue;
      d = symbols_.dimension_of(symbols_.invent(onnx_symbols::largest));
      varying_.insert(d.dim_param());
      holds = false;
    }
    return holds;
  }

  /// Returns a type as it is after a loop. Symbols made in the loop, from `first` on, become new ones: they
  /// may mean another size in each iteration.
  type left(type t, std::size_t first) {
    each_shape(t, [&](auto& dims) {
      for (auto& d : *dims.mutable_dim())
        if (onnx_symbols::invented(d.dim_param()))
          if (auto const n = symbols_.number_of(d); n.symbol >= first)
            d = symbols_.dimension_of(symbols_.invent(n.high));
    });
    return t;
  }

  static void forget_shapes(type& t) {
    for (auto* at = &t; at != nullptr; at = inner(*at))
      if (at->has_tensor_type()) at->mutable_tensor_type()->clear_shape();
  }

  /// A call of a function of the model: its body, with the values of the operands.
  void call(::onnx::FunctionProto const& f, node const& n, scope const& in, std::vector<value>& made) {
    if (in.depth >= deepest) return;
    auto body = onnx_function_body(f, n);
    scope inner{{}, nullptr, in.depth + 1};
    std::vector<value> arguments;
    for (int i = 0; i < f.input_size(); ++i) {
      body.add_input()->set_name(f.input(i));
      auto const* known = i < n.input_size() ? find(n.input(i), in) : nullptr;
      arguments.push_back(known == nullptr ? value{} : *known);
    }
    for (auto const& name : f.output()) body.add_output()->set_name(name);
    auto const outside = versions_;
    set_versions(f.opset_import());
    auto results = visit(body, inner, arguments, false);
    each_body(*body.mutable_node(), [&](graph& g) { found_.erase(&g); });
    versions_ = outside;
    for (std::size_t k = 0; k < made.size() && k < results.size(); ++k) made[k] = std::move(results[k]);
  }

  /// Calls `visit` for each body in the nodes, at any depth.
  template <class Nodes, class Visit>
  static void each_body(Nodes& nodes, Visit visit) {
    std::vector<graph*> open;
    auto const see = [&](auto& list) {
      for (auto& n : list)
        for (auto* const body : onnx_bodies(n)) open.push_back(body);
    };
    see(nodes);
    while (!open.empty()) {
      auto& g = *open.back();
      open.pop_back();
      visit(g);
      see(*g.mutable_node());
    }
  }

  // libonnx.

  /// Infers a body for libonnx: that of a Scan, for example.
  class body_inference final : public ::onnx::GraphInferencer {
   public:
    body_inference(onnx_type_inference& all, graph& body, scope const& in)
        : all_(all), body_(body), in_(in) {}
    std::vector<type const*> doInferencing(std::vector<type const*> const& types,
                                           std::vector<::onnx::TensorProto const*> const&) override {
      std::vector<value> arguments;
      for (auto const* t : types) arguments.push_back({t == nullptr ? type() : *t, nullptr});
      outputs_ = all_.visit_body(body_, in_, arguments);
      std::vector<type const*> made;
      for (auto const& v : outputs_) made.push_back(&v.type);
      return made;
    }

   private:
    onnx_type_inference& all_;
    graph& body_;
    scope const& in_;
    std::vector<value> outputs_;
  };

  /// One node, as libonnx reads it.
  class node_context final : public ::onnx::InferenceContext {
   public:
    node_context(onnx_type_inference& all, node& n, std::vector<type const*> const& types,
                 std::vector<onnx_numbers const*> const& numbers, scope const& in, std::vector<type>& made)
        : all_(all), n_(n), types_(types), numbers_(numbers), in_(in), made_(made) {}

    ::onnx::AttributeProto const* getAttribute(std::string const& name) const override {
      return find_onnx_attribute(n_, name);
    }
    std::size_t getNumInputs() const override { return types_.size(); }
    type const* getInputType(std::size_t i) const override { return types_.at(i); }
    ::onnx::TensorProto const* getInputData(std::size_t i) const override {
      auto const* known = numbers_.at(i);
      if (known == nullptr || !known->known()) return nullptr;
      return &data_.emplace_back(onnx_tensor_of(*known));
    }
    std::size_t getNumOutputs() const override { return made_.size(); }
    type* getOutputType(std::size_t i) override { return &made_.at(i); }
    ::onnx::GraphInferencer* getGraphAttributeInferencer(std::string const& name) override {
      auto* const body = body_of(n_, name);
      if (body == nullptr) throw std::out_of_range("no body");
      return &bodies_.emplace_back(all_, *body, in_);
    }
    ::onnx::SparseTensorProto const* getInputSparseData(std::size_t) const override { return nullptr; }
    ::onnx::TensorShapeProto const* getSymbolicInput(std::size_t) const override { return nullptr; }

   private:
    onnx_type_inference& all_;
    node& n_;
    std::vector<type const*> const& types_;
    std::vector<onnx_numbers const*> const& numbers_;
    scope const& in_;
    std::vector<type>& made_;
    mutable std::deque<::onnx::TensorProto> data_;
    std::deque<body_inference> bodies_;
  };

  /// Returns true if libonnx's newest rule is older than this node.
  bool is_newer_than(::onnx::OpSchema const& schema, node const& n) const {
    if (n.input_size() > schema.max_input()) return true;
    if (is_onnx_operator(n, "DFT") && version_of(n.domain()) >= 20) return true;  // another default axis
    return std::ranges::any_of(n.attribute(),
                               [&](auto const& a) { return !schema.attributes().contains(a.name()); });
  }

  void ask_libonnx(node& n, std::vector<type const*> const& types,
                   std::vector<onnx_numbers const*> const& numbers, scope const& in,
                   std::vector<type>& made) {
    auto const version = version_of(n.domain());
    auto const* const registry = ::onnx::OpSchemaRegistry::Instance();
    auto const* const schema =
        how_.uses_libonnx && version > 0
            ? registry->GetSchema(n.op_type(), static_cast<int>((std::min)(version, std::int64_t{1 << 20})),
                                  n.domain() == "ai.onnx" ? std::string() : n.domain())
            : nullptr;
    if (schema != nullptr && !is_newer_than(*schema, n)) {
      node_context context(*this, n, types, numbers, in, made);
      try {
        if (schema->has_type_and_shape_inference_function())
          schema->GetTypeAndShapeInferenceFunction()(context);
        else if (schema->HasFunction())
          ::onnx::shape_inference::InferShapeForFunctionNode(*schema->GetFunction(), registry, context);
      } catch (std::exception const&) {
        for (auto& t : made) t.Clear();
      }
    }
    for (auto* const body : onnx_bodies(n))
      if (!found_.contains(body)) visit_body(*body, in, {});
  }

  /// Writes inferred types into a graph.
  void write(graph& g, named_types types) const {
    std::unordered_multimap<std::string_view, ::onnx::ValueInfoProto*> listed;
    for (auto* list : {g.mutable_input(), g.mutable_output(), g.mutable_value_info()})
      for (auto& v : *list) listed.emplace(v.name(), &v);
    for (auto& [name, t] : types) {
      auto made = finished(std::move(t));
      auto const [first, last] = listed.equal_range(name);
      for (auto at = first; at != last; ++at) *at->second->mutable_type() = made;
      if (first != last) continue;
      auto& v = *g.add_value_info();
      v.set_name(name.data(), name.size());
      *v.mutable_type() = std::move(made);
    }
  }

  onnx_function_table functions_;
  options how_;
  std::string complaint_;
  onnx_symbols symbols_;
  onnx_shape_rules shape_rules_{symbols_};
  onnx_arithmetic arithmetic_{symbols_};
  std::map<std::string, std::int64_t> versions_;
  std::unordered_set<std::string> input_symbols_;
  std::unordered_set<std::string> varying_;  // symbols that hold for every size of a carried value
  std::unordered_map<graph*, named_types> found_;
  std::size_t visits_ = 0, kept_numbers_ = 0;
};

}  // namespace cleave::detail
