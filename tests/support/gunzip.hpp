// SPDX-License-Identifier: MIT
#pragma once
#include <zlib.h>

#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace cleave::testing {

/// Returns the bytes of a file, decompressed if the file is gzip.
inline std::string gunzip(std::filesystem::path const& path) {
  gzFile const file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open " + path.string());
  std::string bytes;
  constexpr unsigned step = 1u << 16;
  for (int got = 1; got > 0;) {
    auto const had = bytes.size();
    bytes.resize(had + step);
    got = gzread(file, bytes.data() + had, step);
    bytes.resize(had + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got < 0) throw std::runtime_error("cannot unpack " + path.string());
  }
  gzclose(file);
  return bytes;
}

}  // namespace cleave::testing
