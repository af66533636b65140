// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/formats/json/json_reader.hpp"
#include "cleave/formats/json/json_writer.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/split/plan.hpp"

/// A plan as JSON, and back. Nodes and values are numbers of the snapshot, which are reproducible for the
/// same graph. `find_plan_fault` checks a plan against a graph.
///
///     {"format": "cleave plan 1",
///      "stages": [{"nodes": [0, 1], "inputs": [0], "state": [1], "outputs": [3]}, …],
///      "order": [0, …],
///      "transfers": [{"value": 3, "from": 0, "to": 1}, …],
///      "updates": []}
namespace cleave::inline v0_2 {

inline constexpr char plan_json_format[] = "cleave plan 1";

/// Returns `p` as JSON. O(size).
template <std::unsigned_integral Index>
std::string write_plan_json(basic_plan<Index> const& p,
                            json::writer::layout l = json::writer::layout::compact) {
  json::writer w(l);
  auto const list = [&](char const* key, auto const& items, auto write) {
    w.key(key).open_array();
    for (auto const& item : items) write(item);
    w.close_array();
  };
  auto const number = [&](Index n) { w.value(n); };
  auto const sending = [&](basic_transfer<Index> const& t) {
    w.open_object()
        .member("value", t.value)
        .member("from", index(t.from))
        .member("to", index(t.to))
        .close_object();
  };
  w.open_object().member("format", plan_json_format);
  list("stages", p.stages, [&](basic_stage<Index> const& stage) {
    w.open_object();
    list("nodes", stage.nodes, number);
    list("inputs", stage.inputs, number);
    list("state", stage.state, number);
    list("outputs", stage.outputs, number);
    w.close_object();
  });
  list("order", p.order, [&](stage_id i) { w.value(index(i)); });
  list("transfers", p.transfers, sending);
  list("updates", p.updates, sending);
  return w.close_object().text();
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Reads a plan. \throws json::error with line, column and path if the text is not a plan
template <std::unsigned_integral Index = std::uint32_t>
basic_plan<Index> read_plan_json(std::string text) {
  json_document const document(std::move(text));
  json_value const top(document);
  top.allow({"format", "stages", "order", "transfers", "updates"});
  top.require_format(plan_json_format);

  basic_plan<Index> p;
  auto const numbers = [](json_value const& list) {
    std::vector<Index> read;
    list.each_element([&](json_value const& n) {
      read.push_back(n.integer<Index>());
      if (read.back() == none<Index>)
        n.fail("the largest number of the type is reserved and refers to nothing");
    });
    return read;
  };
  top["stages"].each_element([&](json_value const& stage) {
    stage.allow({"nodes", "inputs", "state", "outputs"});
    p.stages.push_back({numbers(stage["nodes"]), numbers(stage["inputs"]), numbers(stage["state"]),
                        numbers(stage["outputs"])});
  });
  auto const stage = [&](json_value const& v) {
    auto const i = v.integer<std::uint32_t>();
    if (i >= p.stages.size())
      v.fail("the plan has " + std::to_string(p.stages.size()) + " stages, numbered from 0");
    return stage_id{i};
  };
  auto const transfers = [&](json_value const& list, std::vector<basic_transfer<Index>>& to) {
    list.each_element([&](json_value const& t) {
      t.allow({"value", "from", "to"});
      to.push_back({t["value"].integer<Index>(), stage(t["from"]), stage(t["to"])});
    });
  };
  top["order"].each_element([&](json_value const& i) { p.order.push_back(stage(i)); });
  transfers(top["transfers"], p.transfers);
  transfers(top["updates"], p.updates);
  return p;
}
}  // namespace cleave::detail
