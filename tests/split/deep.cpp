// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <vector>

#include "cleave/graph/adapter_fault.hpp"
#include "cleave/graph/order.hpp"
#include "cleave/split/split.hpp"
#include "support/cases.hpp"
#include "support/small_stack.hpp"

using namespace cleave;

namespace {

/// A chain in which node i reads node i - 1, listed in reverse order if `backward`.
struct chain {
  std::uint32_t length;
  bool backward = false;
  bool closed = false;
  auto nodes() const {
    return std::views::iota(std::uint32_t{}, length) |
           std::views::transform([*this](std::uint32_t i) { return backward ? length - 1 - i : i; });
  }
  std::vector<std::uint32_t> operands(std::uint32_t n) const {
    if (n == 0 && !closed) return {};
    return {(n + length - 1) % length};
  }
};

/// One node that `rays` others read, and one that reads them all.
struct star {
  std::uint32_t rays;
  auto nodes() const { return std::views::iota(std::uint32_t{}, rays + 2); }
  std::vector<std::uint32_t> operands(std::uint32_t n) const {
    if (n == 0) return {};
    if (n <= rays) return {0};
    std::vector<std::uint32_t> all(rays);
    for (std::uint32_t i = 0; i < rays; ++i) all[i] = i + 1;
    return all;
  }
};

struct counter {
  std::size_t nodes = 0;
  char argument(std::uint32_t, source) { return 0; }
  auto clone(std::uint32_t, auto) { return ++nodes, std::views::single(char{}); }
  void result(std::uint32_t, char) {}
};

template <class Graph>
std::size_t cut(Graph const& g, std::size_t n) {
  partition p{std::vector<part_id>(n), 8};
  for (std::size_t i = 0; i < n; ++i) p.of[i] = part_id{static_cast<std::uint32_t>(i * 8 / n)};
  auto const stages = split(g, p);
  counter count;
  for (std::uint32_t i = 0; i < 8; ++i) emit(stages, stage_id{i}, count);
  return count.nodes;
}

}  // namespace

TEST_CASE("split: handles large chains and stars on a small stack, from reading to emitting") {
  auto const n = static_cast<std::uint32_t>(testing::cases(150'000, 1'000'000));
  std::size_t emitted = 0, rays = 0, sorted = 0, faults = 0, cycle = 0;
  testing::on_small_stack([&] {
    emitted = cut(chain{n}, n);
    rays = cut(star{n}, n + std::size_t{2});
    sorted = topological_order(chain{n, true}).size();
    faults = find_adapter_fault(chain{n}).has_value() + find_adapter_fault(chain{n, true}).has_value();
    cycle = find_cycle(chain{n, false, true})->size();
  });
  CHECK(emitted == n);
  CHECK(rays == n + 2);
  CHECK(sorted == n);
  CHECK(faults == 1);
  CHECK(cycle == n);
}
