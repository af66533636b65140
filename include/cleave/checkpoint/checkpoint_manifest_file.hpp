// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/checkpoint/checkpoint_content.hpp"
#include "cleave/checkpoint/checkpoint_data.hpp"
#include "cleave/checkpoint/checkpoint_fault.hpp"
#include "cleave/checkpoint/checkpoint_names.hpp"
#include "cleave/checkpoint/checkpoint_part_file.hpp"
#include "cleave/checkpoint/durable_file.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"

namespace cleave::detail {

/// The manifest that `file` is. O(size). \throws checkpoint_error, file_error
inline checkpoint_manifest read_manifest(std::string const& folder, checkpoint_file const& file) {
  auto const opened =
      open_checkpoint_file(folder + "/" + file.name, "it is not there any more; read the folder again");
  auto const sealed = sealed_content_of(opened, opened.size());
  auto read = checkpoint_content(payload_of(sealed), opened.path()).manifest();
  if (read.label.step != file.step)
    throw checkpoint_error({checkpoint_fault::kind::altered, opened.path(),
                            "it is of step " + std::to_string(read.label.step) + ", not of its name"});
  return read;
}

/// Where a name leads: a tensor of a part.
struct stored_name {
  std::string_view name;
  std::size_t part, tensor;
};

/// All names in `parts`, which they are part of, sorted. O(n log n).
inline std::vector<stored_name> sorted_names(std::vector<part_file> const& parts) {
  std::vector<stored_name> names;
  for (std::size_t p = 0; p < parts.size(); ++p)
    for (std::size_t t = 0; t < parts[p].index.tensors.size(); ++t)
      for (auto const& name : parts[p].index.tensors[t].names) names.push_back({name, p, t});
  std::ranges::sort(names, [](stored_name const& a, stored_name const& b) {
    return a.name != b.name ? a.name < b.name : a.part < b.part;
  });
  return names;
}

/// Opens all files of a manifest and checks that they make one checkpoint. O(indices).
/// \throws checkpoint_error, file_error
inline std::vector<part_file> open_parts(std::string const& folder, checkpoint_manifest const& manifest) {
  using enum checkpoint_fault::kind;
  auto const refuse = [&](checkpoint_fault::kind what, std::string const& said) {
    throw checkpoint_error({what, folder, said});
  };
  auto const step = std::to_string(manifest.label.step);
  if (manifest.parts.empty()) refuse(parts, "step " + step + " has no file of any rank");
  std::vector<std::uint32_t> ranks;
  for (auto const& part : manifest.parts) {
    if (part.step != manifest.label.step)
      refuse(parts, "rank " + std::to_string(index(part.rank)) + " has written step " +
                        std::to_string(part.step) + ", the checkpoint is of step " + step);
    ranks.push_back(index(part.rank));
  }
  std::ranges::sort(ranks);
  if (auto const twice = std::ranges::adjacent_find(ranks); twice != ranks.end())
    refuse(parts, "step " + step + " has two files of rank " + std::to_string(*twice));

  std::vector<part_file> opened;
  for (auto const& part : manifest.parts) opened.push_back(open_part(folder, part));
  auto const names = sorted_names(opened);
  auto const twice = std::ranges::adjacent_find(names, {}, &stored_name::name);
  if (twice != names.end())
    refuse(named_twice, quoted(twice->name) + " is stored by ranks " +
                            std::to_string(index(opened[twice[0].part].index.rank)) + " and " +
                            std::to_string(index(opened[twice[1].part].index.rank)) +
                            "; what several have is written by one of them");
  return opened;
}

/// The files of a checkpoint, its manifest too; nothing where these are not whole, by their lengths.
/// \throws file_error where the system does not say
inline std::optional<std::vector<std::string>> files_if_whole(std::string const& folder,
                                                              checkpoint_file const& file) {
  try {
    std::vector<std::string> names{file.name};
    for (auto const& part : read_manifest(folder, file).parts) {
      names.push_back(part_name(part));
      if (open_checkpoint_file(folder + "/" + names.back(), {}).size() != part.bytes) return std::nullopt;
    }
    return names;
  } catch (checkpoint_error const&) {
    return std::nullopt;
  }
}

/// Removes what the newest `kept` whole checkpoints do not need: manifests, then files that none of those
/// kept names and what was left unfinished, up to `step`, for ranks may be writing a later one. But for the
/// unfinished ones, nothing is removed before as many are whole. What cannot be removed stays.
inline void remove_old_checkpoints(std::string const& folder, std::uint64_t step, std::size_t kept) {
  std::vector<std::string> needed;
  std::size_t whole = 0;
  auto const files = checkpoint_files(folder);
  try {
    for (auto const& file : files) {
      if (file.what != checkpoint_file::kind::manifest || whole == kept) break;
      auto const names = files_if_whole(folder, file);
      if (!names) continue;
      needed.insert(needed.end(), names->begin(), names->end());
      ++whole;
    }
  } catch (file_error const&) {
    return;
  }
  std::ranges::sort(needed);
  for (auto const& file : files) {
    bool const unfinished = file.what == checkpoint_file::kind::unfinished;
    bool const manifest = file.what == checkpoint_file::kind::manifest;
    if (!manifest && file.step > step) continue;
    if (unfinished || (whole == kept && !std::ranges::binary_search(needed, file.name)))
      std::remove((folder + "/" + file.name).c_str());
  }
}

}  // namespace cleave::detail
