// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "cleave/checkpoint/checkpoint_data.hpp"
#include "cleave/checkpoint/checkpoint_writer.hpp"
#include "cleave/core/expects.hpp"

namespace cleave::testing {

using namespace detail;

/// Returns the result of `read` on the bytes of a checkpoint, or the fault for which it rejects them.
template <class Read>
std::optional<checkpoint_fault> content_fault(std::span<std::byte const> payload, Read read) {
  std::vector<std::uint64_t> aligned(payload.size() / sizeof(std::uint64_t) + 1);
  if (!payload.empty()) std::memcpy(aligned.data(), payload.data(), payload.size());
  try {
    read(checkpoint_content(std::as_bytes(std::span(aligned)).first(payload.size()), "file"));
  } catch (checkpoint_error const& e) {
    return e.witness;
  }
  return std::nullopt;
}

/// Returns true if the bytes are the index or manifest of a checkpoint. Then checks that it survives a round
/// trip.
inline bool taken_for_checkpoint(std::span<std::byte const> payload) {
  std::optional<checkpoint_index> index;
  std::optional<checkpoint_manifest> manifest;
  content_fault(payload, [&](checkpoint_content const& c) { index = c.index(); });
  content_fault(payload, [&](checkpoint_content const& c) { manifest = c.manifest(); });
  expects(!index || !manifest, "one of both");
  if (index) {
    auto const written = content_of(*index);
    expects(written.size() <= most_content_bytes(*index), "no more bytes than expected");
    auto const refused = content_fault(
        written, [&](checkpoint_content const& c) { expects(c.index() == *index, "the index again"); });
    expects(!refused, "an index that comes back");
  }
  if (manifest) {
    auto const refused = content_fault(content_of(*manifest), [&](checkpoint_content const& c) {
      expects(c.manifest() == *manifest, "the manifest again");
    });
    expects(!refused, "a manifest that comes back");
  }
  return index || manifest;
}

}  // namespace cleave::testing
