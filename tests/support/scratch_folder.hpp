// SPDX-License-Identifier: MIT
#pragma once
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace cleave::testing {

/// A new folder that is removed with its contents at the end of the scope.
class scratch_folder {
 public:
  explicit scratch_folder(std::filesystem::path const& inside = std::filesystem::temp_directory_path()) {
    auto name = (inside / "cleave-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch folder " + name);
    path_ = name;
  }
  scratch_folder(scratch_folder const&) = delete;
  scratch_folder& operator=(scratch_folder const&) = delete;
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(std::string const& file) const { return (path_ / file).string(); }
  std::string path() const { return path_.string(); }

  /// Returns a folder in memory if the system has one, for tests that write much.
  static std::filesystem::path in_memory() {
    bool const there = ::access("/dev/shm", W_OK) == 0;
    return there ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace cleave::testing
