// SPDX-License-Identifier: MIT
#include "cleave/formats/stage_buffer.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/formats/graph_json.hpp"
#include "cleave/split/modules/split_module.hpp"
#include "support/cases.hpp"
#include "support/check_stage_bytes.hpp"
#include "support/error_text.hpp"
#include "support/project_files.hpp"
#include "support/random_module_graph.hpp"
#include "support/rich_module_graph.hpp"
#include "support/rng.hpp"
#include "support/same_graph.hpp"
#include "support/small_stack.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::error_text;
using testing::same_graph;
using fault = stage_bytes_fault::kind;
using bytes = std::vector<std::byte>;

namespace {

module_node node(node_kind kind, std::string name, std::vector<module_argument> args = {}) {
  module_node n;
  n.kind = kind;
  n.target = name;
  n.name = std::move(name);
  n.args = std::move(args);
  return n;
}

/// x, relu(x), output.
module_graph small_stage() {
  module_graph g;
  g.add(node(node_kind::placeholder, "x"));
  g.add(node(node_kind::call_function, "relu", {node_argument(0)}));
  g.add(node(node_kind::output, "output", {node_argument(1)}));
  return g;
}

/// A stage with bodies nested `deep` levels.
module_graph nested_stage(std::size_t deep) {
  auto g = small_stage();
  for (std::size_t i = 0; i < deep; ++i) {
    module_attribute a{"inner", module_attribute::kind::module, {}, {}, {}, {}};
    a.body.push_back(std::move(g));
    g = small_stage();
    g.add(node(node_kind::call_module, "inner", {node_argument(0)}));
    g.add_attribute(std::move(a));
  }
  return g;
}

std::string refusal_of(module_graph const& g, stage_bytes_limits const& limits = {}) {
  return error_text<stage_bytes_error>([&] { write_stage_bytes(g, limits); });
}

}  // namespace

TEST_CASE("write_stage_bytes: random stages read back equal and always have the same bytes") {
  testing::rng random(11);
  std::size_t bodies = 0, largest = 0;
  for (std::size_t i = 0; i < testing::cases(20, 300); ++i) {
    auto const g = testing::rich_module_graph(random, random.below(30), 3);
    auto const written = write_stage_bytes(g);
    auto const back = read_stage_bytes(written, testing::operators_of(g));
    REQUIRE(same_graph(g, back));
    CHECK(write_stage_bytes(back) == written);
    CHECK(write_stage_bytes(module_graph(g)) == written);
    CHECK(!find_stage_bytes_fault(written, testing::operators_of(g)));
    for (auto const& a : g.attributes()) bodies += a.body.size();
    largest = std::max(largest, written.size());
  }
  CHECK(bodies > testing::cases(5, 100));
  CHECK(largest > 10'000);
}

TEST_CASE("write_stage_bytes: a graph with other metadata or another node has other bytes") {
  auto const written = write_stage_bytes(small_stage());
  auto altered = small_stage();
  altered.metadata = {{"k", {true}}};
  CHECK(write_stage_bytes(altered) != written);
  CHECK(!same_graph(altered, small_stage()));
  altered = small_stage();
  altered.add(node(node_kind::placeholder, "y"));
  CHECK(write_stage_bytes(altered) != written);
}

TEST_CASE("write_stage_bytes: numbers read back bit by bit, with NaN, infinities and negative zero") {
  using reals = std::numeric_limits<double>;
  double const loud = std::bit_cast<double>(std::uint64_t{0x7ff8dead'beef0001});
  for (double const d : {reals::quiet_NaN(), -reals::quiet_NaN(), loud, reals::infinity(), -reals::infinity(),
                         -0.0, 0.0, reals::denorm_min(), reals::max()}) {
    module_graph g;
    g.metadata = {{"d", {d}}};
    auto const back = read_stage_bytes(write_stage_bytes(g), testing::any_operators());
    CHECK(std::bit_cast<std::uint64_t>(std::get<double>(back.metadata[0].value[0])) ==
          std::bit_cast<std::uint64_t>(d));
  }
}

TEST_CASE("write_stage_bytes: an empty graph, empty names and an empty shape read back equal") {
  CHECK(same_graph(read_stage_bytes(write_stage_bytes({}), testing::any_operators()), {}));
  module_graph g;
  auto n = node(node_kind::placeholder, "");
  n.shape.emplace();
  n.default_value = {token(std::string())};
  g.add(n);
  g.add_attribute({"", module_attribute::kind::buffer, "", {}, "", {{"", {opaque{"", ""}}}}});
  auto const back = read_stage_bytes(write_stage_bytes(g), testing::any_operators());
  CHECK(same_graph(back, g));
  REQUIRE(back[0].shape);
  CHECK(back[0].shape->empty());
}

TEST_CASE("write_stage_bytes: handles deeply nested bodies on a small stack") {
  testing::on_small_stack([] {
    auto const g = nested_stage(testing::cases(5'000, 20'000));
    auto const back = read_stage_bytes(write_stage_bytes(g), testing::operators_of(g));
    CHECK(same_graph(back, g));
  });
}

TEST_CASE("write_stage_bytes: handles arguments nested 100,000 deep on a small stack") {
  testing::on_small_stack([] {
    module_argument a(100'000, container{container::kind::list, 1});
    a.push_back(true);
    module_graph g;
    g.metadata = {{"deep", a}};
    CHECK(read_stage_bytes(write_stage_bytes(g), testing::any_operators()).metadata == g.metadata);
  });
}

TEST_CASE("write_stage_bytes: pieces of a split read back equal, alone and in the graph that calls them") {
  testing::rng random(4);
  for (std::size_t i = 0; i < 20; ++i) {
    auto const g = testing::random_module_graph(random, 20);
    std::size_t asked = 0;
    auto const split = split_module(g, [&](module_node const&) { return std::to_string(asked++ / 7); });
    CHECK(
        same_graph(read_stage_bytes(write_stage_bytes(split.outer), testing::any_operators()), split.outer));
    for (auto const& piece : split.pieces) {
      auto const& stage = split.graph(piece);
      CHECK(same_graph(read_stage_bytes(write_stage_bytes(stage), testing::operators_of(stage)), stage));
    }
  }
}

TEST_CASE("read_stage_bytes: reads bytes at any alignment") {
  auto const g = nested_stage(3);
  auto const written = write_stage_bytes(g);
  for (std::size_t shift = 0; shift < 9; ++shift) {
    bytes moved(shift, std::byte{0});
    moved.insert(moved.end(), written.begin(), written.end());
    CHECK(same_graph(
        read_stage_bytes(std::span<std::byte const>(moved).subspan(shift), testing::any_operators()), g));
  }
}

TEST_CASE("find_stage_bytes_fault: rejects bytes cut short anywhere") {
  auto const written = write_stage_bytes(nested_stage(1));
  for (std::size_t size = 0; size < written.size(); ++size) {
    auto const found = find_stage_bytes_fault(std::span(written).first(size), testing::any_operators());
    REQUIRE(found);
    CHECK(found->what == fault::envelope);
  }
  auto const cut = std::span(written).first(40);
  CHECK(error_text<stage_bytes_error>([&] { read_stage_bytes(cut, testing::any_operators()); }) ==
        "bytes of a stage: byte 8 claims " + std::to_string(written.size() - 32) +
            " bytes after the header, but there are 8; they are truncated, fetch them again");
}

TEST_CASE("find_stage_bytes_fault: rejects each of many random bit flips") {
  testing::rng random(2);
  auto const g = testing::rich_module_graph(random, 60, 2);
  auto const known = testing::any_operators();
  auto written = write_stage_bytes(g);
  REQUIRE(!find_stage_bytes_fault(written, known));
  std::size_t accepted = 0;
  for (std::size_t i = 0; i < testing::cases(5'000, 20'000); ++i) {
    auto& byte = written[random.below(written.size())];
    auto const before = byte;
    byte ^= static_cast<std::byte>(1u << random.below(8));
    accepted += find_stage_bytes_fault(written, known) ? 0 : 1;
    byte = before;
  }
  CHECK(accepted == 0);
}

TEST_CASE("read_stage_bytes: altered bytes with a correct checksum are rejected or read back equal") {
  testing::rng random(8);
  std::size_t taken = 0, refused = 0;
  auto const graphs = testing::cases(8, 40), edits = testing::cases(30, 200);
  for (std::size_t i = 0; i < graphs; ++i) {
    auto const g = testing::rich_module_graph(random, random.below(12), 2);
    auto const written = write_stage_bytes(g);
    for (std::size_t k = 0; k < edits; ++k) {
      auto altered = bytes(written.begin() + envelope_header_bytes, written.end());
      for (auto times = 1 + random.below(3); times-- > 0;) {
        auto const at = random.below(altered.size());
        auto const value = random.one_in(2) ? random.below(256) : random.one_in(2) ? 0xff : 0;
        altered[at] = static_cast<std::byte>(value);
      }
      ++(testing::taken_for_stage(altered) ? taken : refused);
    }
  }
  CHECK(taken > edits * 6 / 100 * graphs);
  CHECK(refused > edits * 6 / 100 * graphs);
}

TEST_CASE("read_stage_bytes: files of the fuzzing corpus are rejected or read back equal") {
  std::size_t taken = 0, seen = 0;
  for (auto const& file : project::files("tests/fuzz/read_bytes")) {
    auto const text = project::text_of(project::root / file);
    auto payload = std::as_bytes(std::span(text));
    if (text.starts_with(envelope_magic) && text.size() >= envelope_header_bytes)
      payload = payload.subspan(envelope_header_bytes);
    taken += testing::taken_for_stage(payload) || testing::taken_for_pipe(payload) ? 1 : 0;
    ++seen;
  }
  CHECK(seen >= 20);
  CHECK(taken >= 7);
}

TEST_CASE("read_stage_bytes: reads bytes in an envelope of version 1, and its content is written the same") {
  auto const text = project::text_of(project::root / "tests/fuzz/read_bytes/nested_stage.bytes");
  auto const kept = std::as_bytes(std::span(text));
  REQUIRE(!text.empty());
  CHECK(same_graph(read_stage_bytes(kept, testing::any_operators()), nested_stage(2)));
  auto const written = write_stage_bytes(nested_stage(2));
  auto const content = std::span(written).subspan(envelope_header_bytes);
  CHECK(std::ranges::equal(content, kept.subspan(envelope_header_bytes)));
}

TEST_CASE("read_stage_bytes: rejects an operator that is not registered and names the nearest ones") {
  auto const written = write_stage_bytes(small_stage());
  registry<int> known({"call_function", "call_method", "call_module"});
  known.add("call_function", "elu", 0);
  known.add("call_method", "relu", 0);
  CHECK(error_text<stage_bytes_error>([&] { read_stage_bytes(written, known); }) ==
        "bytes of a stage: node 1 'relu' of graph 0: it calls 'relu', which is not registered for "
        "'call_function'; nearest: 'elu' (byte 200)");
  CHECK(find_stage_bytes_fault(written, known)->what == fault::unknown_operator);
  known.add("call_function", "relu", 0);
  CHECK(!find_stage_bytes_fault(written, known));
  CHECK(error_text<stage_bytes_error>([&] { read_stage_bytes(written, registry<int>({"call_method"})); }) ==
        "bytes of a stage: node 1 'relu' of graph 0: it calls 'relu', which is not registered for "
        "'call_function' (byte 200)");
}

TEST_CASE("read_stage_bytes: a module without a body in the bytes must be registered, in bodies too") {
  registry<int> known({"call_function", "call_method", "call_module"});
  known.add("call_function", "relu", 0);
  auto const nested = nested_stage(2);
  CHECK(same_graph(read_stage_bytes(write_stage_bytes(nested), known), nested));

  auto inner = small_stage();
  inner.add(node(node_kind::call_module, "linear"));
  module_graph g;
  module_attribute a{"body", module_attribute::kind::module, {}, {}, {}, {}};
  a.body.push_back(inner);
  g.add_attribute(a);
  g.add_attribute({"linear", module_attribute::kind::module, {}, {}, {}, {}});
  auto const found = find_stage_bytes_fault(write_stage_bytes(g), known);
  REQUIRE(found);
  CHECK(found->what == fault::unknown_operator);
  CHECK(found->place == "node 3 'linear' of graph 1");
  known.add("call_module", "linear", 0);
  CHECK(same_graph(read_stage_bytes(write_stage_bytes(g), known), g));
}

TEST_CASE("write_stage_bytes: each limit applies to writing and to reading") {
  auto const g = nested_stage(2);
  auto const written = write_stage_bytes(g);
  auto const check = [&](auto member, std::size_t least, std::string const& said) {
    stage_bytes_limits limits;
    limits.*member = least;
    CHECK(!find_stage_bytes_fault(written, testing::any_operators(), limits));
    CHECK(refusal_of(g, limits) == "accepted");
    limits.*member = least - 1;
    auto const found = find_stage_bytes_fault(written, testing::any_operators(), limits);
    REQUIRE(found);
    CHECK(describe(*found).find(said) != std::string::npos);
    CHECK(refusal_of(g, limits).find(said) != std::string::npos);
  };
  check(&stage_bytes_limits::nodes, 11, "11 nodes exceed the limit of 10");
  check(&stage_bytes_limits::attributes, 2, "2 attributes exceed the limit of 1");
  check(&stage_bytes_limits::texts, 5, "5 texts exceed the limit of 4");
  check(&stage_bytes_limits::tokens, 19, "19 tokens exceed the limit of 18");
  check(&stage_bytes_limits::graphs, 3, "3 graphs exceed the limit of 2");
  check(&stage_bytes_limits::longest_text, 6, "6 bytes of a text exceed the limit of 5");
  stage_bytes_limits limits;
  limits.bytes = written.size() - 1;
  CHECK(find_stage_bytes_fault(written, testing::any_operators(), limits)->what == fault::envelope);
  CHECK(refusal_of(g, limits).find("bytes exceed the limit of") != std::string::npos);
}

TEST_CASE("write_stage_bytes: a text counts each time that it is named") {
  module_graph g;
  std::string const note(1000, 'x');
  for (std::size_t i = 0; i < 100; ++i) g.metadata.push_back({"note", {note}});
  stage_bytes_limits limits;
  limits.text_bytes = 100'000;
  CHECK(write_stage_bytes(g).size() < 10'000);
  CHECK(refusal_of(g, limits).find("bytes of text, as read exceed the limit of 100000") != std::string::npos);
}

TEST_CASE("write_stage_bytes: rejects a graph that could not be read and names the place") {
  auto g = small_stage();
  g.add(node(node_kind::call_function, "cut \xe5"));
  CHECK(refusal_of(g).find("text 3 'cut \\xe5' is not UTF-8; names and texts must be") != std::string::npos);

  g = small_stage();
  auto n = node(node_kind::call_function, "f");
  n.metadata = {{"like", node_argument(9)}};
  g.add(n);
  CHECK(refusal_of(g).starts_with(
      "bytes of a stage: node 3 'f' of graph 0: it refers to node 9 in its metadata; a node "
      "can refer only to earlier nodes"));

  g = small_stage();
  g.add(node(node_kind::output, "again"));
  CHECK(refusal_of(g).starts_with(
      "bytes of a stage: node 3 'again' of graph 0: it is a second output; a graph has one"));

  g = small_stage();
  n = node(node_kind::call_function, "f");
  n.symbols = {"b", "a"};
  g.add(n);
  CHECK(refusal_of(g).find("its symbols must be sorted texts without repetition") != std::string::npos);

  g = small_stage();
  n = node(node_kind::call_function, "f");
  n.after = {0};
  g.add(n);
  CHECK(refusal_of(g).find("its 'after' names a node that is not an earlier call") != std::string::npos);

  g = small_stage();
  g.metadata = {{"half", {container{container::kind::slice, 1}, true}}};
  CHECK(refusal_of(g).find("there is an invalid token in its metadata") != std::string::npos);
}
