// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <ranges>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/detail/constant.hpp"
#include "cleave/adapt/onnx/detail/determinism.hpp"
#include "cleave/adapt/onnx/detail/read_scopes.hpp"
#include "cleave/adapt/onnx/fault.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/graph/concepts.hpp"

namespace cleave::inline v0_2::onnx {

/// The treatment of nodes that depend on weights alone.
enum class constants : std::uint8_t {
  as_nodes,  ///< they are placed, and their results are sent like others
  as_state,  ///< results of Constant become state, and the other nodes are replicable: each stage that reads
             ///< such a result has its own copy
};

/// Options of `onnx::graph`.
struct options {
  bool live_only = true;  ///< leave out nodes that do not contribute to an output
  onnx::constants constants = onnx::constants::as_state;
  bool carried = true;  ///< outputs such as `present.0.key` become inputs such as `past_key_values.0.key`
};

/// An ONNX model as a graph, with everything that `snapshot_of` and the algorithms require.
///
/// A node is its position in the file; nodes in bodies have the numbers after those. A value is a number, and
/// `name_of(v)` is its name. Numbers depend only on the file, not on the options, so tables for one graph of
/// a model fit every other. Nodes are in topological order; among ready nodes, the first in the file comes
/// first.
///
/// Initializers are state. From IR version 4 on, an initializer that is also listed as an input is a default,
/// which the caller may override. It is still state, `overridable(v)` is true, and its holder must list it as
/// an input. In IR version 3 it is an ordinary weight. A constant that is an output of the model stays a
/// node, so that some stage makes it.
///
/// A node that depends on weights alone is replicable: it is copied into each stage that reads a result,
/// costs nothing, and its results are never sent. A runtime computes them once, when it loads the stage. A
/// node is not replicable if it reads a default that the caller may override, or if it or a node in its
/// bodies is random or of an unknown operator.
///
/// A decoder reads the keys and values of earlier tokens as inputs, and returns them with those of new tokens
/// as outputs. These are carried from run to run. They are found by name: `past_key_values.0.key` and
/// `present.0.key`.
///
/// The model must outlive the graph and must not change.
class graph {
 public:
  using node = std::uint32_t;
  using value = std::uint32_t;
  using region = std::uint32_t;

  /// O(size of the model). \throws onnx::error if names are missing, repeated or cyclic; `onnx::check` finds
  /// more faults
  explicit graph(::onnx::ModelProto const& model, onnx::options const& options = {})
      : model_(&model), scopes_(detail::read_onnx_scopes(model.graph())) {
    if (scopes_.fault) throw error(*scopes_.fault);
    storage_.resize(values());
    std::iota(storage_.begin(), storage_.end(), value{});
    is_state_.resize(values());
    data_.resize(values());
    replicable_.resize(file_nodes());
    place_arguments();
    if (options.constants == onnx::constants::as_state) {
      place_constants();
      find_replicable();
    }
    place_nodes(options.live_only);
    carried_.assign(values(), none<value>);
    if (options.carried) find_carried();
  }

  explicit graph(::onnx::ModelProto const&& /* it is referred to: give it a name first */,
                 onnx::options const& = {}) = delete;

  std::span<node const> nodes() const { return nodes_; }
  std::span<value const> operands(node n) const { return scopes_.operands[n]; }
  std::span<value const> results(node n) const { return scopes_.results[n]; }
  std::span<value const> inputs() const { return inputs_; }
  std::span<value const> outputs() const { return scopes_.yields[0]; }
  std::span<value const> state() const { return state_; }
  static std::span<value const> constants() { return {}; }  ///< empty: constants are state

  /// Returns the weight that `v` equals through Identity nodes, or `v`.
  value storage(value v) const { return storage_[v]; }

  /// Returns true if `n` depends on weights alone and gives the same results in every run.
  bool replicable(node n) const { return n < replicable_.size() && replicable_[n] != 0; }
  /// Returns false if a stage cannot declare `v`, because `price` found no type for it.
  bool portable(value v) const { return untyped_.empty() || untyped_[v] == 0; }

  /// Returns the output that becomes the input `v` in the next run, or nothing.
  std::span<value const> carried(value v) const {
    return {&carried_[v], carried_[v] == none<value> ? std::size_t{0} : 1};
  }

  std::span<region const> regions(node n) const { return scopes_.bodies[n]; }
  auto nodes(region r) const {
    return std::views::iota(scopes_.scopes[r].first_node, scopes_.scopes[r].end_node);
  }
  std::span<value const> arguments(region r) const { return scopes_.arguments[r]; }
  std::span<value const> yields(region r) const { return scopes_.yields[r]; }

  /// Returns the node's name, or its operator if it has none.
  std::string_view name(node n) const {
    auto const& p = proto(n);
    return p.name().empty() ? p.op_type() : p.name();
  }

  /// Returns the weight set by `price`, or 1 if no costs were set.
  double weight(node n) const { return weight_.empty() ? 1.0 : weight_[n]; }
  /// Returns the bytes set by `price`, or 0 (unknown) if no costs were set.
  std::size_t bytes(value v) const { return bytes_.empty() ? 0 : bytes_[v]; }

  /// Sets the weight of each node of the file and the bytes of each value. Values with a nonzero entry in
  /// `untyped`, which may be empty, are not portable.
  void price(std::vector<double> node_weight, std::vector<std::size_t> value_bytes,
             std::vector<char> untyped = {}) {
    expects(node_weight.size() >= file_nodes(),
            "price: node_weight needs an entry for each node of the file");
    expects(value_bytes.size() == values(), "price: value_bytes needs an entry for each value");
    expects(untyped.empty() || untyped.size() == values(), "price: untyped needs an entry for each value");
    untyped_ = std::move(untyped);
    weight_ = std::move(node_weight);
    bytes_ = std::move(value_bytes);
  }

  ::onnx::ModelProto const& model() const { return *model_; }
  ::onnx::NodeProto const& proto(node n) const { return *scopes_.nodes[n]; }
  std::size_t file_nodes() const {
    return scopes_.graph_nodes();
  }  ///< number of nodes of the graph itself, live or not
  std::size_t values() const {
    return scopes_.values.size();
  }  ///< number of values of the graph and its bodies
  std::string_view name_of(value v) const { return scopes_.values[v].name; }

  /// Returns the value with this name in the graph itself, not in a body.
  std::optional<value> find_value(std::string_view name) const {
    auto const at = by_name_.find(name);
    return at == by_name_.end() ? std::nullopt : std::optional(at->second);
  }

  /// Returns the node that makes `v`. Returns none if no node makes it, or if the result has become state.
  node producer(value v) const { return is_state_[v] ? none<node> : scopes_.values[v].producer; }

  /// Returns the values that a node of the graph reads: its operands, then the captures of its bodies. May
  /// repeat.
  std::span<value const> reads(node n) const { return scopes_.reads[n]; }

  bool is_state(value v) const { return is_state_[v] != 0; }

  /// Returns true if `v` is the same in every run: state that the caller cannot override, or the result of a
  /// replicable node.
  bool is_constant(value v) const {
    if (is_state_[v]) return !overridable(v);
    node const n = scopes_.values[v].producer;
    return n != none<node> && replicable(n);
  }

  /// Returns true if the caller may pass `v` although it has a default.
  bool overridable(value v) const {
    return is_state(v) && scopes_.values[v].listed && model_->ir_version() >= 4;
  }

  /// Returns the data of state, whose own name may differ from `name_of(v)`. Null if it is sparse, or not
  /// state.
  ::onnx::TensorProto const* tensor(value v) const { return data_[v].get(); }
  ::onnx::SparseTensorProto const* sparse_tensor(value v) const { return scopes_.values[v].sparse; }

  /// Returns all names and scopes, as read from the model.
  detail::onnx_scopes const& scopes() const { return scopes_; }

 private:
  void place_arguments() {
    auto const& whole = scopes_.scopes.front();
    for (value v = whole.first_value; v < whole.end_value; ++v) {
      auto const& i = scopes_.values[v];
      by_name_.emplace(i.name, v);
      if (i.tensor != nullptr) data_[v] = {std::shared_ptr<void>(), i.tensor};
      is_state_[v] = i.tensor != nullptr || i.sparse != nullptr;
      if (i.producer == none<node>) (is_state_[v] ? state_ : inputs_).push_back(v);
    }
  }

  /// Turns the results of Constant nodes into state. Engines treat both alike. Identity of a weight stays a
  /// node: engines multiply by an initializer in another order than by a value that a node makes.
  void place_constants() {
    std::vector<char> returned(values());
    for (value const v : outputs()) returned[v] = 1;
    for (node const n : scopes_.order) {
      if (results(n).size() != 1 || proto(n).output_size() != 1 || returned[results(n)[0]]) continue;
      value const made = results(n)[0];
      if (!operands(n).empty()) continue;
      data_[made] = detail::onnx_constant_tensor(proto(n));
      if (data_[made] == nullptr) continue;
      is_state_[made] = 1;
      state_.push_back(made);
    }
  }

  /// Finds the nodes that depend on weights alone, in topological order.
  void find_replicable() {
    detail::onnx_determinism const is_deterministic(*model_);
    auto const is_false = [&](std::string_view name) {
      auto const v = find_value(name);
      return v && !overridable(*v) && data_[*v] != nullptr && detail::is_onnx_false(*data_[*v]);
    };
    for (node const n : scopes_.order) {
      if (results(n).size() == 1 && is_state_[results(n)[0]]) continue;
      replicable_[n] = std::ranges::all_of(reads(n), [&](value v) { return is_constant(v); }) &&
                       is_deterministic(proto(n), is_false);
      if (replicable_[n] && detail::is_onnx_operator(proto(n), "Identity") && operands(n).size() == 1)
        storage_[results(n)[0]] = storage_[operands(n)[0]];
    }
  }

  /// Lists the remaining nodes in topological order. Scans backwards: a node is live if one of its results is
  /// needed.
  void place_nodes(bool live_only) {
    std::vector<char> needed(values(), live_only ? 0 : 1);
    for (value const v : outputs()) needed[v] = 1;
    for (auto n = scopes_.order.rbegin(); n != scopes_.order.rend(); ++n) {
      auto const made = results(*n);
      if (made.size() == 1 && is_state_[made[0]]) continue;
      bool const lives = !live_only || std::ranges::any_of(made, [&](value v) { return needed[v]; });
      if (!lives) continue;
      for (value const v : reads(*n)) needed[v] = 1;
      nodes_.push_back(*n);
    }
    std::ranges::reverse(nodes_);
  }

  /// Pairs inputs and outputs by name: `past_0` and `present_0`, `past_key_values.0.key` and `present.0.key`
  /// or `present_key_values.0.key`.
  void find_carried() {
    constexpr std::string_view past = "past", list = "_key_values", present = "present";
    std::unordered_map<std::string_view, value> ends;  // of outputs, by what follows `present`
    for (value const v : outputs())
      if (auto const name = name_of(v); name.starts_with(present))
        ends.emplace(name.substr(present.size()), v);
    for (value const v : inputs_) {
      auto const name = name_of(v);
      if (!name.starts_with(past)) continue;
      auto end = name.substr(past.size());
      auto at = ends.find(end);
      if (at == ends.end() && end.starts_with(list)) at = ends.find(end.substr(list.size()));
      if (at != ends.end()) carried_[v] = at->second;
    }
  }

  ::onnx::ModelProto const* model_;
  detail::onnx_scopes scopes_;
  std::vector<node> nodes_;
  std::vector<value> inputs_, state_, storage_;
  std::vector<value> carried_;  // for each value
  std::vector<char> is_state_, replicable_, untyped_;
  std::vector<std::shared_ptr<::onnx::TensorProto const>> data_;  // for each value
  std::unordered_map<std::string_view, value> by_name_;
  std::vector<double> weight_;
  std::vector<std::size_t> bytes_;
};

static_assert(multi_result<onnx::graph> && stateful_graph<onnx::graph> && closed_graph<onnx::graph> &&
              tied_graph<onnx::graph> && nested_graph<onnx::graph> && named_graph<onnx::graph> &&
              weighted_graph<onnx::graph> && sized_graph<onnx::graph> && replicating_graph<onnx::graph> &&
              bounded_graph<onnx::graph> && carrying_graph<onnx::graph>);

}  // namespace cleave::onnx

namespace cleave::inline v0_2::detail {

/// Returns for each value whether a node of `g` reads it.
inline std::vector<char> values_read(onnx::graph const& g) {
  std::vector<char> is_read(g.values());
  for (auto const n : g.nodes())
    for (auto const v : g.reads(n)) is_read[v] = 1;
  return is_read;
}

}  // namespace cleave::detail
