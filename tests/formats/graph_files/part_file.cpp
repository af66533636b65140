// SPDX-License-Identifier: MIT
#include "cleave/formats/graph_files/part_file.hpp"

#include <doctest/doctest.h>

#include <string>

#include "support/error_text.hpp"
#include "support/graph_texts.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string refused(std::string const& text, std::size_t nodes, std::uint32_t parts = 0) {
  return testing::error_text<graph_file_error>([&] { read_part_file(text, nodes, parts); });
}

}  // namespace

TEST_CASE("read_part_file: reads one part per line; the number of parts is given or follows from the lines") {
  auto const p = read_part_file("1\n0\n\n2\r\n0", 4);
  CHECK(p == partition{{part_id{1}, part_id{0}, part_id{2}, part_id{0}}, 3});
  CHECK(read_part_file("0\n", 1, 5).parts == 5);
  CHECK(read_part_file("", 0).parts == 0);
  CHECK(write_part_file(p) == "1\n0\n2\n0\n");
  CHECK(read_part_file(write_part_file(p), 4) == p);
}

TEST_CASE("read_part_file: rejects a file of another graph or with unknown parts and names the place") {
  CHECK(refused("0\n1\n", 3) == "line 3, column 1: the file ends after 2 lines; the graph has 3 nodes");
  CHECK(refused("0\n1\n1\n", 2) ==
        "line 3, column 1: the file has more lines than the graph has nodes, which is 2");
  CHECK(refused("0\n2\n", 2, 2) == "line 2, column 1: expected a part, a whole number from 0 to 1, got '2'");
  CHECK(refused("0\n-1\n", 2).find("got '-1'") != std::string::npos);
  CHECK(refused("0 1\n", 2)
            .starts_with("line 1, column 3: expected the end of the line after the part; each line has one"));
  CHECK(refused("4294967295\n", 1).find("to 4294967294") != std::string::npos);
}

TEST_CASE("read_part_file: files with random changes are rejected or read back equal") {
  testing::rng dice(10);
  auto const read = testing::read_mutants("0\n1\n2\n1\n0\n", 1000, dice, [](std::string const& t) {
    auto const p = read_part_file(t, 5);
    CHECK(read_part_file(write_part_file(p), 5, p.parts) == p);
  });
  CHECK(read > 10);
}
