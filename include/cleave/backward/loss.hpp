// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string>

#include "cleave/backward/loss_search.hpp"
#include "cleave/core/error.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/argument_text.hpp"
#include "cleave/graph/module_graph.hpp"

namespace cleave::detail {

/// One sentence, in the names of the graph.
inline std::string loss_fault_text(module_graph const& g, module_argument const& spec, loss_fault const& f) {
  if (f.what == loss_fault::kind::no_output)
    return "loss: the program gives nothing; it needs an output node with an argument";
  if (f.what == loss_fault::kind::incomplete)
    return "loss: the specification has not as many elements as its containers say";
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
      return "loss: " + given + " is marked as the loss, and is not one value that the program computes";
    case loss_fault::kind::different_kind:
      return "loss: " + marks + " is of another kind than " + given + ", for which it stands";
    case loss_fault::kind::different_count:
      return "loss: " + marks + " differs in its number of elements from " + given;
    case loss_fault::kind::different_keys:
      return "loss: " + marks + " differs in its keys from " + given + ", or a key is there twice";
    case loss_fault::kind::unknown_mark:
      return "loss: " + marks + " is neither true, false nor a list, tuple or dict of these";
  }
  return {};
}

/// A program's loss cannot be told. The witness says why.
class loss_error : public witness_error<loss_fault> {
 public:
  loss_error(module_graph const& g, module_argument const& spec, loss_fault const& f)
      : witness_error(loss_fault_text(g, spec, f), f) {}
};

/// Looks for the loss of `g` as `search_for_loss` does in its output. Total.
inline loss_search search_for_loss(module_graph const& g, module_argument const& spec,
                                   loss_options const& options = {}) {
  auto const output = g.output();
  bool const given = output && !g[*output].args.empty();
  return search_for_loss(given ? g[*output].args.front() : module_argument(), spec, options);
}

}  // namespace cleave::detail

namespace cleave {

/// The loss of `g`, or nothing where none is asked for.
/// \throws loss_error
inline std::optional<module_graph::position> loss_of(module_graph const& g, module_argument const& spec,
                                                     loss_options const& options = {}) {
  auto const search = detail::search_for_loss(g, spec, options);
  if (search.fault) throw detail::loss_error(g, spec, *search.fault);
  return search.node;
}

}  // namespace cleave
