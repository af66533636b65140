// SPDX-License-Identifier: MIT
#pragma once
#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "cleave/core/printable.hpp"
#include "cleave/formats/bytes/envelope.hpp"
#include "cleave/formats/bytes/fault.hpp"
#include "cleave/formats/generated/format.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the records of a column, in place.
template <class Record>
std::span<Record const> records(flatbuffers::Vector<Record const*> const* column) {
  return {column->size() > 0 ? column->Get(0) : nullptr, column->size()};
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the number of arguments that follow a token as its elements.
inline std::uint64_t elements_of(stage_format::Token const& t) {
  if (t.kind() < stage_format::TokenKind_list) return 0;
  return t.kind() == stage_format::TokenKind_dict ? std::uint64_t{2} * t.low() : t.low();
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The element of a stage's bytes that is being checked, for error messages.
struct stage_place {
  enum class inside : std::uint8_t { payload, graph, node, attribute, pipe, stage };

  std::span<std::byte const> payload;
  stage_format::Content const* content = nullptr;  ///< set once its structure has been verified
  inside in = inside::payload;
  std::uint32_t graph = 0;
  std::uint32_t number = 0;  ///< number of the node, attribute or stage

  std::size_t offset_of(void const* at) const {
    return envelope_header_bytes +
           static_cast<std::size_t>(static_cast<std::byte const*>(at) - payload.data());
  }

  /// Returns the name of the place, such as `node 3 'relu' of graph 0`.
  std::string name() const {
    if (in == inside::payload) return "the payload";
    if (in == inside::pipe) return "the plan of the pipe";
    if (in == inside::stage) return "stage " + std::to_string(number) + " of the pipe";
    auto whole = "graph " + std::to_string(graph);
    if (in == inside::graph) return whole;
    auto const& g = *content->graphs()->Get(graph);
    bool const node = in == inside::node;
    auto const name = node ? g.nodes()->Get(number)->name() : g.attributes()->Get(number)->path();
    bool const known = name < content->texts()->size();
    return (node ? "node " : "attribute ") + std::to_string(number) + " " +
           (known ? quoted(content->texts()->Get(name)->string_view()) : "without a name") + " of " + whole;
  }

  /// Reports a fault here. \throws stage_bytes_error
  [[noreturn]] void fail(stage_bytes_fault::kind what, void const* at, std::string said) const {
    throw stage_bytes_error({what, offset_of(at), name(), std::move(said)});
  }

  /// Checks a count against its limit. \throws stage_bytes_error if it is above
  void require_count(std::uint64_t count, std::size_t limit, char const* what) const {
    if (count > limit)
      fail(stage_bytes_fault::kind::above_limit, payload.data(),
           std::to_string(count) + " " + what + " exceed the limit of " + std::to_string(limit) +
               "; raise it if the sender is trusted");
  }
};

}  // namespace cleave::detail
