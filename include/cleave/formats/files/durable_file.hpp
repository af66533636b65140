// SPDX-License-Identifier: MIT
#pragma once
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <list>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/name_digest.hpp"
#include "cleave/core/printable.hpp"

/// Files that appear under their name complete or not at all, even if the process or the machine stops.
namespace cleave::inline v0_2 {

/// A file operation that the system refused.
struct file_fault {
  static constexpr char subject[] = "file ";
  std::string path;
  std::string operation;  ///< past participle for the message, such as `written`
  int code;               ///< value of `errno`; 0 for what is not a regular file

  bool operator==(file_fault const&) const = default;
};

/// The message for a fault, in one sentence.
inline std::string describe(file_fault const& f) {
  return "'" + printable(f.path, 400) + "' cannot be " + f.operation + ": " +
         (f.code == 0 ? "it is not a regular file"
                      : std::error_code(f.code, std::generic_category()).message());
}

/// Thrown if the system refuses to read or write a file; the witness is the file and the reason.
using file_error = fault_error<file_fault>;

/// An open file or folder.
class file_handle {
 public:
  /// Opens an existing file; `flags` as for open(2). \throws file_error
  file_handle(std::string path, int flags, char const* operation) : path_(std::move(path)) {
    do number_ = ::open(path_.c_str(), flags | O_CLOEXEC);
    while (number_ < 0 && errno == EINTR);
    if (number_ < 0) fail(operation);
  }
  /// Takes ownership of an open file descriptor; errors name the file `path`.
  file_handle(std::string path, int number) : path_(std::move(path)), number_(number) {}
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

  /// Returns the file descriptor.
  int number() const { return number_; }
  std::string const& path() const { return path_; }

  /// Returns once all written bytes are on the disk. \throws file_error
  void sync() const {
    int done = 0;
    do done = ::fsync(number_);
    while (done != 0 && errno == EINTR);
    if (done != 0) fail("synced to the disk");
  }

  /// Closes the file before the end of its lifetime. Precondition: called once. \throws file_error
  void close() {
    if (::close(std::exchange(number_, -1)) != 0) fail("closed");
  }

  /// Appends all of `bytes` at the current position. Waits for a pipe that is full. \throws file_error
  void write(std::span<std::byte const> bytes) const {
    while (!bytes.empty()) {
      auto const put = ::write(number_, bytes.data(), bytes.size());
      if (put < 0 && errno == EAGAIN)
        await_room();
      else if (put < 0 && errno != EINTR)
        fail("written");
      bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(put, 0)));
    }
  }

  /// Reports a failed operation. \throws file_error with the value of `errno`
  [[noreturn]] void fail(char const* operation) const { throw file_error({path_, operation, errno}); }

 private:
  void await_room() const {
    pollfd pipe{number_, POLLOUT, 0};
    if (::poll(&pipe, 1, -1) < 0 && errno != EINTR) fail("written");
  }

  std::string path_;
  int number_ = -1;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Opens a folder, to bring its entries to the disk later. \throws file_error
inline file_handle open_folder(std::string const& folder) {
  return {folder, O_RDONLY | O_DIRECTORY, "opened"};
}

/// Brings the entries of a folder to the disk, if the file system supports that. \throws file_error
inline void sync_folder(file_handle const& folder) {
  try {
    folder.sync();
  } catch (file_error const& e) {
    if (e.witness.code != EINVAL) throw;
  }
}

/// Returns the names of the files and folders in a folder, in no order. If it cannot be read to its end,
/// `fault` says why. libstdc++'s `directory_iterator` ends the program if there is no memory for a name.
inline std::vector<std::string> names_in(std::string const& folder, std::error_code& fault) {
  fault.clear();
  std::vector<std::string> names;
  std::unique_ptr<::DIR, int (*)(::DIR*)> const open(::opendir(folder.c_str()), ::closedir);
  if (!open) fault.assign(errno, std::generic_category());
  while (open) {
    errno = 0;
    auto const* const entry = ::readdir(open.get());
    if (!entry && errno != 0) fault.assign(errno, std::generic_category());
    if (!entry) break;
    std::string_view const name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A regular file open for reading.
class stored_file {
 public:
  /// Opens a file. Never waits, as for the writer of a FIFO. \throws file_error
  explicit stored_file(std::string path) : handle_(std::move(path), O_RDONLY | O_NONBLOCK, "opened") {
    struct ::stat found{};
    if (::fstat(handle_.number(), &found) != 0) handle_.fail("queried for its size");
    if (!S_ISREG(found.st_mode)) throw file_error({handle_.path(), "read", 0});
    size_ = static_cast<std::uint64_t>(found.st_size);
  }

  std::string const& path() const { return handle_.path(); }
  /// Returns the size in bytes when the file was opened.
  std::uint64_t size() const { return size_; }

  /// Fills `to` with the bytes from `offset` on; returns how many were read. Thread-safe. \throws file_error
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

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The suffix of files that are not yet complete.
inline constexpr std::string_view unfinished_ending = ".unfinished";

/// Returns a digest of this boot of the machine and the process's container, as 16 hexadecimal digits.
/// Process numbers are unique within this space.
inline std::string process_space() {
  std::array<char, 256> boot{}, space{};
  if (int const file = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC); file >= 0) {
    if (::read(file, boot.data(), boot.size() - 1) < 0) boot[0] = '\0';
    ::close(file);
  }
  if (boot[0] == '\0') ::gethostname(boot.data(), boot.size() - 1);
  if (::readlink("/proc/self/ns/pid", space.data(), space.size() - 1) < 0) space[0] = '\0';
  return name_digest().add(boot.data()).add(space.data()).text();
}

/// Returns true if the file `name` was begun by a process of `space` that has ended.
inline bool is_left_by_ended_process(std::string_view name, std::string_view space) {
  if (!name.ends_with(unfinished_ending)) return false;
  name.remove_suffix(unfinished_ending.size());
  auto const dot = name.rfind('.');
  if (dot == name.npos || !name.substr(0, dot).ends_with("." + std::string(space))) return false;
  auto const numbers = name.substr(dot + 1);
  pid_t process = 0;
  auto const [end, fault] = std::from_chars(numbers.data(), numbers.data() + numbers.size(), process);
  if (fault != std::errc() || end == numbers.data() + numbers.size() || *end != '-' || process <= 0)
    return false;
  return ::kill(process, 0) != 0 && errno == ESRCH;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Removes files in `folder` that a `pending_file` began in a process that has ended. Files of other machines
/// or of an earlier boot are kept. Files that cannot be removed are skipped. O(files in the folder).
inline void remove_leftovers(std::string const& folder) {
  auto const space = detail::process_space();
  std::error_code stop;
  for (auto const& name : detail::names_in(folder, stop)) {
    auto const file = folder + "/" + name;
    struct ::stat found{};
    if (detail::is_left_by_ended_process(name, space) && ::lstat(file.c_str(), &found) == 0 &&
        S_ISREG(found.st_mode))
      ::unlink(file.c_str());
  }
}

}  // namespace cleave

namespace cleave::inline v0_2 {

/// A file that becomes visible under its name only once it is complete and on the disk. If `keep` is not
/// called, the file is removed.
class pending_file {
 public:
  /// Begins a new file in `folder` with a unique name that begins with `name`. Existing files are not
  /// touched, and no link is followed. \throws file_error, which names `folder`/`name`
  pending_file(std::string folder, std::string const& name)
      : folder_(std::move(folder)), handle_(folder_ + "/" + name, -1) {
    auto const stem = folder_ + "/" + name.substr(0, 200) + "." + detail::process_space() + "." +
                      std::to_string(::getpid()) + "-";
    auto path = handle_.path();  // copied while there is no file that could be left behind
    int number = -1;
    for (int n = 0; number < 0 && n < 10'000; ++n) {
      temporary_ = stem + std::to_string(n) + std::string(detail::unfinished_ending);
      number = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
      if (number < 0 && errno != EEXIST && errno != EINTR) break;
    }
    if (number < 0) handle_.fail("created");
    handle_ = file_handle(std::move(path), number);
  }
  pending_file(pending_file const&) = delete;
  pending_file& operator=(pending_file const&) = delete;
  ~pending_file() {
    if (!kept_) ::unlink(temporary_.c_str());
  }

  file_handle const& handle() const { return handle_; }

  /// Writes `bytes` at `offset`. \throws file_error
  void write(std::uint64_t offset, std::span<std::byte const> bytes) const {
    for (std::size_t done = 0; done < bytes.size();) {
      auto const put = ::pwrite(handle_.number(), bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(offset + done));
      if (put < 0 && errno != EINTR) handle_.fail("written");
      done += static_cast<std::size_t>(std::max<ssize_t>(put, 0));
    }
  }

  /// Brings the file to the disk and closes it; nothing can be written afterwards. \throws file_error
  void finish() {
    if (handle_.number() < 0) return;
    handle_.sync();
    handle_.close();
  }

  /// Finishes the file and gives it its name, replacing an existing file. When this returns, the file is
  /// durable. If it throws, the name refers to this file or to the previous one, and either is complete.
  /// Precondition: called once.
  /// \throws file_error
  void keep(std::string const& name) { give_name(name, &pending_file::rename_to); }

  /// Does the same, but throws if a file has that name, which then keeps it. File systems without hard links
  /// replace a file that appears during the call.
  void keep_new(std::string const& name) { give_name(name, &pending_file::link_to); }

 private:
  friend class pending_files;

  void rename_to(std::string const& path) {
    if (std::rename(temporary_.c_str(), path.c_str()) != 0)
      throw file_error({path, "renamed into place", errno});
    kept_ = true;
  }

  void link_to(std::string const& path) {
    if (::link(temporary_.c_str(), path.c_str()) == 0) {
      ::unlink(temporary_.c_str());
      kept_ = true;
      return;
    }
    struct ::stat found{};
    if (errno == EEXIST || ::lstat(path.c_str(), &found) == 0) throw file_error({path, "created", EEXIST});
    rename_to(path);
  }

  void give_name(std::string const& name, void (pending_file::*give)(std::string const& path)) {
    expects(!kept_, "pending_file: kept once");
    finish();
    auto const folder = detail::open_folder(folder_);
    (this->*give)(folder_ + "/" + name);
    detail::sync_folder(folder);
  }

  std::string folder_, temporary_;
  file_handle handle_;
  bool kept_ = false;
};

/// Files of one folder that get their names together, once all of them are complete and on the disk.
class pending_files {
 public:
  explicit pending_files(std::string folder) : folder_(std::move(folder)) {}

  /// Begins a file that is to have this name. \throws file_error
  pending_file& add(std::string const& name) { return files_.emplace_back(folder_, name).file; }
  /// Adds a file with this name and content. \throws file_error
  void add(std::string const& name, std::span<std::byte const> bytes) {
    auto& file = add(name);
    file.write(0, bytes);
    file.finish();
  }

  /// Removes the files of `stale`, then gives the files their names, both from the last to the first. So a
  /// process that is stopped meanwhile leaves some of the old files or some of the new ones, never some of
  /// both. Replaces other existing files. Also removes unfinished files of processes that have ended.
  /// Precondition: called once. \throws file_error; before any file is removed if a name is that of a folder
  void keep(std::vector<std::string> const& stale = {}) {
    for (auto& f : files_) f.file.finish();
    for (auto const& f : files_) require_replaceable(f.name);
    auto const folder = detail::open_folder(folder_);
    for (auto const& old : std::views::reverse(stale)) ::unlink((folder_ + "/" + old).c_str());
    for (auto& f : std::views::reverse(files_)) f.file.rename_to(folder_ + "/" + f.name);
    detail::sync_folder(folder);
    remove_leftovers(folder_);
  }

 private:
  struct named_file {
    named_file(std::string const& folder, std::string const& called) : name(called), file(folder, called) {}
    std::string name;
    pending_file file;
  };

  void require_replaceable(std::string const& name) const {
    auto path = folder_ + "/" + name;
    struct ::stat found{};
    if (::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode))
      throw file_error({std::move(path), "renamed into place", EISDIR});
  }

  std::string folder_;
  std::list<named_file> files_;
};

}  // namespace cleave
