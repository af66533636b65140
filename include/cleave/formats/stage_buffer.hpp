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

/// A stage as bytes, and back, safe against bytes from anybody; docs/stage_format.md describes the format.
namespace cleave {

/// `stage` and all bodies inside it as bytes; the same stage gives the same bytes. Expected O(size).
/// \throws stage_bytes_error where `read_stage_bytes` would refuse them: above a limit, names that are no
/// UTF-8, metadata that names nodes which are not there
inline std::vector<std::byte> write_stage_bytes(module_graph const& stage,
                                                stage_bytes_limits const& limits = {}) {
  detail::stage_writer const writer(stage);
  detail::require_size(writer.bytes(), limits);
  flatbuffers::FlatBufferBuilder builder(writer.bytes());
  writer.finish(builder);
  return detail::sealed_content(builder, detail::content_kind::stage, limits);
}

}  // namespace cleave

namespace cleave::detail {

/// The stage that `bytes` hold. What is checked, in this order, and nothing is made before all of it is
/// right: size, magic, version, length, checksum, structure, counts, texts, what each number names,
/// operators. `operators` has kinds `call_function`, `call_method` and `call_module`; a call's target must be
/// registered for its kind, or its kind have a default; a module whose body is in the bytes need not be.
/// O(size).
/// \throws stage_bytes_error
template <class Entry>
module_graph read_stage_bytes(std::span<std::byte const> bytes, registry<Entry> const& operators,
                              stage_bytes_limits const& limits = {}) {
  checked_content const content(stage_payload(bytes, limits), content_kind::stage, limits);
  require_operators(content.operators(), operators);
  return stage_reader(*content).read();
}

}  // namespace cleave::detail

namespace cleave {

/// Why `read_stage_bytes` would refuse `bytes`, or nothing.
template <class Entry>
std::optional<stage_bytes_fault> find_stage_bytes_fault(std::span<std::byte const> bytes,
                                                        registry<Entry> const& operators,
                                                        stage_bytes_limits const& limits = {}) {
  return detail::find_content_fault(bytes, operators, detail::content_kind::stage, limits);
}

}  // namespace cleave
