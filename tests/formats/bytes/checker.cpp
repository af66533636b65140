// SPDX-License-Identifier: MIT
#include "cleave/formats/bytes/content.hpp"

#include <doctest/doctest.h>
#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/formats/bytes/envelope.hpp"
#include "cleave/formats/stage_buffer.hpp"
#include "support/rich_module_graph.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::stage_format;
using fault = stage_bytes_fault::kind;

namespace {

/// Content written record by record: by default the texts "x", "f", "" and a node x of kind 0.
struct hand_written {
  std::vector<std::string> texts{"x", "f", ""};
  std::vector<Node> nodes{{0, 0, 0, 0, NodeKind_placeholder}};
  std::vector<Attribute> attributes{};
  std::vector<Token> tokens{};
  std::size_t graphs = 1;  ///< all equal

  std::vector<std::byte> bytes() const {
    flatbuffers::FlatBufferBuilder to;
    std::vector<flatbuffers::Offset<flatbuffers::String>> strings;
    for (auto const& t : texts) strings.push_back(to.CreateString(t));
    std::vector<flatbuffers::Offset<Graph>> made;
    for (std::size_t i = 0; i < graphs; ++i)
      made.push_back(CreateGraphDirect(to, &nodes, &attributes, &tokens));
    FinishContentBuffer(to, CreateContentDirect(to, &strings, &made));
    return seal_envelope(std::as_bytes(std::span(to.GetBufferPointer(), to.GetSize())));
  }
};

Token nothing_left() { return {0, 0, TokenKind_dict}; }  // the metadata of a graph, which are always present

Node call(unsigned parts) { return {1, 1, 0, static_cast<std::uint16_t>(parts), NodeKind_call_function}; }

/// Content in which node 1 is a call of `f` with `parts`, and the graph has `tokens`.
hand_written with_call(unsigned parts, std::vector<Token> tokens) {
  hand_written h;
  h.nodes.push_back(call(parts));
  h.tokens = std::move(tokens);
  return h;
}

stage_bytes_fault refusal_of(hand_written const& h) {
  auto const bytes = h.bytes();
  auto const found = find_stage_bytes_fault(bytes, testing::any_operators());
  if (!found) return {fault::envelope, 0, "", "accepted"};
  CHECK(found->at >= envelope_header_bytes);
  CHECK(found->at < bytes.size());
  return *found;
}

void check(stage_bytes_fault const& found, fault what, std::string const& place, std::string const& said) {
  CHECK(static_cast<int>(found.what) == static_cast<int>(what));
  CHECK(found.place == place);
  CHECK(found.said == said);
}

std::string const node_1 = "node 1 'f' of graph 0";

}  // namespace

TEST_CASE("find_stage_bytes_fault: accepts valid content written by hand") {
  CHECK(refusal_of(with_call(0, {nothing_left()})).said == "accepted");
  CHECK(refusal_of(with_call(NodePart_args, {{1, 0, TokenKind_list}, {0, 0, TokenKind_node}, nothing_left()}))
            .said == "accepted");
}

TEST_CASE("find_stage_bytes_fault: reports claimed tokens that are missing and tokens that are unclaimed") {
  check(refusal_of(with_call(0, {})), fault::claim, "graph 0",
        "the tokens of its metadata continue after the last token of the graph");
  check(refusal_of(with_call(NodePart_args, {{9, 0, TokenKind_list}, nothing_left()})), fault::claim, node_1,
        "a list in its args claims 9 elements, with 1 tokens left");
  check(refusal_of(with_call(NodePart_args, {{0x80000000, 0, TokenKind_dict}})), fault::claim, node_1,
        "a dict in its args claims 2147483648 elements, with 0 tokens left");
  check(refusal_of(with_call(NodePart_args, {{1, 0, TokenKind_list},
                                             {2, 0, TokenKind_tuple},
                                             {2, 0, TokenKind_list},
                                             {0, 0, TokenKind_nothing},
                                             {0, 0, TokenKind_nothing}})),
        fault::claim, node_1, "a list in its args claims 2 elements, with 2 tokens left");
  check(refusal_of(with_call(0, {nothing_left(), nothing_left()})), fault::claim, "graph 0",
        "1 tokens are not part of any node, attribute or metadata");
  CHECK(describe(refusal_of(with_call(0, {nothing_left(), nothing_left()})))
            .ends_with("; this library does not write such bytes: do not use them, and ask their sender"));
}

TEST_CASE("find_stage_bytes_fault: reports numbers that name nothing, and nodes that name later nodes") {
  auto h = with_call(0, {nothing_left()});
  h.nodes[1] = {1, 7, 0, 0, NodeKind_call_function};
  check(refusal_of(h), fault::reference, node_1, "it names text 7 of 3");
  h.nodes[1] = {9, 0, 0, 0, NodeKind_call_function};
  check(refusal_of(h), fault::reference, "node 1 without a name of graph 0", "it names text 9 of 3");
  check(
      refusal_of(with_call(NodePart_args, {{1, 0, TokenKind_list}, {1, 0, TokenKind_node}, nothing_left()})),
      fault::reference, node_1, "it refers to node 1 in its args; a node can refer only to earlier nodes");
  check(refusal_of(with_call(NodePart_binds, {{5, 0, TokenKind_text}, nothing_left()})), fault::reference,
        node_1, "it names text 5 of 3");
  check(refusal_of(
            with_call(NodePart_args, {{1, 0, TokenKind_list}, {0, 5, TokenKind_opaque}, nothing_left()})),
        fault::reference, node_1, "it names text 5 of 3");
  check(
      refusal_of(with_call(NodePart_after, {{1, 0, TokenKind_list}, {0, 0, TokenKind_node}, nothing_left()})),
      fault::reference, node_1, "its 'after' names a node that is not an earlier call");
  check(refusal_of(with_call(0, {{1, 0, TokenKind_dict}, {0, 0, TokenKind_text}, {0, 0, TokenKind_node}})),
        fault::reference, "graph 0", "it refers to node 0 in its metadata, which cannot refer to nodes");
}

TEST_CASE("find_stage_bytes_fault: reports unknown kinds and tokens that no writer writes") {
  auto h = with_call(0, {nothing_left()});
  h.nodes[1] = {1, 1, 0, 0, static_cast<NodeKind>(6)};
  check(refusal_of(h), fault::value, node_1, "6 is not a kind of node");
  h.nodes[1] = call(512);
  check(refusal_of(h), fault::value, node_1, "it has parts that this version of the library does not know");
  auto const odd = [&](Token t) {
    check(refusal_of(with_call(NodePart_default_value, {t, nothing_left()})), fault::value, node_1,
          "there is an invalid token in its default");
  };
  odd({0, 0, static_cast<TokenKind>(11)});
  odd({1, 0, TokenKind_nothing});
  odd({2, 0, TokenKind_boolean});
  odd({0, 1, TokenKind_text});
  odd({0, 1, TokenKind_node});
  odd({0, 1, TokenKind_list});
  odd({1, 0, TokenKind_slice});
}

TEST_CASE("find_stage_bytes_fault: reports node parts of the wrong type and empty ones") {
  auto const said = [&](unsigned parts, std::vector<Token> tokens) {
    tokens.push_back(nothing_left());
    auto const found = refusal_of(with_call(parts, tokens));
    CHECK(found.place == node_1);
    CHECK(static_cast<int>(found.what) == static_cast<int>(fault::value));
    return found.said;
  };
  CHECK(said(NodePart_args, {{0, 0, TokenKind_list}}) == "its args must be a list with at least one element");
  CHECK(said(NodePart_args, {{0, 0, TokenKind_tuple}}) ==
        "its args must be a list with at least one element");
  CHECK(said(NodePart_kwargs, {{0, 0, TokenKind_dict}}) ==
        "its kwargs must be a dict with at least one element");
  CHECK(
      said(NodePart_kwargs, {{1, 0, TokenKind_dict}, {0, 0, TokenKind_integer}, {0, 0, TokenKind_integer}}) ==
      "a name of its kwargs is not a text");
  CHECK(said(NodePart_shape, {{0, 0, TokenKind_tuple}}) == "its shape must be a list");
  CHECK(said(NodePart_shape, {{1, 0, TokenKind_list}, {0, 0, TokenKind_real}}) ==
        "its shape has an element that is neither a number nor a text");
  CHECK(said(NodePart_expression, {{2, 0, TokenKind_text}}) ==
        "its expression must be a text that is not empty");
  CHECK(said(NodePart_binds, {{0, 0, TokenKind_integer}}) == "its binds must be a text that is not empty");
  CHECK(said(NodePart_symbols, {{2, 0, TokenKind_list}, {0, 0, TokenKind_text}, {0, 0, TokenKind_text}}) ==
        "its symbols must be sorted texts without repetition");
  CHECK(said(NodePart_metadata, {{0, 0, TokenKind_dict}}) ==
        "its metadata must be a dict with at least one element");
}

TEST_CASE(
    "find_stage_bytes_fault: reports attributes with a repeated path, an unknown kind or a wrong body") {
  hand_written h;
  h.tokens = {nothing_left()};
  auto const refusal = [&](std::vector<Attribute> attributes, std::size_t graphs = 1) {
    h.attributes = std::move(attributes);
    h.graphs = graphs;
    return describe(refusal_of(h));
  };
  auto const begins = [&](std::string const& text, std::string const& with) {
    CHECK_MESSAGE(text.starts_with(with), text);
  };
  begins(refusal({{0, 2, 2, 0, AttributeKind_tensor, false}, {0, 2, 2, 0, AttributeKind_buffer, false}}),
         "attribute 1 'x' of graph 0: another attribute has the same path; paths must be unique");
  begins(refusal({{0, 2, 2, 0, static_cast<AttributeKind>(4), false}}),
         "attribute 0 'x' of graph 0: 4 is not a kind of attribute");
  begins(refusal({{0, 2, 9, 0, AttributeKind_tensor, false}}),
         "attribute 0 'x' of graph 0: it names text 9 of 3");
  begins(refusal({{0, 2, 2, 1, AttributeKind_tensor, false}}, 2),
         "attribute 0 'x' of graph 0: it has a body, which only a module can have");
  auto const invalid_body = [&](std::uint32_t body, std::size_t graphs) {
    return "its body is graph " + std::to_string(body) + ", which is invalid: each of the " +
           std::to_string(graphs) +
           " graphs must come after the graph that contains it, and be the body of one attribute";
  };
  begins(refusal({{0, 2, 2, 1, AttributeKind_module_, false}}, 1),
         "attribute 0 'x' of graph 0: " + invalid_body(1, 1));
  begins(refusal({{0, 2, 2, 1, AttributeKind_module_, false}, {1, 2, 2, 1, AttributeKind_module_, false}}, 2),
         "attribute 1 'f' of graph 0: " + invalid_body(1, 2));
  begins(refusal({{0, 2, 2, 1, AttributeKind_module_, false}}, 2),
         "attribute 0 'x' of graph 1: " + invalid_body(1, 2));
  begins(refusal({}, 2), "graph 1: it is not the body of any attribute");
  begins(refusal({{0, 2, 2, 0, AttributeKind_tensor, true}}),
         "attribute 0 'x' of graph 0: its metadata must be a dict with at least one element");
}

TEST_CASE("find_stage_bytes_fault: reports texts that are too long, not UTF-8 or share their bytes") {
  auto h = with_call(0, {nothing_left()});
  h.texts[2] = "\xff";
  check(refusal_of(h), fault::text, "the payload", "text 2 '\\xff' is not UTF-8; names and texts must be");
  h.texts[2] = std::string((64 << 10) + 1, 'x');
  check(refusal_of(h), fault::above_limit, "the payload",
        "65537 bytes of a text exceed the limit of 65536; raise it if the sender is trusted");

  flatbuffers::FlatBufferBuilder to;
  auto const text = to.CreateString(std::string(1000, 'x'));
  std::vector<flatbuffers::Offset<flatbuffers::String>> const shared(100, text);
  std::vector<flatbuffers::Offset<Graph>> const graphs{
      CreateGraphDirect(to, &h.nodes, &h.attributes, &h.tokens)};
  FinishContentBuffer(to, CreateContentDirect(to, &shared, &graphs));
  auto const bytes = seal_envelope(std::as_bytes(std::span(to.GetBufferPointer(), to.GetSize())));
  auto const found = find_stage_bytes_fault(bytes, testing::any_operators());
  REQUIRE(found);
  CHECK(found->what == fault::text);
  CHECK(found->said.ends_with("shares its bytes with others"));
}

TEST_CASE("find_stage_bytes_fault: rejects a column that many graphs share because of the sum") {
  auto h = with_call(0, {nothing_left()});
  flatbuffers::FlatBufferBuilder to;
  std::vector<flatbuffers::Offset<flatbuffers::String>> const texts{to.CreateString("x"),
                                                                    to.CreateString("f")};
  std::vector<Node> const many(100'000, call(0));
  auto const graph = CreateGraphDirect(to, &many, &h.attributes, &h.tokens);
  std::vector<flatbuffers::Offset<Graph>> const graphs(50'000, graph);
  FinishContentBuffer(to, CreateContentDirect(to, &texts, &graphs));
  auto const bytes = seal_envelope(std::as_bytes(std::span(to.GetBufferPointer(), to.GetSize())));
  CHECK(bytes.size() < 2'000'000);
  auto const found = find_stage_bytes_fault(bytes, testing::any_operators());
  REQUIRE(found);
  CHECK(found->said == "5000000000 nodes exceed the limit of 1048576; raise it if the sender is trusted");
}

TEST_CASE("find_stage_bytes_fault: rejects bytes that are not FlatBuffers content of the schema") {
  for (std::string const payload : {"", "CLVG", "not at all what it should be, but long enough"}) {
    auto const found =
        find_stage_bytes_fault(seal_envelope(std::as_bytes(std::span(payload))), testing::any_operators());
    REQUIRE(found);
    CHECK(found->what == fault::structure);
    CHECK(found->at == envelope_header_bytes);
  }
  hand_written none;
  none.graphs = 0;
  CHECK(refusal_of(none).said == "it has no graph");
}
