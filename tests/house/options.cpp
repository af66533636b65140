// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "support/project_files.hpp"

// A table of options in a document stands below a line that names the struct and its header:
//
//     <!-- options: balance_options, partition/slices/balance.hpp -->
//
// Its rows are the members of the struct, in order. The second column is what a member is initialised with,
// or a dash. A list of several items may be described in words.

namespace {

using text = std::vector<std::string>;

struct field {
  std::string name, value;
  bool operator==(field const&) const = default;
};
using fields = std::vector<field>;

std::string trimmed(std::string const& s) {
  auto const begin = s.find_first_not_of(" \n");
  return begin == s.npos ? "" : s.substr(begin, s.find_last_not_of(" \n") + 1 - begin);
}

/// Returns the members of a struct in a header. A member without an initialiser has the value `-`.
fields members_of(std::string const& header, std::string const& name) {
  auto const open = "struct " + name + " {\n";
  auto const begin = header.find(open);
  if (begin == header.npos) return {};
  auto const body = header.substr(begin + open.size(), header.find("\n};", begin) - begin - open.size());
  auto const uncommented = std::regex_replace(body, std::regex("//[^\n]*"), "");
  auto const code = std::regex_replace(uncommented, std::regex("\\s+"), " ");
  static std::regex const member("[>&*\\s](\\w+)\\s*(?:=\\s*([^;]+)|\\{([^;]*)\\})?$");
  fields found;
  for (std::size_t at = 0, end; (end = code.find(';', at)) != code.npos; at = end + 1) {
    auto const declaration = trimmed(code.substr(at, end - at));
    std::smatch m;
    if (!std::regex_search(declaration, m, member)) return {};
    auto value = trimmed(m[2].matched ? m[2].str() : m[3].str());
    if (value == "{}") value.clear();
    found.push_back({m[1], value.empty() ? "-" : value});
  }
  return found;
}

/// Returns the rows of the table below line `at` of a document.
fields rows_below(text const& lines, std::size_t at) {
  static std::regex const row("\\| `(\\w+)` \\| (?:`([^`]*)`|([^|]*)) \\| .*");
  fields found;
  ++at;
  while (at < lines.size() && lines[at].empty()) ++at;
  for (at += 2; at < lines.size() && lines[at].starts_with("|"); ++at) {
    std::smatch m;
    if (!std::regex_match(lines[at], m, row)) return {};
    found.push_back({m[1], m[2].matched ? m[2].str() : m[3] == "–" ? "-" : m[3].str()});
  }
  return found;
}

/// Returns what is wrong with the first row that is not its member, or nothing.
std::string difference(fields const& members, fields const& rows) {
  for (std::size_t i = 0; i < std::max(members.size(), rows.size()); ++i) {
    if (i >= rows.size()) return "has no row for " + members[i].name;
    if (i >= members.size()) return rows[i].name + " is no member";
    auto const& m = members[i];
    if (m.name != rows[i].name) return rows[i].name + " stands where " + m.name + " belongs";
    bool const in_words = m.value.find(',') != m.value.npos && rows[i].value != "-";
    if (m.value != rows[i].value && !in_words)
      return "the default of " + m.name + " is " + m.value + ", not " + rows[i].value;
  }
  return "";
}

fields const sample = {
    {"k", "1"}, {"rates", "-"}, {"seed", "10'000"}, {"orders", "a::b, a::c"}, {"last", "-"}};

}  // namespace

TEST_CASE("members_of: reads names and initialisers, in order") {
  std::string const header =
      "namespace cleave {\n/// Options.\nstruct some_options {\n  int k = 1;  ///< one; of many\n"
      "  per_part<std::size_t> rates{};  ///< none\n  std::size_t seed =\n      10'000;\n"
      "  std::vector<a> orders{a::b,\n                        a::c};\n  std::vector<int> last = {};\n};\n";
  CHECK(members_of(header, "some_options") == sample);
  CHECK(members_of(header, "other_options").empty());
}

TEST_CASE("difference: finds a member that is added, removed, renamed, moved, or has another default") {
  text const lines{"<!-- options: some_options, some.hpp -->",
                   "",
                   "| option | default | meaning |",
                   "|---|---|---|",
                   "| `k` | `1` | one |",
                   "| `rates` | – | two |",
                   "| `seed` | `10'000` | three |",
                   "| `orders` | all | four |",
                   "| `last` | – | five |",
                   ""};
  auto const rows = rows_below(lines, 0);
  CHECK(difference(sample, rows).empty());
  auto other = sample;
  other.push_back({"more", "-"});
  CHECK(difference(other, rows) == "has no row for more");
  other = sample;
  other.pop_back();
  CHECK(difference(other, rows) == "last is no member");
  other = sample;
  other[1].name = "speeds";
  CHECK(difference(other, rows) == "rates stands where speeds belongs");
  other = sample;
  std::swap(other[1], other[2]);
  CHECK(difference(other, rows) == "rates stands where seed belongs");
  other = sample;
  other[0].value = "2";
  CHECK(difference(other, rows) == "the default of k is 2, not 1");
}

TEST_CASE("options: the tables of the documents have the members of the structs, in order") {
  static std::regex const mark("<!-- options: (\\w+), (\\S+) -->");
  text found;
  for (auto const& page : project::files("docs", {".md"})) {
    auto const lines = project::lines_of(project::text_of(project::root / page));
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::smatch m;
      if (!std::regex_match(lines[i], m, mark)) continue;
      found.push_back(m[1]);
      auto const members = members_of(project::text_of(project::root / "include/cleave" / m[2].str()), m[1]);
      CHECK_MESSAGE(!members.empty(), page, ":", i + 1, ": cannot read ", m[1].str());
      auto const wrong = difference(members, rows_below(lines, i));
      CHECK_MESSAGE(wrong.empty(), page, ":", i + 1, ": ", wrong);
    }
  }
  std::ranges::sort(found);
  CHECK(found == text{"balance_options", "capability_options", "joint_cut_options", "placement_options",
                      "placement_row_options", "plan_options", "replication_options"});
}
