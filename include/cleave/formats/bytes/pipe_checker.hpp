// SPDX-License-Identifier: MIT
#pragma once
#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/transport.hpp"
#include "cleave/formats/bytes/fault.hpp"
#include "cleave/formats/bytes/place.hpp"
#include "cleave/formats/generated/format.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/partition/named/cut_points.hpp"

namespace cleave::detail {

/// Asks of a pipe whose graphs `stage_checker` found sound whether its plan is one of these graphs: each
/// stage is the body of an attribute of graph 0, takes as many values as it says, and is sent what others
/// give.
class pipe_checker {
 public:
  pipe_checker(std::span<std::byte const> payload, stage_format::Content const& content,
               stage_bytes_limits const& limits)
      : here_{.payload = payload, .content = &content, .in = stage_place::inside::pipe},
        pipe_(*content.pipe()),
        limits_(limits) {}

  /// Expected O(size). \throws stage_bytes_error
  void check() {
    check_counts();
    here_.in = stage_place::inside::stage;
    for (here_.number = 0; here_.number < stages(); ++here_.number)
      check_stage(*pipe_.stages()->Get(here_.number));
    here_.in = stage_place::inside::pipe;
    check_order();
    for (auto const& t : records(pipe_.transfers())) {
      check_ends(t);
      demand_value(outputs_, t.from(), t, "is sent by a stage that does not give it");
      demand_value(inputs_, t.to(), t, "is sent to a stage that does not take it");
    }
    for (auto const& t : records(pipe_.updates())) check_ends(t);
    check_edges();
    for (auto const& i : records(pipe_.idle()))
      if (i.what() > static_cast<unsigned>(cut_kind::policy) ||
          i.why() > static_cast<unsigned>(idle_reason::beside_another))
        here_.fail(fault::value, &i, "a cut without effect has a kind or a reason that nobody knows");
  }

 private:
  using fault = stage_bytes_fault::kind;
  using values = numbering<std::uint64_t, std::uint32_t>;  // of stages, as `key` has them

  std::uint32_t stages() const { return pipe_.stages()->size(); }
  static std::uint64_t key(std::uint32_t stage, std::uint32_t value) {
    return std::uint64_t{stage} << 32 | value;
  }

  void check_counts() const {
    std::size_t positions = pipe_.order()->size() + pipe_.transfers()->size() + pipe_.updates()->size() +
                            pipe_.edges()->size() + pipe_.idle()->size();
    for (auto const* s : *pipe_.stages())
      positions += s->nodes()->size() + s->inputs()->size() + s->state()->size() + s->outputs()->size();
    here_.demand_count(positions, limits_.positions, "positions in the plan");
  }

  void check_stage(stage_format::StagePlan const& s) {
    for (auto const* list : {s.nodes(), s.inputs(), s.state(), s.outputs()})
      for (auto const i : *list)
        if (i == none<std::uint32_t>)
          here_.fail(fault::reference, list, "it lists a number that names nothing");
    auto const& graph = graph_of(s);
    note(inputs_, *s.inputs(), "takes");
    note(outputs_, *s.outputs(), "gives");
    std::size_t placeholders = 0;
    for (auto const& n : records(graph.nodes()))
      placeholders += n.kind() == stage_format::NodeKind_placeholder ? 1 : 0;
    if (placeholders != s.inputs()->size())
      here_.fail(fault::value, &s,
                 "it takes " + std::to_string(s.inputs()->size()) + " values, its graph has " +
                     std::to_string(placeholders) + " placeholders");
  }

  /// \throws stage_bytes_error where it is not the body of an attribute of graph 0 that no other stage is
  stage_format::Graph const& graph_of(stage_format::StagePlan const& s) {
    auto const& content = *here_.content;
    if (s.path() >= content.texts()->size())
      here_.fail(fault::reference, &s,
                 "its path is text " + std::to_string(s.path()) + ", which there is not");
    if (body_.empty())
      for (auto const& a : records(content.graphs()->Get(0)->attributes())) {
        body_.resize(content.texts()->size());
        if (a.body() != 0) body_[a.path()] = a.body();
      }
    auto const body = body_.empty() ? 0 : std::exchange(body_[s.path()], 0);
    if (body == 0)
      here_.fail(fault::reference, &s,
                 "its path " + quoted(content.texts()->Get(s.path())->string_view()) +
                     " names no body in graph 0, or that of another stage");
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
                   "its order names stage " + std::to_string(i) + " twice, or there is none");
  }

  void check_ends(stage_format::Transfer const& t) const {
    if (t.from() >= stages() || t.to() >= stages() || t.from() == t.to())
      here_.fail(fault::reference, &t,
                 "value " + std::to_string(t.value()) + " goes from stage " + std::to_string(t.from()) +
                     " to " + std::to_string(t.to()) + " of " + std::to_string(stages()));
  }

  void demand_value(values const& of, std::uint32_t stage, stage_format::Transfer const& t,
                    char const* said) const {
    if (of.find(key(stage, t.value())) == none<std::uint32_t>)
      here_.fail(fault::reference, &t, "value " + std::to_string(t.value()) + " " + said);
  }

  /// The edges of one value from one sender stand together, by ascending readers.
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
      if (repeated) here_.fail(fault::value, &e, "an edge is there twice, or its readers do not ascend");
      for (auto const end : {e.from(), e.to()})
        if (end >= stages() && end != caller)
          here_.fail(fault::reference, &e,
                     "an edge names stage " + std::to_string(end) + ", which there is not");
      if (e.from() != caller) demand_value(outputs_, e.from(), e, "leaves a stage that does not give it");
      if (e.to() != caller) demand_value(inputs_, e.to(), e, "reaches a stage that does not take it");
    }
  }

  stage_place here_;
  stage_format::Pipe const& pipe_;
  stage_bytes_limits limits_;
  std::vector<std::uint32_t> body_;  // of a text: the graph that it names in graph 0, until a stage has it
  values inputs_, outputs_;
};

}  // namespace cleave::detail
