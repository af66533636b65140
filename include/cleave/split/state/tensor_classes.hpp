// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/split/state/state_assignment.hpp"

namespace cleave::inline v0_2::detail {

/// The tensors of a model, grouped by memory. Names that share memory form one class, numbered by the first
/// registration of its names. Expected O(size of all names).
class tensor_classes {
 public:
  explicit tensor_classes(std::vector<model_tensor> const& tensors) {
    numbering<std::string_view, std::uint32_t> storages;
    std::vector<std::uint32_t> class_of_storage;
    csr<std::uint32_t> table;
    std::uint32_t classes = 0;
    for (auto const& t : tensors) {
      std::uint32_t c = classes;
      if (!t.storage.empty()) {
        auto const at = storages.insert(t.storage);
        if (at == class_of_storage.size()) class_of_storage.push_back(classes);
        c = class_of_storage[at];
      }
      classes += c == classes;
      class_.push_back(c);
      table.add(c);
      table.close();
    }
    names_ = users_of(table, classes);
    for (std::uint32_t c = 0; c < classes; ++c) {
      constant_.push_back(1);
      for (auto const t : names_[c])
        if (tensors[t].what != state_kind::constant) constant_.back() = 0;
    }
  }

  std::size_t size() const { return names_.rows(); }
  std::uint32_t operator[](std::size_t tensor) const { return class_[tensor]; }
  /// Returns the tensors of a class, in the order of registration.
  std::span<std::uint32_t const> names(std::size_t c) const { return names_[c]; }
  /// True if a class is a constant under each of its names.
  bool is_constant(std::size_t c) const { return constant_[c] != 0; }

  /// Returns the first option that names an unknown tensor or contradicts an earlier option, or nothing.
  std::optional<state_fault> find_option_fault(std::vector<model_tensor> const& tensors,
                                               state_options const& options) const {
    std::vector<std::size_t> chosen(size(), none<std::size_t>);  // by class: the first option for it
    auto const of = read(tensors, options);
    for (std::size_t k = 0; k < of.size(); ++k) {
      auto const& [name, wanted] = options.by_name[k];
      if (of[k] == none<std::uint32_t>) return unknown(tensors, name);
      auto& earlier = chosen[of[k]];
      if (earlier == none<std::size_t>) earlier = k;
      if (options.by_name[earlier].second != wanted)
        return state_fault{state_fault::kind::two_choices, options.by_name[earlier].first, name};
    }
    return std::nullopt;
  }

  /// Returns the treatment of each class in case several stages read it.
  /// \throws state_error as `find_option_fault` says
  std::vector<shared_state> choices(std::vector<model_tensor> const& tensors,
                                    state_options const& options) const {
    if (auto fault = find_option_fault(tensors, options)) throw state_error(*std::move(fault));
    std::vector<shared_state> choice(size(), options.shared);
    auto const of = read(tensors, options);
    for (std::size_t k = 0; k < of.size(); ++k) choice[of[k]] = options.by_name[k].second;
    return choice;
  }

 private:
  /// Returns the class that each option by name refers to, or none.
  std::vector<std::uint32_t> read(std::vector<model_tensor> const& tensors,
                                  state_options const& options) const {
    if (options.by_name.empty()) return {};
    numbering<std::string_view, std::uint32_t> known;
    std::vector<std::uint32_t> of, wanted;
    for (std::uint32_t t = 0; t < tensors.size(); ++t)
      if (known.insert(tensors[t].name) == of.size()) of.push_back(class_[t]);
    for (auto const& [name, choice] : options.by_name) {
      auto const at = known.find(name);
      wanted.push_back(at == none<std::uint32_t> ? at : of[at]);
    }
    return wanted;
  }

  static state_fault unknown(std::vector<model_tensor> const& tensors, std::string const& name) {
    std::vector<std::string> names;
    for (auto const& t : tensors) names.push_back(t.name);
    return {state_fault::kind::unknown_name, name, {}, the_caller, the_caller, nearest_names(name, names)};
  }

  std::vector<std::uint32_t> class_;  // by tensor: its class
  csr<std::uint32_t> names_;          // by class: its tensors
  std::vector<char> constant_;        // by class: constant under each name
};

}  // namespace cleave::detail
