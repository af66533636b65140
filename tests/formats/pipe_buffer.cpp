// SPDX-License-Identifier: MIT
#include "cleave/formats/pipe_buffer.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "support/check_stage_bytes.hpp"
#include "support/error_text.hpp"
#include "support/integer_interpretation.hpp"
#include "support/random_module_graph.hpp"
#include "support/rich_module_graph.hpp"
#include "support/rng.hpp"
#include "support/same_graph.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::same_graph;
using fault = stage_bytes_fault::kind;
using bytes = std::vector<std::byte>;

namespace {

using position = module_graph::position;

module_graph program(testing::rng& random) {
  return testing::random_module_graph(random, 1 + random.below(20), random.below(3) * random.below(2));
}

/// Cuts `g` at random places. Shared state is replicated or transmitted, at random.
module_pipe pipe_of(testing::rng& random, module_graph const& g) {
  auto const shared = random.one_in(2) ? shared_state::replicate : shared_state::transmit;
  return make_module_pipe(g, {.state = {.shared = shared}}, [&](auto const& s) {
    return cuts_by_policy(s, [&](std::size_t) { return random.one_in(4); });
  });
}

/// x -> f -> | -> g -> | -> h, which also reads f.
stored_pipe chain() {
  module_graph g;
  auto const add = [&](node_kind kind, std::string name, std::vector<position> const& reads) {
    module_node n;
    n.kind = kind;
    n.name = n.target = std::move(name);
    for (auto const v : reads) n.args.push_back(node_argument(v));
    return g.add(std::move(n));
  };
  auto const x = add(node_kind::placeholder, "x", {});
  auto const f = add(node_kind::call_function, "f", {x});
  auto const h = add(node_kind::call_function, "g", {f});
  add(node_kind::output, "output", {add(node_kind::call_function, "h", {h, f})});
  auto made = make_module_pipe(
      g, {}, [](auto const& s) { return cuts_by_policy(s, [](std::size_t n) { return n > 0; }); });
  return {std::move(made.plan), std::move(made.outer), std::move(made.paths)};
}

/// The error of write_pipe_bytes for the chain after `alter` has changed it.
template <class F>
std::string refusal(F alter, stage_bytes_limits const& limits = {}) {
  auto p = chain();
  alter(p);
  return testing::error_text<stage_bytes_error>([&] { write_pipe_bytes(p, limits); });
}

testing::integer_value result_of(module_graph const& g, std::size_t inputs) {
  testing::integer_interpretation meaning;
  std::vector<testing::integer_value> given;
  for (std::size_t i = 0; i < inputs; ++i) given.push_back(testing::integer_value::computed(i + 3));
  return evaluate(g, std::move(given), meaning);
}

}  // namespace

TEST_CASE("write_pipe_bytes: random pipes read back equal, compute the same and always have the same bytes") {
  testing::rng random(21);
  std::size_t stages = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    auto const g = program(random);
    auto const p = pipe_of(random, g);
    auto const written = write_pipe_bytes(p);
    auto const back = read_pipe_bytes(written, testing::operators_of(p.outer));
    CHECK(back.plan == p.plan);
    CHECK(back.paths == p.paths);
    REQUIRE(same_graph(back.outer, p.outer));
    CHECK(write_pipe_bytes(back) == written);
    CHECK(!find_pipe_bytes_fault(written, testing::any_operators()));
    CHECK(result_of(back.outer, g.inputs().size()) == result_of(g, g.inputs().size()));
    for (std::uint32_t k = 0; k < p.paths.size(); ++k)
      CHECK(same_graph(back.stage(stage_id{k}), p.stage(stage_id{k})));
    stages += p.paths.size();
  }
  CHECK(stages > 400);
}

TEST_CASE("find_pipe_bytes_fault: rejects the bytes of a stage, and find_stage_bytes_fault those of a pipe") {
  auto const p = chain();
  auto const pipe = write_pipe_bytes(p), stage = write_stage_bytes(p.outer);
  auto const known = testing::any_operators();
  CHECK(find_stage_bytes_fault(pipe, known)->said ==
        "the bytes hold a pipe, not a stage; use read_pipe_bytes");
  CHECK(find_pipe_bytes_fault(stage, known)->said ==
        "the bytes hold a stage, not a pipe; use read_stage_bytes");
  CHECK_THROWS_AS(read_pipe_bytes(stage, known), stage_bytes_error);
}

TEST_CASE("find_pipe_bytes_fault: reports an operator that is not registered") {
  registry<int> known({"call_function"});
  known.add("call_function", "f", 0);
  known.add("call_function", "g", 0);
  auto const found = find_pipe_bytes_fault(write_pipe_bytes(chain()), known);
  REQUIRE(found);
  CHECK(found->what == fault::unknown_operator);
  CHECK(found->said.starts_with("it calls 'h', which is not registered for 'call_function'"));
}

TEST_CASE("find_pipe_bytes_fault: rejects bytes cut short anywhere and 20,000 random bit flips") {
  testing::rng random(2);
  auto const known = testing::any_operators();
  auto written = write_pipe_bytes(chain());
  for (std::size_t size = 0; size < written.size(); ++size)
    CHECK(find_pipe_bytes_fault(std::span(written).first(size), known));
  std::size_t accepted = 0;
  for (std::size_t i = 0; i < 20'000; ++i) {
    auto& byte = written[random.below(written.size())];
    auto const before = byte;
    byte ^= static_cast<std::byte>(1u << random.below(8));
    accepted += find_pipe_bytes_fault(written, known) ? 0 : 1;
    byte = before;
  }
  CHECK(accepted == 0);
}

TEST_CASE("read_pipe_bytes: altered bytes with a correct checksum are rejected or read back equal") {
  testing::rng random(9);
  std::size_t taken = 0, refused = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    auto const g = program(random);
    auto const written = write_pipe_bytes(pipe_of(random, g));
    for (std::size_t k = 0; k < 100; ++k) {
      auto altered = bytes(written.begin() + envelope_header_bytes, written.end());
      for (auto times = 1 + random.below(3); times-- > 0;) {
        auto const value = random.one_in(2) ? random.below(8) : random.below(256);
        altered[random.below(altered.size())] = static_cast<std::byte>(value);
      }
      ++(testing::taken_for_pipe(altered) ? taken : refused);
    }
  }
  CHECK(taken > 200);
  CHECK(refused > 200);
}

TEST_CASE("write_pipe_bytes: rejects a plan that does not fit its stages and names the place") {
  auto const s = [](stored_pipe& p, std::size_t i) -> stage_plan& { return p.plan.plan.stages[i]; };
  CHECK(refusal([](auto&) {}) == "accepted");
  CHECK(refusal([](auto& p) { p.paths[1] = "nowhere"; })
            .starts_with("bytes of a stage: stage 1 of the pipe: its path 'nowhere' is not the path of a "
                         "body in graph 0, or belongs to another stage"));
  CHECK(refusal([](auto& p) { p.paths[1] = p.paths[0]; }).find("or belongs to another stage") !=
        std::string::npos);
  CHECK(refusal([&](auto& p) { s(p, 1).inputs.push_back(77); })
            .starts_with(
                "bytes of a stage: stage 1 of the pipe: it has 2 inputs, but its graph has 1 placeholders"));
  CHECK(refusal([&](auto& p) { s(p, 2).inputs[0] = s(p, 2).inputs[1]; }).find("twice") != std::string::npos);
  CHECK(refusal([&](auto& p) { s(p, 0).outputs.push_back(s(p, 0).outputs[0]); }).find("it outputs value") !=
        std::string::npos);
  CHECK(refusal([&](auto& p) {
          s(p, 0).nodes.push_back(0xffffffff);
        }).find("it lists 2^32 - 1, which is reserved and refers to nothing") != std::string::npos);
  CHECK(refusal([](auto& p) { p.plan.plan.order[0] = stage_id{2}; })
            .starts_with("bytes of a stage: the plan of the pipe: its order names stage 2 twice, or that "
                         "stage does not exist"));
  CHECK(refusal([](auto& p) { p.plan.plan.order.pop_back(); }).find("its order has 2 stages of 3") !=
        std::string::npos);
  CHECK(refusal([](auto& p) { p.plan.plan.transfers[0].to = stage_id{9}; }).find("to 9 of 3") !=
        std::string::npos);
  CHECK(refusal([](auto& p) {
          p.plan.plan.transfers[0].value = 9;
        }).find("value 9 is sent by a stage that") != std::string::npos);
  CHECK(refusal([](auto& p) {
          p.plan.plan.updates.push_back({0, stage_id{1}, stage_id{1}});
        }).find("value 0 goes from stage 1 to 1 of 3") != std::string::npos);
  CHECK(refusal([](auto& p) {
          p.plan.edges[1].value = 9;
        }).find("value 9 leaves a stage that does not output it") != std::string::npos);
  CHECK(refusal([](auto& p) {
          p.plan.edges[0].to = {stage_id{2}};
        }).find("reaches a stage that does not have it as an input") != std::string::npos);
  CHECK(refusal([](auto& p) { p.plan.edges[0].to.clear(); }).find("has an edge without readers") !=
        std::string::npos);
  CHECK(refusal([](auto& p) { p.plan.edges.push_back(p.plan.edges[0]); }).find("an edge is repeated, or") !=
        std::string::npos);
  CHECK(refusal([](auto& p) {
          std::swap(p.plan.edges[1].to[0], p.plan.edges[1].to[1]);
        }).find("its readers are not in ascending order") != std::string::npos);
  CHECK(refusal([](auto& p) { p.plan.edges[0].from = stage_id{5}; }).find("an edge names stage 5") !=
        std::string::npos);
  CHECK(refusal([](auto& p) {
          p.plan.idle.push_back({static_cast<cut_kind>(9), 0, idle_reason::at_the_end});
        }).find("has an unknown kind or reason") != std::string::npos);
  CHECK(refusal([](auto&) {}, {.positions = 3}).find("positions in the plan exceed the limit of 3") !=
        std::string::npos);
}
