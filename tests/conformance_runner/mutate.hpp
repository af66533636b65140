// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "conformance_runner/json.hpp"
#include "conformance_runner/read_case.hpp"
#include "support/integer_interpretation.hpp"

/// Alters one expected leaf of a recording, to test that the comparison notices it.
namespace cleave::conformance {

using pointer = json::json_pointer;

/// Appends the leaves below `j`. An empty list or object is a leaf.
inline void list_leaves(json const& j, pointer const& at, std::vector<pointer>& to) {
  if ((j.is_array() || j.is_object()) && !j.empty()) {
    if (j.is_array())
      for (std::size_t i = 0; i < j.size(); ++i) list_leaves(j[i], at / i, to);
    else
      for (auto const& [key, value] : j.items()) list_leaves(value, at / key, to);
  } else {
    to.push_back(at);
  }
}

/// Returns another value of the same kind.
inline json altered(json const& leaf) {
  if (leaf.is_boolean()) return !leaf.get<bool>();
  if (leaf.is_number_integer()) return leaf.get<std::int64_t>() + 1;
  if (leaf.is_number()) return leaf.get<double>() + 1.0;
  if (leaf.is_string()) return leaf.get<std::string>() + "~";
  if (leaf.is_array()) return json::array({"~"});
  if (leaf.is_object()) return json{{"~", "~"}};
  return "~";
}

/// Returns true if the leaf is upstream's wording, which need not match: reasons and log lines. Only tables
/// in logs are compared.
inline bool is_wording(json const& body, pointer const& at) {
  auto const place = at.to_string();
  if (place.ends_with("/reason")) return true;
  if (place.find("/tree/") != place.npos) {  // the name and argument of a node of a rebuilt module
    json const& node = body[at.parent_pointer()];
    auto const op = node.is_object() ? node.value("op", "") : "";
    return !op.empty() &&
           (at.back() == "name" || (at.back() == "target" && (op == "placeholder" || op == "output")));
  }
  bool const table = body[at].is_string() && body[at].get<std::string>().find("┌") != std::string::npos;
  return place.find("/report/log/") != place.npos && !table;
}

/// For altered schedules: returns true if the leaf is not compared, because it is a verdict of the reference
/// system. Compared are `executable`, the faults (a deadlock position only if it is the only fault), and the
/// steps of executable schedules.
inline bool is_another_verdict(json const& body, pointer const& at) {
  if (!body["expect"].contains("executable")) return false;
  auto const place = at.to_string();
  if (place.starts_with("/expect/faults/"))
    return body["expect"]["faults"].size() > 1 && body[at].get<std::string>().starts_with("stuck at");
  if (place == "/expect/simulate/steps") return !body["expect"]["executable"].get<bool>();
  return place != "/expect/executable";
}

/// Returns the leaves that a correct result must match exactly, according to the areas' READMEs. For a defect
/// these are in `better`, for an error its kind, else all of `expect` and the value.
inline std::vector<pointer> exact_leaves(json const& body) {
  std::vector<pointer> leaves;
  bool const altered_schedule = body.contains("expect") && body["expect"].contains("executable");
  if (body.contains("defect") && !altered_schedule) {
    if (body.contains("better") && body["better"].is_object())
      for (auto const& [key, value] : body["better"].items())
        if (key != "backward_edges" && key != "wrong_state" && key != "final_grad" && key != "order_edges")
          list_leaves(value, pointer() / "better" / key, leaves);
  } else if (body.contains("error")) {
    leaves.push_back(pointer() / "error" / "type");
  } else if (body.contains("expect")) {
    list_leaves(body["expect"], pointer() / "expect", leaves);
    if (body.contains("eval")) list_leaves(body["eval"]["result"], pointer() / "eval" / "result", leaves);
    std::erase_if(leaves,
                  [&](pointer const& at) { return is_wording(body, at) || is_another_verdict(body, at); });
  }
  return leaves;
}

/// Returns `c` with one exact leaf altered, chosen by the hash of its name. `at` receives the place. Returns
/// `c` unchanged if it has no exact leaf.
inline json mutated(test_case const& c, std::string& at) {
  json body = c.body;
  auto const leaves = exact_leaves(body);
  if (leaves.empty()) return body;
  auto const& chosen = leaves[testing::fnv(c.name) % leaves.size()];
  at = chosen.to_string();
  body[chosen] = altered(body[chosen]);
  return body;
}

}  // namespace cleave::conformance
