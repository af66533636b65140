// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "support/project_files.hpp"

// C++ code in Markdown follows a line that names its source:
//
//     <!-- examples/cut/01_split_a_chain.cpp [cut] -->
//
// The code must equal the part of that file between two lines `// [cut]`. Without a name it must equal the
// whole file below the licence line. Python code follows such a line on the page about Python, and its marks
// are lines `# [cut]`.

namespace {

using text = std::vector<std::string>;

struct block {
  std::string where;   // FILE:LINE of the fence
  std::string source;  // the source line above it, or ""
  text lines;
};

/// Returns the blocks of a page whose fences begin with one of these words.
std::vector<block> blocks(std::string const& file, std::vector<std::string> const& fences) {
  std::vector<block> found;
  bool inside = false;
  std::string above;
  std::size_t number = 0;
  for (auto const& line : project::lines_of(project::text_of(project::root / file))) {
    ++number;
    if (inside && line == "```")
      inside = false;
    else if (inside)
      found.back().lines.push_back(line);
    else if (std::ranges::count(fences, line))
      found.push_back({file + ":" + std::to_string(number), above, {}}), inside = true;
    if (!line.empty()) above = line;
  }
  return found;
}

/// Removes common indentation, and empty lines at both ends.
text flush_left(text lines) {
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  while (!lines.empty() && lines.front().empty()) lines.erase(lines.begin());
  auto indent = std::string::npos;
  for (auto const& line : lines)
    if (!line.empty()) indent = std::min(indent, line.find_first_not_of(' '));
  for (auto& line : lines)
    if (!line.empty()) line.erase(0, indent);
  return lines;
}

/// Returns the part of a source between two marks of that name, if it has them. Other marks are removed.
std::optional<text> snippet(text const& source, std::string const& name) {
  static std::regex const mark(" *(?://|#) \\[([a-z_0-9 ]+)\\]");
  text found;
  int marks = name.empty() ? 1 : 0;
  for (auto const& line : source) {
    std::smatch m;
    if (std::regex_match(line, m, mark))
      marks += m[1] == name;
    else if (marks % 2 == 1 && !line.starts_with("// SPDX"))
      found.push_back(line);
  }
  if (marks != (name.empty() ? 1 : 2)) return std::nullopt;
  return flush_left(found);
}

std::string joined(text const& lines) {
  std::string all;
  for (auto const& line : lines) all += line + '\n';
  return all;
}

text markdown() {
  text found = project::files("docs", {".md"});
  for (auto const* file : {"README.md", "CONTRIBUTING.md", "SECURITY.md"})
    if (std::filesystem::exists(project::root / file)) found.push_back(file);
  return found;
}

}  // namespace

namespace {

/// Compares the blocks of a page with the sources that they name.
void check_blocks(std::string const& file, std::vector<std::string> const& fences, std::string const& mark) {
  static std::regex const origin("<!-- ([^ ]+)(?: \\[([a-z_0-9 ]+)\\])? -->");
  for (auto const& block : blocks(file, fences)) {
    std::smatch m;
    if (!std::regex_match(block.source, m, origin)) {
      FAIL_CHECK(block.where, ": code that no example holds; above it goes <!-- examples/FILE [name] -->");
      continue;
    }
    auto const path = project::root / m[1].str();
    auto const source = snippet(project::lines_of(project::text_of(path)), m[2]);
    if (!source) {
      FAIL_CHECK(block.where, ": ", m[1].str(), " does not have the mark ", mark, " [", m[2].str(),
                 "] twice");
      continue;
    }
    CHECK_MESSAGE(joined(flush_left(block.lines)) == joined(*source), block.where);
  }
}

}  // namespace

TEST_CASE("snippets: C++ blocks in README and docs equal the marked code of the examples") {
  for (auto const& file : markdown()) check_blocks(file, {"```cpp", "```c++"}, "//");
}

TEST_CASE("snippets: Python blocks on the page about Python equal the marked code of the examples") {
  CHECK(blocks("docs/python.md", {"```python"}).size() > 4);
  check_blocks("docs/python.md", {"```python"}, "#");
  check_blocks("docs/python_pytorch.md", {"```python"}, "#");
}

TEST_CASE("snippet: returns the lines between two marks, without their common indent") {
  text const source{"// SPDX-License-Identifier: MIT",
                    "int main() {",
                    "  // [a]",
                    "  if (x)",
                    "    // [b]",
                    "    y();",
                    "  // [a]",
                    "}"};
  CHECK(snippet(source, "a") == text{"if (x)", "  y();"});
  CHECK(!snippet(source, "b"));
  CHECK(!snippet(source, "c"));
  CHECK(snippet(source, "") == text{"int main() {", "  if (x)", "    y();", "}"});
  CHECK(snippet({"# [a]", "  x", "# [a]"}, "a") == text{"x"});
}
