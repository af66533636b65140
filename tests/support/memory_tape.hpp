// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <vector>

#include "cleave/split/split.hpp"
#include "support/rng.hpp"

/// Random graphs that overwrite memory, and random cuts of them.
namespace cleave::testing::in_place {

using namespace detail;

using cell = std::shared_ptr<unsigned>;

/// An IR whose values are handles of storages. Operation 'f' computes into new memory, 'v' makes a view, and
/// 'w' writes in place.
struct tape {
  struct op {
    char kind;
    std::vector<std::size_t> in, out, over;
    bool cheap = false;  // may be copied
  };
  std::vector<op> ops;
  std::vector<std::size_t> storages, arguments, held, given;

  auto nodes() const { return std::views::iota(std::size_t{}, ops.size()); }
  auto const& operands(std::size_t n) const { return ops[n].in; }
  auto const& results(std::size_t n) const { return ops[n].out; }
  auto const& overwrites(std::size_t n) const { return ops[n].over; }
  std::size_t storage(std::size_t v) const { return storages[v]; }
  bool replicable(std::size_t n) const { return ops[n].cheap; }
  auto const& inputs() const { return arguments; }
  auto const& outputs() const { return given; }
  auto const& state() const { return held; }
};
static_assert(aliasing_graph<tape> && stateful_graph<tape>);

std::vector<cell> execute(tape::op const& o, auto at) {
  unsigned x = 17;
  for (auto v : o.in) x = x * 31 + *at(v);
  if (o.kind == 'v') return {at(o.in[0])};
  if (o.kind == 'w') {
    auto const memory = at(o.over[0]);
    *memory = *memory * 7 + x;
    return std::vector(o.out.size(), memory);
  }
  return {std::make_shared<unsigned>(x)};
}

/// Runs all operations on the memory of the whole graph, by handle.
inline void execute_all(tape const& g, std::vector<cell>& memory) {
  for (auto const& o : g.ops) {
    auto const made = execute(o, [&](auto v) { return memory[v]; });
    for (std::size_t i = 0; i < std::min(made.size(), o.out.size()); ++i) memory[o.out[i]] = made[i];
  }
}

inline tape random_tape(rng& random, bool write_anything) {
  tape g;
  auto const fresh = [&](std::size_t storage) {
    g.storages.push_back(storage);
    return g.storages.size() - 1;
  };
  auto const any = [&] { return random.below(g.storages.size()); };
  for (std::size_t i = 0; i < 3; ++i) (i < 2 ? g.arguments : g.held).push_back(fresh(i));
  for (auto n = 5 + random.below(20); n-- > 0;) {
    auto const target = any();
    auto const what = random.below(10);
    if (what < 6) {
      bool const constant = random.one_in(4);
      auto const reads = constant ? std::vector<std::size_t>{} : std::vector{target, any()};
      g.ops.push_back({'f', reads, {fresh(g.storages.size())}, {}, constant});
    } else if (what < 9 || write_anything) {
      g.ops.push_back({'w', {any()}, {}, {target}});
      if (random.one_in(2)) g.ops.back().out = {fresh(g.storages[target])};
    } else {
      g.ops.push_back({'v', {target}, {fresh(g.storages[target])}, {}, random.one_in(2)});
    }
  }
  g.given = {0, 1, any(), any()};  // the final contents of the caller's memory are results too
  return g;
}

/// A random cut whose parts ascend along values and effects. Groups stay whole where possible.
inline partition random_cut(rng& random, snapshot_arrays const& s, std::uint32_t k) {
  partition p{std::vector(s.nodes(), part_id{0}), k};
  std::vector<std::uint32_t> chosen(s.nodes(), none<std::uint32_t>);
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    std::uint32_t low = 0;
    for (auto v : s.operands[n])
      if (s.producer[v] != none<std::uint32_t>) low = std::max(low, index(p.of[s.producer[v]]));
    for (auto m : s.after[n]) low = std::max(low, index(p.of[m]));
    auto& part = chosen[s.group[n]];
    if (part == none<std::uint32_t>) part = std::min(k - 1, low + (random.one_in(4) ? 1u : 0u));
    p.of[n] = part_id{part};
  }
  return p;
}

/// Returns the plan of a cut, or nothing if the groups do not allow the cut.
inline std::optional<plan> plan_if_legal(snapshot_arrays const& s, partition const& cut,
                                         plan_options const& options) {
  try {
    return make_plan(s, cut, options);
  } catch (error const&) {
    return std::nullopt;
  }
}

}  // namespace cleave::testing::in_place
