// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "conformance_runner/json.hpp"
#include "conformance_runner/read_case.hpp"
#include "support/integer_interpretation.hpp"

/// A recording with one expected leaf altered: a comparison that does not notice is no comparison.
namespace cleave::conformance {

using pointer = json::json_pointer;

/// The leaves below `j`; an empty list or object is one.
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

/// Another value of the same kind.
inline json altered(json const& leaf) {
  if (leaf.is_boolean()) return !leaf.get<bool>();
  if (leaf.is_number_integer()) return leaf.get<std::int64_t>() + 1;
  if (leaf.is_number()) return leaf.get<double>() + 1.0;
  if (leaf.is_string()) return leaf.get<std::string>() + "~";
  if (leaf.is_array()) return json::array({"~"});
  if (leaf.is_object()) return json{{"~", "~"}};
  return "~";
}

/// Whether the leaf is upstream's wording, which the READMEs leave to us: reasons and log lines, of which
/// only tables are compared.
inline bool is_wording(json const& body, pointer const& at) {
  auto const place = at.to_string();
  if (place.ends_with("/reason")) return true;
  if (place.find("/tree/") != place.npos) {  // what a node of a rebuilt module is called, and its argument
    json const& node = body[at.parent_pointer()];
    auto const op = node.is_object() ? node.value("op", "") : "";
    return !op.empty() &&
           (at.back() == "name" || (at.back() == "target" && (op == "placeholder" || op == "output")));
  }
  bool const table = body[at].is_string() && body[at].get<std::string>().find("┌") != std::string::npos;
  return place.find("/report/log/") != place.npos && !table;
}

/// Of an altered schedule: what the reference system says of it, which is not compared but for the steps of
/// what can run, and where ranks are stuck, which is compared only where it is the one fault.
inline bool is_another_verdict(json const& body, pointer const& at) {
  if (!body["expect"].contains("executable")) return false;
  auto const place = at.to_string();
  if (place.starts_with("/expect/faults/"))
    return body["expect"]["faults"].size() > 1 && body[at].get<std::string>().starts_with("stuck at");
  if (place == "/expect/simulate/steps") return !body["expect"]["executable"].get<bool>();
  return place != "/expect/executable";
}

/// The leaves that a right result must meet exactly, as the areas' READMEs say: of a defect what `better`
/// gives, of an error its kind, else all of `expect` and the value.
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

/// `c` with one exact leaf altered, chosen by the hash of its name; `at` receives the place. Unchanged where
/// there is none.
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
