// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/argument_text.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"

namespace cleave::inline v0_2 {

/// The rule for specifications that mark several values as the loss. `refuse` reports a fault. `first` takes
/// the first in the order of the specification, as torch does.
enum class several_losses : std::uint8_t { refuse, first };

/// Says if the loss may be missing when it is not requested: without a specification, or with the
/// specification false.
enum class missing_loss : std::uint8_t { allow, refuse };

/// Options of `loss_of`.
struct loss_options {
  several_losses several = several_losses::refuse;
  missing_loss missing = missing_loss::allow;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The reason why a specification does not lead to a loss. Positions are those of tokens.
struct loss_fault {
  enum class kind : std::uint8_t {
    no_output,        ///< the program has no output
    not_found,        ///< no value is marked
    found_twice,      ///< `output` and `other` are both marked
    not_a_value,      ///< `output` is marked but is a constant or several values
    different_kind,   ///< `spec` is a list, tuple or dict, and `output` is of another kind
    different_count,  ///< `spec` and `output` differ in the number of elements
    different_keys,   ///< the dicts at `spec` and `output` differ in their keys, or repeat a key
    incomplete,       ///< the specification has fewer or more tokens than its containers require
    unknown_mark,     ///< `spec` is neither a boolean nor a list, tuple or dict
  };
  kind what;
  std::size_t output = 0, spec = 0, other = 0;

  bool operator==(loss_fault const&) const = default;
};

/// The result of a search for the loss: a fault, or a node, or neither if no loss is requested.
struct loss_search {
  std::optional<std::uint32_t> node;
  module_argument spec;  ///< the specification that leads to the node
  std::optional<loss_fault> fault;
};

/// Returns, for each token of `a`, the position after the end of its subtree. O(size).
inline std::vector<std::size_t> subtree_ends(module_argument const& a) {
  std::vector<std::size_t> end(a.size());
  for (std::size_t at = a.size(); at-- > 0;) {
    end[at] = at + 1;
    if (auto const* c = std::get_if<container>(&a[at]))
      for (auto i = elements_of(*c); i > 0; --i) end[at] = end[end[at]];
  }
  return end;
}

/// Walks an output and a specification in parallel. Helper of `search_for_loss`.
class loss_searcher {
 public:
  loss_searcher(module_argument const& output, module_argument const& spec, loss_options const& options)
      : output_(output),
        spec_(spec),
        options_(options),
        output_end_(subtree_ends(output)),
        spec_end_(subtree_ends(spec)) {}

  loss_search search() {
    if (spec_.empty() || std::holds_alternative<std::monostate>(spec_.front())) return named_loss();
    rest_.emplace_back(0, 0);
    while (!rest_.empty() && !fault_) {
      auto const [s, o] = rest_.back();
      rest_.pop_back();
      if (auto const* marked = std::get_if<bool>(&spec_[s])) {
        if (*marked) mark(o, s);
        if (found_ && options_.several == several_losses::first) break;
      } else {
        compare(s, o);
      }
    }
    return result(spec_, spec_ == module_argument{false});
  }

 private:
  using kind = loss_fault::kind;

  /// Returns the result of the search. `may_lack` is true if no loss is requested.
  loss_search result(module_argument spec, bool may_lack) {
    bool const lacks = !fault_ && !found_ && !(may_lack && options_.missing == missing_loss::allow);
    if (lacks) fault_ = loss_fault{kind::not_found, 0, 0, 0};
    if (fault_) return {std::nullopt, {}, fault_};
    if (!found_) return {std::nullopt, std::move(spec), std::nullopt};
    return {std::get<node_ref>(output_[*found_]).node, std::move(spec), std::nullopt};
  }

  /// Finds the loss without a specification: the value under the key `loss` of a dict.
  loss_search named_loss() {
    auto const* c = std::get_if<container>(&output_.front());
    if (!c || c->what != container::kind::dict) return result({token()}, true);
    module_argument spec{*c};
    for (std::size_t at = 1; at < output_.size();) {
      auto const value = output_end_[at];
      bool const here = output_[at] == token("loss");
      spec.insert(spec.end(), output_.begin() + static_cast<std::ptrdiff_t>(at),
                  output_.begin() + static_cast<std::ptrdiff_t>(value));
      spec.push_back(here);
      if (here) mark(value, 0);
      at = output_end_[value];
    }
    return result(found_ ? std::move(spec) : module_argument{token()}, true);
  }

  /// Marks the value at `o` as the loss. A container with one element stands for that element.
  void mark(std::size_t o, std::size_t s) {
    auto const whole = o;
    for (auto const* c = std::get_if<container>(&output_[o]); c && c->size == 1;
         c = std::get_if<container>(&output_[o]))
      o = c->what == container::kind::dict ? output_end_[o + 1] : o + 1;
    if (!std::holds_alternative<node_ref>(output_[o]))
      fault_ = loss_fault{kind::not_a_value, whole, s, 0};
    else if (!found_)
      found_ = o;
    else if (!(output_[o] == output_[*found_]))
      fault_ = loss_fault{kind::found_twice, *found_, s, o};
  }

  static bool is_row(container const& c) {
    return c.what == container::kind::list || c.what == container::kind::tuple;
  }

  void compare(std::size_t s, std::size_t o) {
    auto const* marks = std::get_if<container>(&spec_[s]);
    auto const* given = std::get_if<container>(&output_[o]);
    bool const row = marks && is_row(*marks);
    if (!marks || marks->what == container::kind::slice)
      fault_ = loss_fault{kind::unknown_mark, o, s, 0};
    else if (!given || (row ? !is_row(*given) : given->what != container::kind::dict))
      fault_ = loss_fault{kind::different_kind, o, s, 0};
    else if (row && marks->size != given->size)
      fault_ = loss_fault{kind::different_count, o, s, 0};
    else
      row ? enter_row(s, o, marks->size) : enter_dict(s, o, marks->size, given->size);
  }

  void enter_row(std::size_t s, std::size_t o, std::size_t size) {
    auto const before = rest_.size();
    for (++s, ++o; size > 0; --size, s = spec_end_[s], o = output_end_[o]) rest_.emplace_back(s, o);
    reverse_from(before);
  }

  void enter_dict(std::size_t s, std::size_t o, std::size_t marks, std::size_t given) {
    loss_fault const fault{kind::different_keys, o, s, 0};
    numbering<std::string, std::uint32_t> keys;
    std::vector<std::size_t> values;
    for (std::size_t i = 0, at = o + 1; i < given; ++i) {
      keys.insert(key(output_, at));
      values.push_back(output_end_[at]);
      at = output_end_[values.back()];
    }
    auto const before = rest_.size();
    std::vector<char> met(keys.size());
    for (std::size_t i = 0, at = s + 1; i < marks; ++i) {
      auto const number = keys.find(key(spec_, at));
      auto const value = spec_end_[at];
      bool const fits = number != none<std::uint32_t> && !std::exchange(met[number], 1);
      if (!fits) fault_ = fault;
      if (fits) rest_.emplace_back(value, values[number]);
      at = spec_end_[value];
    }
    if (marks != given || keys.size() != given) fault_ = fault;
    reverse_from(before);
  }

  /// Returns a key as text. A key that is not a string never equals a string.
  static std::string key(module_argument const& a, std::size_t at) {
    if (auto const* text = std::get_if<std::string>(&a[at])) return "text " + *text;
    if (auto const* number = std::get_if<std::int64_t>(&a[at])) return "number " + std::to_string(*number);
    if (auto const* truth = std::get_if<bool>(&a[at])) return *truth ? "true" : "false";
    return "other";
  }

  void reverse_from(std::size_t first) {
    for (std::size_t i = first, j = rest_.size(); i + 1 < j; ++i) std::swap(rest_[i], rest_[--j]);
  }

  module_argument const& output_;
  module_argument const& spec_;
  loss_options options_;
  std::vector<std::size_t> output_end_, spec_end_;
  std::vector<std::pair<std::size_t, std::size_t>> rest_;  // stack: positions in specification and output
  std::optional<std::size_t> found_;
  std::optional<loss_fault> fault_;
};

/// Finds the loss in `output`, the argument of a program's output.
///
/// `spec` has the form of the output, with true at the loss and false elsewhere. Lists and tuples are
/// interchangeable. False may stand for a whole subtree, and true for a container with one element at any
/// depth. If `spec` is null or empty, the loss is the value under the key `loss` of a dict.
///
/// Never throws for a complete `output`; the result has the fault. Expected O(size), without recursion.
inline loss_search search_for_loss(module_argument const& output, module_argument const& spec,
                                   loss_options const& options = {}) {
  if (output.empty()) return {std::nullopt, {}, loss_fault{loss_fault::kind::no_output, 0, 0, 0}};
  if (!spec.empty() && !complete(spec))
    return {std::nullopt, {}, loss_fault{loss_fault::kind::incomplete, 0, 0, 0}};
  return loss_searcher(output, spec, options).search();
}

/// Returns one sentence that uses the names of the graph.
inline std::string loss_fault_text(module_graph const& g, module_argument const& spec, loss_fault const& f) {
  if (f.what == loss_fault::kind::no_output)
    return "loss: the program has no output; add an output node with an argument";
  if (f.what == loss_fault::kind::incomplete)
    return "loss: the specification has fewer or more elements than its containers require";
  auto const& output = g[*g.output()].args.front();
  auto const given = "output " + argument_text(g, output, f.output);
  auto const marks =
      "the specification " + argument_text(g, spec.empty() ? module_argument{token()} : spec, f.spec);
  switch (f.what) {
    case loss_fault::kind::no_output:
    case loss_fault::kind::incomplete:
      break;
    case loss_fault::kind::not_found:
      return "loss: " + marks + " marks no value of " + given + "; write true for the loss";
    case loss_fault::kind::found_twice:
      return "loss: " + argument_text(g, output, f.output) + " and " + argument_text(g, output, f.other) +
             " are both marked as the loss; mark one, or ask for the first";
    case loss_fault::kind::not_a_value:
      return "loss: " + given +
             " is marked as the loss, but it is not a single value that the program computes";
    case loss_fault::kind::different_kind:
      return "loss: " + marks + " differs in kind from " + given + "; use the same kind of container";
    case loss_fault::kind::different_count:
      return "loss: " + marks + " differs in its number of elements from " + given;
    case loss_fault::kind::different_keys:
      return "loss: " + marks + " differs in its keys from " + given + ", or a key is repeated";
    case loss_fault::kind::unknown_mark:
      return "loss: " + marks + " must be true, false, or a list, tuple or dict of these";
  }
  return {};
}

/// Thrown if the loss of a program cannot be determined. The witness is the reason.
using loss_error = witness_error<loss_fault>;

/// Finds the loss in the output of `g`. Never throws; the result has the fault.
inline loss_search search_for_loss(module_graph const& g, module_argument const& spec,
                                   loss_options const& options = {}) {
  auto const output = g.output();
  bool const given = output && !g[*output].args.empty();
  return search_for_loss(given ? g[*output].args.front() : module_argument(), spec, options);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the loss of `g`, or nothing if no loss is requested.
/// \param spec form of the output with true at the loss and false elsewhere; null or empty: the value under
/// the key `loss`
/// \throws loss_error
inline std::optional<module_graph::position> loss_of(module_graph const& g, module_argument const& spec,
                                                     loss_options const& options = {}) {
  auto const search = detail::search_for_loss(g, spec, options);
  if (search.fault) throw detail::loss_error(detail::loss_fault_text(g, spec, *search.fault), *search.fault);
  return search.node;
}

}  // namespace cleave
