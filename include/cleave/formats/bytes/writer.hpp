// SPDX-License-Identifier: MIT
#pragma once
#include <flatbuffers/flatbuffers.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cleave/formats/generated/format.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"

namespace cleave::inline v0_2::detail {

/// Writes graphs as columns of records, for `write_stage_bytes` and `write_pipe_bytes`. Equal graphs give
/// equal bytes: texts are numbered in the order of first use, graphs level by level. Nested bodies are
/// written without recursion.
class stage_writer {
 public:
  /// `top` and all bodies inside it must outlive the writer. Expected O(size).
  explicit stage_writer(module_graph const& top) {
    graphs_.push_back(&top);
    texts_.reserve(top.list().size());
    for (std::size_t i = 0; i < graphs_.size(); ++i) write(*graphs_[i]);
  }

  /// Returns an upper bound on the size of the payload in bytes.
  std::size_t bytes() const {
    std::size_t total = 64 + 12 * texts_.size();  // per text: its offset, its length, a terminator, padding
    for (auto const text : texts_.handles()) total += text.size();
    for (auto const& c : columns_)
      total += 40 + sizeof(stage_format::Node) * c.nodes.size() +
               sizeof(stage_format::Attribute) * c.attributes.size() +
               sizeof(stage_format::Token) * c.tokens.size();
    return total;
  }

  /// Finishes the payload. Precondition: it is below 2 GiB, the limit of FlatBuffers.
  void finish(flatbuffers::FlatBufferBuilder& to, flatbuffers::Offset<stage_format::Pipe> pipe = {}) const {
    std::vector<flatbuffers::Offset<flatbuffers::String>> texts;
    texts.reserve(texts_.size());
    for (auto const text : texts_.handles()) texts.push_back(to.CreateString(text));
    std::vector<flatbuffers::Offset<stage_format::Graph>> graphs;
    graphs.reserve(columns_.size());
    for (auto const& c : columns_)
      graphs.push_back(stage_format::CreateGraphDirect(to, &c.nodes, &c.attributes, &c.tokens));
    stage_format::FinishContentBuffer(to, stage_format::CreateContentDirect(to, &texts, &graphs, pipe));
  }

  /// Returns the number of a text; a new text gets the next free number.
  std::uint32_t number_of(std::string_view text) { return texts_.insert(text); }

 private:
  using token_kind = stage_format::TokenKind;
  using enum stage_format::TokenKind;
  using enum stage_format::NodePart;

  struct columns {
    std::vector<stage_format::Node> nodes;
    std::vector<stage_format::Attribute> attributes;
    std::vector<stage_format::Token> tokens;
  };

  void write(module_graph const& g) {
    auto& made = columns_.emplace_back();
    made.nodes.reserve(g.list().size());
    made.tokens.reserve(4 * g.list().size() + 1);
    for (auto const& n : g.list()) write(n);
    for (auto const& a : g.attributes()) write(a);
    write_named(g.metadata);
  }

  void write(module_node const& n) {
    unsigned parts = 0;
    auto const has = [&](stage_format::NodePart part, bool there) {
      if (there) parts |= static_cast<unsigned>(part);
      return there;
    };
    auto const name = number_of(n.name), target = number_of(n.target);
    if (has(NodePart_args, !n.args.empty())) {
      open(TokenKind_list, n.args.size());
      for (auto const& a : n.args) write(a);
    }
    if (has(NodePart_kwargs, !n.kwargs.empty())) write_named(n.kwargs);
    if (has(NodePart_default_value, n.default_value.has_value())) write(*n.default_value);
    if (has(NodePart_shape, n.shape.has_value())) {
      open(TokenKind_list, n.shape->size());
      for (auto const& extent : *n.shape) put(extent);
    }
    if (has(NodePart_expression, !n.expression.empty())) put(n.expression);
    if (has(NodePart_binds, !n.binds.empty())) put(n.binds);
    if (has(NodePart_symbols, !n.symbols.empty())) {
      open(TokenKind_list, n.symbols.size());
      for (auto const& symbol : n.symbols) put(symbol);
    }
    if (has(NodePart_after, !n.after.empty())) {
      open(TokenKind_list, n.after.size());
      for (auto const m : n.after) put(node_ref{m});
    }
    if (has(NodePart_metadata, !n.metadata.empty())) write_named(n.metadata);
    columns_.back().nodes.emplace_back(name, target, n.from, static_cast<std::uint16_t>(parts),
                                       static_cast<stage_format::NodeKind>(n.kind));
  }

  void write(module_attribute const& a) {
    std::uint32_t body = 0;
    for (auto const& inside : a.body) {
      body = narrow<std::uint32_t>(graphs_.size());
      graphs_.push_back(&inside);
    }
    if (!a.metadata.empty()) write_named(a.metadata);
    columns_.back().attributes.emplace_back(number_of(a.path), number_of(a.storage), number_of(a.original),
                                            body, static_cast<stage_format::AttributeKind>(a.what),
                                            !a.metadata.empty());
  }

  void write_named(std::vector<keyword_argument> const& arguments) {
    open(TokenKind_dict, arguments.size());
    for (auto const& k : arguments) {
      put(k.key);
      write(k.value);
    }
  }

  void write(module_argument const& a) {
    for (auto const& t : a) put(t);
  }

  template <class... Kinds>
  void put(std::variant<Kinds...> const& v) {
    std::visit([&](auto const& x) { put(x); }, v);
  }
  void put(std::monostate) { add(TokenKind_nothing, 0); }
  void put(bool b) { add(TokenKind_boolean, b ? 1 : 0); }
  void put(std::int64_t i) { add_bits(TokenKind_integer, static_cast<std::uint64_t>(i)); }
  void put(double d) { add_bits(TokenKind_real, std::bit_cast<std::uint64_t>(d)); }
  void put(std::string const& text) { add(TokenKind_text, number_of(text)); }
  void put(opaque const& o) {
    auto const kind = number_of(o.kind);
    add(TokenKind_opaque, kind, number_of(o.text));
  }
  void put(node_ref r) { add(TokenKind_node, r.node); }
  void put(container c) {
    static constexpr token_kind kinds[] = {TokenKind_list, TokenKind_tuple, TokenKind_dict, TokenKind_slice};
    add(kinds[static_cast<std::size_t>(c.what)], c.size);
  }
  void open(token_kind kind, std::size_t elements) { add(kind, narrow<std::uint32_t>(elements)); }

  void add(token_kind kind, std::uint32_t low, std::uint32_t high = 0) {
    columns_.back().tokens.emplace_back(low, high, kind);
  }
  void add_bits(token_kind kind, std::uint64_t bits) {
    add(kind, static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32));
  }

  std::vector<module_graph const*> graphs_;
  std::vector<columns> columns_;  // one for each graph
  numbering<std::string_view, std::uint32_t> texts_;
};

}  // namespace cleave::detail
