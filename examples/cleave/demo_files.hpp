// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "files.hpp"
#include "options.hpp"
#include "own_files.hpp"

namespace tool {

/// Where a demo writes: the folder that was typed, or one of its own where the tool was built.
inline fs::path demo_folder(std::string const& typed, std::string const& name) {
  return typed.empty() ? fs::path(CLEAVE_SOURCE_DIR) / "build/demo" / name : fs::path(typed);
}

/// \throws cleave::error where the report of a demo would replace what is none
inline void demand_own_report(fs::path const& folder, typed_words const& typed) {
  if (!typed.overwrite)
    demand_own(folder / "report.html", is_own_page, "move it away, write elsewhere, or add --overwrite");
}

}  // namespace tool
