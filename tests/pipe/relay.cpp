// SPDX-License-Identifier: MIT
#include "cleave/pipe/relay.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "cleave/pipe/pipe_check.hpp"
#include "cleave/split/dataflow.hpp"
#include "support/integer_interpretation.hpp"
#include "support/random_graph.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

cut_list random_cuts(testing::rng& r, std::size_t nodes) {
  cut_list list;
  for (std::size_t n = 1; n < nodes; ++n)
    if (r.one_in(2)) list.points.push_back({cut_kind::policy, n, n});
  return list;
}

route_options random_costs(testing::rng& r) {
  auto const cost = [&] {
    return link_cost{static_cast<double>(r.below(4)), static_cast<double>(r.below(4))};
  };
  return {cost(), cost(), r.one_in(3) ? static_cast<std::uint32_t>(r.below(5)) : 0xffffffff};
}

/// Stage 0 makes a, which stages 1 and 3 read and the program returns.
struct skipping {
  snapshot_arrays s;
  std::uint32_t a;
  pipe_plan p;
};

skipping skip(std::size_t bytes) {
  testing::snapshot_builder b;
  auto const a = b.node(1, {b.input()}, bytes);
  auto const c = b.node(1, {a});
  auto const d = b.node(1, {c});
  b.output(b.node(1, {d, a}));
  b.output(a);
  auto const s = b.build();
  cut_list list;
  for (std::size_t const n : {1u, 2u, 3u}) list.points.push_back({cut_kind::policy, n, n});
  return {s, a, make_pipe_plan(s, cut_at(s, list))};
}

double cost_of(snapshot_arrays const& s, pipe_plan const& p, route_options const& o) {
  double sum = 0;
  for (auto const& t : p.plan.transfers) {
    auto const& link = index(t.to) == index(t.from) + 1 ? o.next : o.beyond;
    sum += link.message + link.byte * static_cast<double>(s.bytes[t.value]);
  }
  return sum;
}

}  // namespace

TEST_CASE("routes_of: chooses the cheaper route, and the direct one if both cost the same") {
  auto const [s, a, p] = skip(10);
  CHECK(p.edges[1].value == a);
  CHECK(routes_of(s, p)[1] == route::direct);                      // 20 against 30
  CHECK(routes_of(s, p, {.beyond = {0, 2}})[1] == route::direct);  // 30 against 30
  CHECK(routes_of(s, p, {.beyond = {1, 2}})[1] == route::relay);   // 31 against 30
  CHECK(routes_of(s, p, {.beyond = {1, 2}, .most_hops = 2})[1] == route::direct);
}

TEST_CASE("relayed: intermediate stages receive the value and send it on, and the caller receives it once") {
  auto const [s, a, p] = skip(10);
  auto const q = relayed(s, p, routes_of(s, p, {.beyond = {1, 2}}));
  CHECK(q.plan.stages[1].inputs == std::vector{a});
  CHECK(q.plan.stages[1].outputs.back() == a);
  CHECK(q.plan.stages[2].inputs.back() == a);
  CHECK(q.plan.stages[2].outputs.back() == a);
  CHECK(q.plan.stages[3].outputs == p.plan.stages[3].outputs);
  for (auto const& t : q.plan.transfers) CHECK(index(t.to) == index(t.from) + 1);
  std::size_t returned = 0;
  for (auto const& e : q.edges) returned += e.value == a && is_returned(e.to);
  CHECK(returned == 1);
}

TEST_CASE("routes_of: relays an edge only if that lowers its cost, and all savings add up") {
  testing::rng r(41);
  for (int round = 0; round < 400; ++round) {
    auto s = testing::random_graph(r, {.nodes = 2 + r.below(14), .states = 1});
    s.outputs = {static_cast<std::uint32_t>(s.results.item.back())};
    auto const p = make_pipe_plan(s, cut_at(s, random_cuts(r, s.nodes())));
    auto const o = random_costs(r);
    auto const routes = routes_of(s, p, o);
    double best = cost_of(s, p, o);
    for (std::size_t i = 0; i < routes.size(); ++i) {  // relays each edge alone
      std::vector<route> one(routes.size(), route::direct);
      one[i] = route::relay;
      bool const far = p.edges[i].from != the_caller && skips_stages(p.edges[i]);
      auto const gain = cost_of(s, p, o) - cost_of(s, relayed(s, p, one), o);
      if (routes[i] == route::relay) best -= gain;
      if (routes[i] == route::relay) CHECK(gain > 0);
      if (far && o.most_hops == 0xffffffff) CHECK((gain > 0) == (routes[i] == route::relay));
    }
    auto const q = relayed(s, p, routes);
    CHECK(cost_of(s, q, o) == best);
    CHECK_FALSE(find_dataflow_fault(dataflow_of(static_cast<snapshot_arrays const&>(s), q.plan)));
  }
}

TEST_CASE("relayed: both ends of each dataflow edge have its value at the stated positions") {
  testing::rng r(42);
  for (int round = 0; round < 300; ++round) {
    auto s = testing::random_graph(r, {.nodes = 2 + r.below(14)});
    s.outputs = {static_cast<std::uint32_t>(s.results.item.back())};
    auto p = make_pipe_plan(s, cut_at(s, random_cuts(r, s.nodes())));
    p = relayed(s, p, std::vector(p.edges.size(), route::relay));
    for (auto const& t : p.plan.transfers) CHECK(index(t.to) == index(t.from) + 1);
    std::size_t between = 0;
    auto const t = dataflow_of(s, p.plan);
    CHECK(findings_in_plan(s, p, {}).empty());
    for (auto const& e : t.edges) {
      if (e.from != the_caller) CHECK(p.plan.stages[index(e.from)].outputs[e.output] == e.value);
      if (e.to != the_caller) CHECK(p.plan.stages[index(e.to)].inputs[e.input] == e.value);
      between += e.from != the_caller && e.to != the_caller;
      if (e.from != the_caller && e.to != the_caller) CHECK(index(e.to) == index(e.from) + 1);
    }
    CHECK(between == p.plan.transfers.size());
  }
}

TEST_CASE("relayed: a program with relayed values computes the same results") {
  testing::rng r(43);
  for (int round = 0; round < 300; ++round) {
    auto const g = testing::random_module_graph(r, 2 + r.below(14));
    auto program = program_of(g);
    auto const& s = program.s;
    auto const parts = cut_at(s, random_cuts(r, s.nodes()));
    if (s.outputs.empty()) continue;
    auto p = make_pipe_plan(s, parts, program.scopes);
    std::vector<route> routes;
    for (std::size_t i = 0; i < p.edges.size(); ++i)
      routes.push_back(r.one_in(2) ? route::relay : route::direct);
    p = relayed(static_cast<snapshot_arrays const&>(s), p, routes);
    auto const made = write_pipe(std::move(program), std::move(p));
    std::vector<testing::integer_value> inputs;
    for (std::size_t i = 0; i < g.inputs().size(); ++i)
      inputs.push_back(testing::integer_value::computed(testing::fold(5, i)));
    testing::integer_interpretation meaning;
    CHECK(evaluate(g, inputs, meaning) == evaluate(made.outer, inputs, meaning));
  }
}

TEST_CASE("routes_of: sends a value directly if its slot is overwritten later") {
  auto [s, a, p] = skip(10);
  s.slot[a] = s.slot[s.results[1][0]];
  s.latest[s.slot[a]] = s.results[1][0];
  CHECK(routes_of(s, p, {.beyond = {1, 2}})[1] == route::direct);
}

TEST_CASE("routes_of: rejects costs that are negative, infinite or NaN") {
  auto const made = skip(10);
  for (double const cost :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(routes_of(made.s, made.p, {.beyond = {cost, 0}}), route_cost_error);
    CHECK_THROWS_AS(routes_of(made.s, made.p, {.next = {0, cost}}), route_cost_error);
  }
  CHECK_FALSE(find_route_fault({}));
}
