// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_names.hpp"

namespace cleave::inline v0_2 {

/// Options of `with_loss`. The attributes of the loss are registered below `prefix` in the joined program.
struct with_loss_options {
  std::string prefix = "loss";
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The reason why a loss cannot be appended to a program.
struct with_loss_fault {
  static constexpr char subject[] = "with_loss: ";
  enum class kind : std::uint8_t {
    no_output,   ///< the program has no output
    no_loss,     ///< the loss has no output
    few_inputs,  ///< the program returns `count` values, and the loss has fewer placeholders
    taken_path,  ///< the program already has an attribute at `path`, which the loss needs
  };
  kind what;
  std::string path{};
  std::size_t count = 0;

  bool operator==(with_loss_fault const&) const = default;
};

/// Returns a message such as `the program has no output`.
inline std::string describe(with_loss_fault const& f) {
  switch (f.what) {
    case with_loss_fault::kind::no_output:
      return "the program has no output";
    case with_loss_fault::kind::no_loss:
      return "the loss has no output; it must return the value to differentiate";
    case with_loss_fault::kind::few_inputs:
      return "the program returns " + std::to_string(f.count) +
             " values, and the loss has fewer placeholders to take them";
    case with_loss_fault::kind::taken_path:
      return "the program already has an attribute at " + quoted(f.path) +
             ", which the loss needs; set with_loss_options::prefix";
  }
  return {};
}

/// Thrown if a program and a loss do not fit together. The witness is the reason.
using with_loss_error = fault_error<with_loss_fault>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the loss specification of a program whose only output is the loss.
inline module_argument sole_output() { return {true}; }

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the reason why `loss` cannot follow `program`, or nothing. Expected O(V + size of all paths).
inline std::optional<with_loss_fault> find_with_loss_fault(module_graph const& program,
                                                           module_graph const& loss,
                                                           with_loss_options const& options = {}) {
  using enum with_loss_fault::kind;
  auto const given = program.outputs().size();
  if (given == 0) return with_loss_fault{no_output};
  if (loss.outputs().empty()) return with_loss_fault{no_loss};
  if (loss.inputs().size() < given) return with_loss_fault{few_inputs, {}, given};
  for (auto const& a : loss.attributes())
    if (auto const path = options.prefix + "." + a.path; program.find_attribute(path))
      return with_loss_fault{taken_path, path};
  return std::nullopt;
}

/// Appends a loss to a program. Helper of `with_loss`.
class loss_joiner {
 public:
  using position = module_graph::position;

  loss_joiner(module_graph const& program, module_graph const& loss, with_loss_options const& options)
      : program_(program),
        loss_(loss),
        prefix_(options.prefix + "."),
        at_(program.list().size()),
        loss_at_(loss.list().size()) {}

  module_graph join() {
    made_.reserve(program_.list().size() + loss_.list().size());
    for (auto const& n : program_.list()) names_.take(n.name);
    auto const inputs = program_.inputs();
    position const last = inputs.empty() ? none<position> : inputs.back();
    if (inputs.empty()) add_inputs();
    for (position n = 0; n < at_.size(); ++n) {
      if (n != program_.output()) at_[n] = made_.add(moved(program_[n], at_));
      if (n == last) add_inputs();
    }
    auto const given = program_.outputs();
    for (std::size_t i = 0; i < given.size(); ++i) loss_at_[loss_.inputs()[i]] = at_[given[i]];
    for (position n = 0; n < loss_at_.size(); ++n)
      if (loss_[n].kind != node_kind::placeholder && n != loss_.output()) add(n);
    add(*loss_.output());
    register_attributes();
    return std::move(made_);
  }

 private:
  static module_node moved(module_node n, std::vector<position> const& at) {
    auto const there = [&](position v) { return at[v]; };
    for (auto& a : n.args) a = map_nodes(std::move(a), there);
    for (auto& k : n.kwargs) k.value = map_nodes(std::move(k.value), there);
    if (n.default_value) n.default_value = map_nodes(*std::move(n.default_value), there);
    for (auto& m : n.after) m = at[m];
    return n;
  }

  /// Adds the placeholders of the loss that the program's outputs do not fill.
  void add_inputs() {
    for (auto const n : loss_.inputs().subspan(program_.outputs().size())) add(n);
  }

  void add(position n) {
    auto node = moved(loss_[n], loss_at_);
    node.name = names_.take(node.name);
    if (node.kind == node_kind::placeholder) node.target = node.name;
    if (node.kind == node_kind::get_attr || node.kind == node_kind::call_module)
      node.target = prefix_ + node.target;
    loss_at_[n] = made_.add(std::move(node));
  }

  void register_attributes() {
    for (auto const& a : program_.attributes()) made_.add_attribute(a);
    for (module_attribute a : loss_.attributes()) {
      a.path = prefix_ + a.path;
      made_.add_attribute(std::move(a));
    }
    made_.metadata = program_.metadata;
  }

  module_graph const& program_;
  module_graph const& loss_;
  std::string prefix_;
  std::vector<position> at_, loss_at_;  // new position of each node of the program and of the loss
  module_graph made_;
  module_names names_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns `program` followed by `loss` as one program that returns the outputs of `loss`.
///
/// The values that `program` returns, depth first, fill the first placeholders of `loss`. Its other
/// placeholders follow those of the program. Nodes and attributes of `program` keep their names; attributes
/// of `loss` move below the prefix. If the loss is a single value, `sole_output()` is its specification.
/// O(size of both).
/// \pre storages with the same name in both graphs are the same memory
/// \throws with_loss_error
inline module_graph with_loss(module_graph const& program, module_graph const& loss,
                              with_loss_options const& options = {}) {
  if (auto const f = detail::find_with_loss_fault(program, loss, options)) throw detail::with_loss_error(*f);
  return detail::loss_joiner(program, loss, options).join();
}

}  // namespace cleave
