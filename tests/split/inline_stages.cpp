// SPDX-License-Identifier: MIT
#include "cleave/split/inline_stages.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cleave/split/split.hpp"
#include "support/random_program.hpp"
#include "support/toy_ir.hpp"
#include "support/toy_stages.hpp"

using namespace cleave;

using namespace cleave::detail;
using strings = std::vector<std::string>;

namespace {

/// Splits a program of two nodes into two stages and joins them with `second` as the piece of stage 1.
/// Returns the error, or the operands of its node in the joined program.
std::string joined_with(toy::program const& second) {
  toy::program p{{"x"}, {"w"}, {"b"}}, first{{"x"}, {}, {"a"}};
  p.add({"f", {"x"}, {"a"}});
  p.add({"g", {"a", "w"}, {"b"}});
  first.add({"f", {"x"}, {"a"}});
  toy::graph const g(p);
  auto const stages = split(g, testing::equal_slices(2, 2));
  toy::joiner<toy::graph> join{stages};
  try {
    inline_stages(stages.snapshot(), stages.plan(), std::vector{toy::graph(first), toy::graph(second)}, join);
  } catch (piece_error const& e) {
    CHECK(e.witness == stage_id{1});
    return e.what();
  }
  std::string text = "g reads";
  for (auto const& v : join.b.made.ops.back()->in) text += ' ' + v;
  return text;
}

toy::program piece(strings const& inputs, strings const& state, strings const& reads,
                   strings const& outputs) {
  toy::program p{inputs, state, outputs};
  p.add({"g", reads, {"b"}});
  return p;
}

}  // namespace

TEST_CASE("inline_stages: names the stage whose piece does not match its plan") {
  auto const lacks = [](std::string const& what) {
    return "inline_stages: stage 1 does not have the " + what + " that the plan lists";
  };
  CHECK(joined_with(piece({"a"}, {"w"}, {"a", "w"}, {"b"})) == "g reads a w");
  CHECK(joined_with(piece({"a"}, {"w", "y"}, {"a"}, {"b"})) == lacks("arguments"));
  CHECK(joined_with(piece({"a"}, {}, {"a"}, {"b"})) == lacks("arguments"));
  CHECK(joined_with(piece({"a"}, {"w"}, {"from nowhere"}, {"b"})) == lacks("values"));
  CHECK(joined_with(piece({"a"}, {"w"}, {"a"}, {"from nowhere"})) == lacks("values"));
  CHECK(joined_with(piece({"a"}, {"w"}, {"a"}, {})) == lacks("outputs"));
  CHECK(joined_with(piece({"a"}, {"w"}, {"a"}, {"b", "b"})) == lacks("outputs"));
  auto more = piece({"a"}, {"w"}, {"a"}, {"b"});
  more.add({"h", {}, {}});
  CHECK(joined_with(more) == lacks("nodes"));
  CHECK(joined_with({{"a"}, {"w"}, {"a"}}) == lacks("nodes"));
}

TEST_CASE("inline_stages: matches the values of a piece by position, not by name") {
  CHECK(joined_with(piece({"w"}, {"a"}, {"w", "a"}, {"b"})) == "g reads a w");
  CHECK(joined_with(piece({"b"}, {"x"}, {"b", "x"}, {"b"})) == "g reads a w");
}

TEST_CASE("inline_stages: adds shared arguments and copied nodes only once") {
  toy::program p{{"x", "unread"}, {"w"}, {"b", "unread", "w"}};
  p.add({"one", {}, {"1"}, 1, true});
  p.add({"f", {"x", "w", "1"}, {"a"}});
  p.add({"g", {"a", "w", "1"}, {"b"}});
  toy::graph const g(p);
  auto const stages = split(g, {{no_part, part_id{0}, part_id{1}}, 2});
  REQUIRE(stages.plan().stages[1].nodes.size() == 2);
  auto const joined = toy::joined_again(stages);
  CHECK(joined.inputs == p.inputs);
  CHECK(joined.weights == p.weights);
  CHECK(joined.outputs == p.outputs);
  CHECK(joined.ops.size() == 3);
}
