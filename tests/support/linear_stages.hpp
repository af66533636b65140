// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/stage_root.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"
#include "support/integer_interpretation.hpp"
#include "support/rng.hpp"

/// Roots whose stages are linear over the integers modulo 2^64, so that gradients can be compared exactly.
namespace cleave::testing {

using whole_number = std::uint64_t;

/// The shape of a value: a number or a tuple.
struct value_shape {
  std::vector<value_shape> elements;
  std::size_t first = 0, count = 1;  ///< range of its numbers within the stage output or input
};

/// The structure of the values of a root. A stage returns tuples as wide as the elements taken from them; a
/// value without extracted elements is a number. Each output number is a sum of all input numbers, each times
/// its own factor.
class linear_stages {
 public:
  explicit linear_stages(stage_root const& root) : root_(root), base_(root.values()), path_(root.values()) {
    for (std::uint32_t v = 0; v < root.values(); ++v) {
      base_[v] = v;
      if (root.kind[v] != root_kind::element) continue;
      auto const whole = root.reads[v].front();
      base_[v] = base_[whole];
      path_[v] = path_[whole];
      path_[v].push_back(root.element[v]);
    }
    for (std::uint32_t v = 0; v < root.values(); ++v) {
      auto* shape = &shapes_[base_[v]];
      for (auto const i : path_[v]) {
        if (shape->elements.size() <= i) shape->elements.resize(i + 1);
        shape = &shape->elements[i];
      }
    }
    for (auto& [v, shape] : shapes_) number(shape, 0);
  }

  stage_root const& root() const { return root_; }
  std::uint32_t base(std::uint32_t v) const { return base_[v]; }  ///< its stage or input
  value_shape const& shape(std::uint32_t v) const {
    auto const* shape = &shapes_.at(base_[v]);
    for (auto const i : path_[v]) shape = &shape->elements[i];
    return *shape;
  }

  /// Returns the coefficient of number `in` of argument `argument` in output number `out` of `stage`.
  static whole_number factor(std::uint32_t stage, std::size_t out, std::size_t argument, std::size_t in) {
    return mix(fold(fold(fold(fold(7, stage), out), argument), in)) | 1;
  }

  /// Returns the gradient of each number of each stage and input, by reverse mode over the whole root.
  std::map<std::uint32_t, std::vector<whole_number>> whole_gradients(std::uint32_t loss) const {
    std::map<std::uint32_t, std::vector<whole_number>> all;
    for (auto const& [v, shape] : shapes_) all[v].assign(shape.count, 0);
    all[base_[loss]][shape(loss).first] = 1;
    for (auto s = static_cast<std::uint32_t>(root_.values()); s-- > 0;)
      if (root_.kind[s] == root_kind::stage) {
        auto const given = all[s];
        for (std::size_t k = 0; k < root_.reads[s].size(); ++k) {
          auto const read = root_.reads[s][k];
          for (std::size_t i = 0; i < shape(read).count; ++i)
            all[base_[read]][shape(read).first + i] += part(s, given, k, i);
        }
      }
    return all;
  }

  /// Returns the gradient of number `i` of argument `k` of stage `s`, from the gradients `given` of its
  /// outputs.
  static whole_number part(std::uint32_t s, std::vector<whole_number> const& given, std::size_t k,
                           std::size_t i) {
    whole_number sum = 0;
    for (std::size_t o = 0; o < given.size(); ++o) sum += factor(s, o, k, i) * given[o];
    return sum;
  }

 private:
  static std::size_t number(value_shape& shape, std::size_t first) {
    shape.first = first;
    shape.count = shape.elements.empty() ? 1 : 0;
    for (auto& e : shape.elements) shape.count += number(e, first + shape.count);
    return shape.count;
  }

  stage_root root_;
  std::vector<std::uint32_t> base_;
  std::vector<std::vector<std::uint32_t>> path_;
  std::map<std::uint32_t, value_shape> shapes_;
};

/// A random root: inputs and stages in a random order of use. Elements are taken out of any value, repeatedly
/// and nested; tuples are also used whole. The loss is a number returned by a stage.
struct random_root_result {
  stage_root root;
  std::uint32_t loss = 0;
};

inline random_root_result random_root(rng& random, std::size_t stages) {
  for (;;) {
    random_root_result r;
    for (std::size_t i = 0; i <= random.below(3); ++i) r.root.add(root_kind::input);
    for (std::size_t s = 0; s < stages; ++s) {
      std::vector<std::uint32_t> reads;
      auto const near = [&] {
        auto const known = r.root.values();
        auto const reach = random.one_in(3) ? known : std::min<std::size_t>(known, 6);
        return static_cast<std::uint32_t>(known - 1 - random.below(reach));
      };
      for (auto i = random.one_in(8) ? 0 : 1 + random.below(4); i > 0; --i) reads.push_back(near());
      if (!reads.empty() && random.one_in(5)) reads.push_back(reads.front());
      r.root.add(root_kind::stage, reads);
      for (auto i = random.below(4); i > 0; --i)
        r.root.add(root_kind::element, {near()}, static_cast<std::uint32_t>(random.below(3)));
    }
    linear_stages const meaning(r.root);
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t v = 0; v < r.root.values(); ++v)
      if (r.root.kind[meaning.base(v)] == root_kind::stage && meaning.shape(v).elements.empty())
        numbers.push_back(v);
    if (numbers.empty()) continue;
    auto const late = random.below(std::min<std::size_t>(numbers.size(), 4));
    r.loss = numbers[numbers.size() - 1 - late];
    return r;
  }
}

/// Returns the root as a module_graph. Value v is node v; the node after them is the output.
inline module_graph root_graph(stage_root const& root, std::uint32_t loss) {
  module_graph g;
  std::size_t inputs = 0, stages = 0;
  for (std::uint32_t v = 0; v < root.values(); ++v) {
    module_node n;
    for (auto const read : root.reads[v]) n.args.push_back(node_argument(read));
    if (root.kind[v] == root_kind::input) {
      n.kind = node_kind::placeholder;
      n.name = n.target = "x" + std::to_string(inputs++);
    } else if (root.kind[v] == root_kind::stage) {
      n.kind = node_kind::call_module;
      n.name = n.target = "s" + std::to_string(stages++);
    } else {
      n.target = "getitem";
      n.name = "e" + std::to_string(v);
      n.args.push_back({std::int64_t{root.element[v]}});
    }
    g.add(std::move(n));
  }
  module_node output;
  output.kind = node_kind::output;
  output.name = output.target = "output";
  output.args = {node_argument(loss)};
  g.add(std::move(output));
  return g;
}

}  // namespace cleave::testing
