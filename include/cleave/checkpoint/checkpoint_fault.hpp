// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"

namespace cleave {

/// Why there is no checkpoint to read, why one is refused, or why tensors cannot be loaded from it.
struct checkpoint_fault {
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
class checkpoint_error : public witness_error<checkpoint_fault> {
 public:
  explicit checkpoint_error(checkpoint_fault const& f) : witness_error("checkpoint " + describe(f), f) {}
};

}  // namespace cleave
