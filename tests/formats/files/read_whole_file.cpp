// SPDX-License-Identifier: MIT
#include "cleave/formats/files/read_whole_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "support/error_text.hpp"
#include "support/rng.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave::detail;
using namespace std::chrono_literals;
using cleave::testing::error_text;
using cleave::testing::scratch_folder;

namespace {

std::string refusal_of(std::string const& path, whole_file_limits const& limits = {}) {
  return error_text<whole_file_error>([&] { read_whole_file(path, limits); });
}

}  // namespace

TEST_CASE("read_whole_file: returns the bytes of files of any size, and of pipes") {
  scratch_folder const folder;
  cleave::testing::rng random(4);
  for (std::size_t const size : {0u, 1u, 4096u, 1u << 20, (1u << 20) + 1, 3'000'000u}) {
    std::string bytes(size, ' ');
    for (auto& c : bytes) c = static_cast<char>(random.below(256));
    std::ofstream(folder / "file", std::ios::binary) << bytes;
    CHECK(read_whole_file(folder / "file") == bytes);
    CHECK(read_whole_file(folder / "file", {.most_bytes = size}) == bytes);

    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    std::thread writer([&] {
      std::this_thread::sleep_for(20ms);
      std::ofstream(folder / "pipe", std::ios::binary) << bytes;
    });
    CHECK(read_whole_file(folder / "pipe") == bytes);
    writer.join();
    std::filesystem::remove(folder / "pipe");
  }
}

TEST_CASE("read_whole_file: what is not there, a folder, a silent pipe and too many bytes are errors") {
  scratch_folder const folder;
  CHECK(refusal_of(folder / "no") == (folder / "no") + ": cannot be opened: No such file or directory");
  CHECK(refusal_of(folder.path()) == folder.path() + ": this is a folder; name a file in it");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(refusal_of(folder / "pipe", {.next_bytes_within = 50ms}) ==
        (folder / "pipe") + ": nothing came from it within 50 ms");
  auto const began = std::chrono::steady_clock::now();
  CHECK(refusal_of("/dev/zero", {.most_bytes = 3'000'000}) ==
        "/dev/zero: it has more bytes than the limit of 2.9 MiB");
  std::ofstream(folder / "large").seekp(std::streamoff{1} << 40).put('x');  // sparse
  CHECK(refusal_of(folder / "large") == (folder / "large") + ": it has more bytes than the limit of 4 GiB");
  CHECK(std::chrono::steady_clock::now() - began < 5s);
}

TEST_CASE("read_whole_file: says how the limit is raised, and what a file has that is no text") {
  scratch_folder const folder;
  std::ofstream(folder / "a") << "one\ntwo";
  CHECK(refusal_of(folder / "a", {.most_bytes = 6, .raised_by = "--most"}) ==
        (folder / "a") + ": it has more bytes than the limit of 6 B; --most raises it");
  CHECK(read_whole_file(folder / "a", {.is_text = true}) == "one\ntwo");
  std::ofstream(folder / "b", std::ios::binary) << std::string("one\ntw\0", 7);
  CHECK(refusal_of(folder / "b", {.is_text = true}) ==
        (folder / "b") + ": line 2, column 3: a zero byte, which no text has; the file is binary or damaged");
  CHECK(refusal_of("/dev/zero", {.is_text = true}).starts_with("/dev/zero: line 1, column 1: a zero byte"));
}

TEST_CASE("read_whole_file: shows the first bytes once, before it reads the others") {
  scratch_folder const folder;
  std::ofstream(folder / "large") << "begin";
  std::filesystem::resize_file(folder / "large", std::uint64_t{3} << 30);
  int shown = 0;
  CHECK_THROWS_AS(read_whole_file(folder / "large", {},
                                  [&](std::string_view first) {
                                    ++shown;
                                    CHECK(first.starts_with("begin"));
                                    CHECK(first.size() < 1 << 20);
                                    throw cleave::error("wrong");
                                  }),
                  cleave::error);
  CHECK(shown == 1);
  std::ofstream(folder / "small") << std::string(200'000, 'x');
  CHECK(read_whole_file(folder / "small", {}, [&](std::string_view) { ++shown; }).size() == 200'000);
  CHECK(shown == 2);
}

TEST_CASE("read_to_end: reads what is left of an open file, and waits for a slow pipe if it may") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::thread slow([&] {
    for (char const* const piece : {"one", " and", " two"}) {
      std::this_thread::sleep_for(20ms);
      CHECK(write(ends[1], piece, std::string_view(piece).size()) > 0);
    }
    close(ends[1]);
  });
  cleave::file_handle const file("the pipe", ends[0]);
  auto const all = [](std::string_view) {};
  CHECK(cleave::detail::read_to_end(file, "the pipe", {.next_bytes_within = -1ms}, all) == "one and two");
  slow.join();
  REQUIRE(pipe(ends) == 0);
  CHECK(write(ends[1], "1234", 4) == 4);
  close(ends[1]);
  cleave::file_handle const full("the pipe", ends[0]);
  CHECK_THROWS_WITH(cleave::detail::read_to_end(full, "the pipe", {.most_bytes = 3}, all),
                    "the pipe: it has more bytes than the limit of 3 B");
}
