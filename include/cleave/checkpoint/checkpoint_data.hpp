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

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/formats/files/durable_file.hpp"
#include "cleave/run/model/named_tensor.hpp"
#include "cleave/run/model/tensor_view.hpp"

/// What a checkpoint is made of, as plain data; docs/running.md says how it lies on the disk.
namespace cleave {

/// xxh3-128 of some bytes: it finds accidents, and nobody who means harm.
struct checkpoint_digest {
  std::uint64_t low = 0, high = 0;

  bool operator==(checkpoint_digest const&) const = default;
};

/// What the user writes down with a step: the model's name, a digest of what it is of, a learning rate.
struct checkpoint_note {
  std::string key, value;

  bool operator==(checkpoint_note const&) const = default;
};

struct checkpoint_label {
  std::uint64_t step = 0;
  std::vector<checkpoint_note> notes = {};  ///< no key twice

  bool operator==(checkpoint_label const&) const = default;
};

/// The file of one rank. Its bytes may be sent as they are to the rank that completes the checkpoint.
struct checkpoint_part {
  std::uint64_t step = 0;
  std::uint64_t bytes = 0;        ///< all of the file
  std::uint64_t index_bytes = 0;  ///< of them those before the elements
  checkpoint_digest index = {};   ///< of the index, which has the digests of all tensors
  rank_id rank = {};

  bool operator==(checkpoint_part const&) const = default;
};

/// A tensor in a file.
struct stored_tensor {
  std::vector<std::string> names;
  element_type type = element_type::f32;
  tensor_shape shape = {};
  checkpoint_digest elements = {};

  /// Precondition: the shape is one of a tensor.
  std::uint64_t bytes() const { return *detail::find_tensor_bytes(type, shape); }
  bool operator==(stored_tensor const&) const = default;
};

/// What the file of a rank begins with. The elements follow, in the order of the tensors and without gaps.
struct checkpoint_index {
  std::uint64_t step = 0;
  rank_id rank = {};
  std::vector<stored_tensor> tensors = {};

  bool operator==(checkpoint_index const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// All files of a step.
struct checkpoint_manifest {
  checkpoint_label label = {};
  std::vector<checkpoint_part> parts = {};

  bool operator==(checkpoint_manifest const&) const = default;
};

}  // namespace cleave::detail

namespace cleave {

/// Why there is no checkpoint to read, why one is refused, or why tensors cannot be loaded from it.
struct checkpoint_fault {
  static constexpr char subject[] = "checkpoint ";
  enum class kind : std::uint8_t {
    none,          ///< the folder has no checkpoint, or not the one that is asked for
    missing_file,  ///< the manifest names a file that is not there
    length,        ///< a file is cut short, or something was appended
    altered,       ///< bytes are not those that were written, or the disk does not give them back
    structure,     ///< what no version of this library writes
    version,       ///< a newer version of this library wrote it
    other_model,   ///< a note says otherwise than expected
    note,          ///< a key is empty or given twice, or a text is no UTF-8
    parts,         ///< what ranks have written does not make one checkpoint
    named_twice,   ///< two ranks have stored a tensor of the same name
    missing_name,  ///< no tensor has the name that is wanted
    element_type,  ///< the tensor of that name has other elements than wanted
    shape,         ///< … another shape
    tie,           ///< names of one tensor here, of two there
    above_limit,   ///< more names than a file can hold
  };
  kind what;
  std::string file;  ///< or folder
  std::string said;  ///< what is wrong, and what to do

  bool operator==(checkpoint_fault const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// Whether an older checkpoint of the folder may be read in place of one with this fault.
constexpr bool is_damage(checkpoint_fault::kind what) {
  using enum checkpoint_fault::kind;
  return what == missing_file || what == length || what == altered || what == structure;
}

/// A path, in quotes, fit for a terminal: longer than names are.
inline std::string quoted_path(std::string_view path) { return "'" + printable(path, 400) + "'"; }

}  // namespace cleave::detail

namespace cleave {

/// One sentence.
inline std::string describe(checkpoint_fault const& f) { return detail::quoted_path(f.file) + ": " + f.said; }

/// A checkpoint that is refused. The witness: the first fault.
using checkpoint_error = fault_error<checkpoint_fault>;

}  // namespace cleave

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
