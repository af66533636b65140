// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cleave/checkpoint/checkpoint_data.hpp"
#include "cleave/checkpoint/checkpoint_fault.hpp"
#include "cleave/checkpoint/durable_file.hpp"
#include "cleave/core/ids.hpp"

/// The names of the files in a folder of checkpoints. A part's name has the digest of what is in it, so that
/// no file is ever written over by another one that differs.
namespace cleave::detail {

/// `step-9-rank-3`.
inline std::string part_stem(std::uint64_t step, rank_id rank) {
  return "step-" + std::to_string(step) + "-rank-" + std::to_string(index(rank));
}

/// `step-9-rank-3-0123456789abcdef0123456789abcdef.part`.
inline std::string part_name(checkpoint_part const& part) {
  std::string name = part_stem(part.step, part.rank) + "-";
  for (auto const half : {part.index.high, part.index.low})
    for (int shift = 60; shift >= 0; shift -= 4) name += "0123456789abcdef"[half >> shift & 15];
  return name + ".part";
}

/// `checkpoint-00000012-step-9`. The serial number says which of two is newer: a run that went back to an
/// earlier step writes lower steps again.
inline std::string manifest_stem(std::uint64_t serial, std::uint64_t step) {
  auto const digits = std::to_string(serial);
  return "checkpoint-" + std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits + "-step-" +
         std::to_string(step);
}

inline constexpr std::string_view manifest_ending = ".manifest";
inline constexpr std::string_view part_ending = ".part";

}  // namespace cleave::detail

namespace cleave {

/// A file of a checkpoint, by its name.
struct checkpoint_file {
  enum class kind : std::uint8_t { manifest, part, unfinished };
  kind what;
  std::uint64_t step = 0;
  std::uint64_t serial = 0;  ///< of a manifest
  std::string name = {};

  bool operator==(checkpoint_file const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// Which file of a checkpoint has that name, or nothing.
inline std::optional<checkpoint_file> find_checkpoint_file(std::string_view name) {
  using enum checkpoint_file::kind;
  std::string_view rest = name;
  auto const word = [&](std::string_view expected) {
    if (!rest.starts_with(expected)) return false;
    rest.remove_prefix(expected.size());
    return true;
  };
  auto const number = [&](std::uint64_t& n) {
    auto const [end, fault] = std::from_chars(rest.data(), rest.data() + rest.size(), n);
    if (fault != std::errc()) return false;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return true;
  };
  checkpoint_file found{part, 0, 0, std::string(name)};
  std::uint64_t rank = 0;
  bool const of_manifest = word("checkpoint-");
  if (of_manifest ? !(number(found.serial) && word("-step-") && number(found.step))
                  : !(word("step-") && number(found.step) && word("-rank-") && number(rank)))
    return std::nullopt;
  if (rest.starts_with('.') && rest.ends_with(unfinished_ending))
    found.what = unfinished;
  else if (of_manifest && rest == manifest_ending)
    found.what = manifest;
  else if (of_manifest || !rest.starts_with('-') || !rest.ends_with(part_ending))
    return std::nullopt;
  return found;
}

/// All files of checkpoints in `folder`: manifests from the newest to the oldest, then the others.
/// O(files log files). \throws checkpoint_error where it is no folder that can be read
inline std::vector<checkpoint_file> checkpoint_files(std::string const& folder) {
  std::vector<checkpoint_file> files;
  std::error_code fault;
  std::filesystem::directory_iterator at(folder, fault);
  for (; !fault && at != std::filesystem::directory_iterator(); at.increment(fault))
    if (auto found = find_checkpoint_file(at->path().filename().native())) files.push_back(*std::move(found));
  if (fault)
    throw checkpoint_error(
        {checkpoint_fault::kind::none, folder, "it cannot be read as a folder: " + fault.message()});
  std::ranges::sort(files, [](checkpoint_file const& a, checkpoint_file const& b) {
    if (a.what != b.what) return a.what < b.what;
    return a.serial != b.serial ? a.serial > b.serial : a.name < b.name;
  });
  return files;
}

}  // namespace cleave::detail
