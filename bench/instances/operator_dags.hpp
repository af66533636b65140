// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/formats/graph_files/cost_dag.hpp"
#include "steady_math.hpp"

/// Operator graphs of the shapes that real models have, with work, memory and the cost of what is made;
/// numbers of nodes are not always in order. Each the same for a seed on every machine.
namespace bench {

using cleave::cost_dag;

class operator_dag : public dice {
 public:
  explicit operator_dag(std::uint64_t seed) : dice(seed) {}

  std::uint32_t node(double work, double memory) {
    made_.work.push_back(work), made_.memory.push_back(memory);
    return static_cast<std::uint32_t>(made_.nodes() - 1);
  }
  void edge(std::uint32_t from, std::uint32_t to, double cost) { made_.arcs.push_back({from, to, cost}); }

  /// Adds a backward pass: each node's mirror image, twice as heavy, needs the node and the images of its
  /// users.
  operator_dag& mirror() {
    auto const n = static_cast<std::uint32_t>(made_.nodes());
    auto const arcs = made_.arcs;
    for (std::uint32_t i = 0; i < n; ++i) node(2 * made_.work[i], 0.5 * made_.memory[i]);
    for (auto const& a : arcs) edge(n + a.to, n + a.from, a.cost);
    for (std::uint32_t i = 0; i < n; ++i) edge(i, n + i, 0.25);
    return *this;
  }

  /// Numbers have six digits, as files have them.
  cost_dag finish() {
    auto const shorten = [](double& x) {
      char text[32];
      auto const end = std::to_chars(text, text + sizeof text, x, std::chars_format::general, 6).ptr;
      std::from_chars(text, end, x);
    };
    for (auto& x : made_.work) shorten(x);
    for (auto& x : made_.memory) shorten(x);
    for (auto& a : made_.arcs) shorten(a.cost);
    return std::move(made_);
  }

 private:
  cost_dag made_;
};

/// Layers of attention, unrolled by head, and two matrix products.
inline operator_dag transformer(std::uint32_t layers, std::uint32_t heads, std::uint64_t seed) {
  operator_dag d(seed);
  double const h = heads;
  auto const w = [&](double work) { return d.near(work, 0.1); };
  auto x = d.node(w(1), 50);
  auto const mask = d.node(0.1, 0.1);
  auto const norm = [&](std::uint32_t in) {
    auto const mean = d.node(w(.3), .01), variance = d.node(w(.3), .01), shift = d.node(w(.1), 0),
               scale = d.node(w(.2), .02);
    d.edge(in, mean, 1), d.edge(in, shift, 1), d.edge(mean, shift, .01), d.edge(shift, variance, 1);
    d.edge(variance, scale, .01), d.edge(shift, scale, 1);
    return scale;
  };
  for (std::uint32_t l = 0; l < layers; ++l) {
    auto const in = norm(x);
    std::vector<std::uint32_t> outs;
    for (std::uint32_t i = 0; i < heads; ++i) {
      auto const q = d.node(w(12 / h), 4 / h), k = d.node(w(12 / h), 4 / h), v = d.node(w(12 / h), 4 / h);
      d.edge(in, q, 1), d.edge(in, k, 1), d.edge(in, v, 1);
      auto const turned = d.node(w(.2 / h), 0);
      d.edge(k, turned, 1 / h);
      auto const product = d.node(w(6 / h), 0);
      d.edge(q, product, 1 / h), d.edge(turned, product, 1 / h);
      auto const scaled = d.node(w(.4 / h), 0);
      d.edge(product, scaled, 2 / h);
      auto const masked = d.node(w(.4 / h), 0);
      d.edge(scaled, masked, 2 / h), d.edge(mask, masked, .05);
      auto const soft = d.node(w(.8 / h), 0);
      d.edge(masked, soft, 2 / h);
      auto const out = d.node(w(6 / h), 0);
      d.edge(soft, out, 2 / h), d.edge(v, out, 1 / h);
      outs.push_back(out);
    }
    auto const joined = d.node(w(.3), 0);
    for (auto const o : outs) d.edge(o, joined, 1 / h);
    auto const projected = d.node(w(12), 4);
    d.edge(joined, projected, 1);
    auto const first_sum = d.node(w(.2), 0);
    d.edge(projected, first_sum, 1), d.edge(x, first_sum, 1);
    auto const normed = norm(first_sum);
    auto const up = d.node(w(48), 16), gelu = d.node(w(1), 0), down = d.node(w(48), 16);
    d.edge(normed, up, 1), d.edge(up, gelu, 4), d.edge(gelu, down, 4);
    auto const second_sum = d.node(w(.2), 0);
    d.edge(down, second_sum, 1), d.edge(first_sum, second_sum, 1);
    x = second_sum;
  }
  auto const head = d.node(w(60), 50);
  d.edge(norm(x), head, 1);
  return d;
}

/// Attention, a gate, and experts side by side.
inline operator_dag moe(std::uint32_t layers, std::uint32_t experts, std::uint64_t seed) {
  operator_dag d(seed);
  double const c = experts;
  auto const w = [&](double work) { return d.near(work, 0.2); };
  auto x = d.node(1, 50);
  for (std::uint32_t l = 0; l < layers; ++l) {
    auto const attention = d.node(w(30), 8);
    d.edge(x, attention, 1);
    auto const sum = d.node(.2, 0);
    d.edge(attention, sum, 1), d.edge(x, sum, 1);
    auto const gate = d.node(w(1), .1);
    d.edge(sum, gate, 1);
    std::vector<std::uint32_t> outs;
    for (std::uint32_t i = 0; i < experts; ++i) {
      auto const up = d.node(w(40 / c * 2), 8), act = d.node(w(1 / c), 0), down = d.node(w(40 / c * 2), 8);
      d.edge(gate, up, 2 / c), d.edge(up, act, 4 / c), d.edge(act, down, 4 / c);
      outs.push_back(down);
    }
    auto const combined = d.node(.5, 0);
    for (auto const o : outs) d.edge(o, combined, 2 / c);
    d.edge(sum, combined, 1);
    x = combined;
  }
  return d;
}

/// A chain of blocks with a way around each.
inline operator_dag resnet(std::uint32_t blocks, std::uint64_t seed) {
  operator_dag d(seed);
  auto const w = [&](double work) { return d.near(work, 0.1); };
  auto x = d.node(w(5), .1);
  double size = 4, memory = .1;
  for (std::uint32_t b = 0; b < blocks; ++b) {
    bool const smaller = b != 0 && b % std::max(1u, blocks / 4) == 0;
    if (smaller) size /= 2, memory *= 4;
    auto last = x;
    for (int i = 0; i < 3; ++i) {
      double const weight = i == 1 ? 9 : 4;
      auto const convolution = d.node(w(weight), memory * weight / 4), normed = d.node(w(.5), .001);
      d.edge(last, convolution, size), d.edge(convolution, normed, size);
      last = normed;
      if (i == 2) break;
      auto const act = d.node(w(.2), 0);
      d.edge(last, act, size);
      last = act;
    }
    auto skip = x;
    if (smaller || b == 0) {
      auto const convolution = d.node(w(4), memory), normed = d.node(w(.5), .001);
      d.edge(x, convolution, 2 * size), d.edge(convolution, normed, size);
      skip = normed;
    }
    auto const sum = d.node(w(.2), 0);
    d.edge(last, sum, size), d.edge(skip, sum, size);
    auto const act = d.node(w(.2), 0);
    d.edge(sum, act, size);
    x = act;
  }
  return d;
}

/// Modules of four to six branches side by side.
inline operator_dag inception(std::uint32_t modules, std::uint64_t seed) {
  operator_dag d(seed);
  auto const w = [&](double work) { return d.near(work, 0.2); };
  auto x = d.node(w(5), .1);
  for (std::uint32_t m = 0; m < modules; ++m) {
    std::vector<std::uint32_t> outs;
    for (auto branches = 4 + d.below(3); branches > 0; --branches) {
      auto const length = 1 + d.below(4);
      auto last = x;
      double const size = .5 + d.unit();
      for (std::uint32_t i = 0; i < length; ++i) {
        double const more_memory = .3 * d.unit(), more_work = 6 * d.unit();
        double const memory = .05 + more_memory, work = 3 + more_work;
        auto const convolution = d.node(w(work), memory), normed = d.node(w(.3), .001),
                   act = d.node(w(.1), 0);
        d.edge(last, convolution, i != 0 ? size : 4), d.edge(convolution, normed, size);
        d.edge(normed, act, size);
        last = act;
      }
      outs.push_back(last);
    }
    auto const joined = d.node(w(.3), 0);
    for (auto const o : outs) d.edge(o, joined, .8);
    x = joined;
  }
  return d;
}

/// Levels of blocks down and up again, each block's result kept for its counterpart.
inline operator_dag unet(std::uint32_t depth, std::uint32_t blocks, std::uint64_t seed) {
  operator_dag d(seed);
  auto const w = [&](double work) { return d.near(work, 0.1); };
  auto x = d.node(w(2), .1);
  auto const time = d.node(w(1), .5);
  double size = 8, memory = .1;
  auto const block = [&](std::uint32_t in) {
    auto const a = d.node(w(.4), .001), s = d.node(w(.2), 0), first = d.node(w(9), memory);
    d.edge(in, a, size), d.edge(a, s, size), d.edge(s, first, size);
    auto const embedded = d.node(w(.1), .05);
    d.edge(time, embedded, .05);
    auto const sum = d.node(w(.2), 0);
    d.edge(first, sum, size), d.edge(embedded, sum, .05);
    auto const second = d.node(w(9), memory);
    d.edge(sum, second, size);
    auto const out = d.node(w(.2), 0);
    d.edge(second, out, size), d.edge(in, out, size);
    return out;
  };
  std::vector<std::pair<std::uint32_t, double>> kept;
  for (std::uint32_t l = 0; l < depth; ++l) {
    for (std::uint32_t b = 0; b < blocks; ++b) kept.emplace_back(x = block(x), size);
    auto const down = d.node(w(3), memory);
    d.edge(x, down, size);
    x = down;
    size /= 2, memory *= 2.5;
  }
  for (std::uint32_t b = 0; b < blocks; ++b) x = block(x);
  for (std::uint32_t l = 0; l < depth; ++l) {
    size *= 2, memory /= 2.5;
    auto const up = d.node(w(3), memory);
    d.edge(x, up, size);
    x = up;
    for (std::uint32_t b = 0; b < blocks; ++b) {
      auto const [skip, skip_size] = kept.back();
      kept.pop_back();
      auto const joined = d.node(w(.2), 0);
      d.edge(x, joined, size), d.edge(skip, joined, skip_size);
      x = block(joined);
    }
  }
  return d;
}

/// Rows of `width` nodes of very unequal work, each reading some near its place in earlier rows.
inline operator_dag layered(std::uint32_t nodes, std::uint32_t width, std::uint32_t degree,
                            std::uint64_t seed) {
  operator_dag d(seed);
  for (std::uint32_t i = 0; i < nodes; ++i) {
    double const memory = d.unit();
    d.node(exponential(d.normal()), memory);
    auto const row = i / width;
    for (std::uint32_t e = 0; row != 0 && e < degree; ++e) {
      auto const back = d.unit() < 0.9 ? 1 : 1 + d.below(std::min(row, 8u));
      auto place = std::int64_t{i % width} + static_cast<std::int64_t>(d.normal() * 4);
      if (d.unit() < 0.05) place = d.below(width);
      place = (place % width + width) % width;
      double const cost = .1 + d.unit();
      d.edge((row - std::min(back, row)) * width + static_cast<std::uint32_t>(place), i, cost);
    }
  }
  return d;
}

}  // namespace bench
