// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/formats/files/durable_file.hpp"
#include "cleave/run/model/named_tensor.hpp"
#include "cleave/run/model/tensor_view.hpp"

/// The contents of a checkpoint as plain data. docs/running.md describes the files.
namespace cleave::inline v0_2 {

/// An xxh3-128 digest of some bytes. It detects accidental damage, not tampering.
struct checkpoint_digest {
  std::uint64_t low = 0, high = 0;

  bool operator==(checkpoint_digest const&) const = default;
};

/// A note that the user stores with a step, such as the name of the model, a digest of its graph, or a
/// learning rate.
struct checkpoint_note {
  std::string key, value;

  bool operator==(checkpoint_note const&) const = default;
};

/// The step of a checkpoint and the notes of the user.
struct checkpoint_label {
  std::uint64_t step = 0;
  std::vector<checkpoint_note> notes = {};  ///< keys are distinct

  bool operator==(checkpoint_label const&) const = default;
};

/// The file of one rank. The bytes of this struct may be sent unchanged to the rank that completes the
/// checkpoint.
struct checkpoint_part {
  std::uint64_t step = 0;
  std::uint64_t bytes = 0;        ///< size of the file
  std::uint64_t index_bytes = 0;  ///< size of the part before the elements
  checkpoint_digest index = {};   ///< digest of the index, which contains the digests of all tensors
  rank_id rank = {};

  bool operator==(checkpoint_part const&) const = default;
};

/// The description of a tensor in a file.
struct stored_tensor {
  std::vector<std::string> names;
  element_type type = element_type::f32;
  tensor_shape shape = {};
  checkpoint_digest elements = {};

  /// Returns the bytes of the elements.
  /// \pre the shape is that of a valid tensor
  std::uint64_t bytes() const { return *detail::find_tensor_bytes(type, shape); }
  bool operator==(stored_tensor const&) const = default;
};

/// The index at the start of a rank's file. The elements follow, in the order of the tensors and without
/// gaps.
struct checkpoint_index {
  std::uint64_t step = 0;
  rank_id rank = {};
  std::vector<stored_tensor> tensors = {};

  bool operator==(checkpoint_index const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The files of all ranks for a step.
struct checkpoint_manifest {
  checkpoint_label label = {};
  std::vector<checkpoint_part> parts = {};

  bool operator==(checkpoint_manifest const&) const = default;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The reason why no checkpoint is found, why one is refused, or why tensors cannot be loaded from it.
struct checkpoint_fault {
  static constexpr char subject[] = "checkpoint ";
  enum class kind : std::uint8_t {
    none,          ///< the folder has no checkpoint, or not the requested one
    missing_file,  ///< the manifest names a file that does not exist
    length,        ///< a file is truncated, or bytes were appended
    altered,       ///< bytes differ from those written, or the disk cannot read them
    structure,     ///< the content is not of a form that any version of this library writes
    version,       ///< a newer version of this library wrote it
    other_model,   ///< a note differs from the expected one
    note,          ///< a key is empty or repeated, or a text is not UTF-8
    parts,         ///< the files of the ranks do not form one checkpoint
    named_twice,   ///< two ranks have stored a tensor of the same name
    missing_name,  ///< no tensor has the requested name
    element_type,  ///< the stored tensor has another element type than requested
    shape,         ///< the stored tensor has another shape than requested
    tie,           ///< two names of one requested tensor belong to two stored tensors
    above_limit,   ///< the names exceed the limit of a file
  };
  kind what;
  std::string file;  ///< path of the file or folder
  std::string said;  ///< the fault, and the remedy

  bool operator==(checkpoint_fault const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns true if an older checkpoint may be read in place of one with this fault.
constexpr bool is_damage(checkpoint_fault::kind what) {
  using enum checkpoint_fault::kind;
  return what == missing_file || what == length || what == altered || what == structure;
}

/// Returns a path in quotes, safe to print on a terminal. The limit on its length is larger than for names.
inline std::string quoted_path(std::string_view path) { return "'" + printable(path, 400) + "'"; }

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns one sentence.
inline std::string describe(checkpoint_fault const& f) { return detail::quoted_path(f.file) + ": " + f.said; }

/// Thrown if a checkpoint is refused. The witness is the first fault.
using checkpoint_error = fault_error<checkpoint_fault>;

}  // namespace cleave

/// The names of the files in a folder of checkpoints. The name of a part contains its digest, so a file is
/// never overwritten by a different one.
namespace cleave::inline v0_2::detail {

/// Returns a name such as `step-9-rank-3`.
inline std::string part_stem(std::uint64_t step, rank_id rank) {
  return "step-" + std::to_string(step) + "-rank-" + std::to_string(index(rank));
}

/// Returns a name such as `step-9-rank-3-0123456789abcdef0123456789abcdef.part`.
inline std::string part_name(checkpoint_part const& part) {
  std::string name = part_stem(part.step, part.rank) + "-";
  for (auto const half : {part.index.high, part.index.low})
    for (int shift = 60; shift >= 0; shift -= 4) name += "0123456789abcdef"[half >> shift & 15];
  return name + ".part";
}

/// Returns a name such as `checkpoint-00000012-step-9`. The serial number says which of two checkpoints is
/// newer. The step does not, because a run that returns to an earlier step writes lower steps again.
inline std::string manifest_stem(std::uint64_t serial, std::uint64_t step) {
  auto const digits = std::to_string(serial);
  return "checkpoint-" + std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits + "-step-" +
         std::to_string(step);
}

inline constexpr std::string_view manifest_ending = ".manifest";
inline constexpr std::string_view part_ending = ".part";

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A file of a checkpoint, identified by its name.
struct checkpoint_file {
  enum class kind : std::uint8_t { manifest, part, unfinished };
  kind what;
  std::uint64_t step = 0;
  std::uint64_t serial = 0;  ///< only for manifests
  std::string name = {};

  bool operator==(checkpoint_file const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Parses the name of a checkpoint file. Returns nothing for other names.
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

/// Returns all files of checkpoints in `folder`: manifests from the newest to the oldest, then the other
/// files. O(files log files).
/// \throws checkpoint_error if `folder` cannot be read as a folder
inline std::vector<checkpoint_file> checkpoint_files(std::string const& folder) {
  std::vector<checkpoint_file> files;
  std::error_code fault;
  for (auto const& name : names_in(folder, fault))
    if (auto found = find_checkpoint_file(name)) files.push_back(*std::move(found));
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
