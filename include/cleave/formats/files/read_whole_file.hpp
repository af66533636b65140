// SPDX-License-Identifier: MIT
#pragma once
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "cleave/core/bytes.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/formats/files/durable_file.hpp"

namespace cleave::inline v0_2::detail {

/// Limits of `read_whole_file` and `read_to_end`.
struct whole_file_limits {
  std::uint64_t most_bytes = 4_GiB;
  std::string_view raised_by{};  ///< what raises `most_bytes`, for the message
  bool is_text = false;          ///< refuses the file at its first zero byte, before it reads on
  /// For pipes, devices and files of the kernel: how long to wait for the next bytes; negative: as long as it
  /// takes.
  std::chrono::milliseconds next_bytes_within{60'000};
};

/// Thrown if a file cannot be read as a whole. The witness is the reason, without the path.
using whole_file_error = witness_error<std::string>;

/// Returns the place of `text[at]`, as in `line 3, column 1`.
inline std::string place_in_text(std::string_view text, std::size_t at) {
  auto const before = text.substr(0, at);
  auto const start = before.rfind('\n');
  return "line " + std::to_string(std::ranges::count(before, '\n') + 1) + ", column " +
         std::to_string(at - (start == before.npos ? 0 : start + 1) + 1);
}

/// Returns why a text with a zero byte at `zero` is refused.
inline std::string zero_byte_text(std::string_view text, std::size_t zero) {
  return place_in_text(text, zero) + ": a zero byte, which no text has; the file is binary or damaged";
}

/// Returns the bytes of an open file from its present place to its end, within the limits; `name` begins the
/// messages. A read error is never taken for the end of the file. Takes no more memory than the file has
/// bytes; a file that is larger than the limit is refused before it is read. `check_beginning` is called with
/// the first bytes before the others are read; it throws if no good file begins so.
/// \throws whole_file_error, whose message begins with the name
template <class Check>
std::string read_to_end(file_handle const& file, std::string const& name, whole_file_limits const& limits,
                        Check check_beginning) {
  auto const refused = [&](std::string const& why) {
    return whole_file_error(printable(name, 200) + ": " + why, why);
  };
  auto const unreadable = [&](char const* what, int code) {
    return refused(what + std::error_code(code, std::generic_category()).message());
  };
  auto const too_large = [&] {
    return refused("it has more bytes than the limit of " + format_bytes(limits.most_bytes) +
                   (limits.raised_by.empty() ? "" : "; " + std::string(limits.raised_by) + " raises it"));
  };
  struct ::stat found{};
  if (::fstat(file.number(), &found) != 0) throw unreadable("cannot be read: ", errno);
  if (S_ISDIR(found.st_mode)) throw refused("this is a folder; name a file in it");
  bool const is_regular = S_ISREG(found.st_mode);
  auto const expected = is_regular ? static_cast<std::uint64_t>(found.st_size) : 0;
  if (expected > limits.most_bytes) throw too_large();
  std::string bytes;
  auto const make_room = [&](auto grow) {
    try {
      grow();
    } catch (std::bad_alloc const&) {
      auto const held = is_regular
                            ? "there is no memory for its " + format_bytes(expected)
                            : "there is no memory for more than " + format_bytes(bytes.size()) + " of it";
      throw refused(held +
                    "; allow the process more (ulimit -v, or the limit of its container), or use a "
                    "smaller file");
    }
  };
  constexpr std::size_t first_piece = 1 << 16, most_at_once = 1 << 20;
  for (;;) {
    pollfd source{file.number(), POLLIN, 0};  // of regular files only some of the kernel are not always ready
    auto const ready = ::poll(&source, 1, static_cast<int>(limits.next_bytes_within.count()));
    if (ready < 0 && errno != EINTR) throw unreadable("cannot be read: ", errno);
    if (ready == 0)
      throw refused("nothing came from it within " + std::to_string(limits.next_bytes_within.count()) +
                    " ms");
    if (ready < 0) continue;
    auto const before = bytes.size(), room = bytes.capacity() - before;
    auto const piece = before == 0 ? first_piece : room == 0 ? most_at_once : (std::min)(room, most_at_once);
    make_room([&] { bytes.resize(before + piece); });
    auto const got = ::read(file.number(), bytes.data() + before, piece);
    if (got < 0 && errno != EINTR && errno != EAGAIN) throw unreadable("cannot be read: ", errno);
    bytes.resize(before + static_cast<std::size_t>((std::max)(got, ssize_t{0})));
    if (bytes.size() > limits.most_bytes) throw too_large();
    if (got == 0) return bytes;
    if (got < 0) continue;
    if (before == 0) check_beginning(std::string_view(bytes));
    if (limits.is_text)
      if (auto const zero = bytes.find('\0', before); zero != bytes.npos)
        throw refused(zero_byte_text(bytes, zero));
    if (before == 0 && expected > 0)  // one more, to see the end
      make_room([&] { bytes.reserve(static_cast<std::size_t>(expected) + 1); });
  }
}

/// Returns the bytes of a file. Pipes and devices are read to their end, within the limits.
/// \throws whole_file_error, whose message begins with the path
template <class Check>
std::string read_whole_file(std::string const& path, whole_file_limits const& limits, Check check_beginning) {
  std::optional<file_handle> file;
  try {
    file.emplace(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, "opened");
  } catch (file_error const& e) {
    auto const why =
        "cannot be opened: " + std::error_code(e.witness.code, std::generic_category()).message();
    throw whole_file_error(printable(path, 200) + ": " + why, why);
  }
  return read_to_end(*file, path, limits, check_beginning);
}

inline std::string read_whole_file(std::string const& path, whole_file_limits const& limits = {}) {
  return read_whole_file(path, limits, [](std::string_view) {});
}

}  // namespace cleave::detail
