// SPDX-License-Identifier: MIT
#include "cleave/split/modules/compile_pieces.hpp"

#include <doctest/doctest.h>

#include <exception>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "cleave/split/modules/split_buckets.hpp"
#include "support/integer_interpretation.hpp"
#include "support/model.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;
using testing::integer_interpretation;
using testing::integer_value;
using testing::layers;
using values = std::vector<integer_value>;
using request = compile_request<integer_value>;

values inputs_of(module_graph const& g) {
  values inputs;
  for (auto const n : g.inputs()) inputs.push_back(integer_value::computed(testing::mix(n + 1)));
  return inputs;
}

values run(module_graph const& g, std::span<integer_value const> args) {
  integer_interpretation meaning;
  return *evaluate(g, values(args.begin(), args.end()), meaning).items;
}

/// Runs pieces without compiling them and records the requested paths.
struct fake_compiler {
  std::vector<std::string>* asked;
  std::size_t fails_on = 1000;

  auto operator()(request const& r) {
    asked->emplace_back(r.path);
    if (asked->size() == fails_on + 1) throw std::runtime_error("no kernel");
    return [g = r.graph](std::span<integer_value const> args) { return run(g, args); };
  }
};

/// Layers with the same operations; each has a module of its own.
split_module_result layer_pieces(testing::model const& m) {
  return *split_at_buckets(m.g, m.parameters, {.caps = {.cap = 10}}).split;
}

struct by_class : piece_keys {
  std::string attribute(module_attribute const&) const { return "layer"; }
};

}  // namespace

TEST_CASE("compile_pieces: compiled pieces compute the same as the graph, at once and on the first call") {
  testing::rng random(1);
  for (int round = 0; round < 100; ++round) {
    auto const g = testing::random_module_graph(random, 1 + random.below(20));
    auto const parts = 1 + random.below(4);
    std::size_t next = 0;
    auto const count = g.nodes().size();
    auto const split =
        split_module(g, [&](module_node const&) { return std::to_string(next++ * parts / count); });
    integer_interpretation meaning;
    auto const expected = evaluate(g, inputs_of(g), meaning);
    std::vector<std::string> asked;
    auto now = compile_pieces(split, inputs_of(g), meaning, fake_compiler{&asked});
    CHECK(asked.size() == split.pieces.size());
    CHECK(now(inputs_of(g), meaning) == expected);
    std::vector<std::string> lazily;
    auto later = compile_on_first_call<integer_value>(split, fake_compiler{&lazily});
    CHECK(lazily.empty());
    CHECK(later(inputs_of(g), meaning) == expected);
    CHECK(lazily == asked);
    CHECK(later(inputs_of(g), meaning) == expected);
    CHECK(lazily == asked);
  }
}

TEST_CASE("compile_pieces: compiles pieces in the order they run and makes each return a tuple") {
  auto const m = layers(3, 10);
  auto const split = layer_pieces(m);
  integer_interpretation meaning;
  std::vector<std::string> asked;
  auto const compile = [&](request const& r) {
    asked.emplace_back(r.path);
    CHECK(r.examples.size() == r.graph.inputs().size());
    CHECK(r.results == 1);
    auto const& given = r.graph[*r.graph.output()].args.front();
    CHECK(given.size() == 2);
    CHECK(std::get<container>(given.front()) == container{container::kind::tuple, 1});
    return [g = r.graph](std::span<integer_value const> args) { return run(g, args); };
  };
  auto const all = compile_pieces(split, inputs_of(m.g), meaning, compile);
  CHECK(asked == std::vector<std::string>{"submod_0", "submod_1", "submod_2"});
  CHECK(all.asked() == std::vector<std::uint32_t>{0, 1, 2});
  std::vector<std::string> calls;
  for (auto const n : all.outer().nodes()) calls.push_back(all.outer()[n].target);
  CHECK(calls == std::vector<std::string>{"compiled_submod_0", "compiled_submod_1", "compiled_submod_2"});
  CHECK(all.outer().attributes()[1].original == "submod_1");
}

TEST_CASE("compile_pieces: the outputs of a compiled piece are the examples of the next piece") {
  auto const m = layers(3, 10);
  auto const split = layer_pieces(m);
  integer_interpretation meaning;
  std::vector<std::uint64_t> seen;
  auto const compile = [&](request const& r) {
    seen.push_back(r.examples[0].bits);
    return
        [](std::span<integer_value const> args) { return values{integer_value::computed(args[0].bits + 1)}; };
  };
  compile_pieces(split, values{integer_value::computed(7)}, meaning, compile);
  CHECK(seen == std::vector<std::uint64_t>{7, 8, 9});
  seen.clear();
  auto const shapes = [](request const& r, auto&) {
    return values{integer_value::computed(r.examples[0].bits * 10)};
  };
  compile_pieces(split, values{integer_value::computed(7)}, meaning, compile, shapes);
  CHECK(seen == std::vector<std::uint64_t>{7, 70, 700});
}

TEST_CASE("compile_pieces: an exception of the compiler becomes an error that names the piece and nests it") {
  auto const m = layers(3, 10);
  auto const split = layer_pieces(m);
  integer_interpretation meaning;
  std::vector<std::string> asked;
  try {
    compile_pieces(split, inputs_of(m.g), meaning, fake_compiler{&asked, 1});
    FAIL("no error");
  } catch (compile_error const& e) {
    CHECK(e.witness == "submod_1");
    CHECK(std::string(e.what()) ==
          "compile: piece 'submod_1' cannot be compiled: no kernel; compile_failure::interpret runs such "
          "pieces without the compiler");
    CHECK_THROWS_WITH_AS(std::rethrow_if_nested(e), "no kernel", std::runtime_error);
  }
  CHECK(asked == std::vector<std::string>{"submod_0", "submod_1"});
}

TEST_CASE("compile_whole: reports a thrown value that is not an exception") {
  auto const m = layers(2, 10);
  auto const throws_number = [](request const&) -> fake_compiler { throw 7; };
  auto const whole = [&] { compile_whole(m.g, inputs_of(m.g), throws_number); };
  CHECK_THROWS_WITH_AS(whole(), doctest::Contains("the whole graph"), compile_error);
}

TEST_CASE("compile_on_first_call: compiles the remaining pieces on the next call after a failure") {
  auto const m = layers(3, 10);
  auto const split = layer_pieces(m);
  integer_interpretation meaning;
  std::vector<std::string> asked;
  auto all = compile_on_first_call<integer_value>(split, fake_compiler{&asked, 1});
  CHECK_THROWS_AS(all(inputs_of(m.g), meaning), compile_error);
  CHECK(all(inputs_of(m.g), meaning) == evaluate(m.g, inputs_of(m.g), meaning));
  CHECK(asked == std::vector<std::string>{"submod_0", "submod_1", "submod_1", "submod_2"});
}

TEST_CASE("compile_pieces: names a piece that returns a wrong number of results") {
  auto const m = layers(2, 10);
  auto const split = layer_pieces(m);
  integer_interpretation meaning;
  auto const none_at_all = [](request const&) {
    return [](std::span<integer_value const>) { return values(); };
  };
  CHECK_THROWS_WITH_AS(compile_pieces(split, inputs_of(m.g), meaning, none_at_all),
                       "compile: piece 'submod_0' has 1 results, but its compiled form returned 0 results; "
                       "return compile_request::results values",
                       result_count_error);
}

TEST_CASE("compile_whole: passes the unsplit graph to the compiler and returns its result") {
  auto const m = layers(2, 10);
  auto const compile = [](request const& r) {
    CHECK(r.path.empty());
    return r.graph.list().size();
  };
  CHECK(compile_whole(m.g, inputs_of(m.g), compile) == m.g.list().size());
}

TEST_CASE("compile_on_first_call: compiles isomorphic pieces once and runs each with its own attributes") {
  auto const m = layers(6, 10);
  auto const split = layer_pieces(m);
  integer_interpretation meaning;
  std::size_t compiled = 0;
  auto const compile = [&](request const& r) {
    ++compiled;
    return [g = r.graph](std::span<integer_value const> args, std::span<std::string const> holds) {
      module_graph bound;  // with the weights of the layer that runs
      for (auto const& n : g.list()) bound.add(n);
      for (std::size_t i = 0; i < g.attributes().size(); ++i) {
        auto a = g.attributes()[i];
        a.original = holds[i];
        bound.add_attribute(std::move(a));
      }
      return run(bound, args);
    };
  };
  auto all = compile_on_first_call<integer_value>(split, compile, isomorphic_pieces(split, by_class()));
  CHECK(all(inputs_of(m.g), meaning) == evaluate(m.g, inputs_of(m.g), meaning));
  CHECK(compiled == 1);
  CHECK(all.asked() == std::vector<std::uint32_t>{0});
}

TEST_CASE("compile_pieces: only pieces with equal attributes share code that does not take attributes") {
  auto const m = layers(4, 10);
  auto const split = layer_pieces(m);
  integer_interpretation meaning;
  std::vector<std::string> asked;
  auto all = compile_on_first_call<integer_value>(split, fake_compiler{&asked},
                                                  isomorphic_pieces(split, by_class()));
  CHECK(all(inputs_of(m.g), meaning) == evaluate(m.g, inputs_of(m.g), meaning));
  CHECK(asked.size() == 4);

  testing::model once;  // four calls of the same module
  once.module("lin", {});
  auto v = once.placeholder("x");
  for (int i = 0; i < 4; ++i) v = once.call("lin", {v});
  once.give({v});
  std::size_t next = 0;
  auto const shared = split_module(once.g, [&](module_node const&) { return std::to_string(next++); });
  asked.clear();
  auto both =
      compile_pieces(shared, inputs_of(once.g), meaning, fake_compiler{&asked}, isomorphic_pieces(shared));
  CHECK(both(inputs_of(once.g), meaning) == evaluate(once.g, inputs_of(once.g), meaning));
  CHECK(asked.size() == 1);
}

TEST_CASE("compile_pieces: a piece without results returns an empty tuple") {
  testing::model m;
  auto const x = m.placeholder("x");
  auto const dead = m.function("print", {x}), f = m.function("f", {x});
  m.give({f});
  auto const split = split_module(
      m.g, [&](module_node const& n) { return std::string(n.name == m.g[dead].name ? "0" : "1"); });
  integer_interpretation meaning;
  std::vector<std::string> asked;
  auto all = compile_pieces(split, inputs_of(m.g), meaning, fake_compiler{&asked});
  CHECK(asked.size() == 2);
  CHECK(all(inputs_of(m.g), meaning) == evaluate(m.g, inputs_of(m.g), meaning));
}

TEST_CASE("compile_pieces: a compiled piece avoids the path of an existing attribute") {
  testing::model m;
  auto const w = m.attribute("compiled_submod_0", m.parameter({.bytes = 1}));
  auto const f = m.function("f", {m.placeholder("x"), w});
  m.give({f});
  auto const split = split_module(m.g, [](module_node const&) { return std::string("0"); });
  integer_interpretation meaning;
  std::vector<std::string> asked;
  auto all = compile_pieces(split, inputs_of(m.g), meaning, fake_compiler{&asked});
  CHECK(all.outer().find_attribute("compiled_submod_0_") != nullptr);
  CHECK(all(inputs_of(m.g), meaning) == evaluate(m.g, inputs_of(m.g), meaning));
}
