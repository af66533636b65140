// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "files.hpp"
#include "options.hpp"
#include "own_files.hpp"

namespace tool {

/// Where a demo writes: the folder that was typed, or `build/demo/NAME` below the current one.
inline fs::path demo_folder(std::string const& typed, std::string const& name) {
  return typed.empty() ? fs::path("build/demo") / name : fs::path(typed);
}

/// \throws cleave::error where the report of a demo would replace what is none
inline void require_own_report(fs::path const& folder, typed_words const& typed) {
  if (!typed.overwrite)
    require_own(folder / "report.html", {.what = file_use::kind::written, .is_own = is_own_page});
}

}  // namespace tool
