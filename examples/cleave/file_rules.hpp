// SPDX-License-Identifier: MIT
#pragma once
#include <sys/stat.h>

#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "files.hpp"

/// Rules for overwriting files: the tool never replaces an input or another output, and replaces other files
/// only if it wrote them.
namespace tool {

/// The use of a file named on the command line.
struct file_use {
  enum class kind : std::uint8_t { none, read, written, folder };
  kind what = kind::none;
  bool (*is_own)(std::string const& text) = nullptr;  ///< output: recognises the text of an earlier output
  bool (*has)(std::string_view name) = nullptr;       ///< folder: recognises the names of files written there
  std::vector<std::string_view> prefixes{};           ///< parts of the value before a file's name, if any
  std::string form{};                                 ///< output: see `output_file`
  bool is_answer = false;                             ///< output: stdout gets it if no file is named
  bool repeats = false;                               ///< all values of the option count, not only the last

  bool is_output() const { return what == kind::written || what == kind::folder; }
};

/// A file named on the command line, and the option that names it; empty for an operand.
struct typed_file {
  std::string by;
  fs::path path;
  file_use use;
};

/// The absolute path of a file that may not exist yet, with dangling links resolved.
inline fs::path future_path(fs::path path) {
  std::error_code unknown;
  for (int links = 0; links < 40 && fs::is_symlink(fs::symlink_status(path, unknown)); ++links) {
    auto const to = fs::read_symlink(path, unknown);
    path = to.is_absolute() ? to : path.parent_path() / to;
  }
  return fs::weakly_canonical(fs::absolute(path, unknown), unknown);
}

/// Returns whether both paths name one file, also through links; missing files are compared by path. Devices
/// and pipes are never the same file, since several outputs may share one.
inline bool same_file(fs::path const& a, fs::path const& b) {
  struct stat at_a{}, at_b{};
  bool const is_a = stat(a.c_str(), &at_a) == 0, is_b = stat(b.c_str(), &at_b) == 0;
  if (is_a && is_b)
    return at_a.st_dev == at_b.st_dev && at_a.st_ino == at_b.st_ino &&
           (S_ISREG(at_a.st_mode) || S_ISDIR(at_a.st_mode));
  return !is_a && !is_b && future_path(a) == future_path(b);
}

/// Returns whether `file` is, or would be, a file in `folder` that `has` recognises.
inline bool is_among(fs::path const& file, fs::path const& folder, bool (*has)(std::string_view name)) {
  std::error_code missing;
  for (auto const& entry : fs::directory_iterator(folder, missing))
    if (has(entry.path().filename().string()) && same_file(entry.path(), file)) return true;
  auto const name = file.filename().string();
  return has(name) && same_file(folder / name, file);
}

/// Returns whether writing `output` would overwrite `other`.
inline bool writes_over(typed_file const& output, typed_file const& other) {
  using enum file_use::kind;
  if (output.use.what == folder && is_among(other.path, output.path, output.use.has)) return true;
  if (other.use.what == folder && is_among(output.path, other.path, other.use.has)) return true;
  return same_file(output.path, other.path);
}

/// \throws cleave::error if an output is also an input or another output
inline void require_apart(std::vector<typed_file> const& files) {
  for (auto const& output : files)
    for (auto const& other : files) {
      if (&output == &other || !output.use.is_output() || !writes_over(output, other)) continue;
      auto const what = other.by.empty()        ? "which is an input"
                        : other.use.is_output() ? "and so would " + other.by
                                                : "which " + other.by + " reads";
      throw cleave::error(output.by + " would overwrite " + shown(other.path) + ", " + what +
                          "; choose another file");
    }
}

/// Remembers an output that does not exist yet: it may not replace a file that appears meanwhile.
/// \throws cleave::error if the file exists and cleave did not write it for this use, or it was changed since
inline void require_own(fs::path const& path, file_use const& use) {
  std::error_code missing;
  if (!fs::exists(fs::symlink_status(path, missing))) new_outputs.insert(path);
  if (!fs::exists(path, missing) || is_stream(path)) return;
  auto const text = read_bytes(path);
  bool const is_edited = is_changed(path, text);
  if (text.empty() || (use.is_own != nullptr && use.is_own(text) && !is_edited)) return;
  if (!use.form.empty() && is_marked(path, use.form, text)) return;
  std::string const changed = use.form.empty() && !is_edited ? "" : ", or it was changed since";
  std::string const untold = use.form.empty() || keeps_attributes(path)
                                 ? ""
                                 : " (cleave cannot tell: this file system has no extended attributes)";
  throw cleave::error(shown(path) + ": exists, and this option did not write it" + changed + untold +
                      "; move it, choose another file, or add --overwrite");
}

}  // namespace tool
