// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"

namespace cleave::testing {

/// Returns `a` with each real number replaced by its bits, so that NaN compares too.
inline module_argument in_bits(module_argument a) {
  for (auto& t : a)
    if (auto const* d = std::get_if<double>(&t))
      t = opaque{"bits of a real", std::to_string(std::bit_cast<std::uint64_t>(*d))};
  return a;
}

inline std::vector<keyword_argument> in_bits(std::vector<keyword_argument> list) {
  for (auto& k : list) k.value = in_bits(std::move(k.value));
  return list;
}

inline module_node in_bits(module_node n) {
  for (auto& a : n.args) a = in_bits(std::move(a));
  n.kwargs = in_bits(std::move(n.kwargs));
  n.metadata = in_bits(std::move(n.metadata));
  if (n.default_value) n.default_value = in_bits(*std::move(n.default_value));
  return n;
}

/// Returns true if two graphs and all their bodies are equal, real numbers bit by bit. Not recursive.
inline bool same_graph(module_graph const& a, module_graph const& b) {
  std::vector<std::pair<module_graph const*, module_graph const*>> rest{{&a, &b}};
  while (!rest.empty()) {
    auto const [x, y] = rest.back();
    rest.pop_back();
    if (x->list().size() != y->list().size() || x->attributes().size() != y->attributes().size())
      return false;
    if (in_bits(x->metadata) != in_bits(y->metadata)) return false;
    for (std::uint32_t n = 0; n < x->list().size(); ++n)
      if (in_bits((*x)[n]) != in_bits((*y)[n])) return false;
    for (std::size_t i = 0; i < x->attributes().size(); ++i) {
      auto const &p = x->attributes()[i], &q = y->attributes()[i];
      if (p.path != q.path || p.what != q.what || p.storage != q.storage || p.original != q.original ||
          in_bits(p.metadata) != in_bits(q.metadata) || p.body.size() != q.body.size())
        return false;
      for (std::size_t k = 0; k < p.body.size(); ++k) rest.emplace_back(&p.body[k], &q.body[k]);
    }
  }
  return true;
}

}  // namespace cleave::testing
