// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/project_files.hpp"

namespace {

using names = std::set<std::string>;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Returns `text` without comments and without quoted text.
std::string code_of(std::string const& text) {
  std::string code;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "//") == 0) {
      while (i < text.size() && text[i] != '\n') ++i;
      code += '\n';
    } else if (text.compare(i, 2, "R\"") == 0) {
      auto const end = ")" + text.substr(i + 2, text.find('(', i) - i - 2) + "\"";
      i = text.find(end, i) + end.size() - 1;
    } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !is_word(text[i - 1])))) {
      auto const quote = text[i];
      code += quote;
      for (++i; i < text.size() && text[i] != quote && text[i] != '\n'; ++i)
        if (text[i] == '\\') ++i;
      code += quote;
    } else {
      code += text[i];
    }
  }
  return code;
}

/// Components with a namespace of their own for public names: `cleave::onnx`.
names const components = {"cuda", "json", "mpi", "onnx", "opencv", "openvino", "torch"};

/// Adds the words of a text, including qualified names of components such as `onnx::graph`.
void add_words(names& to, std::string_view text) {
  std::string component;
  for (std::size_t i = 0; i < text.size();) {
    auto const begin = i;
    while (i < text.size() && is_word(text[i])) ++i;
    if (i == begin) {
      ++i;
      continue;
    }
    std::string const word(text.substr(begin, i - begin));
    if (!component.empty()) to.insert(component + "::" + word);
    component = text.substr(i, 2) == "::" && components.contains(word) ? word : "";
    to.insert(word);
    if (!component.empty()) i += 2;
  }
}

/// A public declaration: its head, and for a type its body too. In a component it is named like
/// `onnx::graph`.
struct declaration {
  std::string name, text;
};

std::string name_in(std::string const& head) {
  static std::regex const type("(?:^|[\\s>])(?:struct|class|enum class|enum|concept|using)\\s+(\\w+)");
  static std::regex const function("(\\w+)\\s*\\(");
  static std::regex const variable("(\\w+)\\s*(?:=|;|\\{|\\[|$)");
  auto plain = head;
  for (std::size_t at = 0;
       (at = plain.find("template", at)) != std::string::npos;) {  // without its parameters
    auto end = plain.find('<', at);
    if (end == std::string::npos) break;
    for (int depth = 0; end < plain.size(); ++end) {
      if (plain[end] == '<') ++depth;
      if (plain[end] == '>' && --depth == 0) break;
    }
    plain.erase(at, end + 1 - at);
  }
  auto const begin = plain.find_first_not_of(" \n");
  if (begin == std::string::npos) return {};
  plain.erase(0, begin);
  std::smatch m;
  if (plain.starts_with("static_assert") || plain.starts_with("namespace") ||
      plain.find("operator") != std::string::npos)
    return {};
  if (plain.starts_with("requires")) plain.erase(0, plain.find('\n'));
  if (std::regex_search(plain, m, type) && static_cast<std::size_t>(m.position(0)) <= 1) return m[1];
  if (std::regex_search(plain, m, function)) return m[1];
  if (std::regex_search(plain, m, variable)) return m[1];
  return {};
}

/// Returns all declarations of a header in namespace cleave or in the namespace of a component.
std::vector<declaration> public_declarations(std::string const& text) {
  std::vector<declaration> found;
  auto const code = code_of(text);
  static std::string const open = "\nnamespace cleave::inline v0_2";
  for (auto at = code.find(open); at != std::string::npos; at = code.find(open, at)) {
    at += open.size();
    auto const brace = std::min(code.find(" {\n", at), code.size());
    auto const component = brace > at + 2 ? code.substr(at + 2, brace - at - 2) : "";
    if (brace > at && !components.contains(component)) continue;
    auto const before = component.empty() ? "" : component + "::";
    at = brace + 3;
    std::string head, kept;
    int depth = 0, parentheses = 0;
    bool is_type = false;
    for (; at < code.size() && depth >= 0; ++at) {
      auto const c = code[at];
      if (c == '(') ++parentheses;
      if (c == ')') --parentheses;
      if (c == '{' && depth++ == 0) {
        static std::regex const type("(^|[\\s>])(struct|class|enum|concept)\\s");
        is_type = parentheses == 0 && std::regex_search(head, type) && head.find('(') == std::string::npos;
        is_type = is_type || head.find("concept ") != std::string::npos;
      }
      if (c == '}') --depth;
      if (depth == 0 && c != '}') head += c;
      if (depth > 0 && is_type) kept += c;
      bool const ends =
          depth == 0 && parentheses == 0 && (c == ';' || (c == '}' && !is_type && code[at + 1] == '\n'));
      if (ends) {
        if (auto name = name_in(head); !name.empty()) found.push_back({before + name, head + kept});
        head.clear(), kept.clear(), is_type = false;
      }
    }
  }
  return found;
}

/// Returns all words in the code of examples and documents.
names shown_words() {
  names shown;
  for (auto const& file : project::files("examples", {".cpp", ".hpp", ".cu", ".cuh"}))
    add_words(shown, code_of(project::text_of(project::root / file)));
  auto pages = project::files("docs", {".md"});
  pages.push_back("README.md");
  for (auto const& page : pages) {
    bool is_code = false;
    for (auto const& line : project::lines_of(project::text_of(project::root / page))) {
      if (line.starts_with("```")) is_code = !is_code;
      if (is_code) add_words(shown, line);
      for (auto at = line.find('`'); !is_code && at != std::string::npos;) {
        auto const end = line.find('`', at + 1);
        if (end == std::string::npos) break;
        add_words(shown, std::string_view(line).substr(at, end - at));
        at = line.find('`', end + 1);
      }
    }
  }
  return shown;
}

}  // namespace

TEST_CASE("public_declarations: finds declarations in namespace cleave and its components only") {
  auto const found = public_declarations(
      "\nnamespace cleave::inline v0_2::detail {\nint hidden();\n}\n\nnamespace cleave::inline v0_2 {\n\n/// "
      "Text with struct not_this "
      "{\n"
      "template <class T, std::vector<T> V>\nstruct box {\n  T open() { return {}; }\n};\n\n"
      "inline int twice(box<int> const& b) {\n  return called(b);\n}\n\ninline constexpr int most = 3;\n"
      "enum class colour : int { red };\nusing boxes = box<box<int>>;\ntemplate <class T>\nconcept small = "
      "requires(T t) {\n"
      "  { t.size() } -> tiny;\n};\n\n}  // namespace cleave\n\nnamespace cleave::inline v0_2::onnx "
      "{\nstruct graph "
      "{};\n}\n");
  names list;
  for (auto const& d : found) list.insert(d.name);
  CHECK(list == names{"box", "twice", "most", "colour", "boxes", "small", "onnx::graph"});
  names words;
  add_words(words, "a cleave::onnx::graph");
  CHECK(words == names{"a", "cleave", "onnx", "onnx::graph", "graph"});
  for (auto const& d : found) CHECK(d.text.find("called") == std::string::npos);
}

// A name is public if a user must be able to write it. Those are the names in examples and documents, and the
// parameters, members and results of their declarations. All other names belong to cleave::detail.
TEST_CASE("names: a document, an example or another public declaration mentions every public name") {
  std::map<std::string, std::vector<std::string>> said;  // names in the declarations of a name
  std::map<std::string, std::string> where;
  for (auto const& file : project::headers()) {
    if (file.find("/generated/") != std::string::npos) continue;
    for (auto& d : public_declarations(project::text_of(project::root / file))) {
      where.emplace(d.name, file);
      said[d.name].push_back(std::move(d.text));
    }
  }
  REQUIRE(said.size() > 500);
  auto const shown = shown_words();
  names reached;
  std::vector<std::string> open;
  for (auto const& [name, texts] : said)
    if (shown.contains(name)) open.push_back(name);
  while (!open.empty()) {
    auto const name = open.back();
    open.pop_back();
    if (!reached.insert(name).second) continue;
    for (auto const& text : said.at(name)) {
      names words;
      add_words(words, text);
      auto const own = name.substr(0, name.find("::") + 2);  // a component uses its own names unqualified
      for (auto const& word : words)
        for (auto const& called : {word, own + word})
          if (said.contains(called) && !reached.contains(called)) open.push_back(called);
    }
  }
  // A component's `describe` overloads cleave's; errors find it through their fault.
  for (auto const& [name, file] : where)
    CHECK_MESSAGE((reached.contains(name) || name.ends_with("::describe")), name, " of ", file,
                  " is public, and neither shown by a document or an example nor said by what is");
}
