// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <charconv>
#include <cleave/core/bytes.hpp>
#include <cleave/core/nearest_names.hpp>
#include <cleave/core/printable.hpp>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "file_rules.hpp"
#include "terminal.hpp"

namespace tool {

/// The command line is wrong: exit code 2.
struct usage_error : std::runtime_error {
  using runtime_error::runtime_error;
};
/// One option of a subcommand. `take` returns false if the value is not valid.
struct option {
  std::string short_name, name;  ///< "-k", "--stages"; the first may be empty
  std::string value;             ///< name of the value in the help text; empty for a flag
  std::string wants;             ///< "a whole number"
  std::string help;
  std::function<bool(std::string_view)> take;
  file_use file{};  ///< use of the file that the value names
  std::vector<std::string>
      choices{};              ///< the words that it takes, if they are few; a slip is compared with them
  bool fills_stdout = false;  ///< a flag: stdout gets one text in this form, and nothing else
};

/// A subcommand: its help text and its options.
struct command {
  std::string name, operands, about;
  std::vector<option> options;
  file_use operand{file_use::kind::read};  ///< use of the file that an operand names
};

/// Thrown for `--help`. Of the options only the texts may be used: what `take` refers to is gone.
struct help_wanted {
  command of;
};

inline option flag(std::string const& name, std::string const& help, bool& to) {
  return {"", name, "", "", help, [&to](std::string_view) { return to = true; }};
}

/// A flag that makes stdout hold one text in another form, so that no file can go there too.
inline option form_flag(std::string const& name, std::string const& help, bool& to) {
  auto made = flag(name, help, to);
  made.fills_stdout = true;
  return made;
}

inline option json_flag(bool& to) { return form_flag("--json", "print one JSON object instead of text", to); }

/// Returns `a, b or c`.
inline std::string alternatives(std::span<std::string const> names) {
  std::string text;
  for (auto const& name : names) text += (text.empty() ? "" : &name == &names.back() ? " or " : ", ") + name;
  return text;
}

/// An option whose value is one of a few names. `take` gets the place of the name.
template <class Names, class Take>
option choice_option(std::string const& name, std::string const& value, Names const& names,
                     std::string const& help, Take take) {
  std::vector<std::string> const choices(std::begin(names), std::end(names));
  return {"",
          name,
          value,
          alternatives(choices),
          help,
          [choices, take](std::string_view text) {
            auto const found = std::ranges::find(choices, text);
            if (found == choices.end()) return false;
            take(static_cast<std::size_t>(found - choices.begin()));
            return true;
          },
          {},
          choices};
}

inline option file_to_read(std::string const& name, std::string const& value, std::string const& help,
                           std::string& to) {
  return {"",
          name,
          value,
          "a file name",
          help,
          [&to](std::string_view text) { return !(to = text).empty(); },
          {file_use::kind::read}};
}

/// An option for an output file. It may replace a file whose text `is_own` recognises as cleave's. If other
/// programs write such texts too, `form` is given instead, and the file must have cleave's mark.
inline option file_to_write(std::string const& short_name, std::string const& name, std::string const& help,
                            output_file& to, bool (*is_own)(std::string const& text),
                            std::string const& form = "") {
  to.form = form;
  return {short_name,
          name,
          "FILE",
          "a file name",
          help,
          [&to](std::string_view text) { return !(to.path = text).empty(); },
          {.what = file_use::kind::written, .is_own = is_own, .form = form}};
}

/// The same for an output that stdout gets if no file is named; `-` names none.
inline option answer_to_write(std::string const& short_name, std::string const& name, std::string const& help,
                              output_file& to, bool (*is_own)(std::string const& text),
                              std::string const& form = "") {
  auto made = file_to_write(short_name, name, help, to, is_own, form);
  made.take = [&to](std::string_view text) {
    to.path = text == "-" ? "" : text;
    return !text.empty();
  };
  made.file.is_answer = true;
  return made;
}

/// An option for an output folder. `has` recognises the names of the files written there.
inline option folder_to_write(std::string const& short_name, std::string const& name, std::string const& help,
                              std::string& to, bool (*has)(std::string_view name)) {
  return {short_name,
          name,
          "DIR",
          "a folder",
          help,
          [&to](std::string_view text) { return !(to = text).empty(); },
          {.what = file_use::kind::folder, .has = has}};
}

/// Reads all of `text` as a number between `least` and `most`.
template <class Number>
bool read_number(std::string_view text, Number& to, Number least, Number most) {
  auto const [end, fault] = std::from_chars(text.data(), text.data() + text.size(), to);
  return fault == std::errc() && end == text.data() + text.size() && to >= least && to <= most;
}

/// Returns a number as a person writes it: `1e9`, not `1e+09`.
template <class Number>
std::string typed_number(Number x) {
  char digits[32];
  std::string text(digits, std::to_chars(digits, digits + sizeof digits, x).ptr);
  if (auto at = text.find('e'); at != text.npos) {
    at += text[at + 1] == '-' ? 2 : 1;
    text.erase(at, text.find_first_not_of("+0", at) - at);
  }
  return text;
}

/// Returns `a whole number from 1 to 1024`, or `a number from 0 to 1e9`.
template <class Number>
std::string range_text(Number least, Number most) {
  return (std::is_integral_v<Number> ? "a whole number from " : "a number from ") + typed_number(least) +
         " to " + typed_number(most);
}

inline constexpr char size_range[] = "from 0 to below 16EiB";  ///< of sizes that cleave::parse_bytes reads

/// Returns an option whose value is a number between `least` and `most`. Its refusals say this range.
template <class Number>
option number_option(std::string const& short_name, std::string const& name, std::string const& value,
                     std::string const& help, Number& to, std::type_identity_t<Number> least,
                     std::type_identity_t<Number> most) {
  return {
      short_name, name,
      value,      range_text<Number>(least, most),
      help,       [&to, least, most](std::string_view text) { return read_number(text, to, least, most); }};
}
template <class Number>
option number_option(std::string const& short_name, std::string const& name, std::string const& value,
                     std::string const& help, std::optional<Number>& to, std::type_identity_t<Number> least,
                     std::type_identity_t<Number> most) {
  return {short_name,
          name,
          value,
          range_text<Number>(least, most),
          help,
          [&to, least, most](std::string_view text) { return read_number(text, to.emplace(), least, most); }};
}

/// Splits `a,b` into `a` and `b`.
inline std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= list.size();) {
    auto const comma = std::min(list.find(',', at), list.size());
    if (comma > at) names.emplace_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return names;
}

/// Returns the option as it is typed, with its value: `-k, --stages N`.
inline std::string typed_option(option const& o) {
  return o.short_name + (o.short_name.empty() || o.name.empty() ? "" : ", ") + o.name +
         (o.value.empty() ? "" : " " + o.value);
}

inline std::string help_text(command const& c) {
  auto text = "usage: cleave " + c.name + (c.operands.empty() ? "" : " ") + c.operands + " [options]\n\n" +
              c.about + "\n\n";
  auto const show = [&](std::string const& left, std::string const& right) {
    text += "  " + left + std::string(left.size() < 28 ? 28 - left.size() : 1, ' ') + right + "\n";
  };
  for (auto const& o : c.options) show(typed_option(o), o.help);
  show("-h, --help", "show this help");
  return text;
}

/// `; did you mean --memory`, or nothing if no name is similar.
inline std::string suggestion(std::string_view typed, std::vector<std::string> const& names) {
  auto const far = [&](std::string const& name) { return cleave::edit_distance(typed.substr(0, 40), name); };
  auto const nearest = std::ranges::min_element(names, {}, far);
  auto const most = std::min<std::size_t>(3, typed.size() / 2);  // short words resemble every name
  return nearest == names.end() || far(*nearest) > most ? "" : "; did you mean " + *nearest;
}

/// The same for the choice in a value, which ends at `=`; nothing if that is a choice.
inline std::string suggested_choice(std::string_view value, std::vector<std::string> const& choices) {
  auto const word = value.substr(0, value.find('='));
  return std::ranges::find(choices, word) == choices.end() ? suggestion(word, choices) : "";
}

/// The files of a command line that are `-`, and the options for which stdout holds one text.
class standard_streams {
 public:
  /// Adds a file; a later value of an option replaces the earlier one. \throws usage_error for a folder
  void add(std::string const& by, std::string_view value, file_use const& use) {
    if (!by.empty() && !use.repeats) std::erase_if(files_, [&](auto const& f) { return f.first == by; });
    if (value != "-") return;
    if (use.what == file_use::kind::folder)
      throw usage_error(
          by + " takes a folder for several files, which stdout is not; for a folder named -, write ./-");
    files_.emplace_back(by, use);
  }
  void add_form(std::string const& flag) { forms_.push_back(flag); }

  /// \throws usage_error if a stream has two uses
  void require_single() const {
    std::string reads, writes;
    bool is_read = false;
    for (auto const& [by, use] : files_) {
      auto const name = by.empty() ? std::string("the operand") : by;
      if (use.what == file_use::kind::read && std::exchange(is_read, true))
        throw usage_error("standard input can be read once, but " + reads + " and " + name +
                          " are both -; name a file for one of them");
      if (use.what == file_use::kind::read) reads = name;
      if (use.what != file_use::kind::written || use.is_answer) continue;
      if (writes.empty() && !forms_.empty()) writes = forms_.front();
      if (!writes.empty())
        throw usage_error(writes + " and " + name + " would both write to stdout; name a file for " + name);
      writes = name;
    }
  }
  bool stdout_is_taken() const {
    return std::ranges::any_of(files_, [](auto const& f) {
      return f.second.what == file_use::kind::written && !f.second.is_answer;
    });
  }

 private:
  std::vector<std::pair<std::string, file_use>> files_;
  std::vector<std::string> forms_;
};

/// The words after a subcommand, without the values of options.
struct typed_words {
  std::vector<std::string> operands{};
  std::vector<typed_file> files{};
  bool overwrite = false;  ///< files of other programs or of another model may be replaced

  /// Adds input files that are not on the command line. \throws cleave::error if an output would overwrite
  /// one
  void require_kept(std::set<fs::path> const& more) {
    for (auto const& file : more) files.push_back({"", file, {file_use::kind::read}});
    named_inputs.insert(named_inputs.end(), more.begin(), more.end());
    require_apart(files);
  }
};

/// Reads `words`: `--name value`, `--name=value`, `-k 4`, `-k4`; all words after `--` are operands. An output
/// may replace only a file that the tool wrote; --overwrite lifts this limit. It never replaces an input. A
/// file named `-` is stdin or stdout.
/// \throws usage_error with the word, help_wanted at `--help`, cleave::error if an output would replace a
/// protected file
inline typed_words read_options(command c, std::span<std::string const> words) {
  typed_words typed;
  if (std::ranges::any_of(c.options, [](auto const& o) { return o.file.is_output(); }))
    c.options.push_back(
        flag("--overwrite", "replace files that the same option of cleave did not write", typed.overwrite));
  auto const reads = [](auto const& o) { return o.file.what == file_use::kind::read; };
  if (!c.operands.empty() || std::ranges::any_of(c.options, reads))
    c.options.push_back({"", std::string(file_limit_option), "SIZE",
                         "a size from 1B to below 16EiB, as in 8GiB",
                         "the most bytes of a file that is read (4GiB; ONNX: 2GiB, which no size exceeds)",
                         [](std::string_view text) {
                           auto const size = cleave::parse_bytes(text);
                           given_file_limit = size.value_or(0);
                           return given_file_limit > 0;
                         }});
  auto const add_level = [&](std::string const& letter, std::string const& name, std::string const& help,
                             talk level) {
    bool const taken = std::ranges::find(c.options, letter, &option::short_name) != c.options.end();
    c.options.push_back({taken ? "" : letter, name, "", "", help,
                         [level](std::string_view) { return talk_level = level, true; }});
  };
  add_level("-q", "--quiet", "no notes and no progress on stderr", talk::quiet);
  add_level("-v", "--verbose", "each step with its time on stderr", talk::verbose);
  standard_streams standard;
  auto const add_file = [&](std::string const& by, std::string_view value, file_use const& use) {
    if (use.what == file_use::kind::none) return;
    auto const before =
        std::ranges::find_if(use.prefixes, [&](auto prefix) { return value.starts_with(prefix); });
    if (before != use.prefixes.end())
      value.remove_prefix(before->size());
    else if (!use.prefixes.empty())
      return;
    standard.add(by, value, use);
    if (value == "-") {
      if (use.what == file_use::kind::read) typed.files.push_back({by, standard_input_path, use});
      return;
    }
    std::erase_if(typed.files, [&](auto const& f) { return !by.empty() && !use.repeats && f.by == by; });
    typed.files.push_back({by, value, use});
  };
  auto const add_operand = [&](std::string const& word) {
    typed.operands.push_back(word);
    add_file("", word, c.operand);
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto const& word = words[i];
    if (word == "--") {
      while (++i < words.size()) add_operand(words[i]);
      break;
    }
    if (word == "--help" || word == "-h") throw help_wanted{c};
    if (word.size() < 2 || word[0] != '-') {
      add_operand(word);
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
      throw usage_error(name + " takes " + o->wants + ", not '" + cleave::printable(value) + "'" +
                        suggested_choice(value, o->choices));
    if (o->fills_stdout) standard.add_form(name);
    add_file(o->name.empty() ? o->short_name : o->name, value, o->file);
  }
  standard.require_single();
  if (standard.stdout_is_taken()) texts_go = text_target::to_stderr;
  for (auto const& f : typed.files)
    if (f.use.what == file_use::kind::read && f.path != standard_input_path) named_inputs.push_back(f.path);
  require_apart(typed.files);
  for (auto const& f : typed.files)
    if (f.use.what == file_use::kind::written && !typed.overwrite) require_own(f.path, f.use);
  return typed;
}

}  // namespace tool
