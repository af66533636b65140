// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/formats/graph_files/cost_dag.hpp"
#include "cleave/formats/json/json_reader.hpp"
#include "cleave/formats/json/json_writer.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/numbering.hpp"

/// The JSON of github.com/msr-fiddle/dnn-partitioning (Tarnawski et al., NeurIPS 2020). `nodes` have `id`,
/// `fpgaLatency` (on an accelerator), `cpuLatency`, `size`, `isBackwardNode` and `colorClass` (equal values
/// share a device). `edges` have `sourceId`, `destId` and `cost`. Limits are `maxFPGAs`, `maxCPUs` and
/// `maxSizePerFPGA`.
namespace cleave::inline v0_2::detail {

/// Reads a workload. Nodes are numbered in the order of the file; other keys are ignored. O(size of the
/// text).
/// \throws json::error with line, column and path
inline cost_dag read_workload(json_value const& file) {
  cost_dag d;
  numbering<std::int64_t, std::uint32_t> ids, colours;
  bool any_backward = false, any_host = false;
  auto const amount = [](json_value const& v) {
    double const x = v.real();
    if (!(x >= 0)) v.fail("must not be negative");
    return x;
  };
  file["nodes"].each_element([&](json_value const& n) {
    auto const id = n["id"];
    if (ids.insert(id.integer()) != d.nodes()) id.fail("an earlier node has the same id");
    auto const work = n.find("fpgaLatency");
    if (!work)
      n.fail(
          "lacks the key 'fpgaLatency', its time on an accelerator; a file without a \"format\" is taken for "
          "a workload of dnn-partitioning");
    d.work.push_back(amount(*work));
    auto const size = n.find("size"), host = n.find("cpuLatency"), backward = n.find("isBackwardNode"),
               colour = n.find("colorClass"), name = n.find("name");
    d.memory.push_back(size ? amount(*size) : 0);
    d.host_work.push_back(host ? amount(*host) : 0);
    any_host |= host.has_value();
    bool const is_backward =
        backward && (backward->what() == json_kind::boolean ? backward->boolean() : backward->integer() != 0);
    d.backward.push_back(is_backward ? 1 : 0);
    any_backward |= is_backward;
    d.name.push_back(name ? name->text() : std::to_string(id.integer()));
    if (!colour) return;
    auto const set = colours.insert(colour->integer());
    if (set == d.together.size()) d.together.emplace_back();
    d.together[set].push_back(d.nodes() - 1);
  });
  if (!any_backward) d.backward.clear();
  if (!any_host) d.host_work.clear();
  auto const node = [&](json_value const& v) {
    auto const at = ids.find(v.integer());
    if (at == none<std::uint32_t>) v.fail("no node has this id");
    return at;
  };
  file["edges"].each_element([&](json_value const& e) {
    cost_dag::arc const a{node(e["sourceId"]), node(e["destId"]), amount(e["cost"])};
    if (a.from == a.to) e.fail("a node depends on itself");
    d.arcs.push_back(a);
  });
  if (auto const devices = file.find("maxFPGAs")) d.devices = devices->integer<std::uint32_t>();
  if (auto const hosts = file.find("maxCPUs")) d.hosts = hosts->integer<std::uint32_t>();
  if (auto const memory = file.find("maxSizePerFPGA")) d.device_memory = amount(*memory);
  return d;
}
}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Reads a workload from text. O(size of the text). \throws json::error with line, column and path
inline cost_dag read_workload_json(std::string text) {
  detail::json_document const document(std::move(text));
  return detail::read_workload(detail::json_value(document));
}

/// Returns the text that `read_workload_json` reads.
inline std::string write_workload_json(cost_dag const& d) {
  json::writer json(json::writer::layout::indented);
  std::vector<std::size_t> colour(d.nodes(), d.together.size());
  for (std::size_t set = 0; set < d.together.size(); ++set)
    for (auto const n : d.together[set]) colour[n] = set;
  json.open_object().key("nodes").open_array();
  for (std::size_t n = 0; n < d.nodes(); ++n) {
    json.open_object().member("id", n).member("fpgaLatency", d.work[n]);
    if (!d.name.empty()) json.member("name", d.name[n]);
    if (!d.host_work.empty()) json.member("cpuLatency", d.host_work[n]);
    if (!d.memory.empty()) json.member("size", d.memory[n]);
    if (!d.backward.empty()) json.member("isBackwardNode", d.backward[n] != 0);
    if (colour[n] != d.together.size()) json.member("colorClass", colour[n]);
    json.close_object();
  }
  json.close_array().key("edges").open_array();
  for (auto const& a : d.arcs)
    json.open_object()
        .member("sourceId", a.from)
        .member("destId", a.to)
        .member("cost", a.cost)
        .close_object();
  json.close_array();
  if (d.devices > 0) json.member("maxFPGAs", d.devices);
  if (d.hosts > 0) json.member("maxCPUs", d.hosts);
  if (d.device_memory > 0) json.member("maxSizePerFPGA", d.device_memory);
  return json.close_object().text() + "\n";
}

}  // namespace cleave
