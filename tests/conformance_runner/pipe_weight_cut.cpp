// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/backward_phases.hpp"
#include "cleave/backward/weight_cut.hpp"
#include "conformance_runner/outcome.hpp"
#include "support/tape_pass.hpp"
#include "support/toy_formula.hpp"

/// Compares backward passes split into two phases, and their results, with the recordings.
namespace cleave::conformance {

using namespace detail;
namespace {

using namespace cleave::testing;
using numbers = std::vector<std::uint32_t>;

backward_arrays read_backward_graph(json const& input) {
  backward_arrays g;
  for (json const& row : input.at("next")) {
    for (json const& to : row) g.next.add({to.is_null() ? none<std::uint32_t> : to.get<std::uint32_t>()});
    g.next.close();
  }
  g.outputs = input.at("outputs").get<numbers>();
  g.inputs = input.at("inputs").get<numbers>();
  g.parameters = input.at("params").get<numbers>();
  return g;
}

/// The senders of each node in order of discovery, with the number of edges from each. An output reached from
/// another output is listed without the number, because the recordings repeat it.
class sender_rows {
 public:
  sender_rows(backward_arrays const& g, csr<std::uint32_t> const& senders) : repeated_(g.nodes()) {
    for (auto const n : g.outputs) repeated_[n] = !senders[n].empty();
  }

  json of(numbers const& row) const {
    json list = json::array();
    for (auto const n : row) {
      auto const known = std::ranges::find(list, n, [](json const& e) { return e[0].get<std::uint32_t>(); });
      if (known == list.end())
        list.push_back({n, repeated_.at(n) ? json() : json(1)});
      else if (!repeated_[n])
        (*known)[1] = (*known)[1].get<int>() + 1;
    }
    return list;
  }

 private:
  std::vector<char> repeated_;
};

/// Returns the list as a set: sorted by its text.
json as_set(json list) {
  std::sort(list.begin(), list.end(), [](json const& a, json const& b) { return a.dump() < b.dump(); });
  return list;
}

/// Parameters and intermediates are sets, and so are the groups.
json group_set(json groups) {
  for (json& group : groups)
    for (auto const* key : {"params", "intermediates"}) group[key] = as_set(group[key]);
  return as_set(std::move(groups));
}

void run_cut(json const& body, outcome& to) {
  auto const g = read_backward_graph(body.at("input"));
  auto const cut = weight_cut_of(g);
  json groups = json::array();
  for (auto const& group : cut.groups)
    groups.push_back({{"params", group.parameters}, {"intermediates", group.intermediates}});
  if (body.contains("defect")) {
    compare(group_set(body.at("better").at("groups")), group_set(groups), "groups", to.differences);
    return;
  }
  auto const senders = gradient_senders(g);
  sender_rows const rows(g, senders);
  json expected = body.at("expect");
  json got{{"consumers", json::array()}, {"on_a_path_from_an_input", json::array()}};
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    numbers row;  // including each edge
    for (auto const m : senders[n])
      for (auto const& e : g.next[m])
        if (e.to == n) row.push_back(m);
    got["consumers"].push_back(rows.of(row));
    if (cut.on_input_path[n]) got["on_a_path_from_an_input"].push_back(n);
  }
  got["per_param"] = json::array();
  for (auto const p : g.parameters)
    got["per_param"].push_back({p, intermediates_of(senders, cut.on_input_path, p)});
  got["groups"] = group_set(groups);
  for (json& row : expected["consumers"])
    if (std::ranges::all_of(row, [&](json const& n) { return n.is_number() && n < g.nodes(); }))
      row = rows.of(row.get<numbers>());
  expected["groups"] = group_set(expected["groups"]);
  compare(expected, got, "expect", to.differences);
}

/// Returns `got`, with `expected` in place of numbers that differ only by rounding.
json up_to_rounding(json const& expected, json got) {
  if (expected.is_number() && got.is_number()) {
    auto const a = expected.get<double>(), b = got.get<double>();
    if (std::abs(a - b) <= 1e-12 * std::max(1.0, std::abs(a))) return expected;
  } else if (expected.is_array() && got.is_array() && expected.size() == got.size()) {
    for (std::size_t i = 0; i < got.size(); ++i) got[i] = up_to_rounding(expected[i], got[i]);
  } else if (expected.is_object() && got.is_object()) {
    for (auto& [key, value] : got.items())
      if (expected.contains(key)) value = up_to_rounding(expected[key], value);
  }
  return got;
}

tensor read_tensor(json const& j) {
  return {j.at("shape").get<toy_shape>(), j.at("data").get<std::vector<double>>()};
}

json write(std::optional<tensor> const& t) { return t ? json(t->data) : json(); }

using gradients = std::map<std::string, std::optional<tensor>>;

/// One microbatch on its own tape, given by the case's formula.
class microbatch {
 public:
  microbatch(json const& input, json const& batch) : batch_(batch), snapshot_(record(input)) {}

  /// Returns kinds and edges, numbered as in the recordings.
  json graph() const {
    json nodes = json::array();
    for (std::size_t n = 0; n < reached_from(tape_, outputs_).size(); ++n) {
      json next = json::array();
      for (auto const& e : snapshot_.next[n])
        next.push_back(e.to == none<std::uint32_t> ? json() : json{e.to, e.slot});
      auto const& kind = tape_.nodes()[snapshot_.node[static_cast<std::uint32_t>(n)]].kind;
      nodes.push_back({{"kind", kind}, {"next", next}});
    }
    return nodes;
  }

  json groups() const {
    json list = json::array();
    for (auto const& group : weight_cut_of(snapshot_).groups) {
      json names = json::array();
      for (auto const p : group.parameters) names.push_back(parameter_name(p));
      list.push_back(
          {{"params", names}, {"intermediates", group.intermediates}, {"stashed_elements", group.bytes}});
    }
    return group_set(list);
  }

  json output_values() const {
    json list = json::array();
    for (auto const& v : values_) list.push_back(v.is_null() ? json() : json(v.get().data));
    return list;
  }

  /// Runs both phases and adds to the gradients of `parameters`.
  json run_phases(gradients& parameters) const {
    auto const phases = backward_phases_of(snapshot_);
    phase_runner runner(tape_, snapshot_);
    for (auto const& [node, g] : seeds()) runner.seed(snapshot_.node.find(node), g);
    runner.run_input_phase(phases);
    json result{{"params_after_input_phase", write_all(parameters)}};
    for (auto const& unit : phases.weight) {
      auto const arrived = runner.run_unit(unit);
      for (auto const p : unit.parameters)
        if (arrived[p]) add(parameters[parameter_name(p)], *arrived[p]);
    }
    result["input_gradients"] = input_gradients([&](std::uint32_t n) { return runner.arrived()[n]; });
    result["params_after_weight_phase"] = write_all(parameters);
    return result;
  }

  /// Runs the whole pass at once.
  json run_whole(gradients& parameters) const {
    auto const arrived = tape_.flow(seeds(), [](auto, auto) { return true; });
    auto const find = [&](std::uint32_t n) {
      auto const at = arrived.find(snapshot_.node[n]);
      return at == arrived.end() ? std::nullopt : std::optional(at->second);
    };
    for (auto const p : snapshot_.parameters)
      if (auto const g = find(p)) add(parameters[parameter_name(p)], *g);
    return input_gradients(find);
  }

  static json write_all(gradients const& all) {
    json list = json::object();
    for (auto const& [name, g] : all) list[name] = write(g);
    return list;
  }

 private:
  static void add(std::optional<tensor>& to, tensor const& g) { to = to ? *to + g : g; }

  backward_snapshot<tape_pass> record(json const& input) {
    std::map<std::string, tape_value> named{{"a", {}}, {"null", {}}};
    auto const text = input.at("program").get<std::string>();
    auto const fixed = fixed_names(text);
    for (json const& o : batch_.at("outputs"))
      if (!o.is_null() && !o.at("needs_gradient")) named["a"] = constant_of(read_tensor(o));
    std::vector<std::uint32_t> parameters, inputs;
    for (auto const& [name, value] : input.at("params").items()) {
      auto const t = read_tensor(value);
      named[name] = fixed.contains(name) ? constant_of(t) : tape_.leaf(name, t);
      if (named[name].node) parameters.push_back(*named[name].node);
    }
    for (json const& i : batch_.at("inputs")) {
      auto const number = std::to_string(inputs_.size());
      auto const t = read_tensor(i);
      inputs_.push_back(i.at("needs_gradient") ? tape_.leaf("input" + number, t) : constant_of(t));
      named[inputs_.size() == 1 ? "x" : "y"] = inputs_.back();
      if (inputs_.back().node) inputs.push_back(*inputs_.back().node);
    }
    values_ = formula(tape_, named).evaluate(text);
    for (auto const& v : values_)
      if (v.node) outputs_.push_back(*v.node);
    return backward_snapshot_of(tape_pass(tape_, outputs_, inputs, parameters));
  }

  /// Returns the output gradients; the default is ones of any shape.
  gradient_seeds seeds() const {
    gradient_seeds list;
    json const& given = batch_.at("output_gradients");
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (!values_[i].node) continue;
      auto g = tensor::filled(values_[i].get().shape, 1);
      if (!given.is_null()) g.data = given.at(i).get<std::vector<double>>();
      list.emplace_back(*values_[i].node, std::move(g));
    }
    return list;
  }

  std::string parameter_name(std::uint32_t n) const {
    return tape_.nodes()[snapshot_.node[n]].kind.substr(std::string("leaf ").size());
  }

  template <class F>
  json input_gradients(F find) const {
    json list = json::array();
    for (auto const& v : inputs_) list.push_back(v.node ? write(find(snapshot_.node.find(*v.node))) : json());
    return list;
  }

  json batch_;
  tape tape_;
  tape_values inputs_, values_;
  std::vector<std::uint32_t> outputs_;
  backward_snapshot<tape_pass> snapshot_;
};

/// Returns the result of the weight phase as upstream does: the gradient objects from before the phase. Each
/// is null, or the object that the phase has added to.
json returned(json const& params, gradients const& before, gradients const& after) {
  json list = json::array();
  for (auto const& [name, value] : params.items())
    list.push_back(before.at(name) ? write(after.at(name)) : json());
  return list;
}

void run_split_backward(json const& body, outcome& to) {
  json const& input = body.at("input");
  gradients split, whole;
  for (auto const& [name, value] : input.at("params").items()) split[name] = whole[name] = std::nullopt;
  json recorded = json::array(), inputs = json::array(), split_inputs = json::array();
  for (json const& batch : input.at("microbatches")) {
    microbatch const m(input, batch);
    json outputs = json::array(), detached = json::array();
    for (json const& o : batch.at("outputs")) {
      outputs.push_back(o.is_null() ? json() : o.at("data"));
      detached.push_back(o.is_null() ? json() : json(true));
    }
    compare(outputs, up_to_rounding(outputs, m.output_values()), "the outputs given", to.differences);
    auto const before = split;
    json result = m.run_phases(split);
    split_inputs.push_back(result["input_gradients"]);
    result["graph"] = m.graph();
    result["groups"] = m.groups();
    result["outputs_detached"] = detached;
    result["returned_by_weight_phase"] = returned(input.at("params"), before, split);
    recorded.push_back(std::move(result));
    inputs.push_back(m.run_whole(whole));
  }
  json const phases{{"params", microbatch::write_all(split)}, {"inputs", split_inputs}};
  json const pass{{"params", microbatch::write_all(whole)}, {"inputs", inputs}};
  json expected, got;
  if (body.contains("defect")) {
    auto place = body.at("better").at("rule").get<std::string>();
    std::ranges::replace(place, '.', '/');
    json::json_pointer const at("/" + place);
    expected = body.contains(at) ? body[at] : json("no " + place);
    got = phases;
  } else {
    expected = body.at("expect");
    for (json& m : expected.at("microbatches")) m["groups"] = group_set(m["groups"]);
    got = {{"microbatches", recorded}, {"whole_backward", pass}};
    got["equals_whole_backward"] = up_to_rounding(pass, phases) == pass;
  }
  compare(expected, up_to_rounding(expected, got), "expect", to.differences);
}

}  // namespace

outcome run_pipe_weight_cut(test_case const&, json const& body) {
  outcome result;
  if (body["input"].contains("next"))
    run_cut(body, result);
  else
    run_split_backward(body, result);
  return result;
}

}  // namespace cleave::conformance
