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

/// What the tool may write over: no file that it reads, no file that it writes beside, and of others only
/// what it has written itself.
namespace tool {

/// What a file that was typed is for.
struct file_use {
  enum class kind : std::uint8_t { none, read, written, folder };
  kind what = kind::none;
  bool (*is_own)(std::string const& text) =
      nullptr;  ///< of a written one: whether the text itself says that cleave wrote it
  bool (*has)(std::string_view name) = nullptr;  ///< of a folder: whether files of that name go there
  std::string_view prefix{};                     ///< of the value, before the file's name
  std::string form{};                            ///< of a written one: see `output_file`

  bool is_output() const { return what == kind::written || what == kind::folder; }
};

/// A file that was typed, and what says so: `--report`; an operand has no name.
struct typed_file {
  std::string by;
  fs::path path;
  file_use use;
};

/// The path that a file which is not there would have: absolute, behind links that lead nowhere yet.
inline fs::path future_path(fs::path path) {
  std::error_code unknown;
  for (int links = 0; links < 40 && fs::is_symlink(fs::symlink_status(path, unknown)); ++links) {
    auto const to = fs::read_symlink(path, unknown);
    path = to.is_absolute() ? to : path.parent_path() / to;
  }
  return fs::weakly_canonical(fs::absolute(path, unknown), unknown);
}

/// Whether both are one file, also by another name; files that are not there by where they would be. Devices
/// and pipes are written to by as many as like.
inline bool same_file(fs::path const& a, fs::path const& b) {
  struct stat at_a{}, at_b{};
  bool const is_a = stat(a.c_str(), &at_a) == 0, is_b = stat(b.c_str(), &at_b) == 0;
  if (is_a && is_b)
    return at_a.st_dev == at_b.st_dev && at_a.st_ino == at_b.st_ino &&
           (S_ISREG(at_a.st_mode) || S_ISDIR(at_a.st_mode));
  return !is_a && !is_b && future_path(a) == future_path(b);
}

/// Whether `file` is, or would be, one of those that `has` names in a folder.
inline bool is_among(fs::path const& file, fs::path const& folder, bool (*has)(std::string_view name)) {
  std::error_code missing;
  for (auto const& entry : fs::directory_iterator(folder, missing))
    if (has(entry.path().filename().string()) && same_file(entry.path(), file)) return true;
  auto const name = file.filename().string();
  return has(name) && same_file(folder / name, file);
}

/// Whether writing `output` would write over `other`.
inline bool writes_over(typed_file const& output, typed_file const& other) {
  using enum file_use::kind;
  if (output.use.what == folder && is_among(other.path, output.path, output.use.has)) return true;
  if (other.use.what == folder && is_among(output.path, other.path, other.use.has)) return true;
  return same_file(output.path, other.path);
}

/// \throws cleave::error where one output is an input or another output
inline void require_apart(std::vector<typed_file> const& files) {
  for (auto const& output : files)
    for (auto const& other : files) {
      if (&output == &other || !output.use.is_output() || !writes_over(output, other)) continue;
      auto const what = other.by.empty()        ? "which is read"
                        : other.use.is_output() ? "and so would " + other.by
                                                : "which " + other.by + " reads";
      throw cleave::error(output.by + " would write over " + shown(other.path) + ", " + what +
                          "; write elsewhere");
    }
}

/// \throws cleave::error where a file is there that cleave has not written for such a use
inline void require_own(fs::path const& path, file_use const& use) {
  std::error_code missing;
  if (!fs::exists(path, missing) || is_stream(path)) return;
  auto const text = read_text(path);
  if (text.empty() || (use.is_own != nullptr && use.is_own(text))) return;
  if (!use.form.empty() && is_marked(path, use.form, text)) return;
  std::string const changed = use.form.empty() ? "" : ", or it has changed since";
  std::string const untold = use.form.empty() || keeps_attributes(path)
                                 ? ""
                                 : " (this file system keeps no attributes, so cleave cannot tell)";
  throw cleave::error(shown(path) + ": exists, and this option did not write it" + changed + untold +
                      "; move it away, write elsewhere, or add --overwrite");
}

}  // namespace tool
