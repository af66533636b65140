// SPDX-License-Identifier: MIT
#pragma once
#include <flatbuffers/flatbuffers.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/formats/bytes/content.hpp"
#include "cleave/formats/bytes/fault.hpp"
#include "cleave/formats/bytes/place.hpp"
#include "cleave/formats/bytes/reader.hpp"
#include "cleave/formats/bytes/registry.hpp"
#include "cleave/formats/bytes/writer.hpp"
#include "cleave/formats/generated/format.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/partition/named/cut_points.hpp"
#include "cleave/pipe/pipe_plan.hpp"
#include "cleave/split/plan.hpp"

/// A whole pipe as bytes, and back. Bytes from untrusted sources are safe to read; docs/stage_format.md
/// describes the format.
namespace cleave::inline v0_2 {

/// A pipe without the program that it was cut from, which suffices to run it. Nodes and values of the plan
/// are numbers in that program.
struct stored_pipe {
  pipe_plan plan;
  module_graph outer;  ///< the graph that calls the stages; their graphs are bodies of its attributes
  std::vector<std::string> paths;  ///< per stage: the path of its attribute in the outer graph

  /// Returns the graph of stage `i`.
  module_graph const& stage(stage_id i) const {
    expects(index(i) < paths.size(), "the stage must be one of this pipe");
    return outer.find_attribute(paths[index(i)])->body.front();
  }
};

/// A type with the members of a stored_pipe, such as a module_pipe.
template <class Pipe>
concept written_pipe = requires(Pipe const& p) {
  { p.plan } -> std::convertible_to<pipe_plan const&>;
  { p.outer } -> std::convertible_to<module_graph const&>;
  { p.paths } -> std::convertible_to<std::vector<std::string> const&>;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Writes the plan of a pipe as records, for `write_pipe_bytes`.
class pipe_writer {
 public:
  pipe_writer(pipe_plan const& cut, std::vector<std::string> const& paths, stage_writer& graphs)
      : cut_(cut), paths_(paths), graphs_(graphs) {}

  /// Returns an upper bound on the bytes that it takes.
  std::size_t bytes() const {
    std::size_t positions =
        cut_.plan.order.size() + 3 * (cut_.plan.transfers.size() + cut_.plan.updates.size());
    for (auto const& s : cut_.plan.stages)
      positions += 24 + s.nodes.size() + s.inputs.size() + s.state.size() + s.outputs.size();
    for (auto const& e : cut_.edges) positions += 3 * e.to.size();
    return 256 + 4 * positions + 16 * cut_.idle.size();
  }

  flatbuffers::Offset<stage_format::Pipe> write(flatbuffers::FlatBufferBuilder& to) const {
    std::vector<flatbuffers::Offset<stage_format::StagePlan>> stages;
    for (std::size_t i = 0; i < cut_.plan.stages.size(); ++i) {
      auto const& s = cut_.plan.stages[i];
      stages.push_back(stage_format::CreateStagePlanDirect(to, graphs_.number_of(paths_[i]), cut_.number[i],
                                                           &s.nodes, &s.inputs, &s.state, &s.outputs));
    }
    std::vector<std::uint32_t> order;
    for (auto const i : cut_.plan.order) order.push_back(index(i));
    auto const transfers = sendings(cut_.plan.transfers), updates = sendings(cut_.plan.updates);
    std::vector<stage_format::Transfer> edges;
    for (auto const& e : cut_.edges) {
      if (e.to.empty())
        throw stage_bytes_error({stage_bytes_fault::kind::value, 0, "the plan of the pipe",
                                 "value " + std::to_string(e.value) + " has an edge without readers"});
      for (auto const reader : e.to) edges.emplace_back(e.value, index(e.from), index(reader));
    }
    std::vector<stage_format::IdleCut> idle;
    for (auto const& c : cut_.idle)
      idle.emplace_back(c.asked_by, static_cast<std::uint8_t>(c.what), static_cast<std::uint8_t>(c.why));
    return stage_format::CreatePipeDirect(to, &stages, &order, &transfers, &updates, &edges, &idle);
  }

 private:
  static std::vector<stage_format::Transfer> sendings(std::vector<transfer> const& list) {
    std::vector<stage_format::Transfer> written;
    for (auto const& t : list) written.emplace_back(t.value, index(t.from), index(t.to));
    return written;
  }

  pipe_plan const& cut_;
  std::vector<std::string> const& paths_;
  stage_writer& graphs_;
};

/// Reads the plan of a checked pipe, and the paths of its stages. O(size).
inline std::pair<pipe_plan, std::vector<std::string>> read_pipe_plan(stage_format::Content const& content) {
  auto const& from = *content.pipe();
  std::pair<pipe_plan, std::vector<std::string>> read;
  auto& [cut, paths] = read;
  auto const numbers = [](flatbuffers::Vector<std::uint32_t> const* list) {
    std::vector<std::uint32_t> copied;
    copied.reserve(list->size());
    for (auto const n : *list) copied.push_back(n);
    return copied;
  };
  for (auto const* s : *from.stages()) {
    cut.plan.stages.push_back(
        {numbers(s->nodes()), numbers(s->inputs()), numbers(s->state()), numbers(s->outputs())});
    cut.number.push_back(s->number());
    paths.push_back(content.texts()->Get(s->path())->str());
  }
  for (auto const i : *from.order()) cut.plan.order.push_back(stage_id{i});
  for (auto const& t : records(from.transfers()))
    cut.plan.transfers.push_back({t.value(), stage_id{t.from()}, stage_id{t.to()}});
  for (auto const& t : records(from.updates()))
    cut.plan.updates.push_back({t.value(), stage_id{t.from()}, stage_id{t.to()}});
  for (auto const& e : records(from.edges())) {
    stage_id const sender{e.from()};
    if (cut.edges.empty() || cut.edges.back().value != e.value() || cut.edges.back().from != sender)
      cut.edges.push_back({e.value(), sender, {}});
    cut.edges.back().to.push_back(stage_id{e.to()});
  }
  for (auto const& c : records(from.idle()))
    cut.idle.push_back({static_cast<cut_kind>(c.what()), static_cast<std::size_t>(c.asked_by()),
                        static_cast<idle_reason>(c.why())});
  return read;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns `p` as bytes: the graph that calls the stages, the stages, and the plan. Equal pipes give equal
/// bytes. Expected O(size).
/// \throws stage_bytes_error if `read_pipe_bytes` would reject the result
template <written_pipe Pipe>
std::vector<std::byte> write_pipe_bytes(Pipe const& p, stage_bytes_limits const& limits = {}) {
  auto const stages = p.plan.plan.stages.size();
  expects(p.paths.size() == stages && p.plan.number.size() == stages, "each stage needs a path and a number");
  detail::stage_writer graphs(p.outer);
  detail::pipe_writer const planned(p.plan, p.paths, graphs);
  detail::require_size(graphs.bytes() + planned.bytes(), limits);
  flatbuffers::FlatBufferBuilder builder(graphs.bytes() + planned.bytes());
  graphs.finish(builder, planned.write(builder));
  return detail::sealed_content(builder, detail::content_kind::pipe, limits);
}

/// Reads a pipe from `bytes`. Checks them like `read_stage_bytes`, and that the plan matches the stages.
/// O(size).
/// \throws stage_bytes_error
template <class Entry>
stored_pipe read_pipe_bytes(std::span<std::byte const> bytes, registry<Entry> const& operators,
                            stage_bytes_limits const& limits = {}) {
  detail::checked_content const content(detail::stage_payload(bytes, limits), detail::content_kind::pipe,
                                        limits);
  detail::require_operators(content.operators(), operators);
  auto [cut, paths] = detail::read_pipe_plan(*content);
  return {std::move(cut), detail::stage_reader(*content).read(), std::move(paths)};
}

/// Returns the reason why `read_pipe_bytes` would reject `bytes`, or nothing.
template <class Entry>
std::optional<stage_bytes_fault> find_pipe_bytes_fault(std::span<std::byte const> bytes,
                                                       registry<Entry> const& operators,
                                                       stage_bytes_limits const& limits = {}) {
  return detail::find_content_fault(bytes, operators, detail::content_kind::pipe, limits);
}

}  // namespace cleave
