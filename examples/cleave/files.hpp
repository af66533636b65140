// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace tool {

namespace fs = std::filesystem;

/// As one would type it from here.
inline std::string shown(fs::path const& path) {
  auto const near = fs::proximate(path).string();
  return cleave::printable(near.starts_with("..") ? fs::absolute(path).lexically_normal().string() : near,
                           200);
}

/// \throws cleave::error where the file cannot be read.
inline std::string read_text(fs::path const& path) {
  auto const refuse = [&](std::string const& why) {
    throw cleave::error(cleave::printable(path.string(), 200) + ": " + why);
  };
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) refuse("this is a directory; name a file in it");
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse("cannot be opened; check the path and its permissions");
  std::ostringstream text;
  if (in.peek() != std::ifstream::traits_type::eof() && !(text << in.rdbuf())) refuse("cannot be read");
  return std::move(text).str();
}

/// \throws cleave::error where the file cannot be written.
inline void write_file(fs::path const& path, std::string const& text) {
  std::ofstream out(path, std::ios::binary);
  if (!(out << text) || !out.flush())
    throw cleave::error(cleave::printable(path.string()) + ": cannot be written");
}

}  // namespace tool
