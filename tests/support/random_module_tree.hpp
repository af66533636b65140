// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/module_graph.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

/// A random tree of modules. Some are called twice, some have dots in their path, some are named like stages.
/// It has skip connections, keywords in any order, omitted defaults, and parameters read directly or shared
/// between modules. Results are tuples and their elements, lists, dicts or single values. `original` of each
/// module is its path from the root.
class random_module_tree {
 public:
  using position = module_graph::position;

  random_module_tree(rng& random, std::size_t calls, std::size_t depth) : random_(random), calls_(calls) {
    root = level("", depth);
  }

  module_graph root;
  std::vector<std::string> paths;  ///< distinct paths of the called modules, at any depth

  /// Returns some of the paths.
  std::vector<std::string> cuts() {
    std::vector<std::string> chosen;
    for (auto left = 1 + random_.below(5); left-- > 0;) chosen.push_back(paths[random_.below(paths.size())]);
    return chosen;
  }

 private:
  struct inline_module {
    module_graph g;
    std::string path;
    std::vector<position> values, tuples, effects;
    std::size_t made = 0;
  };

  static std::string joined(std::string const& path, std::string const& target) {
    return path.empty() ? target : path + "." + target;
  }

  static module_node node(inline_module& l, node_kind kind, std::string target) {
    module_node n;
    n.kind = kind;
    n.name = "n" + std::to_string(l.made++);
    n.target = std::move(target);
    return n;
  }

  module_argument any(inline_module const& l) {
    if (random_.one_in(8)) return {static_cast<std::int64_t>(random_.below(4))};
    return node_argument(l.values[random_.below(l.values.size())]);
  }

  module_graph level(std::string const& path, std::size_t depth) {
    inline_module l;
    l.path = path;
    for (auto inputs = 1 + random_.below(3); inputs-- > 0;) {
      auto n = node(l, node_kind::placeholder, "in" + std::to_string(l.made));
      if (!l.values.empty() && random_.one_in(3)) n.default_value = {std::int64_t{7}};
      l.values.push_back(l.g.add(std::move(n)));
    }
    if (random_.one_in(2)) {
      add_parameter(l, "scale");
      l.values.push_back(l.g.add(node(l, node_kind::get_attr, "scale")));
    }
    for (std::size_t i = 0; i < 1 + random_.below(calls_); ++i) add_call(l, depth);
    module_call(l, depth);
    auto output = node(l, node_kind::output, "output");
    output.args = {result(l)};
    l.g.add(std::move(output));
    return std::move(l.g);
  }

  void add_parameter(inline_module& l, std::string const& name) {
    auto const storage = random_.one_in(3) ? "p" + std::to_string(random_.below(3)) : std::string();
    l.g.add_attribute({name, module_attribute::kind::parameter, storage, {}, joined(l.path, name), {}});
  }

  void add_call(inline_module& l, std::size_t depth) {
    if (random_.one_in(2)) return module_call(l, depth);
    if (!l.tuples.empty() && random_.one_in(2)) {
      auto n = node(l, node_kind::call_function, "getitem");
      n.args = {node_argument(l.tuples[random_.below(l.tuples.size())]),
                {static_cast<std::int64_t>(random_.below(2))}};
      l.values.push_back(l.g.add(std::move(n)));
      return;
    }
    bool const pair = random_.one_in(3);
    auto n = node(l, node_kind::call_function, pair ? "tup2" : "add");
    n.args = {any(l), any(l)};
    if (random_.one_in(4)) n.args.push_back({container{container::kind::list, 1}, any(l).front()});
    if (!l.effects.empty() && random_.one_in(3)) n.after = {l.effects[random_.below(l.effects.size())]};
    auto const at = l.g.add(std::move(n));
    (pair ? l.tuples : l.values).push_back(at);
    l.effects.push_back(at);
  }

  void module_call(inline_module& l, std::size_t depth) {
    static char const* const leaves[] = {"a", "b", "l.0", "l.1", "submod_0", "submod_1", "a_0"};
    static char const* const levels[] = {"x", "y", "x.z", "submod_2"};
    bool const inner = depth > 1 && random_.one_in(2);
    std::string const target = inner ? levels[random_.below(4)] : leaves[random_.below(7)];
    auto const full = joined(l.path, target);
    if (!l.g.find_attribute(target)) {
      module_attribute a{target, module_attribute::kind::module, {}, {}, full, {}};
      if (inner) a.body.push_back(level(full, depth - 1));
      l.g.add_attribute(std::move(a));
      paths.push_back(full);
      if (!inner && random_.one_in(2)) add_parameter(l, target + ".weight");
    }
    auto n = node(l, node_kind::call_module, target);
    auto const* a = l.g.find_attribute(target);
    if (a->body.empty())
      n.args = {any(l), any(l)};
    else
      add_arguments(n, l, a->body.front());
    auto const at = l.g.add(std::move(n));
    (!a->body.empty() ? add_result(l, at, a->body.front()) : l.values.push_back(at));
    l.effects.push_back(at);
  }

  void add_arguments(module_node& n, inline_module const& l, module_graph const& body) {
    auto const inputs = body.inputs();
    auto const positional = 1 + random_.below(inputs.size());
    for (std::size_t i = 0; i < positional; ++i) n.args.push_back(any(l));
    for (std::size_t i = inputs.size(); i-- > positional;)
      if (!body[inputs[i]].default_value || random_.one_in(2))
        n.kwargs.push_back({body[inputs[i]].target, any(l)});
  }

  module_argument result(inline_module const& l) {
    auto const one = any(l), other = any(l);
    module_argument a = one;
    auto const form = random_.below(4);
    if (form == 1) a = {container{container::kind::tuple, 2}, one.front(), other.front()};
    if (form == 2) a = {container{container::kind::list, 2}, one.front(), other.front()};
    if (form == 3)
      a = {container{container::kind::dict, 2}, std::string("h"), one.front(), std::string("aux"),
           other.front()};
    return a;
  }

  /// Takes the result of a module apart in one way or another.
  void add_result(inline_module& l, position at, module_graph const& body) {
    auto const& given = body[*body.output()].args.front().front();
    auto const* c = std::get_if<container>(&given);
    if (!c || random_.one_in(5)) {
      l.values.push_back(at);
      return;
    }
    bool const dict = c->what == container::kind::dict;
    bool const get = dict && random_.one_in(2);
    auto n = node(l, get ? node_kind::call_method : node_kind::call_function, get ? "get" : "getitem");
    token key = static_cast<std::int64_t>(random_.below(2)) - (random_.one_in(2) ? 2 : 0);
    if (dict) key = std::string(get && random_.one_in(3) ? "nothing" : random_.one_in(2) ? "h" : "aux");
    n.args = {node_argument(at), {key}};
    if (get) n.args.push_back(any(l));
    l.values.push_back(l.g.add(std::move(n)));
  }

  rng& random_;
  std::size_t calls_;
};

}  // namespace cleave::testing
