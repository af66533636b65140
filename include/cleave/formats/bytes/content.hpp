// SPDX-License-Identifier: MIT
#pragma once
#include <flatbuffers/flatbuffers.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/utf8.hpp"
#include "cleave/formats/bytes/envelope.hpp"
#include "cleave/formats/bytes/fault.hpp"
#include "cleave/formats/bytes/place.hpp"
#include "cleave/formats/bytes/registry.hpp"
#include "cleave/formats/generated/format.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/partition/named/cut_points.hpp"

namespace cleave::inline v0_2::detail {

/// A call whose target must be registered.
struct operator_use {
  node_kind kind;
  std::string_view target;
  std::size_t at;
  std::string place;
};

/// Checks a payload, so that it is safe to convert. Allocates only a few bytes per text and attribute. A
/// fault is thrown; use `find_stage_bytes_fault` to get it as a value.
class stage_checker {
 public:
  /// `payload` must be aligned for FlatBuffers and outlive the checker.
  stage_checker(std::span<std::byte const> payload, stage_bytes_limits const& limits)
      : here_{.payload = payload}, limits_(limits) {}

  /// Checks everything except operators. O(size). \throws stage_bytes_error
  stage_format::Content const& check() {
    check_structure();
    check_counts();
    check_texts();
    used_.assign(texts_->size(), 0);
    is_body_.assign(graphs_->size(), 0);
    for (here_.graph = 0; here_.graph < graphs_->size(); ++here_.graph) check_graph();
    for (here_.graph = 1; here_.graph < graphs_->size(); ++here_.graph)
      if (is_body_[here_.graph] == 0)
        fail(fault::reference, graphs_->Get(here_.graph), "it is not the body of any attribute");
    return *here_.content;
  }

  /// Returns the operators that the calls of a checked payload name, each once, in the order of first use.
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
           "it is not a FlatBuffers content of stages, or has more than " + std::to_string(limits_.graphs) +
               " graphs");
    here_.content = stage_format::GetContent(data);
    texts_ = here_.content->texts();
    graphs_ = here_.content->graphs();
    if (graphs_->size() == 0) fail(fault::structure, data, "it has no graph");
  }

  void check_counts() const {
    std::uint64_t nodes = 0, attributes = 0, tokens = 0;
    for (auto const* g : *graphs_) {
      nodes += g->nodes()->size();
      attributes += g->attributes()->size();
      tokens += g->tokens()->size();
    }
    here_.require_count(graphs_->size(), limits_.graphs, "graphs");
    here_.require_count(nodes, limits_.nodes, "nodes");
    here_.require_count(attributes, limits_.attributes, "attributes");
    here_.require_count(tokens, limits_.tokens, "tokens");
    here_.require_count(texts_->size(), limits_.texts, "texts");
  }

  void check_texts() const {
    std::size_t total = 0;
    for (std::uint32_t i = 0; i < texts_->size(); ++i) {
      auto const text = texts_->Get(i)->string_view();
      auto const refuse = [&](char const* said) {
        fail(fault::text, text.data(), "text " + std::to_string(i) + " " + quoted(text) + said);
      };
      here_.require_count(text.size(), limits_.longest_text, "bytes of a text");
      total += text.size();
      if (total > here_.payload.size()) refuse(" shares its bytes with others");
      if (!is_utf8(text)) refuse(" is not UTF-8; names and texts must be");
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
      fail(fault::claim, &tokens_[at_],
           std::to_string(tokens_.size() - at_) + " tokens are not part of any node, attribute or metadata");
  }

  void check_node(stage_format::Node const& n, std::span<stage_format::Attribute const> attributes) {
    spend_text(n.name(), &n);
    spend_text(n.target(), &n);
    if (n.kind() > NodeKind_MAX) fail(fault::value, &n, std::to_string(n.kind()) + " is not a kind of node");
    if (n.parts() > NodePart_ANY)
      fail(fault::value, &n, "it has parts that this version of the library does not know");
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
        fail(fault::value, &t, "its shape has an element that is neither a number nor a text");
  }

  void check_word(char const* of) {
    auto const& t = take(of);
    if (t.kind() != TokenKind_text || text(t.low()).empty())
      fail(fault::value, &t, "its " + std::string(of) + " must be a text that is not empty");
  }

  void check_symbols() {
    std::string_view last;
    for (auto left = open(TokenKind_list, "symbols", 1), all = left; left > 0; --left) {
      auto const& t = take("symbols");
      if (t.kind() != TokenKind_text || (left < all && text(t.low()) <= last))
        fail(fault::value, &t, "its symbols must be sorted texts without repetition");
      last = text(t.low());
    }
  }

  void check_after() {
    for (auto left = open(TokenKind_list, "after", 1); left-- > 0;) {
      auto const& t = take("after");
      auto const kind = t.kind() == TokenKind_node ? nodes_[t.low()].kind() : NodeKind_output;
      if (kind != NodeKind_call_function && kind != NodeKind_call_method && kind != NodeKind_call_module)
        fail(fault::reference, &t, "its 'after' names a node that is not an earlier call");
    }
  }

  /// Checks keyword arguments, at least `least` of them.
  void check_named(char const* of, std::size_t least) {
    for (auto left = open(TokenKind_dict, of, least); left-- > 0;) {
      if (auto const& key = take(of); key.kind() != TokenKind_text)
        fail(fault::value, &key, "a name of its " + std::string(of) + " is not a text");
      check_argument(of);
    }
  }

  void check_argument(char const* of) {
    for (std::uint64_t missing = 1; missing > 0; --missing) {
      auto const& t = take(of);
      missing += elements_of(t);
      if (missing - 1 > tokens_.size() - at_) fail_claim(t, of);
    }
  }

  std::size_t open(token_kind kind, char const* of, std::size_t least) {
    auto const& t = take(of);
    if (t.kind() != kind || t.low() < least)
      fail(fault::value, &t,
           "its " + std::string(of) + " must be a " + EnumNameTokenKind(kind) +
               (least > 0 ? " with at least one element" : ""));
    return t.low();
  }

  /// Returns the next token, after checking it: its references are valid, and enough tokens follow.
  stage_format::Token const& take(char const* of) {
    if (at_ == tokens_.size())
      fail(fault::claim, graphs_->Get(here_.graph),
           "the tokens of its " + std::string(of) + " continue after the last token of the graph");
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
    if (!whole) fail(fault::value, &t, "there is an invalid token in its " + std::string(of));
    return t;
  }

  std::string_view text(std::uint32_t i) const { return texts_->Get(i)->string_view(); }

  /// Counts the bytes of a text each time it is named, since the reader copies it each time.
  void spend_text(std::uint32_t i, void const* at) {
    if (i >= texts_->size())
      fail(fault::reference, at,
           "it names text " + std::to_string(i) + " of " + std::to_string(texts_->size()));
    spent_ += text(i).size();
    if (spent_ > limits_.text_bytes)
      here_.require_count(spent_, limits_.text_bytes, "bytes of text, as read");
  }

  void note_paths(std::span<stage_format::Attribute const> attributes) {
    paths_ = {};
    paths_.reserve(attributes.size());
    here_.in = inside::attribute;
    for (here_.number = 0; here_.number < attributes.size(); ++here_.number) {
      auto const& a = attributes[here_.number];
      for (auto const name : {a.path(), a.storage(), a.original()}) spend_text(name, &a);
      if (paths_.insert(text(a.path())) < here_.number)
        fail(fault::value, &a, "another attribute has the same path; paths must be unique");
      if (a.kind() > AttributeKind_MAX)
        fail(fault::value, &a, std::to_string(a.kind()) + " is not a kind of attribute");
      if (a.body() == 0) continue;
      if (a.kind() != AttributeKind_module_)
        fail(fault::value, &a, "it has a body, which only a module can have");
      if (a.body() <= here_.graph || a.body() >= graphs_->size() || std::exchange(is_body_[a.body()], 1) != 0)
        fail(fault::reference, &a,
             "its body is graph " + std::to_string(a.body()) + ", which is invalid: each of the " +
                 std::to_string(graphs_->size()) +
                 " graphs must come after the graph that contains it, and be the body of one attribute");
    }
  }

  /// Notes the operator of a call. A module with a body is part of the bytes; all other calls need an
  /// operator of the reader.
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
         std::string("a ") + EnumNameTokenKind(t.kind()) + " in its " + of + " claims " +
             std::to_string(t.low()) + " elements, with " + std::to_string(tokens_.size() - at_) +
             " tokens left");
  }
  [[noreturn]] void fail_later_node(stage_format::Token const& t, char const* of) const {
    fail(fault::reference, &t,
         "it refers to node " + std::to_string(t.low()) + " in its " + of +
             (here_.in == inside::node ? "; a node can refer only to earlier nodes"
                                       : ", which cannot refer to nodes"));
  }

  stage_place here_;
  stage_bytes_limits limits_;
  flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> const* texts_ = nullptr;
  flatbuffers::Vector<flatbuffers::Offset<stage_format::Graph>> const* graphs_ = nullptr;
  std::size_t spent_ = 0;              // bytes of text so far
  std::vector<std::uint8_t> used_;     // per text: a bit for each kind of call that names it
  std::vector<std::uint8_t> is_body_;  // per graph: 1 if it is the body of an attribute
  std::vector<operator_use> operators_;

  // The graph that is being checked.
  std::span<stage_format::Node const> nodes_;
  std::span<stage_format::Token const> tokens_;
  std::size_t at_ = 0;                                // index of the next token
  numbering<std::string_view, std::uint32_t> paths_;  // paths of its attributes
};

/// Checks that the plan of a pipe matches its graphs, which `stage_checker` has checked. Each stage must be
/// the body of an attribute of graph 0. It must have as many placeholders as inputs, and receive values that
/// other stages output.
class pipe_checker {
 public:
  pipe_checker(std::span<std::byte const> payload, stage_format::Content const& content,
               stage_bytes_limits const& limits)
      : here_{.payload = payload, .content = &content, .in = stage_place::inside::pipe},
        pipe_(*content.pipe()),
        limits_(limits) {}

  /// Checks the plan. Expected O(size). \throws stage_bytes_error
  void check() {
    check_counts();
    here_.in = stage_place::inside::stage;
    for (here_.number = 0; here_.number < stages(); ++here_.number)
      check_stage(*pipe_.stages()->Get(here_.number));
    here_.in = stage_place::inside::pipe;
    check_order();
    for (auto const& t : records(pipe_.transfers())) {
      check_ends(t);
      require_value(outputs_, t.from(), t, "is sent by a stage that does not output it");
      require_value(inputs_, t.to(), t, "is sent to a stage that does not have it as an input");
    }
    for (auto const& t : records(pipe_.updates())) check_ends(t);
    check_edges();
    for (auto const& i : records(pipe_.idle()))
      if (i.what() > static_cast<unsigned>(cut_kind::policy) ||
          i.why() > static_cast<unsigned>(idle_reason::beside_another))
        here_.fail(fault::value, &i, "a cut without effect has an unknown kind or reason");
  }

 private:
  using fault = stage_bytes_fault::kind;
  using values = numbering<std::uint64_t, std::uint32_t>;  // keys as returned by `key`

  std::uint32_t stages() const { return pipe_.stages()->size(); }
  static std::uint64_t key(std::uint32_t stage, std::uint32_t value) {
    return std::uint64_t{stage} << 32 | value;
  }

  void check_counts() const {
    std::uint64_t positions = std::uint64_t{pipe_.order()->size()} + pipe_.transfers()->size() +
                              pipe_.updates()->size() + pipe_.edges()->size() + pipe_.idle()->size();
    for (auto const* s : *pipe_.stages())
      positions +=
          std::uint64_t{s->nodes()->size()} + s->inputs()->size() + s->state()->size() + s->outputs()->size();
    here_.require_count(positions, limits_.positions, "positions in the plan");
  }

  void check_stage(stage_format::StagePlan const& s) {
    for (auto const* list : {s.nodes(), s.inputs(), s.state(), s.outputs()})
      for (auto const i : *list)
        if (i == none<std::uint32_t>)
          here_.fail(fault::reference, list, "it lists 2^32 - 1, which is reserved and refers to nothing");
    auto const& graph = graph_of(s);
    note(inputs_, *s.inputs(), "receives");
    note(outputs_, *s.outputs(), "outputs");
    std::size_t placeholders = 0;
    for (auto const& n : records(graph.nodes()))
      placeholders += n.kind() == stage_format::NodeKind_placeholder ? 1 : 0;
    if (placeholders != s.inputs()->size())
      here_.fail(fault::value, &s,
                 "it has " + std::to_string(s.inputs()->size()) + " inputs, but its graph has " +
                     std::to_string(placeholders) + " placeholders");
  }

  /// Returns the graph of a stage. \throws stage_bytes_error if it is not the body of an attribute of graph
  /// 0, or the body of another stage
  stage_format::Graph const& graph_of(stage_format::StagePlan const& s) {
    auto const& content = *here_.content;
    if (s.path() >= content.texts()->size())
      here_.fail(fault::reference, &s,
                 "its path is text " + std::to_string(s.path()) + ", which does not exist");
    if (body_.empty())
      for (auto const& a : records(content.graphs()->Get(0)->attributes())) {
        body_.resize(content.texts()->size());
        if (a.body() != 0) body_[a.path()] = a.body();
      }
    auto const body = body_.empty() ? 0 : std::exchange(body_[s.path()], 0);
    if (body == 0)
      here_.fail(fault::reference, &s,
                 "its path " + quoted(content.texts()->Get(s.path())->string_view()) +
                     " is not the path of a body in graph 0, or belongs to another stage");
    return *content.graphs()->Get(body);
  }

  void note(values& to, flatbuffers::Vector<std::uint32_t> const& list, char const* does) const {
    for (auto const v : list)
      if (auto const known = to.size(); to.insert(key(here_.number, v)) < known)
        here_.fail(fault::value, &list, "it " + std::string(does) + " value " + std::to_string(v) + " twice");
  }

  void check_order() const {
    std::vector<std::uint8_t> seen(stages());
    if (pipe_.order()->size() != stages())
      here_.fail(fault::value, pipe_.order(),
                 "its order has " + std::to_string(pipe_.order()->size()) + " stages of " +
                     std::to_string(stages()));
    for (auto const i : *pipe_.order())
      if (i >= stages() || std::exchange(seen[i], 1) != 0)
        here_.fail(fault::reference, pipe_.order(),
                   "its order names stage " + std::to_string(i) + " twice, or that stage does not exist");
  }

  void check_ends(stage_format::Transfer const& t) const {
    if (t.from() >= stages() || t.to() >= stages() || t.from() == t.to())
      here_.fail(fault::reference, &t,
                 "value " + std::to_string(t.value()) + " goes from stage " + std::to_string(t.from()) +
                     " to " + std::to_string(t.to()) + " of " + std::to_string(stages()));
  }

  void require_value(values const& of, std::uint32_t stage, stage_format::Transfer const& t,
                     char const* said) const {
    if (of.find(key(stage, t.value())) == none<std::uint32_t>)
      here_.fail(fault::reference, &t, "value " + std::to_string(t.value()) + " " + said);
  }

  /// Checks edges. The edges of one value from one sender must be adjacent, with ascending readers.
  void check_edges() const {
    auto const caller = index(the_caller);
    values begun;
    auto const edges = records(pipe_.edges());
    for (std::size_t i = 0; i < edges.size(); ++i) {
      auto const& e = edges[i];
      bool const goes_on = i > 0 && edges[i - 1].value() == e.value() && edges[i - 1].from() == e.from();
      auto const known = begun.size();
      bool const repeated =
          goes_on ? edges[i - 1].to() >= e.to() : begun.insert(key(e.from(), e.value())) < known;
      if (repeated)
        here_.fail(fault::value, &e, "an edge is repeated, or its readers are not in ascending order");
      for (auto const end : {e.from(), e.to()})
        if (end >= stages() && end != caller)
          here_.fail(fault::reference, &e,
                     "an edge names stage " + std::to_string(end) + ", which does not exist");
      if (e.from() != caller) require_value(outputs_, e.from(), e, "leaves a stage that does not output it");
      if (e.to() != caller)
        require_value(inputs_, e.to(), e, "reaches a stage that does not have it as an input");
    }
  }

  stage_place here_;
  stage_format::Pipe const& pipe_;
  stage_bytes_limits limits_;
  std::vector<std::uint32_t>
      body_;  // per text: the body of the attribute of graph 0 with that path, until a stage uses it
  values inputs_, outputs_;
};

/// The content of a payload.
enum class content_kind : std::uint8_t { stage, pipe };

/// The payload of an envelope, aligned for reading in place; copied if it is not aligned.
class aligned_payload {
 public:
  explicit aligned_payload(std::span<std::byte const> payload) : payload_(payload) {
    if (reinterpret_cast<std::uintptr_t>(payload.data()) % sizeof(std::uint64_t) == 0) return;
    copy_.resize(payload.size() / sizeof(std::uint64_t) + 1);
    std::memcpy(copy_.data(), payload.data(), payload.size());
    payload_ = std::as_bytes(std::span(copy_)).first(payload.size());
  }
  aligned_payload(aligned_payload const&) = delete;
  aligned_payload& operator=(aligned_payload const&) = delete;

  std::span<std::byte const> bytes() const { return payload_; }

 private:
  std::span<std::byte const> payload_;
  std::vector<std::uint64_t> copy_;
};

/// A payload that has passed all checks except that of its operators.
class checked_content {
 public:
  /// Checks a payload. O(size). \throws stage_bytes_error
  checked_content(std::span<std::byte const> payload, content_kind expected, stage_bytes_limits const& limits)
      : payload_(payload), checker_(payload_.bytes(), limits), content_(checker_.check()) {
    bool const pipe = content_.pipe() != nullptr;
    if (pipe != (expected == content_kind::pipe))
      stage_place{.payload = payload_.bytes()}.fail(
          stage_bytes_fault::kind::value, payload_.bytes().data(),
          pipe ? "the bytes hold a pipe, not a stage; use read_pipe_bytes"
               : "the bytes hold a stage, not a pipe; use read_stage_bytes");
    if (pipe) pipe_checker(payload_.bytes(), content_, limits).check();
  }

  stage_format::Content const& operator*() const { return content_; }
  std::vector<operator_use> const& operators() const { return checker_.operators(); }

 private:
  aligned_payload payload_;
  stage_checker checker_;
  stage_format::Content const& content_;
};

/// Returns the payload within `bytes`. \throws stage_bytes_error if they are not an envelope
inline std::span<std::byte const> stage_payload(std::span<std::byte const> bytes,
                                                stage_bytes_limits const& limits) {
  if (auto const fault = find_envelope_fault(bytes, limits.bytes))
    throw stage_bytes_error({stage_bytes_fault::kind::envelope, fault->at, "the envelope", describe(*fault)});
  return bytes.subspan(envelope_header_bytes);
}

/// Checks that all called operators are registered. \throws stage_bytes_error
template <class Entry>
void require_operators(std::vector<operator_use> const& uses, registry<Entry> const& operators) {
  for (auto const& use : uses) {
    auto const kind = std::string(node_kind_names[static_cast<std::size_t>(use.kind)]);
    auto const target = std::string(use.target);
    auto const fault = operators.find_fault(kind, target, registry_default::allowed);
    if (!fault) continue;
    auto const known =
        fault->what == registry_fault::kind::unknown_kind ? std::vector<std::string>() : fault->known;
    auto const said = "it calls " + quoted(target) + ", which is not registered for " + quoted(kind) +
                      suggestion(nearest_names(target, known));
    throw stage_bytes_error({stage_bytes_fault::kind::unknown_operator, use.at, use.place, said});
  }
}

/// Returns the reason why `bytes` are rejected as a stage or as a pipe, or nothing. O(size).
template <class Entry>
std::optional<stage_bytes_fault> find_content_fault(std::span<std::byte const> bytes,
                                                    registry<Entry> const& operators, content_kind expected,
                                                    stage_bytes_limits const& limits) {
  try {
    checked_content const content(stage_payload(bytes, limits), expected, limits);
    require_operators(content.operators(), operators);
  } catch (stage_bytes_error const& e) {
    return e.witness;
  }
  return std::nullopt;
}

/// Checks that content of up to `most` bytes may be written. \throws stage_bytes_error above the limit, or
/// above the 2 GiB of FlatBuffers
inline void require_size(std::size_t most, stage_bytes_limits const& limits) {
  if (most > limits.bytes || most >= std::size_t{1} << 31)
    throw stage_bytes_error(
        {stage_bytes_fault::kind::above_limit, 0, "the content to be written",
         std::to_string(most) + " bytes exceed the limit of " + std::to_string(limits.bytes)});
}

/// Returns the built content in an envelope, after checking it as a reader would. O(size). \throws
/// stage_bytes_error
inline std::vector<std::byte> sealed_content(flatbuffers::FlatBufferBuilder const& built, content_kind what,
                                             stage_bytes_limits const& limits) {
  auto const payload = std::as_bytes(std::span(built.GetBufferPointer(), built.GetSize()));
  checked_content const taken(payload, what, limits);
  return seal_envelope(payload);
}

}  // namespace cleave::detail
