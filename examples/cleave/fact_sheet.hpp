// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/core/printable.hpp>
#include <cleave/formats/json/json_writer.hpp>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "files.hpp"
#include "terminal.hpp"

namespace tool {

/// Returns a line `name   value`; the values of several lines are aligned.
inline std::string fact(std::string const& name, std::string const& value) {
  return "  " + name + std::string(name.size() < 11 ? 11 - name.size() : 1, ' ') + value + "\n";
}

/// The findings of a subcommand about one file, both as lines of text and as members of a JSON object. One of
/// the two is printed.
class fact_sheet {
 public:
  using counts = std::vector<std::pair<std::string, std::size_t>>;

  /// Begins with the name of the file, and with counts such as `4 nodes, 3 edges`. `listed` are counts of
  /// what the object lists.
  fact_sheet(fs::path const& file, counts const& counted, counts const& listed = {})
      : text_(bold(input_name(file)) + ":") {
    json_.open_object().member("file", given_name(file));
    for (auto const& [what, count] : counted) {
      text_ += (what == counted.front().first ? " " : ", ") + plural(count, what);
      json_.member(what + "s", count);
    }
    for (auto const& [what, count] : listed) text_ += ", " + plural(count, what);
    text_ += "\n";
  }

  void line(std::string const& name, std::string const& value) { text_ += fact(name, value); }
  void lines(std::string const& text) { text_ += text; }
  template <class Value>
  void member(std::string const& key, Value const& value) {
    json_.member(key, value);
  }
  template <class Values>
  void list(std::string const& key, Values const& values) {
    json_.key(key).open_array();
    for (auto const& v : values) json_.value(v);
    json_.close_array();
  }
  cleave::json::writer& json() { return json_; }

  /// Adds a fault. The object lists all faults under `wrong`.
  void wrong(std::string const& what) {
    line("wrong", what);
    wrong_.push_back(what);
  }
  void written(output_file const& to) {
    if (to.empty() || is_standard(to.path)) return;
    line("written", shown(to.path));
    member("written", to.path);
  }
  /// Prints the lines, or the object.
  void print_as(bool as_json) {
    list("wrong", wrong_);
    print(as_json ? json_.close_object().text() + "\n" : text_);
  }

 private:
  std::string text_;
  std::vector<std::string> wrong_;
  cleave::json::writer json_{cleave::json::writer::layout::indented};
};

}  // namespace tool
