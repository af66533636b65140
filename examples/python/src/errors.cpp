// SPDX-License-Identifier: MIT
// Turns exceptions of the library into those of cleave.errors. Each carries the witness as attributes.
#include "errors.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cleave/backward/joint_graph.hpp>
#include <cleave/core/error.hpp>
#include <cleave/formats/files/read_whole_file.hpp>
#include <cleave/formats/graph_files/text.hpp>
#include <cleave/graph/adjacency.hpp>
#include <cleave/graph/csr.hpp>
#include <cleave/graph/hypergraph.hpp>
#include <cleave/partition/kway/kway.hpp>
#include <cleave/partition/kway/options.hpp>
#include <cleave/partition/kway/partition_hypergraph.hpp>
#include <cleave/partition/repartition/repartition.hpp>
#include <cstddef>
#include <exception>
#include <string>

#include "bind.hpp"

namespace nb = nanobind;

namespace binding {

void set_error(char const* name, std::string const& message, nb::dict const& witness) {
  try {
    nb::object const type = nb::module_::import_("cleave.errors").attr(name);
    nb::object const error = type(message, **witness);
    PyErr_SetObject(type.ptr(), error.ptr());
  } catch (nb::python_error& e) {  // the package is not importable: the message must not be lost
    e.discard_as_unraisable(name);
    PyErr_SetString(PyExc_ValueError, message.c_str());
  }
}

}  // namespace binding

namespace {

using namespace cleave;

std::string name_of(adjacency_violation what) {
  switch (what) {
    case adjacency_violation::wrong_length:
      return "wrong_length";
    case adjacency_violation::offsets_out_of_range:
      return "offsets_out_of_range";
    case adjacency_violation::no_such_node:
      return "no_such_node";
    case adjacency_violation::bad_node_weight:
      return "bad_node_weight";
    case adjacency_violation::bad_edge_weight:
      return "bad_edge_weight";
    case adjacency_violation::nodes_too_heavy:
      return "nodes_too_heavy";
    case adjacency_violation::edges_too_heavy:
      return "edges_too_heavy";
    case adjacency_violation::one_sided_edge:
      return "one_sided_edge";
  }
  return "";
}

std::string name_of(hypergraph_violation what) {
  switch (what) {
    case hypergraph_violation::wrong_length:
      return "wrong_length";
    case hypergraph_violation::offsets_out_of_range:
      return "offsets_out_of_range";
    case hypergraph_violation::no_such_node:
      return "no_such_node";
    case hypergraph_violation::bad_node_weight:
      return "bad_node_weight";
    case hypergraph_violation::bad_net_weight:
      return "bad_net_weight";
    case hypergraph_violation::nodes_too_heavy:
      return "nodes_too_heavy";
    case hypergraph_violation::nets_too_heavy:
      return "nets_too_heavy";
    case hypergraph_violation::too_large:
      return "too_large";
  }
  return "";
}

std::string name_of(detail::joint_graph_fault::kind what) {
  using enum detail::joint_graph_fault::kind;
  switch (what) {
    case rows:
      return "wrong_length";
    case read:
      return "late_read";
    case source:
      return "reading_source";
    case place:
      return "no_such_node";
    case cost:
      return "bad_cost";
    case early:
      return "late_result";
    case too_much:
      return "too_many_bytes";
  }
  return "";
}

std::string name_of(detail::invalid_kway_option what) {
  switch (what) {
    case detail::invalid_kway_option::parts:
      return "k";
    case detail::invalid_kway_option::imbalance:
      return "eps";
    case detail::invalid_kway_option::share:
      return "shares";
    case detail::invalid_kway_option::fixed_length:
    case detail::invalid_kway_option::fixed_part:
      return "fixed";
    case detail::invalid_kway_option::further_length:
    case detail::invalid_kway_option::further_weight:
    case detail::invalid_kway_option::further_total:
    case detail::invalid_kway_option::further_refused:
      return "weights";
    case detail::invalid_kway_option::further_imbalance:
      return "eps";
    case detail::invalid_kway_option::further_share:
      return "shares";
  }
  return "";
}

std::string name_of(detail::broken_repartition what) {
  switch (what) {
    case detail::broken_repartition::parts:
      return "k";
    case detail::broken_repartition::cost:
      return "cost_per_byte";
    case detail::broken_repartition::old_length:
      return "old";
    case detail::broken_repartition::bytes_length:
    case detail::broken_repartition::bytes_overflow:
      return "bytes";
    case detail::broken_repartition::stays_length:
    case detail::broken_repartition::stays_nowhere:
    case detail::broken_repartition::stays_fixed:
      return "stays";
  }
  return "";
}

/// Says what the library says with the names that arrays have in SciPy.
std::string message_of(detail::adjacency_error const& e) {
  std::string message = e.what();
  if (e.witness.what == adjacency_violation::offsets_out_of_range)
    for (std::size_t at = 0; (at = message.find("offsets", at)) != message.npos;)
      message.replace(at, std::string("offsets").size(), "indptr");
  if (e.witness.what == adjacency_violation::one_sided_edge)
    message += "; for a sparse matrix A that is not symmetric, pass A + A.T";
  return message;
}

void set_option_error(std::exception const& e, std::string const& option, std::size_t where) {
  nb::dict witness;
  witness["option"] = option;
  witness["where"] = where;
  binding::set_error("OptionError", e.what(), witness);
}

void translate(std::exception_ptr const& thrown, void*) {
  nb::dict witness;
  try {
    std::rethrow_exception(thrown);
  } catch (detail::adjacency_error const& e) {
    witness["what"] = name_of(e.witness.what);
    witness["node"] = e.witness.node;
    witness["arc"] = e.witness.arc;
    binding::set_error("GraphError", message_of(e), witness);
  } catch (detail::joint_graph_error const& e) {
    witness["what"] = name_of(e.witness.what);
    if (e.witness.node != none<std::size_t>) witness["node"] = e.witness.node;
    binding::set_error("GraphError", e.what(), witness);
  } catch (detail::hypergraph_error const& e) {
    witness["what"] = name_of(e.witness.what);
    witness["net"] = e.witness.net;
    witness["pin"] = e.witness.pin;
    witness["node"] = e.witness.node;
    binding::set_error("HypergraphError", e.what(), witness);
  } catch (detail::kway_option_error const& e) {
    set_option_error(e, name_of(e.witness.what), e.witness.where);
  } catch (detail::kway_start_error const& e) {
    set_option_error(e, "labels", e.witness);
  } catch (detail::repartition_error const& e) {
    set_option_error(e, name_of(e.witness.what), e.witness.where);
  } catch (graph_file_error const& e) {
    witness["line"] = e.witness.line;
    witness["column"] = e.witness.column;
    binding::set_error("FileError", e.what(), witness);
  } catch (detail::whole_file_error const& e) {
    witness["reason"] = e.witness;
    binding::set_error("FileError", e.what(), witness);
  } catch (infeasible_error const& e) {
    binding::set_error("InfeasibleError", e.what(), witness);
  } catch (error const& e) {
    binding::set_error("Error", e.what(), witness);
  }
}

}  // namespace

void bind_errors(nb::module_&) { nb::register_exception_translator(translate); }
