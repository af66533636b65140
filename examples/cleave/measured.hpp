// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/graph/snapshot_arrays.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cost_file.hpp"

namespace tool {

/// The names by which a file of costs may refer to the nodes of a snapshot.
struct cost_names {
  std::vector<std::string> nodes;                 ///< per node: its name; may be empty
  std::vector<std::string> runtime_names{};       ///< per node: its name in a profile if it has none itself
  std::map<std::string, std::uint32_t> makers{};  ///< name of a value: the node that makes it
  std::set<std::string> others{};  ///< nodes of the file that are not placed; their costs are skipped
};

/// The origin of the cost of a node.
enum class cost_origin : std::uint8_t {
  measured,  ///< the file has the node
  shared,    ///< a fused node of a profile took it in; they share its cost in proportion to the estimates
  folded,    ///< a profile lacks it and it depends on no input: its result is computed once, before all runs
  scaled,    ///< estimated, times the mean ratio of measured to estimated costs
};

/// The costs of nodes from a file, and their origin.
struct measured_costs {
  fs::path path;
  bool is_profile = false;
  std::size_t runs = 0;
  std::vector<double> cost;       ///< per node
  std::vector<double> predicted;  ///< per node: the estimate of the static model
  std::vector<cost_origin> origin;
  std::vector<std::vector<std::size_t>>
      result_bytes;      ///< per node: sizes of its results in the file; may be empty
  double scale = 1;      ///< measured / estimated, over the measured nodes
  double total = 0;      ///< seconds of all entries of the file
  double elsewhere = 0;  ///< of these, seconds of entries that belong to no node
  std::vector<std::string> elsewhere_names{};

  std::size_t count(cost_origin o) const;
};

/// Returns costs for the nodes of `s`, whose weights are the estimates. An entry of CSV may name several
/// nodes, joined by `+`, which share its cost.
/// \throws cleave::error if CSV names a node that does not exist, or most of a profile belongs to no node
measured_costs assign_costs(cost_file const& file, cleave::snapshot_arrays const& s, cost_names const& names);

/// Returns sentences on the origin of the costs. `names` are those of the nodes; they may be empty.
std::vector<std::string> remarks_on(measured_costs const& m, std::vector<std::string> const& names);

}  // namespace tool
