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

/// What a caller passes, by position and by name, as the placeholders of a graph take it.
namespace cleave {

/// One thing that is wrong with a call.
struct binding_fault {
  enum class kind : std::uint8_t {
    missing,   ///< parameter `name` has neither an argument nor a default
    twice,     ///< parameter `name` has two arguments
    unknown,   ///< there is no parameter `name`
    too_many,  ///< there are more positional arguments than parameters
  };
  kind what;
  std::string name;

  bool operator==(binding_fault const&) const = default;
};

/// What becomes of positional arguments that no parameter is left for.
enum class surplus_arguments : std::uint8_t { refused, ignored };

/// Who has the value of each parameter: an argument, by its place among the positional ones and then the
/// named ones; or nobody, so that the default holds.
using argument_binding = std::vector<std::optional<std::size_t>>;

/// A call that does not fit the parameters. The witness: all that is wrong with it.
class binding_error : public witness_error<std::vector<binding_fault>> {
 public:
  binding_error(std::vector<binding_fault> const& faults, std::vector<std::string> const& parameters)
      : witness_error(text(faults, parameters), faults) {}

 private:
  static std::string text(std::vector<binding_fault> const& faults,
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
};

/// Binds arguments to parameters; `bind_arguments` and `find_binding_faults` are its uses.
class argument_binder {
 public:
  explicit argument_binder(module_graph const& g) : g_(g), binding_(g.inputs().size()) {
    for (auto const n : g.inputs()) names_.insert(g[n].target);
  }

  void bind(std::size_t positional, std::vector<std::string> const& named, surplus_arguments surplus) {
    using enum binding_fault::kind;
    for (std::size_t i = 0; i < std::min(positional, binding_.size()); ++i) binding_[i] = i;
    for (std::size_t i = 0; i < named.size(); ++i) {
      auto const at = names_.find(named[i]);
      if (at == none<std::uint32_t>)
        faults_.push_back({unknown, named[i]});
      else if (binding_[at])
        faults_.push_back({twice, named[i]});
      else
        binding_[at] = positional + i;
    }
    if (positional > binding_.size() && surplus == surplus_arguments::refused)
      faults_.push_back({too_many, {}});
    for (std::size_t i = 0; i < binding_.size(); ++i)
      if (!binding_[i] && !g_[g_.inputs()[i]].default_value)
        faults_.push_back({missing, g_[g_.inputs()[i]].target});
  }

  argument_binding const& binding() const { return binding_; }
  std::vector<binding_fault> const& faults() const { return faults_; }
  std::vector<std::string> const& parameters() const { return names_.handles(); }

 private:
  module_graph const& g_;
  numbering<std::string, std::uint32_t> names_;
  argument_binding binding_;
  std::vector<binding_fault> faults_;
};

/// All that is wrong with a call of `g` with so many positional arguments and these names; a parameter's name
/// is the target of its placeholder. Expected O(parameters + arguments).
inline std::vector<binding_fault> find_binding_faults(
    module_graph const& g, std::size_t positional, std::vector<std::string> const& named,
    surplus_arguments surplus = surplus_arguments::refused) {
  argument_binder binder(g);
  binder.bind(positional, named, surplus);
  return binder.faults();
}

/// Of each placeholder of `g` the argument that it takes.
/// \throws binding_error
inline argument_binding bind_arguments(module_graph const& g, std::size_t positional,
                                       std::vector<std::string> const& named,
                                       surplus_arguments surplus = surplus_arguments::refused) {
  argument_binder binder(g);
  binder.bind(positional, named, surplus);
  if (!binder.faults().empty()) throw binding_error(binder.faults(), binder.parameters());
  return binder.binding();
}

}  // namespace cleave
