// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "cleave/schedule/model/schedule_names.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;

namespace {

std::filesystem::path const docs = std::filesystem::path(CLEAVE_SOURCE_DIR) / "docs";

/// The part of the page that is generated, and the counts that it is generated with.
struct generated_part {
  std::vector<std::string> counts;
  std::string text;
};
generated_part part_of_page() {
  std::string const begin = "<!-- ./dev schedules-page", end = "<!-- end -->";
  auto const page = text_of_file(docs / "schedules.md");
  auto const first = page.find(begin), body = page.find('\n', first), last = page.find(end, first);
  REQUIRE(first != page.npos);
  REQUIRE(last != page.npos);
  generated_part part{{}, page.substr(body + 1, last - body - 1)};
  std::istringstream words(
      page.substr(first + begin.size(), page.find(" -->", first) - first - begin.size()));
  for (std::string word; words >> word;) part.counts.push_back(word);
  return part;
}

}  // namespace

TEST_CASE(
    "docs/schedules.md: the table equals the output of the tool (update it with ./dev schedules-page)") {
  auto const part = part_of_page();
  std::vector<std::string> words = {"schedule", "all", "--markdown"};
  words.insert(words.end(), part.counts.begin(), part.counts.end());
  auto const r = run_tool(words);
  CHECK(r.exit == 0);
  CHECK(r.said == part.text);
}

TEST_CASE("docs/schedules.md: every schedule has its picture as the tool draws it") {
  auto const part = part_of_page();
  std::size_t pictures = 0;
  for (auto const name : cleave::schedule_names) {
    CAPTURE(name);
    std::vector<std::string> words = {"schedule", std::string(name), "--svg", "--plain"};
    words.insert(words.end(), part.counts.begin(), part.counts.end());
    auto const r = run_tool(words);
    CHECK(r.exit == 0);
    CHECK(r.said == text_of_file(docs / "pictures" / (std::string(name) + ".svg")));
    CHECK(part.text.find("(pictures/" + std::string(name) + ".svg)") != std::string::npos);
    ++pictures;
  }
  CHECK(pictures == 18);
}
