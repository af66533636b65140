// SPDX-License-Identifier: MIT
#pragma once
#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/printable.hpp"
#include "cleave/core/utf8.hpp"
#include "cleave/formats/bytes/fault.hpp"
#include "cleave/formats/bytes/place.hpp"
#include "cleave/formats/generated/format.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"

namespace cleave::detail {

/// A call whose target must be registered.
struct operator_use {
  node_kind kind;
  std::string_view target;
  std::size_t at;
  std::string place;
};

/// Asks of a payload all that makes it safe to convert, and allocates no more than a few bytes a text and
/// attribute. What refuses is thrown; `find_stage_bytes_fault` is the total question.
class stage_checker {
 public:
  /// `payload` is aligned as FlatBuffers are, and outlives the checker.
  stage_checker(std::span<std::byte const> payload, stage_bytes_limits const& limits)
      : here_{.payload = payload}, limits_(limits) {}

  /// O(size). \throws stage_bytes_error
  stage_format::Content const& check() {
    check_structure();
    check_counts();
    check_texts();
    used_.assign(texts_->size(), 0);
    is_body_.assign(graphs_->size(), 0);
    for (here_.graph = 0; here_.graph < graphs_->size(); ++here_.graph) check_graph();
    for (here_.graph = 1; here_.graph < graphs_->size(); ++here_.graph)
      if (is_body_[here_.graph] == 0)
        fail(fault::reference, graphs_->Get(here_.graph), "it is inside no attribute");
    return *here_.content;
  }

  /// What the calls of a checked payload name, each operator once, in the order of first use.
  std::vector<operator_use> const& operators() const { return operators_; }

 private:
  using fault = stage_bytes_fault::kind;
  using token_kind = stage_format::TokenKind;
  using enum stage_format::TokenKind;
  using enum stage_format::NodeKind;
  using enum stage_format::NodePart;
  using enum stage_format::AttributeKind;
  using inside = stage_place::inside;

  void check_structure() {
    auto const* data = reinterpret_cast<std::uint8_t const*>(here_.payload.data());
    auto const tables = static_cast<std::uint32_t>(2 * std::min<std::size_t>(limits_.graphs, 1u << 30) + 3);
    bool const has_size = here_.payload.size() >= 8 && here_.payload.size() < std::size_t{1} << 31;
    flatbuffers::Verifier verifier(data, here_.payload.size(), 8, tables);
    if (!has_size || !stage_format::VerifyContentBuffer(verifier))
      fail(fault::structure, data,
           "it is no FlatBuffers content of stages, or has above " + std::to_string(limits_.graphs) +
               " graphs");
    here_.content = stage_format::GetContent(data);
    texts_ = here_.content->texts();
    graphs_ = here_.content->graphs();
    if (graphs_->size() == 0) fail(fault::structure, data, "it has no graph");
  }

  void check_counts() const {
    std::size_t nodes = 0, attributes = 0, tokens = 0;
    for (auto const* g : *graphs_) {
      nodes += g->nodes()->size();
      attributes += g->attributes()->size();
      tokens += g->tokens()->size();
    }
    here_.demand_count(graphs_->size(), limits_.graphs, "graphs");
    here_.demand_count(nodes, limits_.nodes, "nodes");
    here_.demand_count(attributes, limits_.attributes, "attributes");
    here_.demand_count(tokens, limits_.tokens, "tokens");
    here_.demand_count(texts_->size(), limits_.texts, "texts");
  }

  void check_texts() const {
    std::size_t total = 0;
    for (std::uint32_t i = 0; i < texts_->size(); ++i) {
      auto const text = texts_->Get(i)->string_view();
      auto const refuse = [&](char const* said) {
        fail(fault::text, text.data(), "text " + std::to_string(i) + " " + quoted(text) + said);
      };
      here_.demand_count(text.size(), limits_.longest_text, "bytes of a text");
      total += text.size();
      if (total > here_.payload.size()) refuse(" shares its bytes with others");
      if (!is_utf8(text)) refuse(" is no UTF-8; names and texts are");
    }
  }

  void check_graph() {
    auto const& g = *graphs_->Get(here_.graph);
    nodes_ = records(g.nodes());
    tokens_ = records(g.tokens());
    at_ = 0;
    auto const attributes = records(g.attributes());
    note_paths(attributes);
    bool output = false;
    here_.in = inside::node;
    for (here_.number = 0; here_.number < nodes_.size(); ++here_.number) {
      auto const& n = nodes_[here_.number];
      check_node(n, attributes);
      if (n.kind() != NodeKind_output) continue;
      if (std::exchange(output, true)) fail(fault::value, &n, "it is a second output; a graph has one");
    }
    here_.in = inside::attribute;
    for (here_.number = 0; here_.number < attributes.size(); ++here_.number)
      if (attributes[here_.number].metadata()) check_named("metadata", 1);
    here_.in = inside::graph;
    check_named("metadata", 0);
    if (at_ < tokens_.size())
      fail(fault::claim, &tokens_[at_], std::to_string(tokens_.size() - at_) + " tokens belong to nothing");
  }

  void check_node(stage_format::Node const& n, std::span<stage_format::Attribute const> attributes) {
    spend_text(n.name(), &n);
    spend_text(n.target(), &n);
    if (n.kind() > NodeKind_MAX) fail(fault::value, &n, std::to_string(n.kind()) + " is no kind of node");
    if (n.parts() > NodePart_ANY) fail(fault::value, &n, "it has parts that this version does not know");
    auto const has = [&](stage_format::NodePart part) { return (n.parts() & part) != 0; };
    if (has(NodePart_args))
      for (auto left = open(TokenKind_list, "args", 1); left-- > 0;) check_argument("args");
    if (has(NodePart_kwargs)) check_named("kwargs", 1);
    if (has(NodePart_default_value)) check_argument("default");
    if (has(NodePart_shape)) check_shape();
    if (has(NodePart_expression)) check_word("expression");
    if (has(NodePart_binds)) check_word("binds");
    if (has(NodePart_symbols)) check_symbols();
    if (has(NodePart_after)) check_after();
    if (has(NodePart_metadata)) check_named("metadata", 1);
    note_operator(n, attributes);
  }

  void check_shape() {
    for (auto left = open(TokenKind_list, "shape", 0); left-- > 0;)
      if (auto const& t = take("shape"); t.kind() != TokenKind_integer && t.kind() != TokenKind_text)
        fail(fault::value, &t, "its shape has what is neither a number nor a text");
  }

  void check_word(char const* of) {
    auto const& t = take(of);
    if (t.kind() != TokenKind_text || text(t.low()).empty())
      fail(fault::value, &t, "its " + std::string(of) + " is no text, or an empty one");
  }

  void check_symbols() {
    std::string_view last;
    for (auto left = open(TokenKind_list, "symbols", 1), all = left; left > 0; --left) {
      auto const& t = take("symbols");
      if (t.kind() != TokenKind_text || (left < all && text(t.low()) <= last))
        fail(fault::value, &t, "its symbols are not texts that are sorted, each once");
      last = text(t.low());
    }
  }

  void check_after() {
    for (auto left = open(TokenKind_list, "after", 1); left-- > 0;) {
      auto const& t = take("after");
      auto const kind = t.kind() == TokenKind_node ? nodes_[t.low()].kind() : NodeKind_output;
      if (kind != NodeKind_call_function && kind != NodeKind_call_method && kind != NodeKind_call_module)
        fail(fault::reference, &t, "it is after what is no call before it");
    }
  }

  /// Arguments under their names, of which there are at least `least`.
  void check_named(char const* of, std::size_t least) {
    for (auto left = open(TokenKind_dict, of, least); left-- > 0;) {
      if (auto const& key = take(of); key.kind() != TokenKind_text)
        fail(fault::value, &key, "a name of its " + std::string(of) + " is no text");
      check_argument(of);
    }
  }

  void check_argument(char const* of) {
    for (std::size_t missing = 1; missing > 0; --missing) {
      auto const& t = take(of);
      missing += elements_of(t);
      if (missing - 1 > tokens_.size() - at_) fail_claim(t, of);
    }
  }

  std::size_t open(token_kind kind, char const* of, std::size_t least) {
    auto const& t = take(of);
    if (t.kind() != kind || t.low() < least)
      fail(fault::value, &t,
           "its " + std::string(of) + " are no " + EnumNameTokenKind(kind) +
               (least > 0 ? " with anything in it" : ""));
    return t.low();
  }

  /// The next token, which is sound in itself: it names what is there, and as many tokens are left as it
  /// says.
  stage_format::Token const& take(char const* of) {
    if (at_ == tokens_.size())
      fail(fault::claim, graphs_->Get(here_.graph),
           "its " + std::string(of) + " go on after the last token of the graph");
    auto const& t = tokens_[at_++];
    bool whole = t.high() == 0;
    switch (t.kind()) {
      case TokenKind_nothing:
        whole = whole && t.low() == 0;
        break;
      case TokenKind_boolean:
        whole = whole && t.low() < 2;
        break;
      case TokenKind_opaque:
        spend_text(t.high(), &t);
        whole = true;
        [[fallthrough]];
      case TokenKind_text:
        spend_text(t.low(), &t);
        break;
      case TokenKind_integer:
      case TokenKind_real:
        whole = true;
        break;
      case TokenKind_node:
        if (t.low() >= (here_.in == inside::node ? here_.number : 0)) fail_later_node(t, of);
        break;
      case TokenKind_slice:
        whole = whole && t.low() == 3;
        [[fallthrough]];
      default:
        whole = whole && t.kind() <= TokenKind_MAX;
        if (elements_of(t) > tokens_.size() - at_) fail_claim(t, of);
    }
    if (!whole) fail(fault::value, &t, "its " + std::string(of) + " have a token that no writer writes");
    return t;
  }

  std::string_view text(std::uint32_t i) const { return texts_->Get(i)->string_view(); }

  /// What is read is written out as often as it is named, so this is counted.
  void spend_text(std::uint32_t i, void const* at) {
    if (i >= texts_->size())
      fail(fault::reference, at,
           "it names text " + std::to_string(i) + " of " + std::to_string(texts_->size()));
    spent_ += text(i).size();
    if (spent_ > limits_.text_bytes) here_.demand_count(spent_, limits_.text_bytes, "bytes of text, as read");
  }

  void note_paths(std::span<stage_format::Attribute const> attributes) {
    paths_ = {};
    paths_.reserve(attributes.size());
    here_.in = inside::attribute;
    for (here_.number = 0; here_.number < attributes.size(); ++here_.number) {
      auto const& a = attributes[here_.number];
      for (auto const name : {a.path(), a.storage(), a.original()}) spend_text(name, &a);
      if (paths_.insert(text(a.path())) < here_.number)
        fail(fault::value, &a, "its path is that of another attribute; a path names one thing");
      if (a.kind() > AttributeKind_MAX)
        fail(fault::value, &a, std::to_string(a.kind()) + " is no kind of attribute");
      if (a.body() == 0) continue;
      if (a.kind() != AttributeKind_module_) fail(fault::value, &a, "it has a body; only a module has one");
      if (a.body() <= here_.graph || a.body() >= graphs_->size() || std::exchange(is_body_[a.body()], 1) != 0)
        fail(fault::reference, &a,
             "its body is graph " + std::to_string(a.body()) + ", which is not its own to be: of " +
                 std::to_string(graphs_->size()) + " each comes after what it is in, once");
    }
  }

  /// A module with a body is the bytes' own; any other call is of what the reader has.
  void note_operator(stage_format::Node const& n, std::span<stage_format::Attribute const> attributes) {
    auto const kind = static_cast<node_kind>(n.kind());
    if (kind != node_kind::call_function && kind != node_kind::call_method && kind != node_kind::call_module)
      return;
    if (kind == node_kind::call_module) {
      auto const at = paths_.find(text(n.target()));
      if (at != none<std::uint32_t> && attributes[at].body() != 0) return;
    }
    auto const bit = static_cast<std::uint8_t>(1u << n.kind());
    if ((used_[n.target()] & bit) != 0) return;
    used_[n.target()] = static_cast<std::uint8_t>(used_[n.target()] | bit);
    operators_.push_back({kind, text(n.target()), here_.offset_of(&n), here_.name()});
  }

  [[noreturn]] void fail(fault what, void const* at, std::string said) const {
    here_.fail(what, at, std::move(said));
  }
  [[noreturn]] void fail_claim(stage_format::Token const& t, char const* of) const {
    fail(fault::claim, &t,
         "its " + std::string(of) + " claim a " + EnumNameTokenKind(t.kind()) + " of " +
             std::to_string(t.low()) + ", with " + std::to_string(tokens_.size() - at_) + " tokens left");
  }
  [[noreturn]] void fail_later_node(stage_format::Token const& t, char const* of) const {
    fail(fault::reference, &t,
         "its " + std::string(of) + " name node " + std::to_string(t.low()) +
             (here_.in == inside::node ? "; a node names nodes before it" : "; they can name no nodes"));
  }

  stage_place here_;
  stage_bytes_limits limits_;
  flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> const* texts_ = nullptr;
  flatbuffers::Vector<flatbuffers::Offset<stage_format::Graph>> const* graphs_ = nullptr;
  std::size_t spent_ = 0;              // bytes of text
  std::vector<std::uint8_t> used_;     // of a text: a bit for each kind of call that names it
  std::vector<std::uint8_t> is_body_;  // of a graph: whether an attribute has it inside
  std::vector<operator_use> operators_;

  // The graph that is being checked.
  std::span<stage_format::Node const> nodes_;
  std::span<stage_format::Token const> tokens_;
  std::size_t at_ = 0;                                // the next token
  numbering<std::string_view, std::uint32_t> paths_;  // of its attributes
};

}  // namespace cleave::detail
