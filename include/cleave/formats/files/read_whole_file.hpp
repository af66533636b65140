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
#include <system_error>

#include "cleave/core/bytes.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/formats/files/durable_file.hpp"

namespace cleave::detail {

/// Limits of `read_whole_file`.
struct whole_file_limits {
  std::uint64_t most_bytes = 4_GiB;
  /// For pipes and devices: how long to wait for the next bytes.
  std::chrono::milliseconds next_bytes_within{60'000};
};

/// Thrown if a file cannot be read as a whole. The witness is the reason, without the path.
using whole_file_error = witness_error<std::string>;

/// Returns the bytes of a file. Pipes and devices are read to their end, within the limits. A read error is
/// never taken for the end of the file.
/// \throws whole_file_error, whose message begins with the path
inline std::string read_whole_file(std::string const& path, whole_file_limits const& limits = {}) {
  auto const refused = [&](std::string const& why) {
    return whole_file_error(printable(path, 200) + ": " + why, why);
  };
  auto const unreadable = [&](char const* what, int code) {
    return refused(what + std::error_code(code, std::generic_category()).message());
  };
  auto const too_large = [&] {
    return refused("it has more bytes than the limit of " + format_bytes(limits.most_bytes));
  };
  std::optional<file_handle> file;
  try {
    file.emplace(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, "opened");
  } catch (file_error const& e) {
    throw unreadable("cannot be opened: ", e.witness.code);
  }
  struct ::stat found{};
  if (::fstat(file->number(), &found) != 0) throw unreadable("cannot be read: ", errno);
  if (S_ISDIR(found.st_mode)) throw refused("this is a folder; name a file in it");
  bool const is_regular = S_ISREG(found.st_mode);
  std::string bytes;
  auto const make_room = [&](auto grow) {
    try {
      grow();
    } catch (std::bad_alloc const&) {
      throw refused("there is no memory for more than " + format_bytes(bytes.size()) +
                    " of it; give the process more, or a smaller file");
    }
  };
  if (is_regular) {
    if (static_cast<std::uint64_t>(found.st_size) > limits.most_bytes) throw too_large();
    // One more, to see the end.
    make_room([&] { bytes.reserve(static_cast<std::size_t>(found.st_size) + 1); });
  }
  constexpr std::size_t most_at_once = 1 << 20;
  for (;;) {
    if (!is_regular) {
      pollfd source{file->number(), POLLIN, 0};
      auto const ready = ::poll(&source, 1, static_cast<int>(limits.next_bytes_within.count()));
      if (ready < 0 && errno != EINTR) throw unreadable("cannot be read: ", errno);
      if (ready == 0)
        throw refused("nothing came from it within " + std::to_string(limits.next_bytes_within.count()) +
                      " ms");
      if (ready < 0) continue;
    }
    auto const before = bytes.size(), room = bytes.capacity() - before;
    auto const piece = room > 0 ? (std::min)(room, most_at_once) : most_at_once;
    make_room([&] { bytes.resize(before + piece); });
    auto const got = ::read(file->number(), bytes.data() + before, piece);
    if (got < 0 && errno != EINTR && errno != EAGAIN) throw unreadable("cannot be read: ", errno);
    bytes.resize(before + static_cast<std::size_t>((std::max)(got, ssize_t{0})));
    if (bytes.size() > limits.most_bytes) throw too_large();
    if (got == 0) return bytes;
  }
}

}  // namespace cleave::detail
