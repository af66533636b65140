// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/adapt/onnx/detail/external_data.hpp>
#include <cleave/adapt/onnx/stages.hpp>
#include <cleave/adapt/onnx/write.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/units.hpp>
#include <cleave/onnx.hpp>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cost_file.hpp"
#include "files.hpp"
#include "measured.hpp"
#include "options.hpp"
#include "terminal.hpp"

namespace tool {

/// Returns the name of a model, `bert4` for `models/bert4.onnx.gz`; never `.` or `..`.
inline std::string model_name(fs::path const& path) {
  auto const file = is_standard(path) ? std::string() : path.filename().string();
  auto const stem = file.substr(0, file.rfind(".onnx"));
  return stem.empty() || stem == "." || stem == ".." ? "model" : stem;
}

/// A model that has been read and checked, with inferred shapes and estimated costs.
struct model {
  fs::path path;
  std::size_t file_bytes;  ///< unpacked
  std::unique_ptr<::onnx::ModelProto> proto;
  cleave::onnx::types types;
  cleave::onnx::costs costs;
  cleave::onnx::graph graph;                 ///< weights in seconds
  cleave::onnx::type_options given;          ///< sizes given by the user
  std::optional<measured_costs> measured{};  ///< of the nodes to place, in order, if a file gave them
  std::size_t sized = 0;                     ///< values between nodes whose size only that file gave

  std::string name() const { return model_name(path); }

  /// Returns the number of live nodes that are neither constants nor copied where they are read.
  std::size_t nodes_to_place() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(graph.nodes(), [&](auto n) { return !graph.replicable(n); }));
  }
};

/// Adds the options that give sizes which a file leaves open.
inline void add_type_options(command& c, cleave::onnx::type_options& to) {
  auto const take = [](auto set) {
    return [set](std::string_view text) {
      try {
        auto const [name, value] = cleave::onnx::parse_assignment(text);
        set(name, value);
        return true;
      } catch (cleave::onnx::error const&) {
        return false;
      }
    };
  };
  c.options.push_back(
      {"", "--dim", "NAME=N",
       "a symbolic dimension's name and size, from 0 to 9223372036854775807, as in batch=8",
       "size of a symbolic dimension; may be repeated",
       take([&to](auto const& name, auto value) { to.dims[name] = cleave::onnx::parse_dimension(value); })});
  c.options.push_back(
      {"", "--shape", "VALUE=SHAPE",
       "a value's name and its sizes from 0 to 9223372036854775807, as in image=1x3x224x224 or mask=bool:8x?",
       "shape of a value that shape inference cannot find; may be repeated",
       take([&to](auto const& name, auto value) { to.shapes[name] = cleave::onnx::parse_shape(value); })});
}

/// \throws usage_error if options for ONNX models are given for a graph in JSON
inline void require_no_sizes(cleave::onnx::type_options const& given) {
  if (!given.dims.empty() || !given.shapes.empty())
    throw usage_error("--dim and --shape are for ONNX models; in a graph in JSON give each node its `bytes`");
}

/// Reads `text` as a list separated by commas; `read` reads one item.
template <class Item, class Read>
bool read_list(std::string_view text, std::vector<Item>& to, Read read) {
  to.clear();
  for (std::size_t at = 0; at <= text.size();) {
    auto const end = std::min(text.find(',', at), text.size());
    auto const item = read(text.substr(at, end - at));
    if (!item) return false;
    to.push_back(*item);
    at = end + 1;
  }
  return true;
}

/// Returns the single operand of a subcommand.
inline fs::path only_operand(std::vector<std::string> const& operands) {
  if (operands.empty()) throw usage_error("a model is missing; name MODEL.onnx or MODEL.onnx.gz");
  if (operands.size() > 1)
    throw usage_error("one model at a time; found a second operand: '" + cleave::printable(operands[1]) +
                      "'");
  return operands[0];
}

/// Returns the limits of a model's file: `--max-file` also lifts the limit of how far a file unpacks.
inline cleave::onnx::limits model_limits() {
  cleave::onnx::limits limits{.raised_by = file_limit_option};
  if (given_file_limit == 0) return limits;
  limits.max_bytes = static_cast<std::size_t>(std::min<std::uint64_t>(given_file_limit, limits.max_bytes));
  limits.max_ratio = limits.max_bytes;
  return limits;
}

/// Returns the bytes of a model in a file or, for `-`, from stdin; both may be packed with gzip.
/// \throws cleave::onnx::error without the path
inline std::string read_model_bytes(fs::path const& path) {
  auto const limits = model_limits();
  if (!is_standard(path)) return cleave::onnx::read_file(path, limits);
  auto const& bytes = standard_input();
  if (bytes.starts_with("\x1f\x8b")) return cleave::detail::unpack_onnx(bytes, limits);
  cleave::detail::check_onnx_beginning(bytes);
  return bytes;
}

/// \throws cleave::error with the path and what is wrong with the file.
inline model read_model(fs::path const& path, cleave::onnx::type_options const& options,
                        progress const& doing) {
  auto const file = short_name(path);
  try {
    doing("reading " + file);
    auto bytes = read_model_bytes(path);
    auto const file_bytes = bytes.size();
    auto proto = std::make_unique<::onnx::ModelProto>(cleave::onnx::parse(bytes));
    bytes = {};  // not needed while the model is worked on
    cleave::onnx::check(*proto);
    doing("inferring the shapes of " + file);
    cleave::onnx::types types(*proto, options);
    if (!types.complaint().empty()) note(file + ": " + types.complaint());
    doing("pricing " + file);
    auto costs = cleave::onnx::costs_of(types);
    cleave::onnx::graph graph(*proto);
    cleave::onnx::price(graph, types, costs);
    return {path,   file_bytes, std::move(proto), std::move(types), std::move(costs), std::move(graph),
            options};
  } catch (cleave::error const& e) {
    throw cleave::error(input_name(path) + ": " + e.what());
  }
}

/// Returns the names of the nodes to place, in order; a node without a name has an empty one.
inline std::vector<std::string> node_names(model const& m) {
  std::vector<std::string> names;
  for (auto const n : m.graph.nodes()) names.push_back(m.graph.proto(n).name());
  return names;
}

/// Returns the names by which a file of costs may refer to the nodes. onnxruntime names a node without a name
/// by its operator and its position among the nodes that are no Constant: `Conv_12`.
inline cost_names cost_names_of(model const& m) {
  cost_names names{node_names(m)};
  std::vector<std::string> given(m.graph.file_nodes());
  std::size_t position = 0;
  for (std::uint32_t n = 0; n < m.graph.file_nodes(); ++n) {
    auto const& p = m.graph.proto(n);
    bool const is_constant = p.op_type() == "Constant" && p.domain().empty();
    given[n] = p.op_type() + "_" + std::to_string(position);
    position += !is_constant;
    names.others.insert(p.name().empty() ? given[n] : p.name());
  }
  std::uint32_t i = 0;
  for (auto const n : m.graph.nodes()) {
    names.runtime_names.push_back(given[n]);
    names.others.erase(names.nodes[i].empty() ? given[n] : names.nodes[i]);
    for (auto const v : m.graph.results(n)) names.makers.emplace(m.graph.name_of(v), i);
    ++i;
  }
  return names;
}

/// Replaces the estimated costs by those of a file, and gives values their sizes from it where shape
/// inference found none. \throws cleave::error if the file does not fit the model
inline void apply_costs(model& m, cost_file const& file) {
  auto const s = cleave::snapshot_of(m.graph);
  m.measured = assign_costs(file, s, cost_names_of(m));
  std::vector<double> weight;
  for (std::uint32_t n = 0; n < m.graph.file_nodes(); ++n) weight.push_back(m.graph.weight(n));
  std::vector<std::size_t> bytes;
  for (std::uint32_t v = 0; v < m.graph.values(); ++v) bytes.push_back(m.graph.bytes(v));
  for (std::uint32_t i = 0; i < s.nodes(); ++i) {
    auto const n = s.node[i];
    weight[n] = m.measured->cost[i];
    if (m.measured->origin[i] != cost_origin::scaled) m.costs.of[n].unknown = false;
    auto const& sizes = m.measured->result_bytes[i];
    for (std::size_t r = 0; r < sizes.size(); ++r) {
      auto const v = s.value[s.results[i][r]];
      bool const is_new = bytes[v] == 0 && sizes[r] > 0;
      m.sized += is_new && !s.users[s.results[i][r]].empty() &&
                 !cleave::onnx::elements(m.types.priced(m.graph.name_of(v))).has_value();
      if (is_new || !file.is_profile) bytes[v] = sizes[r];
    }
  }
  m.graph.price(std::move(weight), std::move(bytes));
}

/// Counts the nodes and values without a price.
inline cleave::unpriced lacking_of(model const& m) {
  auto lacking = cleave::onnx::find_unpriced(m.graph, m.types, m.costs);
  lacking.values -= std::min(lacking.values, m.sized);
  return lacking;
}

/// Returns the folder of a file.
inline fs::path folder_of(fs::path const& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// \throws cleave::error if an output would overwrite a file of the model's external weights
inline void require_external_kept(model const& m, typed_words& typed) {
  auto const folder = folder_of(m.path);
  std::set<fs::path> read;
  cleave::detail::each_onnx_tensor(*m.proto, [&](::onnx::TensorProto const& t) {
    if (t.data_location() != ::onnx::TensorProto::EXTERNAL) return;
    for (auto const& entry : t.external_data())
      if (entry.key() == "location") read.insert(folder / entry.value());
  });
  typed.require_kept(read);
}

/// Returns which existing stage files new ones may replace.
inline cleave::onnx::replace replaced_by(typed_words const& typed) {
  return typed.overwrite ? cleave::onnx::replace::of_any_model : cleave::onnx::replace::of_this_model;
}

/// Counts over the nodes, weights and values of a model.
struct model_summary {
  std::map<std::string, std::size_t> operators;  ///< number of nodes in the graph, by operator
  std::size_t weights = 0, parameters = 0;       ///< initializers, and their elements
  std::size_t weight_bytes = 0;
  std::size_t at_load = 0;               ///< live nodes that depend on weights alone
  std::size_t made = 0;                  ///< results of the other live nodes
  std::size_t untyped = 0, unsized = 0;  ///< of these, results of unknown type and of unknown shape
  std::size_t bounded = 0;               ///< of these, results with an upper bound alone
  cleave::unpriced lacking;
  double flops = 0;  ///< of these nodes, if their cost is known
};

inline model_summary summary_of(model const& m) {
  model_summary s;
  auto const& g = m.graph;
  for (auto const& n : m.proto->graph().node())
    ++s.operators[n.domain().empty() ? n.op_type() : n.domain() + "." + n.op_type()];
  std::set<fs::path> read;
  for (auto const& t : m.proto->graph().initializer()) {
    std::size_t elements = 1;  // checked against the data when the file was read
    for (auto const d : t.dims()) elements *= static_cast<std::size_t>(d);
    ++s.weights;
    s.parameters += elements;
    s.weight_bytes += elements * cleave::onnx::element_size(t.data_type());
  }
  for (auto const n : g.nodes()) {
    if (g.replicable(n)) {
      ++s.at_load;
      continue;
    }
    for (auto const v : g.results(n)) {
      ++s.made;
      auto const* type = m.types.priced(g.name_of(v));
      s.untyped += m.types.declaration(g.name_of(v)) == nullptr;
      s.unsized += !cleave::onnx::most_elements(type);
      s.bounded += cleave::onnx::most_elements(type) && !cleave::onnx::elements(type);
    }
    s.flops += m.costs.of[n].flops;
  }
  s.lacking = lacking_of(m);
  return s;
}

}  // namespace tool
