// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "costed_graph.hpp"
#include "support/rng.hpp"

/// Operator graphs of the sizes and shapes that real models have, any number of nodes, the same on every
/// machine. A unit of time is a weight of 1; an edge costs its bytes, of which a million take a unit of time.
namespace bench {

class dag_maker {
 public:
  explicit dag_maker(std::uint64_t seed) : dice_(seed * 0x9e3779b97f4a7c15u + 0x1234567) {}

  std::uint32_t node(double weight) {
    list_.weight.push_back(weight);
    list_.bytes.push_back(0);
    return static_cast<std::uint32_t>(list_.weight.size() - 1);
  }
  void edge(std::uint32_t from, std::uint32_t to, double cost) {
    list_.edges.push_back({from, to, cost});
    list_.bytes[from] = std::max(list_.bytes[from], static_cast<std::size_t>(std::llround(1e6 * cost)));
  }
  double near(double weight, double spread) { return weight * (1 - spread + 2 * spread * dice_.unit()); }
  double unit() { return dice_.unit(); }
  double normal() {
    double const radius = std::sqrt(-2 * std::log(dice_.unit() + 1e-300));
    return radius * std::cos(2 * 3.14159265358979323846 * dice_.unit());
  }
  std::size_t below(std::size_t bound) {  // the upper half of a 128-bit product
    auto const x = dice_.next();
    auto const b = static_cast<std::uint64_t>(bound);
    return static_cast<std::size_t>(((x >> 32) * b + ((x & 0xffffffffu) * b >> 32)) >> 32);
  }
  std::size_t size() const { return list_.weight.size(); }

  /// Adds a backward pass: each node's mirror image, twice as heavy, reads the node and the images of its
  /// users.
  void mirror() {
    auto const n = static_cast<std::uint32_t>(size());
    auto const edges = list_.edges;
    auto const bytes = list_.bytes;
    for (std::uint32_t i = 0; i < n; ++i) node(2 * list_.weight[i]);
    for (auto const& e : edges) {
      list_.edges.push_back({n + e.to, n + e.from, e.cost});
      list_.bytes[n + e.to] = std::max(list_.bytes[n + e.to], bytes[e.from]);
    }
    for (std::uint32_t i = 0; i < n; ++i) edge(i, n + i, 0.25);
  }

  node_list const& list() const { return list_; }

  instance finish(std::string name) {
    instance made;
    made.name = std::move(name);
    made.graph = dense_of(list_, made.position);
    made.options.cost_per_byte = 1e-6;
    return made;
  }

 private:
  cleave::testing::rng dice_;
  node_list list_;
};

/// Layers of attention, unrolled by head, and two matrix products.
inline dag_maker transformer(std::size_t layers, std::size_t heads) {
  dag_maker d(1);
  auto const h = static_cast<double>(heads);
  auto const w = [&](double weight) { return d.near(weight, 0.1); };
  auto x = d.node(w(1));
  auto const mask = d.node(0.1);
  auto const norm = [&](std::uint32_t in) {
    auto const mean = d.node(w(.3)), variance = d.node(w(.3)), shift = d.node(w(.1)), scale = d.node(w(.2));
    d.edge(in, mean, 1), d.edge(in, shift, 1), d.edge(mean, shift, .01), d.edge(shift, variance, .01);
    d.edge(variance, scale, .01), d.edge(shift, scale, 1);
    return scale;
  };
  for (std::size_t l = 0; l < layers; ++l) {
    auto const in = norm(x);
    std::vector<std::uint32_t> outs;
    for (std::size_t i = 0; i < heads; ++i) {
      auto const q = d.node(w(12. / h)), k = d.node(w(12. / h)), v = d.node(w(12. / h));
      d.edge(in, q, 1), d.edge(in, k, 1), d.edge(in, v, 1);
      auto const transposed = d.node(w(.2 / h));
      d.edge(k, transposed, 1 / h);
      auto const product = d.node(w(6. / h));
      d.edge(q, product, 1 / h), d.edge(transposed, product, 1 / h);
      auto const scaled = d.node(w(.4 / h));
      d.edge(product, scaled, 2 / h);
      auto const masked = d.node(w(.4 / h));
      d.edge(scaled, masked, 2 / h), d.edge(mask, masked, .05);
      auto const soft = d.node(w(.8 / h));
      d.edge(masked, soft, 2 / h);
      auto const out = d.node(w(6. / h));
      d.edge(soft, out, 2 / h), d.edge(v, out, 1 / h);
      outs.push_back(out);
    }
    auto const joined = d.node(w(.3));
    for (auto const o : outs) d.edge(o, joined, 1 / h);
    auto const projected = d.node(w(12));
    d.edge(joined, projected, 1);
    auto const first_sum = d.node(w(.2));
    d.edge(projected, first_sum, 1), d.edge(x, first_sum, 1);
    auto const normed = norm(first_sum);
    auto const up = d.node(w(48)), gelu = d.node(w(1)), down = d.node(w(48));
    d.edge(normed, up, 1), d.edge(up, gelu, 4), d.edge(gelu, down, 4);
    auto const second_sum = d.node(w(.2));
    d.edge(down, second_sum, 1), d.edge(first_sum, second_sum, 1);
    x = second_sum;
  }
  auto const head = d.node(w(60));
  d.edge(norm(x), head, 1);
  return d;
}

/// Attention, a gate, and experts side by side.
inline dag_maker experts(std::size_t layers, std::size_t count) {
  dag_maker d(1);
  auto const c = static_cast<double>(count);
  auto const w = [&](double weight) { return d.near(weight, 0.2); };
  auto x = d.node(1);
  for (std::size_t l = 0; l < layers; ++l) {
    auto const attention = d.node(w(30));
    d.edge(x, attention, 1);
    auto const sum = d.node(.2);
    d.edge(attention, sum, 1), d.edge(x, sum, 1);
    auto const gate = d.node(w(1));
    d.edge(sum, gate, 1);
    std::vector<std::uint32_t> outs;
    for (std::size_t i = 0; i < count; ++i) {
      auto const up = d.node(w(80 / c)), act = d.node(w(1 / c)), down = d.node(w(80 / c));
      d.edge(gate, up, 2 / c), d.edge(up, act, 4 / c), d.edge(act, down, 4 / c);
      outs.push_back(down);
    }
    auto const combined = d.node(.5);
    for (auto const o : outs) d.edge(o, combined, 2 / c);
    d.edge(sum, combined, 1);
    x = combined;
  }
  return d;
}

inline dag_maker resnet(std::size_t blocks) {
  dag_maker d(1);
  auto const w = [&](double weight) { return d.near(weight, 0.1); };
  auto x = d.node(w(5));
  double size = 4;
  for (std::size_t b = 0; b < blocks; ++b) {
    bool const smaller = b != 0 && b % std::max<std::size_t>(1, blocks / 4) == 0;
    if (smaller) size /= 2;
    auto last = x;
    for (int i = 0; i < 3; ++i) {
      auto const convolution = d.node(w(i == 1 ? 9 : 4)), normed = d.node(w(.5));
      d.edge(last, convolution, size), d.edge(convolution, normed, size);
      last = normed;
      if (i == 2) break;
      auto const act = d.node(w(.2));
      d.edge(last, act, size);
      last = act;
    }
    auto skip = x;
    if (smaller || b == 0) {
      auto const convolution = d.node(w(4)), normed = d.node(w(.5));
      d.edge(x, convolution, 2 * size), d.edge(convolution, normed, size);
      skip = normed;
    }
    auto const sum = d.node(w(.2));
    d.edge(last, sum, size), d.edge(skip, sum, size);
    auto const act = d.node(w(.2));
    d.edge(sum, act, size);
    x = act;
  }
  return d;
}

inline dag_maker inception(std::size_t modules) {
  dag_maker d(1);
  auto const w = [&](double weight) { return d.near(weight, 0.2); };
  auto x = d.node(w(5));
  for (std::size_t m = 0; m < modules; ++m) {
    std::vector<std::uint32_t> outs;
    for (std::size_t b = 0, branches = 4 + d.below(3); b < branches; ++b) {
      auto const length = 1 + d.below(4);
      auto last = x;
      double const size = .5 + d.unit();
      for (std::size_t i = 0; i < length; ++i) {
        d.unit();
        double const work = 3 + d.unit() * 6;
        auto const convolution = d.node(w(work)), normed = d.node(w(.3)), act = d.node(w(.1));
        d.edge(last, convolution, i != 0 ? size : 4), d.edge(convolution, normed, size),
            d.edge(normed, act, size);
        last = act;
      }
      outs.push_back(last);
    }
    auto const joined = d.node(w(.3));
    for (auto const o : outs) d.edge(o, joined, .8);
    x = joined;
  }
  return d;
}

/// Levels of blocks down and up again, each block's result kept for its counterpart.
inline dag_maker unet(std::size_t depth, std::size_t blocks) {
  dag_maker d(1);
  auto const w = [&](double weight) { return d.near(weight, 0.1); };
  auto x = d.node(w(2));
  auto const time = d.node(w(1));
  double size = 8;
  auto const block = [&](std::uint32_t in) {
    auto const a = d.node(w(.4)), s = d.node(w(.2)), first = d.node(w(9));
    d.edge(in, a, size), d.edge(a, s, size), d.edge(s, first, size);
    auto const embedded = d.node(w(.1));
    d.edge(time, embedded, .05);
    auto const sum = d.node(w(.2));
    d.edge(first, sum, size), d.edge(embedded, sum, .05);
    auto const second = d.node(w(9));
    d.edge(sum, second, size);
    auto const out = d.node(w(.2));
    d.edge(second, out, size), d.edge(in, out, size);
    return out;
  };
  std::vector<std::pair<std::uint32_t, double>> kept;
  for (std::size_t l = 0; l < depth; ++l) {
    for (std::size_t b = 0; b < blocks; ++b) kept.emplace_back(x = block(x), size);
    auto const down = d.node(w(3));
    d.edge(x, down, size);
    x = down;
    size /= 2;
  }
  for (std::size_t b = 0; b < blocks; ++b) x = block(x);
  for (std::size_t l = 0; l < depth; ++l) {
    size *= 2;
    auto const up = d.node(w(3));
    d.edge(x, up, size);
    x = up;
    for (std::size_t b = 0; b < blocks; ++b) {
      auto const [skip, skip_size] = kept.back();
      kept.pop_back();
      auto const joined = d.node(w(.2));
      d.edge(x, joined, size), d.edge(skip, joined, skip_size);
      x = block(joined);
    }
  }
  return d;
}

/// Rows of `width` nodes of very unequal weight, each reading some near its place in earlier rows.
inline dag_maker layered(std::size_t nodes, std::size_t width, std::size_t degree) {
  dag_maker d(1);
  for (std::size_t i = 0; i < nodes; ++i) {
    d.unit();
    d.node(std::exp(d.normal()));
    auto const row = i / width;
    for (std::size_t e = 0; row != 0 && e < degree; ++e) {
      auto const back = d.unit() < 0.9 ? 1 : 1 + d.below(std::min<std::size_t>(row, 8));
      auto place = static_cast<std::int64_t>(i % width) + static_cast<std::int64_t>(d.normal() * 4);
      auto const w = static_cast<std::int64_t>(width);
      if (d.unit() < 0.05) place = static_cast<std::int64_t>(d.below(width));
      place = (place % w + w) % w;
      d.edge(
          static_cast<std::uint32_t>((row - std::min(back, row)) * width + static_cast<std::size_t>(place)),
          static_cast<std::uint32_t>(i), .1 + d.unit());
    }
  }
  return d;
}

inline dag_maker chain(std::size_t nodes) {
  dag_maker d(1);
  for (std::size_t i = 0; i < nodes; ++i) {
    auto const n = d.node(d.near(1, 0.5));
    if (i > 0) d.edge(n - 1, n, .5 + d.unit());
  }
  return d;
}

}  // namespace bench
