// SPDX-License-Identifier: MIT
#include "cleave/core/escape.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "support/nasty_names.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace std::string_literals;

namespace {

std::string replaced(std::string text, std::string const& from, std::string const& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

bool well_formed(std::string const& text) {
  for (std::size_t at = 0; at < text.size();) {
    auto const c = utf8_at(text, at);
    if (c.code == malformed_utf8) return false;
    at += c.bytes;
  }
  return true;
}

constexpr std::size_t no_limit = 1u << 20;

}  // namespace

TEST_CASE("escape_markup: a browser shows the same text as printable() shows on a terminal") {
  for (auto const& name : testing::nasty_names()) {
    auto text = escape_markup(name);
    CHECK(text.find_first_of("<>\"'\n\t") == std::string::npos);
    text = replaced(replaced(text, "&lt;", "<"), "&gt;", ">");
    text = replaced(replaced(text, "&quot;", "\""), "&#39;", "'");
    CHECK(replaced(text, "&amp;", "&") == printable(name, no_limit));
  }
}

TEST_CASE("escape_dot: escapes quotes, backslashes, entities and control bytes for Graphviz") {
  CHECK(escape_dot("a\"];evil[label=\"<b>") == "a\\\"];evil[label=\\\"<b>");
  CHECK(escape_dot("\\N\\") == "\\\\N\\\\");
  CHECK(escape_dot("&lt;") == "&amp;lt;");
  CHECK(escape_dot("a\nb\xff") == "a\\\\x0ab\\\\xff");
}

TEST_CASE("escape_json: a parser returns well-formed names unchanged, and malformed bytes as hex") {
  for (auto const& name : testing::nasty_names()) {
    auto const parsed = nlohmann::json::parse('"' + escape_json(name) + '"').get<std::string>();
    if (well_formed(name))
      CHECK(parsed == name);
    else
      CHECK(parsed == replaced(replaced(printable(name, no_limit), "\\x0a", "\n"), "\\x00", "\0"s));
  }
  CHECK(escape_json("\xff\n") == "\\\\xff\\u000a");
}
