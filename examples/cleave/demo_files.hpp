// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "files.hpp"
#include "options.hpp"
#include "own_files.hpp"

namespace tool {

/// Returns the output folder of a demo: the given one, or `build/demo/NAME` in the current folder.
inline fs::path demo_folder(std::string const& typed, std::string const& name) {
  return typed.empty() ? fs::path("build/demo") / name : fs::path(typed);
}

/// \throws cleave::error if the report would replace another file
inline void require_own_report(fs::path const& folder, typed_words const& typed) {
  if (!typed.overwrite)
    require_own(folder / "report.html", {.what = file_use::kind::written, .is_own = is_own_page});
}

}  // namespace tool
