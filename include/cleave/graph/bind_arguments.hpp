// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"

/// Binds the positional and named arguments of a call to the placeholders of a graph.
namespace cleave::inline v0_2::detail {

/// A fault of a call.
struct binding_fault {
  enum class kind : std::uint8_t {
    missing,   ///< parameter `name` has neither an argument nor a default
    twice,     ///< parameter `name` has two arguments
    unknown,   ///< there is no parameter `name`
    too_many,  ///< there are more positional arguments than parameters that take one
  };
  kind what;
  std::string name;

  bool operator==(binding_fault const&) const = default;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The treatment of positional arguments for which no parameter is left.
enum class surplus_arguments : std::uint8_t { refused, ignored };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The kind of a parameter, as in Python and torch.fx. It follows from the target of the placeholder.
enum class parameter_kind : std::uint8_t {
  one,         ///< `x`: one argument, by position or by name, or its default
  positional,  ///< `*args`: the remaining positional arguments; later parameters are passed by name
  named,       ///< `**kwargs`: the named arguments that match no other parameter
};

/// Returns the kind of a placeholder's parameter.
inline parameter_kind parameter_kind_of(module_node const& placeholder) {
  if (placeholder.target.starts_with("**")) return parameter_kind::named;
  return placeholder.target.starts_with("*") ? parameter_kind::positional : parameter_kind::one;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// For each parameter, the arguments that it takes. An argument is an index into the positional arguments
/// followed by the named ones. A plain parameter takes one argument, or none if its default applies. The
/// arguments of `*args` are the elements of a tuple. Those of `**kwargs` are the values of a dict under their
/// names. Both may be empty.
using argument_binding = std::vector<std::vector<std::size_t>>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if a call does not fit the parameters. The witness lists all faults of the call.
using binding_error = witness_error<std::vector<binding_fault>>;

/// Returns a text that lists all faults of a call. `parameters` are the names of the parameters.
inline std::string binding_text(std::vector<binding_fault> const& faults,
                                std::vector<std::string> const& parameters) {
  std::string all = "the arguments do not fit";
  for (auto const& f : faults) {
    using enum binding_fault::kind;
    all += &f == faults.data() ? ": " : "; ";
    if (f.what == missing) all += "parameter " + quoted(f.name) + " has neither an argument nor a default";
    if (f.what == twice) all += "parameter " + quoted(f.name) + " has two arguments";
    if (f.what == unknown)
      all += "there is no parameter " + quoted(f.name) + suggestion(nearest_names(f.name, parameters));
    if (f.what == too_many)
      all += "there are more arguments than the " + std::to_string(parameters.size()) + " parameters";
  }
  return all;
}

/// Binds arguments to parameters, for `bind_arguments` and `find_binding_faults`.
class argument_binder {
 public:
  explicit argument_binder(module_graph const& g) : g_(g), binding_(g.inputs().size()) {
    for (std::size_t i = 0; i < binding_.size(); ++i) {
      auto const kind = parameter_kind_of(parameter(i));
      if (kind == parameter_kind::positional) rest_ = (std::min)(rest_, i);
      if (kind == parameter_kind::named) others_ = (std::min)(others_, i);
      if (kind != parameter_kind::one || names_.find(parameter(i).target) != none<std::uint32_t>) continue;
      names_.insert(parameter(i).target);
      named_.push_back(i);
    }
  }

  void bind(std::size_t positional, std::vector<std::string> const& named, surplus_arguments surplus) {
    bind_positions(positional, surplus);
    bind_names(positional, named);
    for (std::size_t i = 0; i < binding_.size(); ++i)
      if (binding_[i].empty() && parameter_kind_of(parameter(i)) == parameter_kind::one &&
          !parameter(i).default_value)
        faults_.push_back({binding_fault::kind::missing, parameter(i).target});
  }

  argument_binding const& binding() const { return binding_; }
  std::vector<binding_fault> const& faults() const { return faults_; }
  std::vector<std::string> const& parameters() const { return names_.handles(); }

 private:
  static constexpr auto no_index = static_cast<std::size_t>(-1);

  module_node const& parameter(std::size_t i) const { return g_[g_.inputs()[i]]; }

  void bind_positions(std::size_t positional, surplus_arguments surplus) {
    auto const taken = (std::min)({positional, rest_, others_, binding_.size()});
    for (std::size_t i = 0; i < taken; ++i) binding_[i] = {i};
    if (rest_ != no_index)
      for (std::size_t i = taken; i < positional; ++i) binding_[rest_].push_back(i);
    else if (taken < positional)
      too_many_ = surplus == surplus_arguments::refused;
  }

  void bind_names(std::size_t positional, std::vector<std::string> const& named) {
    using enum binding_fault::kind;
    numbering<std::string, std::uint32_t> met;  // the names that match no parameter
    for (std::size_t i = 0; i < named.size(); ++i) {
      auto const at = names_.find(named[i]);
      if (at != none<std::uint32_t>) {
        auto& taken = binding_[named_[at]];
        if (!taken.empty())
          faults_.push_back({twice, named[i]});
        else
          taken = {positional + i};
      } else if (others_ == no_index) {
        faults_.push_back({unknown, named[i]});
      } else if (met.find(named[i]) != none<std::uint32_t>) {
        faults_.push_back({twice, named[i]});
      } else {
        met.insert(named[i]);
        binding_[others_].push_back(positional + i);
      }
    }
    if (too_many_) faults_.push_back({too_many, {}});
  }

  module_graph const& g_;
  numbering<std::string, std::uint32_t> names_;      // names of parameters of kind `one`, parallel to …
  std::vector<std::size_t> named_;                   // … their indices
  std::size_t rest_ = no_index, others_ = no_index;  // indices of `*args` and `**kwargs`
  bool too_many_ = false;
  argument_binding binding_;
  std::vector<binding_fault> faults_;
};

/// Returns all faults of a call of `g` with `positional` positional arguments and the names `named`. A
/// parameter's name is the target of its placeholder. Expected O(parameters + arguments).
inline std::vector<binding_fault> find_binding_faults(
    module_graph const& g, std::size_t positional, std::vector<std::string> const& named,
    surplus_arguments surplus = surplus_arguments::refused) {
  argument_binder binder(g);
  binder.bind(positional, named, surplus);
  return binder.faults();
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Binds the arguments of a call to the placeholders of `g`. Returns, for each placeholder, the arguments
/// that it takes. Expected O(parameters + arguments).
/// \param positional number of positional arguments
/// \param named names of the named arguments, in the order of the call
/// \param surplus treatment of positional arguments for which no parameter is left
/// \throws binding_error with all faults, if the arguments do not fit
inline argument_binding bind_arguments(module_graph const& g, std::size_t positional,
                                       std::vector<std::string> const& named,
                                       surplus_arguments surplus = surplus_arguments::refused) {
  detail::argument_binder binder(g);
  binder.bind(positional, named, surplus);
  if (!binder.faults().empty())
    throw detail::binding_error(detail::binding_text(binder.faults(), binder.parameters()), binder.faults());
  return binder.binding();
}

}  // namespace cleave
