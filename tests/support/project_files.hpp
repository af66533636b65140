// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

/// The files of the project, for the tests in tests/house.
namespace project {

inline std::filesystem::path const root = CLEAVE_SOURCE_DIR;

inline std::string text_of(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Returns the files under `folder` with one of these `extensions` (any, if empty), sorted, relative to the
/// root. Skips files that git ignores, such as build folders.
inline std::vector<std::string> files(std::string const& folder,
                                      std::vector<std::string> const& extensions = {}) {
  std::vector<std::string> found;
  auto it = std::filesystem::recursive_directory_iterator(root / folder);
  for (; it != std::filesystem::recursive_directory_iterator(); ++it) {
    auto const name = it->path().filename().string();
    if (it->is_directory() && (name == ".git" || name == "build" || name == ".cache" || name == ".venv"))
      it.disable_recursion_pending();
    auto const extension = it->path().extension().string();
    if (it->is_regular_file() && (extensions.empty() || std::ranges::count(extensions, extension)))
      found.push_back(it->path().lexically_relative(root).generic_string());
  }
  std::ranges::sort(found);
  return found;
}

inline std::vector<std::string> headers() { return files("include", {".hpp", ".cuh"}); }

}  // namespace project
