// SPDX-License-Identifier: MIT
#include "cleave/modules.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "cleave/bytes.hpp"
#include "cleave/draw.hpp"
#include "cleave/formats.hpp"
#include "cleave/pipe.hpp"
#include "cleave/split.hpp"
#include "support/allocation_faults.hpp"
#include "support/check_stage_bytes.hpp"
#include "support/random_graph.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"
#include "support/same_graph.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;
using testing::check_each_failure;

namespace {

module_graph some_program() {
  testing::rng r(3);
  return testing::random_module_graph(r, 8);
}

/// Returns the text of a graph, to compare graphs by.
std::string text_of(module_graph const& g) { return write_graph_json(g); }

std::string part_of(module_node const& n) { return std::to_string(n.name.size() % 2); }

/// Checks a function of programs, which it must not change.
template <class F>
void check_on_program(F f) {
  auto const g = some_program();
  auto const before = text_of(g);
  check_each_failure([&] { return f(g); }, [&] { return text_of(g) == before; });
}

snapshot_arrays some_dag() {
  testing::rng r(2);
  return testing::random_graph(r, {.nodes = 16, .states = 2, .replicable = 8});
}

}  // namespace

TEST_CASE("split_module and what follows: each allocation that fails is told") {
  check_on_program([](auto const& g) { return text_of(g); });
  check_on_program([](auto const& g) { return module_graph(g).list().size(); });
  check_on_program([](auto const& g) { return text_of(split_module_simple(g, part_of).outer); });
  check_on_program(
      [](auto const& g) { return liveness_of(split_module_simple(g, part_of).outer).values.size(); });
  check_on_program([](auto const& g) { return make_module_pipe(g).paths; });
}

TEST_CASE("graphs, plans and stages in files: each allocation that fails is told") {
  auto const g = some_program();
  auto const text = write_graph_json(g);
  check_each_failure([&] { return write_graph_json(read_graph_json(text)); });
  check_each_failure([&] { return write_stage_bytes(g); });
  auto const bytes = write_stage_bytes(g);
  check_each_failure([&] { return text_of(read_stage_bytes(bytes, testing::any_operators())); });
  check_on_program([](auto const& each) { return write_module_code(each); });
}

TEST_CASE("plans: each allocation that fails is told") {
  auto const s = some_dag();
  auto const p = balance(s, 3);
  check_each_failure([&] { return make_plan(s, p); });
  auto const made = make_plan(s, p);
  check_each_failure([&] { return find_plan_fault(s, made).has_value(); });
  check_each_failure([&] { return write_plan_json(made); });
  auto const text = write_plan_json(made);
  check_each_failure([&] { return detail::read_plan_json(text); });
  check_each_failure([&] { return write_dot(s, made); });
  check_each_failure([&] { return write_graph_svg(s, p); });
}

TEST_CASE("module_graph: what could not be added can be added again") {
  auto const g = some_program();
  auto const text = text_of(g);
  using faults = testing::allocation_faults;
  std::int64_t failed = 0;
  for (std::int64_t n = 1, ended = 0; ended == 0; ++n) {
    module_graph made;
    auto const add_to = [&](auto add) {
      try {
        add();
      } catch (std::bad_alloc const&) {
        add();  // there is memory again
      }
    };
    faults::fail_at(n, faults::exhaustion::once);
    for (auto const& node : g.list()) add_to([&] { made.add(node); });
    for (auto const& a : g.attributes()) add_to([&] { made.add_attribute(a); });
    faults::stop();
    made.metadata = g.metadata;
    ended = faults::fired ? 0 : 1;
    failed += 1 - ended;
    CHECK(text_of(made) == text);
    CHECK(made.nodes().size() == g.nodes().size());
    for (auto const& a : g.attributes()) CHECK(made.find_attribute(a.path) != nullptr);
  }
  CHECK(failed > 20);
}

TEST_CASE("numbering: what could not be numbered gets the next number when there is memory") {
  auto const check = [](auto handle_of) {
    using handle = decltype(handle_of(0));
    using faults = testing::allocation_faults;
    std::vector<handle> handles;
    for (int i = 0; i < 40; ++i) handles.push_back(handle_of(i));
    for (std::int64_t n = 1, ended = 0; ended == 0; ++n) {
      numbering<handle, std::uint32_t> numbers;
      bool right = true;
      faults::fail_at(n, faults::exhaustion::once);
      for (std::uint32_t i = 0; i < handles.size(); ++i) {
        std::uint32_t number = 0;
        try {
          number = numbers.insert(handles[i]);
        } catch (std::bad_alloc const&) {
          number = numbers.insert(handles[i]);
        }
        right = right && number == i;
      }
      faults::stop();
      ended = faults::fired ? 0 : 1;
      CHECK((right && numbers.size() == 40));
    }
  };
  check([](int i) { return i; });
  check([](int i) { return i % 2 == 0 ? i : 100'000 * i; });
  check([](int i) { return std::to_string(i) + " is a handle with a long name"; });
}

TEST_CASE("module_graph: deep bodies are released without memory") {
  module_graph deep;
  for (int i = 0; i < 1000; ++i) {
    module_graph outer;
    outer.add_attribute({"first", module_attribute::kind::module, {}, {module_graph()}, {}, {}});
    outer.add_attribute({"body", module_attribute::kind::module, {}, {}, {}, {}});
    std::vector<module_graph> body;
    body.push_back(std::move(deep));
    outer.add_attribute({"deep", module_attribute::kind::module, {}, std::move(body), {}, {}});
    deep = std::move(outer);
  }
  auto const whole = testing::allocation_faults::live.load();
  testing::allocation_faults::fail_at(1, testing::allocation_faults::exhaustion::lasting);
  {
    auto const released = std::move(deep);
  }
  testing::allocation_faults::stop();
  CHECK_FALSE(testing::allocation_faults::fired);
  CHECK(whole - testing::allocation_faults::live > 3000);
}
