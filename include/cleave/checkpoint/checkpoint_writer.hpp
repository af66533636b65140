// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/checkpoint/checkpoint_content.hpp"
#include "cleave/checkpoint/checkpoint_data.hpp"
#include "cleave/checkpoint/checkpoint_fault.hpp"
#include "cleave/checkpoint/checkpoint_manifest_file.hpp"
#include "cleave/checkpoint/checkpoint_names.hpp"
#include "cleave/checkpoint/checkpoint_part_file.hpp"
#include "cleave/checkpoint/digest.hpp"
#include "cleave/checkpoint/durable_file.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/utf8.hpp"
#include "cleave/formats/bytes/envelope.hpp"
#include "cleave/run/model/named_tensor.hpp"

/// Checkpoints, written so that one is there whole or not at all: each rank writes a file, and when all are
/// on the disk, one rank the manifest that names them.
namespace cleave::detail {

/// Writes the elements of a tensor from `offset` on, and digests them while they are in the cache.
inline checkpoint_digest write_elements(pending_file const& to, std::uint64_t offset,
                                        tensor_view const& tensor) {
  auto const elements = tensor.elements();
  std::span const all(static_cast<std::byte const*>(elements.data), elements.bytes());
  element_digest found;
  for (std::size_t at = 0; at < all.size(); at += checkpoint_piece) {
    auto const piece = all.subspan(at, (std::min)(checkpoint_piece, all.size() - at));
    found.add(piece);
    to.write(offset + at, piece);
  }
  return found.digest();
}

}  // namespace cleave::detail

namespace cleave {

/// Writes the state that a rank has into a file of `folder`, which is there; who has no state writes an empty
/// one. A tensor that several ranks have is written by one of them. When this returns the file is on the
/// disk, and belongs to no checkpoint before `complete_checkpoint`. Nothing is copied but what the system
/// copies. O(bytes).
/// \throws named_tensor_error, checkpoint_error where the names are too many for a file; file_error: nothing
/// of the file is left
inline checkpoint_part write_checkpoint_part(std::string const& folder, std::uint64_t step, rank_id rank,
                                             std::span<named_tensor const> state) {
  static_assert(std::endian::native == std::endian::little, "files have the bytes as they are in memory");
  detail::demand_named_tensors(state);
  checkpoint_index about{step, rank, {}};
  for (auto const& [names, tensor] : state) about.tensors.push_back({names, tensor.type, tensor.shape, {}});
  if (detail::most_content_bytes(about) > 1_GiB)
    throw checkpoint_error({checkpoint_fault::kind::above_limit, folder + "/" + detail::part_stem(step, rank),
                            "the names of its tensors take above 1 GiB; give the state to more ranks"});

  checkpoint_part written{step, detail::envelope_header_bytes + detail::content_of(about).size(), 0, {}, rank};
  written.index_bytes = written.bytes;
  pending_file file(folder, detail::part_stem(step, rank));
  for (std::size_t i = 0; i < state.size(); ++i) {
    about.tensors[i].elements = detail::write_elements(file, written.bytes, state[i].tensor);
    written.bytes += about.tensors[i].bytes();
  }
  auto const content = detail::content_of(about);
  expects(detail::envelope_header_bytes + content.size() == written.index_bytes, "room for the index");
  file.write(0, detail::seal_envelope(content));
  written.index = detail::digest_of(content);
  file.keep(detail::part_name(written));
  return written;
}

struct checkpoint_options {
  std::size_t kept = 2;  ///< checkpoints, with the new one; at least 1
};

}  // namespace cleave

namespace cleave::detail {

/// Why `notes` cannot be written down, or nothing.
inline std::optional<std::string> find_note_fault(std::vector<checkpoint_note> const& notes) {
  std::vector<std::string_view> keys;
  for (auto const& [key, value] : notes) {
    if (key.empty()) return "a note has no key";
    if (!is_utf8(key) || !is_utf8(value)) return "the note " + quoted(key) + " is no UTF-8";
    keys.push_back(key);
  }
  std::ranges::sort(keys);
  if (auto const twice = std::ranges::adjacent_find(keys); twice != keys.end())
    return "there are two notes " + quoted(*twice);
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave {

/// Completes the checkpoint of a step, from what `write_checkpoint_part` has returned on all ranks, and
/// removes older ones. When this returns the checkpoint is there, and the newest; where it throws or the
/// process ends before, the one before is. It is read back but for the elements first. Its serial number.
/// Precondition: options.kept >= 1. \throws checkpoint_error, file_error
inline std::uint64_t complete_checkpoint(std::string const& folder, checkpoint_label const& label,
                                         std::span<checkpoint_part const> parts,
                                         checkpoint_options const& options = {}) {
  expects(options.kept >= 1, "the new checkpoint is kept");
  if (auto const fault = detail::find_note_fault(label.notes))
    throw checkpoint_error({checkpoint_fault::kind::note, folder, *fault});
  detail::checkpoint_manifest const manifest{label, {parts.begin(), parts.end()}};
  detail::open_parts(folder, manifest);

  auto const files = detail::checkpoint_files(folder);
  bool const first = files.empty() || files.front().what != checkpoint_file::kind::manifest;
  auto const serial = first ? 1 : files.front().serial + 1;
  if (serial == 0)
    throw checkpoint_error({checkpoint_fault::kind::parts, folder,
                            "it has a checkpoint of the last number there is; write to another folder"});
  auto const stem = detail::manifest_stem(serial, label.step);
  pending_file file(folder, stem);
  file.write(0, detail::seal_envelope(detail::content_of(manifest)));
  file.keep(stem + std::string(detail::manifest_ending));
  detail::remove_old_checkpoints(folder, label.step, options.kept);
  return serial;
}

/// Writes a checkpoint of one rank that has all state. Its serial number.
/// \throws named_tensor_error, checkpoint_error, file_error
inline std::uint64_t write_checkpoint(std::string const& folder, checkpoint_label const& label,
                                      std::span<named_tensor const> state,
                                      checkpoint_options const& options = {}) {
  auto const part = write_checkpoint_part(folder, label.step, rank_id{0}, state);
  return complete_checkpoint(folder, label, std::span(&part, 1), options);
}

}  // namespace cleave
