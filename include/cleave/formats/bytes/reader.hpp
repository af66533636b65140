// SPDX-License-Identifier: MIT
#pragma once
#include <flatbuffers/flatbuffers.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/formats/bytes/place.hpp"
#include "cleave/formats/generated/format.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"

namespace cleave::inline v0_2::detail {

/// Converts content that `stage_checker` has accepted, without further checks. Nested bodies are read without
/// recursion: inner graphs are built before outer ones.
class stage_reader {
 public:
  explicit stage_reader(stage_format::Content const& checked) : content_(checked) {}

  /// Returns the graph. O(size).
  module_graph read() {
    auto const& graphs = *content_.graphs();
    std::vector<module_graph> made(graphs.size());
    for (std::uint32_t i = graphs.size(); i-- > 0;) {
      tokens_ = records(graphs.Get(i)->tokens());
      read_graph(*graphs.Get(i), made, made[i]);
    }
    return std::move(made.front());
  }

 private:
  using enum stage_format::TokenKind;
  using enum stage_format::NodePart;

  void read_graph(stage_format::Graph const& from, std::vector<module_graph>& made, module_graph& to) {
    to.reserve(from.nodes()->size());
    for (auto const& n : records(from.nodes())) to.add(read_node(n));
    for (auto const& a : records(from.attributes())) {
      module_attribute read{.path = text(a.path()),
                            .what = static_cast<module_attribute::kind>(a.kind()),
                            .storage = text(a.storage()),
                            .body = {},
                            .original = text(a.original()),
                            .metadata = {}};
      if (a.body() != 0) read.body.push_back(std::move(made[a.body()]));
      if (a.metadata()) read.metadata = read_named();
      to.add_attribute(std::move(read));
    }
    to.metadata = read_named();
  }

  module_node read_node(stage_format::Node const& from) {
    auto const has = [&](stage_format::NodePart part) { return (from.parts() & part) != 0; };
    module_node n;
    n.kind = static_cast<node_kind>(from.kind());
    n.name = text(from.name());
    n.target = text(from.target());
    n.from = from.from();
    if (has(NodePart_args)) read_list(n.args, [&] { return read_argument(); });
    if (has(NodePart_kwargs)) n.kwargs = read_named();
    if (has(NodePart_default_value)) n.default_value = read_argument();
    if (has(NodePart_shape)) read_list(n.shape.emplace(), [&] { return extent(take()); });
    if (has(NodePart_expression)) n.expression = text(take().low());
    if (has(NodePart_binds)) n.binds = text(take().low());
    if (has(NodePart_symbols)) read_list(n.symbols, [&] { return text(take().low()); });
    if (has(NodePart_after)) read_list(n.after, [&] { return take().low(); });
    if (has(NodePart_metadata)) n.metadata = read_named();
    return n;
  }

  template <class Element, class Read>
  void read_list(std::vector<Element>& to, Read read) {
    auto left = take().low();
    to.reserve(left);
    while (left-- > 0) to.push_back(read());
  }

  std::vector<keyword_argument> read_named() {
    std::vector<keyword_argument> arguments;
    read_list(arguments, [&] {
      auto key = text(take().low());
      return keyword_argument{std::move(key), read_argument()};
    });
    return arguments;
  }

  module_argument read_argument() {
    std::size_t size = 0;
    for (std::uint64_t missing = 1; missing > 0; --missing) missing += elements_of(tokens_[size++]);
    module_argument a;
    a.reserve(size);
    for (std::size_t i = 0; i < size; ++i) read_token(take(), a);
    return a;
  }

  void read_token(stage_format::Token const& t, module_argument& to) const {
    switch (t.kind()) {
      case TokenKind_nothing:
        return void(to.emplace_back());
      case TokenKind_boolean:
        return void(to.emplace_back(t.low() != 0));
      case TokenKind_integer:
        return void(to.emplace_back(static_cast<std::int64_t>(bits_of(t))));
      case TokenKind_real:
        return void(to.emplace_back(std::bit_cast<double>(bits_of(t))));
      case TokenKind_text:
        return void(to.emplace_back(text(t.low())));
      case TokenKind_opaque:
        return void(to.emplace_back(opaque{text(t.low()), text(t.high())}));
      case TokenKind_node:
        return void(to.emplace_back(node_ref{t.low()}));
      default:
        to.emplace_back(container{kind_of(t), t.low()});
    }
  }

  static container::kind kind_of(stage_format::Token const& t) {
    return static_cast<container::kind>(t.kind() - TokenKind_list);
  }
  static std::uint64_t bits_of(stage_format::Token const& t) {
    return std::uint64_t{t.high()} << 32 | t.low();
  }
  dimension extent(stage_format::Token const& t) const {
    if (t.kind() == TokenKind_text) return text(t.low());
    return static_cast<std::int64_t>(bits_of(t));
  }

  stage_format::Token const& take() {
    auto const& t = tokens_.front();
    tokens_ = tokens_.subspan(1);
    return t;
  }

  std::string text(std::uint32_t i) const {
    auto const* s = content_.texts()->Get(i);
    return {s->c_str(), s->size()};
  }

  stage_format::Content const& content_;
  std::span<stage_format::Token const> tokens_;  // of the graph that is being read, from the next token on
};

}  // namespace cleave::detail
