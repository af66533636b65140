// SPDX-License-Identifier: MIT
#include "cleave/split/modules/compile_failure.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cleave/split/modules/compile_pieces.hpp"
#include "cleave/split/modules/split_buckets.hpp"
#include "cleave/split/modules/split_by_tags.hpp"
#include "support/cases.hpp"
#include "support/integer_interpretation.hpp"
#include "support/model.hpp"
#include "support/random_module_graph.hpp"
#include "support/random_scopes.hpp"
#include "support/rng.hpp"
#include "support/state_simulation.hpp"

namespace {

using namespace cleave;
using namespace cleave::detail;
using testing::integer_interpretation;
using testing::integer_value;
using values = std::vector<integer_value>;
using request = compile_request<integer_value>;
using strings = std::vector<std::string>;
using enum compile_failure;

values inputs_of(module_graph const& g) {
  values inputs;
  for (auto const n : g.inputs()) inputs.push_back(integer_value::computed(testing::mix(n + 1)));
  return inputs;
}

values run(module_graph const& g, std::span<integer_value const> args) {
  integer_interpretation meaning;
  return *evaluate(g, values(args.begin(), args.end()), meaning).items;
}

/// Returns the original target of call `n`.
std::string target_of(module_graph const& g, module_graph::position n) {
  auto const* a = g[n].kind == node_kind::call_module ? g.find_attribute(g[n].target) : nullptr;
  return a && !a->original.empty() ? a->original : g[n].target;
}

/// Refuses graphs that call one of `targets`.
struct picky_compiler {
  strings targets;
  std::vector<std::string>* asked = nullptr;
  std::vector<std::string>* reasons = nullptr;

  bool refuses(module_graph const& g, module_graph::position n) const {
    return std::ranges::find(targets, target_of(g, n)) != targets.end();
  }
  bool refuses(module_graph const& g) const {
    return std::ranges::any_of(g.nodes(), [&](auto n) { return refuses(g, n); });
  }
  auto operator()(request const& r) const {
    CHECK(r.examples.size() == r.graph.inputs().size());
    CHECK(r.graph[*r.graph.output()].args.front().size() == r.results + 1);
    if (asked) asked->emplace_back(r.path);
    if (reasons) reasons->emplace_back(r.reason);
    for (auto const n : r.graph.nodes())
      if (refuses(r.graph, n)) throw std::runtime_error("no kernel for " + target_of(r.graph, n));
    return [g = r.graph](std::span<integer_value const> args) { return run(g, args); };
  }
};

split_module_result random_parts(module_graph const& g, std::size_t parts,
                                 split_module_options const& options = {}) {
  std::size_t next = 0;
  auto const count = g.nodes().size();
  return split_module(g, [&](module_node const&) { return std::to_string(next++ * parts / count); }, options);
}

/// Checks that the leaves of a report are all calls of the piece, in order, that exactly the refused calls
/// are interpreted, and that all that is compiled has none of them.
void check_leaves(std::vector<piece_report> const& report, module_graph const& piece,
                  picky_compiler const& compiler) {
  std::size_t next = 0;
  for (auto const& told : report) {
    CHECK(told.attempted);
    CHECK(!told.reason.empty());
    CHECK(told.failure.empty() == (told.state == piece_state::compiled));
    if (told.state == piece_state::split_again) continue;
    CHECK(told.first == next);
    for (auto i = next; i < next + told.calls; ++i)
      CHECK(compiler.refuses(piece, piece.nodes()[i]) == (told.state == piece_state::interpreted));
    if (told.state == piece_state::interpreted) CHECK(told.calls == 1);
    next += told.calls;
  }
  CHECK(next == piece.nodes().size());
}

/// A chain of `f`s with a `bad` at one position.
testing::model chain_with(std::size_t calls, std::size_t bad) {
  testing::model m;
  auto v = m.placeholder("x");
  for (std::size_t i = 0; i < calls; ++i) v = m.function(i == bad ? "bad" : "f", {v});
  m.give({v});
  return m;
}

}  // namespace

TEST_CASE("slice_piece: slices that run one after the other compute the same as the piece") {
  testing::rng random(1);
  for (std::size_t round = 0; round < testing::cases(60, 200); ++round) {
    auto const g = testing::random_module_graph(random, 1 + random.below(20), random.below(3));
    integer_interpretation meaning;
    std::vector<std::optional<integer_value>> at(g.list().size());
    auto const inputs = inputs_of(g);
    for (std::size_t i = 0; i < inputs.size(); ++i) at[g.inputs()[i]] = inputs[i];
    for (auto const n : g.state()) at[n] = meaning.attribute(g, n);
    for (std::size_t first = 0; first < g.nodes().size();) {
      auto const calls = 1 + random.below(g.nodes().size() - first);
      auto const slice = slice_piece(g, first, calls, torch_scopes());
      CHECK(slice.graph.nodes().size() == calls);
      values args;
      for (auto const n : slice.inputs) args.push_back(at[n].value());
      auto const results = interpret_piece<integer_value>(slice.graph, args, slice.outputs.size(), meaning);
      REQUIRE(results.size() == slice.outputs.size());
      for (std::size_t i = 0; i < results.size(); ++i) at[slice.outputs[i]] = results[i];
      first += calls;
    }
    module_graph flat;  // returns the values that `g` returns, without nesting
    for (auto n : g.list()) {
      if (n.kind == node_kind::output) n.args = {tuple_argument(g.outputs())};
      flat.add(std::move(n));
    }
    auto const expected = run(flat, inputs);
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(at[g.outputs()[i]] == expected[i]);
  }
}

TEST_CASE("slice_piece: each call runs under the state that it has in the piece") {
  testing::rng random(2);
  auto const scopes = testing::four_scopes(scope_policy::replicate);
  for (std::size_t round = 0; round < testing::cases(60, 200); ++round) {
    auto const g =
        testing::with_random_marks(random, testing::random_module_graph(random, 1 + random.below(15)), 3);
    testing::state_simulation const whole(g, testing::numbered::as_original);
    auto const first = random.below(g.nodes().size());
    auto const calls = 1 + random.below(g.nodes().size() - first);
    auto const slice = slice_piece(g, first, calls, scopes);
    testing::state_simulation const here(slice.graph, testing::numbered::by_from);
    CHECK(here.faults.empty());
    std::size_t found = 0;
    for (auto i = first; i < first + calls; ++i) {
      auto const n = g.nodes()[i];
      if (!whole.at.contains(n)) continue;
      REQUIRE(here.at.contains(n));
      CHECK(here.at.at(n) == whole.at.at(n));
      ++found;
    }
    CHECK(found == here.at.size());
  }
}

TEST_CASE("compile_failure: all modes compute the same as the graph, for any refused operators") {
  testing::rng random(3);
  strings const all = {"f",    "g",       "add",     "CamelCase", "sum",   "f_3",   "aten.mul", "getitem",
                       "tup2", "__add__", "layer.0", "layer_0",   "layer", "a.b.c", "submod_0", "linear"};
  std::size_t refused = 0, cut = 0;
  auto const rounds = testing::cases(60, 300);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto g = testing::random_module_graph(random, 1 + random.below(25), random.below(3));
    split_module_options options{.symbols = symbol_rule::bound_before_use};
    if (random.one_in(3)) {
      g = testing::with_random_marks(random, g, 4);
      options.scopes = testing::four_scopes(scope_policy::replicate);
    }
    auto const split = random_parts(g, 1 + random.below(4), options);
    picky_compiler compiler;
    for (auto const& target : all)
      if (random.one_in(5)) compiler.targets.push_back(target);
    integer_interpretation meaning;
    auto const expected = evaluate(g, inputs_of(g), meaning);

    bool bad = false;
    std::size_t most = 0;
    for (auto const& piece : split.pieces) {
      auto const& inside = split.graph(piece);
      bad |= compiler.refuses(inside);
      most += 2 * inside.nodes().size() - 1;
    }
    auto raising = compile_on_first_call<integer_value>(split, compiler);
    if (bad)
      CHECK_THROWS_AS(raising(inputs_of(g), meaning), compile_error);
    else
      CHECK(raising(inputs_of(g), meaning) == expected);
    refused += bad;

    auto interpreting = compile_on_first_call<integer_value>(split, compiler, {}, {.on_failure = interpret});
    for (int time = 0; time < 2; ++time) {
      CHECK(interpreting(inputs_of(g), meaning) == expected);
      CHECK(interpreting.compiles() == split.pieces.size());
    }
    for (std::uint32_t i = 0; i < split.pieces.size(); ++i) {
      auto const& report = interpreting.report(i);
      REQUIRE(report.size() == 1);
      bool const now = compiler.refuses(split.graph(split.pieces[i]));
      CHECK(report[0].state == (now ? piece_state::interpreted : piece_state::compiled));
      CHECK(report[0].path == split.pieces[i].path);
      CHECK(report[0].reason == split.pieces[i].reason);
    }

    auto halving =
        compile_pieces(split, inputs_of(g), meaning, compiler, {},
                       {.on_failure = split_again, .most_compiles = 1000, .scopes = options.scopes});
    auto const compiles = halving.compiles();
    CHECK(compiles <= most);
    cut += compiles > split.pieces.size();
    for (int time = 0; time < 2; ++time) CHECK(halving(inputs_of(g), meaning) == expected);
    CHECK(halving.compiles() == compiles);
    std::size_t told = 0;
    for (std::uint32_t i = 0; i < split.pieces.size(); ++i) {
      told += halving.report(i).size();
      if (options.scopes.size() == 2) check_leaves(halving.report(i), halving.graph(i), compiler);
    }
    CHECK(told == compiles);

    auto const limit = random.below(6);
    auto limited = compile_on_first_call<integer_value>(
        split, compiler, {}, {.on_failure = split_again, .most_compiles = limit, .scopes = options.scopes});
    for (int time = 0; time < 2; ++time) CHECK(limited(inputs_of(g), meaning) == expected);
    CHECK(limited.compiles() <= limit * split.pieces.size());
    for (std::uint32_t i = 0; i < split.pieces.size(); ++i)
      CHECK(static_cast<std::size_t>(std::ranges::count_if(limited.report(i), &piece_report::attempted)) <=
            limit);
  }
  CHECK(refused > rounds / 3);
  CHECK(cut > rounds / 3);
}

TEST_CASE("compile_failure: split_again finds one bad call and says what it did with each half") {
  auto const m = chain_with(5, 3);
  auto const split = split_module(m.g, [](module_node const&) { return 7; });
  integer_interpretation meaning;
  strings asked, reasons;
  auto const all = compile_pieces(split, inputs_of(m.g), meaning, picky_compiler{{"bad"}, &asked, &reasons},
                                  {}, {.on_failure = split_again});
  CHECK(asked == strings{"submod_7", "submod_7[0:2]", "submod_7[2:5]", "submod_7[2:3]", "submod_7[3:5]",
                         "submod_7[3:4]", "submod_7[4:5]"});
  CHECK(all.asked() == std::vector<std::uint32_t>{0});
  CHECK(all.compiles() == 7);
  std::string const label = "the calls to which the callback gave the label '7'", no = "no kernel for bad",
                    half = "half of 'submod_7', which the compiler refused: " + no,
                    quarter = "half of 'submod_7[2:5]', which the compiler refused: " + no,
                    last = "half of 'submod_7[3:5]', which the compiler refused: " + no;
  CHECK(reasons == strings{label, half, half, quarter, quarter, last, last});
  using enum piece_state;
  CHECK(all.report(0) ==
        std::vector<piece_report>{{"submod_7", label, piece_state::split_again, no, 0, 5},
                                  {"submod_7[0:2]", half, compiled, "", 0, 2},
                                  {"submod_7[2:5]", half, piece_state::split_again, no, 2, 3},
                                  {"submod_7[2:3]", quarter, compiled, "", 2, 1},
                                  {"submod_7[3:5]", quarter, piece_state::split_again, no, 3, 2},
                                  {"submod_7[3:4]", last, interpreted, no, 3, 1},
                                  {"submod_7[4:5]", last, compiled, "", 4, 1}});
}

TEST_CASE("compile_failure: what the limit leaves is interpreted, and the report names the option") {
  auto const m = chain_with(8, 0);
  auto const split = split_module(m.g, [](module_node const&) { return 0; });
  integer_interpretation meaning;
  std::string const limit =
      "the compiler was called 3 times for piece 'submod_0', and compile_options::most_compiles allows no "
      "more";
  auto const all = compile_pieces(split, inputs_of(m.g), meaning, picky_compiler{{"bad"}}, {},
                                  {.on_failure = split_again, .most_compiles = 3});
  CHECK(all.compiles() == 3);
  REQUIRE(all.report(0).size() == 5);
  CHECK(all.report(0)[2].failure == "no kernel for bad; " + limit);
  CHECK(all.report(0)[2].state == piece_state::interpreted);
  CHECK(all.report(0)[3].path == "submod_0[2:4]");
  CHECK(all.report(0)[3].failure == limit);
  CHECK(!all.report(0)[3].attempted);
  CHECK(all.report(0)[4].path == "submod_0[4:8]");

  for (auto const mode : {interpret, split_again}) {  // nothing is compiled
    auto none_at_all = compile_on_first_call<integer_value>(split, picky_compiler{}, {},
                                                            {.on_failure = mode, .most_compiles = 0});
    CHECK(none_at_all(inputs_of(m.g), meaning) == evaluate(m.g, inputs_of(m.g), meaning));
    CHECK(none_at_all.compiles() == 0);
    CHECK(none_at_all.asked().empty());
  }
  auto raises = compile_on_first_call<integer_value>(split, picky_compiler{}, {}, {.most_compiles = 0});
  CHECK(raises(inputs_of(m.g), meaning) == evaluate(m.g, inputs_of(m.g), meaning));
}

TEST_CASE("compile_failure: isomorphic pieces share the slices that are compiled") {
  struct by_class : piece_keys {
    std::string attribute(module_attribute const&) const { return "layer"; }
  };
  testing::model m;
  auto v = m.placeholder("x");
  for (int layer = 0; layer < 4; ++layer) {
    auto const path = "layers." + std::to_string(layer), side = "sides." + std::to_string(layer);
    m.module(path, {});
    m.module(side, {});
    v = m.function("relu", {m.call(path, {m.call(side, {v})}), v});
  }
  m.give({v});
  std::size_t next = 0;
  auto const split = split_module(m.g, [&](module_node const&) { return next++ / 3; });
  integer_interpretation meaning;
  std::size_t compiled = 0;
  auto const compile = [&](request const& r) {
    ++compiled;
    for (auto const n : r.graph.nodes())
      if (r.graph[n].target == "relu") throw std::runtime_error("no kernel");
    return [g = r.graph](std::span<integer_value const> args, std::span<std::string const> holds) {
      module_graph bound;  // with the modules of the layer that runs
      for (auto const& n : g.list()) bound.add(n);
      REQUIRE(holds.size() == g.attributes().size());
      for (std::size_t i = 0; i < holds.size(); ++i) {
        auto a = g.attributes()[i];
        a.original = holds[i];
        bound.add_attribute(std::move(a));
      }
      return run(bound, args);
    };
  };
  auto all = compile_on_first_call<integer_value>(split, compile, isomorphic_pieces(split, by_class()),
                                                  {.on_failure = split_again});
  for (int time = 0; time < 2; ++time)
    CHECK(all(inputs_of(m.g), meaning) == evaluate(m.g, inputs_of(m.g), meaning));
  CHECK(compiled == 5);  // the piece; one call; the two others; each of them
  CHECK(all.report(3) == all.report(0));
}

TEST_CASE(
    "compile_failure: shapes go through slices and interpreted calls when pieces are compiled at once") {
  auto const m = chain_with(4, 1);
  auto const split = random_parts(m.g, 2);
  integer_interpretation meaning;
  values seen;
  auto const shapes = [&](request const& r, auto&) {
    seen.push_back(r.examples[0]);
    return run(r.graph, r.examples);
  };
  auto all = compile_pieces(split, inputs_of(m.g), meaning, picky_compiler{{"bad"}}, shapes, {},
                            {.on_failure = split_again});
  CHECK(seen.size() == 2);  // f, and the piece behind the bad call
  CHECK(all(inputs_of(m.g), meaning) == evaluate(m.g, inputs_of(m.g), meaning));
}

TEST_CASE("compile_failure: a piece that scopes forbid to cut is interpreted, and the report says why") {
  testing::model m;
  auto const x = m.placeholder("x");
  auto const enter = m.function("_enter_autocast", {});
  auto const f = m.function("f", {x});
  auto const h = m.function("bad", {f});
  m.function("_exit_autocast", {enter});
  m.give({h});
  auto const scopes = testing::four_scopes(scope_policy::forbid);
  auto const split = random_parts(m.g, 1, {.scopes = scopes});
  integer_interpretation meaning;
  auto all = compile_pieces(split, inputs_of(m.g), meaning, picky_compiler{{"bad"}}, {},
                            {.on_failure = split_again, .scopes = scopes});
  REQUIRE(all.report(0).size() == 1);
  CHECK(all.report(0)[0].state == piece_state::interpreted);
  CHECK_MESSAGE(all.report(0)[0].failure.starts_with("no kernel for bad; it cannot be cut in halves: "),
                all.report(0)[0].failure);
  CHECK(all(inputs_of(m.g), meaning) == evaluate(m.g, inputs_of(m.g), meaning));
}

TEST_CASE("compile_failure: compiled forms may be types that can only be moved") {
  auto const m = chain_with(6, 2);
  auto const split = random_parts(m.g, 2);
  integer_interpretation meaning;
  auto const compile = [](request const& r) {
    auto code = picky_compiler{{"bad"}}(r);
    return [code = std::make_unique<decltype(code)>(std::move(code))](std::span<integer_value const> args) {
      return (*code)(args);
    };
  };
  auto all = compile_pieces(split, inputs_of(m.g), meaning, compile, {}, {.on_failure = split_again});
  auto moved = std::move(all);
  CHECK(moved(inputs_of(m.g), meaning) == evaluate(m.g, inputs_of(m.g), meaning));
}

TEST_CASE("compile_failure: a slice that returns a wrong number of results is named") {
  auto const m = chain_with(2, 1);
  auto const split = random_parts(m.g, 1);
  integer_interpretation meaning;
  auto const compile = [](request const& r) {
    if (r.graph.nodes().size() > 1) throw 7;
    return [](std::span<integer_value const>) { return values(); };
  };
  auto all = compile_on_first_call<integer_value>(split, compile, {}, {.on_failure = split_again});
  CHECK_THROWS_WITH_AS(
      all(inputs_of(m.g), meaning),
      "compile: piece 'submod_0[0:1]' has 1 results, but its compiled form returned 0 results; "
      "return compile_request::results values",
      result_count_error);
  CHECK(all.report(0)[0].failure == "the compiler threw something other than a std::exception");
}

TEST_CASE("compile_failure: pieces say why they are pieces") {
  auto const m = testing::layers(6, 10);
  auto const buckets = split_at_buckets(m.g, m.parameters, {.caps = {.cap = 40}});
  REQUIRE(buckets.split);
  std::string const first = "gradient bucket of 20 bytes: layers.1_p0, layers.0_p0",
                    second = "gradient bucket of 40 bytes: layers.5_p0, layers.4_p0 and 2 more";
  CHECK(buckets.split->pieces[0].reason == first);
  CHECK(buckets.split->pieces[1].reason == second);
  auto const tags = split_by_tags(m.g, [](module_node const&) { return "all"; }, {"all"});
  CHECK(tags.pieces[0].reason == "the calls with the tag 'all'");

  auto made = *buckets.split;
  made.pieces[0].reason.clear();
  integer_interpretation meaning;
  strings reasons;
  compile_pieces(made, inputs_of(m.g), meaning, picky_compiler{{}, nullptr, &reasons});
  CHECK(reasons == strings{"part '0' of the split", second});
}
