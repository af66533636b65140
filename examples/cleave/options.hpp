// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <charconv>
#include <cleave/core/nearest_names.hpp>
#include <cleave/core/printable.hpp>
#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tool {

/// What was typed cannot be understood: exit code 2.
struct usage_error : std::runtime_error {
  using runtime_error::runtime_error;
};
/// `--help` was typed; the text is for stdout.
struct help_wanted {
  std::string text;
};

/// One option of a subcommand. `take` returns whether it understands the value.
struct option {
  std::string short_name, name;  ///< "-k", "--stages"; the first may be empty
  std::string value;             ///< what help calls its value; empty for a flag
  std::string wants;             ///< "a whole number"
  std::string help;
  std::function<bool(std::string_view)> take;
};

/// A subcommand as `--help` shows it, and what it may be told.
struct command {
  std::string name, operands, about;
  std::vector<option> options;
};

inline option flag(std::string const& name, std::string const& help, bool& to) {
  return {"", name, "", "", help, [&to](std::string_view) { return to = true; }};
}

/// All of `text` as a number between `least` and `most`.
template <class Number>
bool read_number(std::string_view text, Number& to, Number least, Number most) {
  auto const [end, fault] = std::from_chars(text.data(), text.data() + text.size(), to);
  return fault == std::errc() && end == text.data() + text.size() && to >= least && to <= most;
}

/// `a` and `b` of `a,b`.
inline std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= list.size();) {
    auto const comma = std::min(list.find(',', at), list.size());
    if (comma > at) names.emplace_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return names;
}

inline std::string help_text(command const& c) {
  auto text = "usage: cleave " + c.name + " " + c.operands + " [options]\n\n" + c.about + "\n\n";
  auto const show = [&](std::string const& left, std::string const& right) {
    text += "  " + left + std::string(left.size() < 28 ? 28 - left.size() : 1, ' ') + right + "\n";
  };
  for (auto const& o : c.options)
    show((o.short_name.empty() ? "" : o.short_name + ", ") + o.name + (o.value.empty() ? "" : " " + o.value),
         o.help);
  show("-h, --help", "this page");
  return text;
}

/// `; did you mean --memory`, or nothing where no name is near.
inline std::string suggestion(std::string_view typed, std::vector<std::string> const& names) {
  auto const far = [&](std::string const& name) { return cleave::edit_distance(typed.substr(0, 40), name); };
  auto const nearest = std::ranges::min_element(names, {}, far);
  auto const most = std::min<std::size_t>(3, typed.size() / 2);  // of few letters all names are near
  return nearest == names.end() || far(*nearest) > most ? "" : "; did you mean " + *nearest;
}

/// Reads `words`: `--name value`, `--name=value`, `-k 4`, `-k4`; all after `--` are operands. Returns the
/// operands.
/// \throws usage_error with the word, help_wanted at `--help`.
inline std::vector<std::string> read_options(command const& c, std::span<std::string const> words) {
  std::vector<std::string> operands;
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto const& word = words[i];
    if (word == "--") {
      operands.insert(operands.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      break;
    }
    if (word == "--help" || word == "-h") throw help_wanted{help_text(c)};
    if (word.size() < 2 || word[0] != '-') {
      operands.push_back(word);
      continue;
    }
    bool const is_long = word[1] == '-';
    auto const name = is_long ? word.substr(0, word.find('=')) : word.substr(0, 2);
    auto const o = std::ranges::find_if(
        c.options, [&](auto const& known) { return (is_long ? known.name : known.short_name) == name; });
    if (o == c.options.end()) {
      std::vector<std::string> names;
      for (auto const& known : c.options) {
        names.push_back(known.name);
        if (name == "-" + known.short_name) names.push_back(known.short_name);
      }
      throw usage_error("unknown option " + cleave::printable(name) + suggestion(name, names));
    }
    bool const attached = word.size() > name.size();
    if (o->value.empty() && attached) throw usage_error(name + " takes no value");
    if (!o->value.empty() && !attached && i + 1 == words.size())
      throw usage_error(name + " needs a value: " + name + " " + o->value);
    auto const value = o->value.empty() ? "" : attached ? word.substr(name.size() + is_long) : words[++i];
    if (!o->take(value))
      throw usage_error(name + " takes " + o->wants + ", not '" + cleave::printable(value) + "'");
  }
  return operands;
}

}  // namespace tool
