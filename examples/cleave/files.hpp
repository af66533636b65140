// SPDX-License-Identifier: MIT
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cleave/core/error.hpp>
#include <cleave/core/name_digest.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/files/durable_file.hpp>
#include <cleave/formats/files/read_whole_file.hpp>
#include <cleave/formats/graph_files/graph_file.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "terminal.hpp"

namespace tool {

namespace fs = std::filesystem;

/// Returns whether a path stands for stdin or stdout.
inline bool is_standard(fs::path const& path) { return path == "-"; }

/// Returns the name of a file that is read, for messages.
inline std::string input_name(fs::path const& path) {
  return is_standard(path) ? "standard input" : cleave::printable(path.string(), 200);
}

/// The path of the file behind stdin.
inline constexpr char standard_input_path[] = "/dev/stdin";

/// Returns the path relative to the current folder, or as it is where that is not known, as for pipes.
inline std::string shown(fs::path const& path) {
  if (path == standard_input_path) return input_name("-");
  std::error_code unknown;
  auto const near = fs::proximate(path, unknown), whole = fs::absolute(path, unknown);
  if (unknown) return cleave::printable(path.string(), 200);
  auto const is_outside = near.string().starts_with("..");
  return cleave::printable(is_outside ? whole.lexically_normal().string() : near.string(), 200);
}

/// The option that raises the limit of what is read from one file, and its value; 0 if it was not given.
inline constexpr std::string_view file_limit_option = "--max-file";
inline std::uint64_t given_file_limit = 0;

/// The files to read that the command line names.
inline std::vector<fs::path> named_inputs;

/// The outputs that did not exist when the options were read.
inline std::set<fs::path> new_outputs;

/// Returns the most bytes of a file that the tool reads.
inline std::uint64_t file_limit() {
  return given_file_limit > 0 ? given_file_limit : cleave::detail::whole_file_limits{}.most_bytes;
}

/// Returns all of stdin, which is read at the first call, with the limit of a file.
/// \throws cleave::error if it cannot be read or is larger than the limit.
inline std::string const& standard_input() {
  static std::string const bytes =
      cleave::detail::read_to_end(cleave::file_handle(input_name("-"), dup(STDIN_FILENO)), input_name("-"),
                                  {.most_bytes = file_limit(),
                                   .raised_by = file_limit_option,
                                   .next_bytes_within = std::chrono::milliseconds(-1)},
                                  [](std::string_view) {});
  return bytes;
}

/// Returns the path of a file that is read as it was given, for JSON; `standard input` for `-`.
inline std::string given_name(fs::path const& path) {
  return is_standard(path) ? input_name(path) : path.string();
}

/// Returns whether a text begins as an object or a list of JSON does.
inline bool begins_as_json(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  auto const first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && (text[first] == '{' || text[first] == '[');
}

/// Returns the name of a file that is read without its folder, for titles.
inline std::string file_title(fs::path const& path) {
  return is_standard(path) ? input_name(path) : path.filename().string();
}
inline std::string short_name(fs::path const& path) { return cleave::printable(file_title(path)); }

/// Returns the text of a file, or of stdin for `-`.
/// \throws cleave::error if it cannot be read, is larger than the limit or has a zero byte.
inline std::string read_text(fs::path const& path) {
  if (is_standard(path)) {
    auto const& text = standard_input();
    if (auto const zero = text.find('\0'); zero != text.npos)
      throw cleave::error(input_name(path) + ": " + cleave::detail::zero_byte_text(text, zero));
    return text;
  }
  return cleave::detail::read_whole_file(
      path.string(), {.most_bytes = file_limit(), .raised_by = file_limit_option, .is_text = true});
}

/// Returns the bytes of a file, or of stdin for `-`, that need not be text. \throws cleave::error
inline std::string read_bytes(fs::path const& path) {
  if (is_standard(path)) return standard_input();
  return cleave::detail::read_whole_file(path.string(),
                                         {.most_bytes = file_limit(), .raised_by = file_limit_option});
}

/// Sets the limit and its option in the options of a reader of graphs.
inline cleave::graph_file_options limited(cleave::graph_file_options options) {
  options.max_bytes = file_limit();
  options.raised_by = file_limit_option;
  return options;
}

/// Returns the descriptor of stdout or stderr if it is this file, else -1.
inline int find_standard_stream(struct stat const& file) {
  struct stat open{};
  for (int const known : {STDOUT_FILENO, STDERR_FILENO})
    if (fstat(known, &open) == 0 && open.st_dev == file.st_dev && open.st_ino == file.st_ino) return known;
  return -1;
}

/// Returns whether `path` is written as a stream: a device, a named pipe, or the file behind stdout or
/// stderr.
inline bool is_stream(fs::path const& path) {
  struct stat file{};
  if (stat(path.c_str(), &file) != 0) return false;
  return (!S_ISREG(file.st_mode) && !S_ISDIR(file.st_mode)) || find_standard_stream(file) >= 0;
}

/// The extended attribute that marks files that cleave wrote, with a digest of the text and the form.
inline constexpr char written_attribute[] = "user.cleave.written";

/// Opens an existing file to append to it; it then has no mark. For a named pipe, waits at most a minute for
/// its reader.
/// \throws cleave::file_error, cleave::error if no process reads the pipe
inline cleave::file_handle open_end(fs::path const& path) {
  struct stat file{};
  bool const is_known = stat(path.c_str(), &file) == 0;
  if (int const known = is_known ? find_standard_stream(file) : -1; known >= 0) return {path, dup(known)};
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds longest{60};
  if (is_known && S_ISREG(file.st_mode)) removexattr(path.c_str(), written_attribute);
  for (auto const until = clock::now() + longest;;) {
    try {
      return {path, O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK, "opened"};
    } catch (cleave::file_error const& e) {
      if (e.witness.code != ENXIO || !S_ISFIFO(file.st_mode)) throw;
    }
    if (clock::now() >= until)
      throw cleave::error(shown(path) + ": no process has opened this pipe to read it within " +
                          std::to_string(longest.count()) + " s; start one, or name a file");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

inline std::span<std::byte const> bytes_of(std::string const& text) { return std::as_bytes(std::span(text)); }

/// Makes a folder, and requires that files can be made in it. \throws cleave::error with the reason and a
/// remedy
inline void make_folder(fs::path const& folder, std::string const& remedy = "choose another folder") {
  std::error_code why;
  fs::create_directories(folder, why);
  if (why)
    throw cleave::error(shown(folder) + ": cannot create this folder: " + why.message() + "; " + remedy);
  if (access(folder.c_str(), W_OK | X_OK) == 0) return;
  why = {errno, std::generic_category()};
  throw cleave::error(shown(folder) + ": cannot write to this folder: " + why.message() + "; " + remedy);
}

/// An output file, named by an option made by `file_to_write`.
struct output_file {
  std::string path;
  std::string form{};  ///< for texts that other programs write too; part of the mark that `is_marked` checks
  bool empty() const { return path.empty(); }
};

/// Returns a line with the path of a written file, or an empty text if nothing was written or stdout got it.
inline std::string written_line(output_file const& to) {
  return to.empty() || is_standard(to.path) ? "" : "  " + shown(to.path) + "\n";
}

inline std::string written_mark(std::string const& form, std::string const& text) {
  return cleave::name_digest().add(text).text() + ":" + form;
}

/// Returns the mark of a file, or nothing. Copies have no mark, nor do files on a file system without
/// extended attributes.
inline std::string mark_of(fs::path const& path) {
  std::array<char, 64> value{};
  auto const size = getxattr(path.c_str(), written_attribute, value.data(), value.size());
  return {value.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

/// Returns whether cleave wrote the file in this form and it has not changed since.
inline bool is_marked(fs::path const& path, std::string const& form, std::string const& text) {
  return mark_of(path) == written_mark(form, text);
}

/// Returns whether the file has a mark, but its text has changed since.
inline bool is_changed(fs::path const& path, std::string const& text) {
  auto const mark = mark_of(path), now = written_mark("", text);
  return mark.find(':') != mark.npos && !mark.starts_with(now);
}

/// Returns whether the file system there supports such attributes.
inline bool keeps_attributes(fs::path const& path) {
  return getxattr(path.c_str(), written_attribute, nullptr, 0) >= 0 || errno != ENOTSUP;
}

/// Writes a file atomically; `-` is stdout. It replaces an existing file and keeps that file's permissions,
/// but a file that appeared since the options were read is not replaced.
/// \throws cleave::file_error, lost_output_error
inline void write_file(output_file const& to, std::string const& text) {
  if (is_standard(to.path)) return write_stdout(text);
  if (is_stream(to.path)) return open_end(to.path).write(bytes_of(text));
  bool const is_new = new_outputs.erase(to.path) > 0;
  std::error_code missing;
  auto target = fs::canonical(to.path, missing);
  if (missing) target = to.path;
  auto const folder = target.has_parent_path() ? target.parent_path().string() : ".";
  cleave::pending_file file(folder, target.filename().string());
  file.write(0, bytes_of(text));
  struct stat old{};
  if (!missing && stat(target.c_str(), &old) == 0) fchmod(file.handle().number(), old.st_mode & 07777);
  auto const mark = written_mark(to.form, text);
  fsetxattr(file.handle().number(), written_attribute, mark.data(), mark.size(), 0);
  auto const name = target.filename().string();
  try {
    is_new ? file.keep_new(name) : file.keep(name);
  } catch (cleave::file_error const& e) {
    if (e.witness.code != EEXIST) throw;
    throw cleave::error(shown(target) + ": appeared while this command ran; move it, choose another file, " +
                        "or add --overwrite");
  }
  cleave::remove_leftovers(folder);
}

/// The last line of each page and picture that the tool writes to a file.
inline constexpr std::string_view page_mark = "<!-- Written by cleave. -->\n";

/// Writes a page of HTML or a picture in SVG. \throws cleave::file_error
inline void write_page(output_file const& to, std::string const& text) {
  write_file(to, text + std::string(page_mark));
}

}  // namespace tool
