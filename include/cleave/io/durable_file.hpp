// SPDX-License-Identifier: MIT
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/printable.hpp"

/// Files that are there whole or not at all, whenever the process or the machine stops.
namespace cleave {

/// What the system refused.
struct file_fault {
  std::string path;
  std::string operation;  ///< `written`
  int code;               ///< as in `errno`

  bool operator==(file_fault const&) const = default;
};

/// One sentence.
inline std::string describe(file_fault const& f) {
  return "'" + printable(f.path, 400) + "' cannot be " + f.operation + ": " +
         std::error_code(f.code, std::generic_category()).message();
}

/// The system refused to read or write a file. The witness: which, and why.
class file_error : public witness_error<file_fault> {
 public:
  explicit file_error(file_fault const& f) : witness_error("file " + describe(f), f) {}
};

/// An open file or folder.
class file_handle {
 public:
  /// `flags` and `mode` as of open(2). \throws file_error
  file_handle(std::string path, int flags, mode_t mode, char const* operation) : path_(std::move(path)) {
    do number_ = ::open(path_.c_str(), flags | O_CLOEXEC, mode);
    while (number_ < 0 && errno == EINTR);
    if (number_ < 0) fail(operation);
  }
  file_handle(file_handle&& other) noexcept
      : path_(std::move(other.path_)), number_(std::exchange(other.number_, -1)) {}
  file_handle& operator=(file_handle&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~file_handle() {
    if (number_ >= 0) ::close(number_);
  }

  int number() const { return number_; }
  std::string const& path() const { return path_; }

  /// Returns when all that was written is on the disk. \throws file_error
  void sync() const {
    int done = 0;
    do done = ::fsync(number_);
    while (done != 0 && errno == EINTR);
    if (done != 0) fail("brought to the disk");
  }

  /// \throws file_error with what `errno` says
  [[noreturn]] void fail(char const* operation) const { throw file_error({path_, operation, errno}); }

 private:
  std::string path_;
  int number_ = -1;
};

/// Brings the names in a folder to the disk, where the file system knows such a thing. \throws file_error
inline void sync_folder(std::string const& folder) {
  try {
    file_handle(folder, O_RDONLY | O_DIRECTORY, 0, "opened").sync();
  } catch (file_error const& e) {
    if (e.witness.code != EINVAL) throw;
  }
}

/// A file that is being read.
class stored_file {
 public:
  /// \throws file_error
  explicit stored_file(std::string path) : handle_(std::move(path), O_RDONLY, 0, "opened") {
    struct ::stat found{};
    if (::fstat(handle_.number(), &found) != 0) handle_.fail("asked for its size");
    size_ = static_cast<std::uint64_t>(found.st_size);
  }

  std::string const& path() const { return handle_.path(); }
  /// As it was when the file was opened.
  std::uint64_t size() const { return size_; }

  /// Fills `to` with the bytes from `offset` on; how many there were. Any thread may read. \throws file_error
  std::size_t read(std::uint64_t offset, std::span<std::byte> to) const {
    std::size_t done = 0;
    while (done < to.size()) {
      auto const got =
          ::pread(handle_.number(), to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno != EINTR) handle_.fail("read");
      if (got == 0) break;
      done += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    }
    return done;
  }

 private:
  file_handle handle_;
  std::uint64_t size_ = 0;
};

/// A file that nobody sees under its name before it is whole and on the disk. Without `keep`, nothing is left
/// of it.
class pending_file {
 public:
  /// Begins `folder`/`temporary`, in place of what has this name. \throws file_error
  pending_file(std::string const& folder, std::string const& temporary)
      : folder_(folder), handle_(folder + "/" + temporary, O_WRONLY | O_CREAT | O_TRUNC, 0666, "made") {}
  pending_file(pending_file const&) = delete;
  pending_file& operator=(pending_file const&) = delete;
  ~pending_file() {
    if (!kept_) ::unlink(handle_.path().c_str());
  }

  /// \throws file_error
  void write(std::uint64_t offset, std::span<std::byte const> bytes) const {
    for (std::size_t done = 0; done < bytes.size();) {
      auto const put = ::pwrite(handle_.number(), bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(offset + done));
      if (put < 0 && errno != EINTR) handle_.fail("written");
      done += static_cast<std::size_t>(std::max<ssize_t>(put, 0));
    }
  }

  /// Brings the file to the disk and gives it its name, in place of what has it. It is there for good when
  /// this returns; where it throws, the name may mean this file or what it meant before, both whole.
  /// Precondition: called once. \throws file_error
  void keep(std::string const& name) {
    expects(!kept_, "pending_file: kept once");
    handle_.sync();
    auto const path = folder_ + "/" + name;
    if (std::rename(handle_.path().c_str(), path.c_str()) != 0)
      throw file_error({path, "given its name", errno});
    kept_ = true;
    sync_folder(folder_);
  }

 private:
  std::string folder_;
  file_handle handle_;
  bool kept_ = false;
};

/// What tells the temporary files of this process from those of others.
inline std::string process_mark() { return std::to_string(::getpid()); }

}  // namespace cleave
