// SPDX-License-Identifier: MIT
#pragma once
#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "cleave/formats/bytes/content.hpp"
#include "cleave/formats/bytes/fault.hpp"
#include "cleave/formats/bytes/reader.hpp"
#include "cleave/formats/bytes/registry.hpp"
#include "cleave/formats/bytes/writer.hpp"
#include "cleave/graph/module_graph.hpp"

/// A stage as bytes, and back. Bytes from untrusted sources are safe to read; docs/stage_format.md describes
/// the format.
namespace cleave::inline v0_2 {

/// Returns `stage` and all bodies inside it as bytes. Equal stages give equal bytes. Expected O(size).
/// \throws stage_bytes_error if `read_stage_bytes` would reject the result: a limit is exceeded, a name is
///   not UTF-8, or metadata names nodes that do not exist
inline std::vector<std::byte> write_stage_bytes(module_graph const& stage,
                                                stage_bytes_limits const& limits = {}) {
  detail::stage_writer const writer(stage);
  detail::require_size(writer.bytes(), limits);
  flatbuffers::FlatBufferBuilder builder(writer.bytes());
  writer.finish(builder);
  return detail::sealed_content(builder, detail::content_kind::stage, limits);
}

/// Reads a stage from `bytes`. Nothing is built before all checks have passed. They are, in this order: size,
/// magic, version, length, checksum, structure, counts, texts, references, operators. `operators` has the
/// kinds `call_function`, `call_method` and `call_module`. The target of a call must be registered for its
/// kind, or the kind must have a default. A module whose body is in the bytes needs no entry. O(size).
/// \throws stage_bytes_error
template <class Entry>
module_graph read_stage_bytes(std::span<std::byte const> bytes, registry<Entry> const& operators,
                              stage_bytes_limits const& limits = {}) {
  detail::checked_content const content(detail::stage_payload(bytes, limits), detail::content_kind::stage,
                                        limits);
  detail::require_operators(content.operators(), operators);
  return detail::stage_reader(*content).read();
}

/// Returns the reason why `read_stage_bytes` would reject `bytes`, or nothing.
template <class Entry>
std::optional<stage_bytes_fault> find_stage_bytes_fault(std::span<std::byte const> bytes,
                                                        registry<Entry> const& operators,
                                                        stage_bytes_limits const& limits = {}) {
  return detail::find_content_fault(bytes, operators, detail::content_kind::stage, limits);
}

}  // namespace cleave
