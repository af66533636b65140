// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/cost.hpp"
#include "cleave/adapt/onnx/detail/functions.hpp"
#include "cleave/adapt/onnx/fault.hpp"
#include "cleave/adapt/onnx/graph.hpp"
#include "cleave/adapt/onnx/types.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/language.hpp"
#include "cleave/core/name_digest.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/split/builder.hpp"
#include "cleave/split/carried_values.hpp"
#include "cleave/split/split.hpp"

namespace cleave::inline v0_2::detail {

/// Renames values in the bodies of `holder` whose names are in `visible`, the values of the graph before the
/// node. ONNX forbids such shadowing. A stage can have it even if the file does not: its inputs may include
/// values that the file makes after the node. `fresh(name)` returns an unused name. No recursion.
template <class Fresh>
void rename_onnx_shadows(::onnx::NodeProto& holder, std::unordered_set<std::string> const& visible,
                         Fresh fresh) {
  using names = std::unordered_map<std::string, std::string>;
  std::vector<std::pair<::onnx::GraphProto*, names>> open;
  auto const enter = [&](::onnx::NodeProto& n, names const& outer) {
    for (auto* const body : detail::onnx_bodies(n)) open.emplace_back(body, outer);
  };
  enter(holder, {});
  while (!open.empty()) {
    auto [g, renamed] = std::move(open.back());
    open.pop_back();
    auto const define = [&](std::string const& name) {
      if (name.empty()) return;
      renamed.erase(name);
      if (visible.contains(name)) renamed.emplace(name, fresh(name));
    };
    for (auto const& v : g->input()) define(v.name());
    for (auto const& t : g->initializer()) define(t.name());
    for (auto const& t : g->sparse_initializer()) define(t.values().name());
    for (auto const& n : g->node())
      for (auto const& name : n.output()) define(name);

    auto const rename = [&](std::string& name) {
      if (auto const at = renamed.find(name); at != renamed.end()) name = at->second;
    };
    if (!renamed.empty()) {
      for (auto* list : {g->mutable_input(), g->mutable_output(), g->mutable_value_info()})
        for (auto& v : *list) rename(*v.mutable_name());
      for (auto& t : *g->mutable_initializer()) rename(*t.mutable_name());
      for (auto& t : *g->mutable_sparse_initializer()) rename(*t.mutable_values()->mutable_name());
      for (auto& n : *g->mutable_node()) {
        for (auto& name : *n.mutable_input()) rename(name);
        for (auto& name : *n.mutable_output()) rename(name);
      }
    }
    for (auto& n : *g->mutable_node()) enter(n, renamed);
  }
}

/// Returns a digest that identifies a model independently of its weights and shapes. It covers the names of
/// the graph, its inputs and outputs, and the operators and results of its nodes. O(V).
inline std::string onnx_model_mark(::onnx::ModelProto const& m) {
  name_digest names;
  names.add(m.graph().name());
  for (auto const* list : {&m.graph().input(), &m.graph().output()})
    for (auto const& v : *list) names.add(v.name());
  for (auto const& n : m.graph().node()) {
    names.add(n.op_type());
    for (auto const& v : n.output()) names.add(v);
  }
  return names.text();
}

/// Keys in the metadata of a stage: its place, such as `0 of 3`, and the mark of its model.
inline constexpr char onnx_stage_key[] = "cleave.stage", onnx_model_key[] = "cleave.model";

/// Data shared by the stages of one model while they are written. The graph and types must outlive it.
class onnx_emission {
 public:
  onnx_emission(onnx::graph const& g, onnx::types const& t)
      : graph(g), types(t), functions(onnx_functions(g.model())), mark(onnx_model_mark(g.model())) {
    auto const& whole = g.model().graph();
    for (auto const* list : {&whole.value_info(), &whole.output(), &whole.input()})
      for (auto const& v : *list) declared_[v.name()] = &v;
  }

  onnx::graph const& graph;
  onnx::types const& types;
  onnx_function_table functions;
  std::string mark;  ///< as returned by `onnx_model_mark`

  /// Returns true if the `place`-th node inside node `n` of the graph, counted from `n` itself, may have this
  /// name: no other node of any stage so far has it. Copies of one node keep its name.
  bool claim_name(std::string const& name, onnx::graph::node n, std::size_t place) {
    auto const [at, fresh] = owner_.try_emplace(name, n, place);
    return fresh || at->second == std::pair(n, place);
  }

  /// Returns the declaration of a value in the file, or null.
  ::onnx::ValueInfoProto const* declared(std::string_view name) const {
    auto const at = declared_.find(name);
    return at == declared_.end() ? nullptr : at->second;
  }

  /// Returns a new name that no value of the model has.
  std::string fresh_name(std::string const& name) {
    if (taken_.empty())
      for (auto const& v : graph.scopes().values) taken_.emplace(v.name);
    for (std::size_t i = 1;; ++i)
      if (auto made = name + "_" + std::to_string(i); taken_.insert(made).second) return made;
  }

 private:
  std::unordered_map<std::string_view, ::onnx::ValueInfoProto const*> declared_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, std::pair<onnx::graph::node, std::size_t>> owner_;  // of each node name
};

/// Builds one stage as an ONNX model: `emit(stages, i, builder)`, then `finish()`.
///
/// Values keep their names, so captures of bodies need no rewriting. Nodes are copied as messages, including
/// fields of later ONNX versions. Of several nodes with one name, the first written keeps it. Copies of a
/// replicable node all keep theirs. State becomes initializers. A default that the caller may override is
/// also an input, and up to IR version 3 so is every initializer. External data stays a reference, as in the
/// file.
class onnx_builder {
 public:
  using value = onnx::graph::value;
  using node = onnx::graph::node;

  explicit onnx_builder(onnx_emission& all) : all_(all) {
    auto const& from = all.graph.model();
    stage_.set_ir_version(from.ir_version());
    *stage_.mutable_opset_import() = from.opset_import();
    stage_.set_producer_name(from.producer_name());
    stage_.set_producer_version(from.producer_version());
    stage_.set_domain(from.domain());
    stage_.set_model_version(from.model_version());
    stage_.set_doc_string(from.doc_string());
    for (auto const& p : from.metadata_props())  // a stage may be cut again
      if (p.key() != onnx_stage_key && p.key() != onnx_model_key) *stage_.add_metadata_props() = p;
  }

  value argument(value v, source from) {
    from == source::state || from == source::constant ? hold(v) : describe(v, *graph().add_input());
    return v;
  }

  template <class Lookup>
  std::span<value const> clone(node n, Lookup const& lookup) {
    for (value const v : all_.graph.operands(n)) expects(lookup(v) == v, "a value must keep its name");
    auto& copy = *graph().add_node();
    copy = all_.graph.proto(n);
    claim_names(copy, n);
    has_bodies_ |= !all_.graph.regions(n).empty();
    for (value const v : all_.graph.results(n)) made_.push_back(v);
    return all_.graph.results(n);
  }

  void result(value v, value) {
    describe(v, *graph().add_output());
    given_.insert(v);
  }

  /// Returns the stage; the builder is empty afterwards. Precondition: `index` < `count`.
  ::onnx::ModelProto finish(std::size_t index, std::size_t count) {
    part_shadows();
    for (value const v : made_)
      if (auto const* known = all_.declared(all_.graph.name_of(v)); known != nullptr && !given_.contains(v))
        *graph().add_value_info() = *known;
    for (auto const* f : onnx_reached_functions(all_.functions, graph().node())) *stage_.add_functions() = *f;
    auto const& name = all_.graph.model().graph().name();
    graph().set_name((name.empty() ? "model" : name) + "_stage_" + std::to_string(index));
    auto const note = [&](char const* key, std::string const& text) {
      auto& p = *stage_.add_metadata_props();
      p.set_key(key);
      p.set_value(text);
    };
    note(onnx_stage_key, std::to_string(index) + " of " + std::to_string(count));
    note(onnx_model_key, all_.mark);
    return std::move(stage_);
  }

 private:
  ::onnx::GraphProto& graph() { return *stage_.mutable_graph(); }

  /// Describes a value of the boundary: as declared in the file, with the inferred type if there is one.
  void describe(value v, ::onnx::ValueInfoProto& to) {
    auto const name = all_.graph.name_of(v);
    if (auto const* known = all_.declared(name)) to = *known;
    to.set_name(std::string(name));
    if (auto const* type = all_.types.declaration(name)) *to.mutable_type() = *type;
  }

  void hold(value v) {
    std::string const name(all_.graph.name_of(v));
    if (auto const* sparse = all_.graph.sparse_tensor(v)) {
      *graph().add_sparse_initializer() = *sparse;
    } else {
      auto const* tensor = all_.graph.tensor(v);
      expects(tensor != nullptr, "state must have data");
      auto& copy = *graph().add_initializer();
      copy = *tensor;
      copy.set_name(name);
    }
    if (!all_.graph.overridable(v) && stage_.ir_version() >= 4) return;
    auto& input = *graph().add_input();
    describe(v, input);
    if (auto const* tensor = all_.graph.tensor(v); tensor != nullptr && !input.has_type()) {
      auto& type = *input.mutable_type()->mutable_tensor_type();
      type.set_elem_type(tensor->data_type());
      type.mutable_shape();
      for (auto const d : tensor->dims()) type.mutable_shape()->add_dim()->set_dim_value(d);
    }
  }

  /// Renames values inside bodies that would shadow a value of the stage.
  void part_shadows() {
    if (!has_bodies_) return;
    std::unordered_set<std::string> visible;
    for (auto const& v : graph().input()) visible.insert(v.name());
    for (auto const& t : graph().initializer()) visible.insert(t.name());
    for (auto const& t : graph().sparse_initializer()) visible.insert(t.values().name());
    for (auto& n : *graph().mutable_node()) {
      rename_onnx_shadows(n, visible, [&](std::string const& name) { return all_.fresh_name(name); });
      visible.insert(n.output().begin(), n.output().end());
    }
  }

  /// Clears the names of a node and of the nodes inside it that other nodes have.
  void claim_names(::onnx::NodeProto& holder, node of) {
    std::vector<::onnx::NodeProto*> open{&holder};
    for (std::size_t place = 0; !open.empty(); ++place) {
      auto& n = *open.back();
      open.pop_back();
      if (!n.name().empty() && !all_.claim_name(n.name(), of, place)) n.clear_name();
      for (auto& a : *n.mutable_attribute()) {
        if (a.has_g())
          for (auto& inner : *a.mutable_g()->mutable_node()) open.push_back(&inner);
        for (auto& body : *a.mutable_graphs())
          for (auto& inner : *body.mutable_node()) open.push_back(&inner);
      }
    }
  }

  onnx_emission& all_;
  ::onnx::ModelProto stage_;
  bool has_bodies_ = false;
  std::vector<value> made_;
  std::unordered_set<value> given_;
};

static_assert(stage_builder<onnx_builder, onnx::graph>);

}  // namespace cleave::detail

namespace cleave::inline v0_2::onnx {

/// A graph of an ONNX model together with its cut into stages.
using staged = staged_graph<onnx::graph>;

/// Sets the costs of the graph: seconds for nodes, bytes for values. Values between nodes whose type is
/// unknown are no longer portable, because no stage could declare them.
/// \throws onnx::error if a value's size does not fit in 64 bits
inline void price(onnx::graph& g, onnx::types const& types, onnx::costs const& costs,
                  onnx::rates const& rates = {}) {
  std::vector<double> weight;
  for (auto const& work : costs.of) weight.push_back(rates.seconds(work));
  std::vector<std::size_t> bytes(g.values());
  std::vector<char> untyped(g.values());
  auto const& whole = g.scopes().scopes.front();
  for (auto v = whole.first_value; v < whole.end_value; ++v) {
    bytes[v] = types.bytes(g.name_of(v));
    untyped[v] = g.producer(v) != none<onnx::graph::node> && types.declaration(g.name_of(v)) == nullptr;
  }
  g.price(std::move(weight), std::move(bytes), std::move(untyped));
}

/// Returns the stages that become files, in the order in which they run: those with outputs.
inline std::vector<stage_id> live_stages(onnx::staged const& stages) {
  std::vector<stage_id> live;
  for (stage_id const i : stages.plan().order)
    if (!stages.plan().stages[index(i)].outputs.empty()) live.push_back(i);
  return live;
}

}  // namespace cleave::onnx

namespace cleave::inline v0_2::detail {

/// Returns up to four names, and the number of the others.
inline std::string onnx_names_text(onnx::graph const& g, std::span<onnx::graph::value const> values) {
  std::string text;
  for (auto const v : values.first((std::min)(values.size(), std::size_t{4})))
    text += (text.empty() ? "" : ", ") + quoted(g.name_of(v));
  return values.size() > 4 ? text + " and " + std::to_string(values.size() - 4) + " more" : text;
}

/// Returns the values of unknown type that keep their producer and their readers in one stage.
inline std::vector<onnx::graph::value> list_untyped_onnx_values(onnx::graph const& g) {
  auto const is_read = values_read(g);
  std::vector<onnx::graph::value> found;
  for (auto const n : g.nodes())
    for (auto const v : g.results(n))
      if (is_read[v] && !g.portable(v) && !g.replicable(n)) found.push_back(v);
  return found;
}

/// Returns the fault of a value of unknown type; `sent` says what a cut does with it.
inline onnx::fault onnx_untyped_fault(onnx::graph const& g, onnx::graph::value v, std::string const& sent) {
  return {
      onnx::fault_kind::type,
      "value " + quoted(g.name_of(v)) + ", which " + g.scopes().label(g.producer(v)) + " makes, " + sent +
          ", but its type is not known; give its shape and type (as in --shape NAME=float32:1x3x?) or cut "
          "elsewhere",
      {std::string(g.name_of(v))}};
}

/// Returns a fault for the first value between stages whose type is unknown, with both its ends; or nothing.
inline std::optional<onnx::fault> find_untyped_onnx_boundary(onnx::staged const& stages,
                                                             onnx::types const& types) {
  auto const& g = stages.graph();
  for (auto const& t : stages.plan().transfers) {
    auto const v = stages.snapshot().value[t.value];
    if (types.declaration(g.name_of(v)) != nullptr) continue;
    return onnx_untyped_fault(
        g, v,
        "is sent from stage " + std::to_string(index(t.from)) + " to stage " + std::to_string(index(t.to)));
  }
  return std::nullopt;
}

/// Returns stage i as an ONNX model, the `place`-th of `count` in execution order.
inline ::onnx::ModelProto onnx_stage(onnx::staged const& stages, onnx_emission& all, stage_id i,
                                     std::size_t place, std::size_t count) {
  onnx_builder b(all);
  emit(stages, i, b);
  return b.finish(place, count);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::onnx {

/// Returns all live stages as ONNX models, in the order in which they run. Each reads the model's inputs and
/// the outputs of earlier stages, by name.
/// \throws onnx::error if a value between stages has no known type
inline std::vector<::onnx::ModelProto> stages(onnx::staged const& stages, onnx::types const& types) {
  if (auto const fault = detail::find_untyped_onnx_boundary(stages, types)) throw error(*fault);
  detail::onnx_emission all(stages.graph(), types);
  auto const live = live_stages(stages);
  std::vector<::onnx::ModelProto> models;
  for (stage_id const i : live)
    models.push_back(detail::onnx_stage(stages, all, i, models.size(), live.size()));
  return models;
}

/// Returns the fault of a cut that reads `v`, a value of unknown type, in another stage than that which makes
/// it.
inline onnx::fault untyped_fault(onnx::graph const& g, onnx::graph::value v) {
  return detail::onnx_untyped_fault(g, v, "is read in another stage");
}

/// Returns a fault if values of unknown type allow only `parts` parts, although `k` are asked for and there
/// are enough nodes. Its message says which values these are and which k works.
inline std::optional<onnx::fault> find_untyped_limit(onnx::graph const& g, std::uint32_t parts,
                                                     std::uint32_t k) {
  auto const nodes = std::ranges::count_if(g.nodes(), [&](auto n) { return !g.replicable(n); });
  if (parts >= k || static_cast<std::ptrdiff_t>(parts) >= nodes) return std::nullopt;
  auto const untyped = detail::list_untyped_onnx_values(g);
  if (untyped.empty()) return std::nullopt;
  onnx::fault f{onnx::fault_kind::type,
                "a cut into " + std::to_string((std::min<std::ptrdiff_t>)(k, nodes)) +
                    " stages would send values whose types are not known: " +
                    detail::onnx_names_text(g, untyped) + "; at most " + std::to_string(parts) +
                    (parts == 1 ? " stage is" : " stages are") + " possible (-k " + std::to_string(parts) +
                    "), or give shapes and types (as in --shape NAME=float32:1x3x?)",
                {}};
  for (auto const v : untyped) f.names.emplace_back(g.name_of(v));
  return f;
}

/// Facts about a cut in addition to its stages.
struct notes {
  using value = onnx::graph::value;

  /// An initializer that several stages hold, under one name or several. Training must keep the copies equal.
  struct tie {
    value storage;
    std::vector<stage_id> stages;
  };

  /// A value that a stage keeps for its next run: the output `present` becomes the input `past`.
  struct carried_pair {
    stage_id stage;
    value past, present;
  };

  std::vector<tie> ties;
  std::vector<value> passed;   ///< outputs of the model that no stage makes: inputs, initializers
  std::vector<value> unsized;  ///< values sent between stages whose size is unknown
  std::vector<value> untyped;  ///< values of unknown type, which no stage sends to another
  std::vector<onnx::graph::node>
      copied;              ///< nodes that depend on weights alone: copied into the stages that need them
  std::size_t copies = 0;  ///< number of these copies in all stages
  std::vector<onnx::graph::node>
      not_copied;  ///< nodes that read weights alone, but are random or of an unknown operator
  std::vector<onnx::graph::node>
      dead;  ///< nodes of the file that do not contribute to an output, and are in no stage
  std::vector<carried_pair> carried;  ///< the values that stages keep for their next run
  std::vector<stage_id> dead_stages;  ///< stages without outputs, which become no file
  std::vector<std::string> external;  ///< data files that must be next to the stage files
};

/// Returns the facts about `stages` in addition to what they compute. O(V + E).
inline onnx::notes notes_of(onnx::staged const& stages) {
  auto const& g = stages.graph();
  auto const& s = stages.snapshot();
  onnx::notes notes;

  std::set<std::string> external;
  auto const refer = [&](::onnx::TensorProto const* t) {
    if (t == nullptr || t->data_location() != ::onnx::TensorProto::EXTERNAL) return;
    for (auto const& entry : t->external_data())
      if (entry.key() == "location") external.insert(entry.value());
  };
  for (auto v = g.scopes().scopes.front().end_value; v < g.values(); ++v)
    refer(g.scopes().values[v].tensor);  // in bodies
  std::vector<std::vector<stage_id>> holders(g.values());
  for (std::size_t i = 0; i < stages.size(); ++i)
    for (auto const v : stages.plan().stages[i].state) {
      auto const handle = s.value[v];
      auto& held = holders[g.storage(handle)];
      if (held.empty() || index(held.back()) != i) held.push_back(stage_id{static_cast<std::uint32_t>(i)});
      refer(g.tensor(handle));
    }
  for (std::size_t v = 0; v < holders.size(); ++v) {
    bool const is_weight =
        g.scopes().values[v].producer == none<onnx::graph::node>;  // not made by a Constant
    if (is_weight && holders[v].size() > 1)
      notes.ties.push_back({static_cast<onnx::notes::value>(v), holders[v]});
  }
  notes.external.assign(external.begin(), external.end());

  notes.untyped = detail::list_untyped_onnx_values(g);
  for (auto const n : g.nodes()) {
    if (g.replicable(n))
      notes.copied.push_back(n);
    else if (std::ranges::all_of(g.reads(n), [&](auto v) { return g.is_constant(v); }))
      notes.not_copied.push_back(n);
  }
  for (auto const& stage : stages.plan().stages)
    for (auto const n : stage.nodes) notes.copies += g.replicable(s.node[n]);

  for (auto const v : g.outputs())
    if (g.producer(v) == none<onnx::graph::node>) notes.passed.push_back(v);
  std::vector<char> seen(s.values());
  for (auto const& t : stages.plan().transfers)
    if (s.bytes[t.value] == 0 && !std::exchange(seen[t.value], 1)) notes.unsized.push_back(s.value[t.value]);

  std::vector<char> lives(g.file_nodes());
  for (auto const n : g.nodes()) lives[n] = 1;
  for (onnx::graph::node n = 0; n < lives.size(); ++n) {
    auto const made = g.results(n);
    bool const constant = made.size() == 1 && g.is_state(made[0]);
    if (!lives[n] && !constant) notes.dead.push_back(n);
  }
  for (std::size_t i = 0; i < stages.size(); ++i)
    if (stages.plan().stages[i].outputs.empty())
      notes.dead_stages.push_back(stage_id{static_cast<std::uint32_t>(i)});
  for (auto const& v : carried_values(s, stages.plan()))
    notes.carried.push_back({v.stage, s.value[v.past], s.value[v.present]});
  return notes;
}

}  // namespace cleave::onnx
