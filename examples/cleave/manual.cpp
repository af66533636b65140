// SPDX-License-Identifier: MIT
// The manual page and the completions of shells, from the same texts as --help.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "command_list.hpp"

namespace tool {
namespace {

/// Returns a text as troff prints it.
std::string troff(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    bool const begins = i == 0 || text[i - 1] == '\n';
    if (begins && (text[i] == '.' || text[i] == '\'')) out += "\\&";
    if (text[i] == '\\')
      out += "\\e";
    else if (text[i] == '-')
      out += "\\-";
    else
      out += text[i];
  }
  return out;
}

std::string item(std::string const& left, std::string const& right) {
  return ".TP\n.B " + troff(left) + "\n" + troff(right) + "\n";
}

/// Returns a text without what would end or change a word in quotes of a shell.
std::string quoted(std::string_view text, std::string_view special, std::string_view escape) {
  std::string out;
  for (char const c : text) {
    if (special.find(c) != special.npos) out += escape;
    out += c;
  }
  return out;
}

std::vector<std::string> words_of(command const& c) {
  std::vector<std::string> words;
  for (auto const& o : c.options)
    for (auto const& name : {o.short_name, o.name})
      if (!name.empty()) words.push_back(name);
  words.insert(words.end(), {"--help"});
  return words;
}

std::string joined(std::vector<std::string> const& words) {
  std::string text;
  for (auto const& w : words) text += (text.empty() ? "" : " ") + w;
  return text;
}

std::vector<std::string> first_words(command_list const& all) {
  std::vector<std::string> words;
  for (auto const& c : all.commands)
    if (c.name.find(' ') == c.name.npos) words.push_back(c.name);
  for (auto const& p : all.plain) words.push_back(p.call.substr(0, p.call.find(' ')));
  return words;
}

std::string bash_script(command_list const& all) {
  std::string text =
      "# Completes the words of cleave in bash.\n"
      "_cleave() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} words=\n"
      "  if [[ $COMP_CWORD -eq 1 ]]; then\n"
      "    words=\"" +
      joined(first_words(all)) +
      "\"\n"
      "  else\n"
      "    case ${COMP_WORDS[1]} in\n";
  for (auto const& c : all.commands)
    if (c.name.find(' ') == c.name.npos)
      text += "      " + c.name + ") words=\"" + joined(words_of(c)) + "\" ;;\n";
  return text +
         "    esac\n"
         "    [[ $word == -* ]] || words=\n"
         "  fi\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "  [[ ${#COMPREPLY[@]} -gt 0 || $word == -* ]] || COMPREPLY=($(compgen -f -- \"$word\"))\n"
         "}\n"
         "complete -o filenames -F _cleave cleave\n";
}

std::string zsh_script(command_list const& all) {
  std::string text = "#compdef cleave\n# Completes the words of cleave in zsh.\nlocal -a commands=(\n";
  for (std::size_t i = 0; i < all.commands.size(); ++i)
    if (all.commands[i].name.find(' ') == std::string::npos)
      text += "  '" + all.commands[i].name + ":" + quoted(all.abouts[i], "'", "'\\'") + "'\n";
  for (auto const& p : all.plain)
    text += "  '" + p.call.substr(0, p.call.find(' ')) + ":" + quoted(p.about, "'", "'\\'") + "'\n";
  text +=
      ")\nif (( CURRENT == 2 )); then\n  _describe 'subcommand' commands\n  return\nfi\ncase $words[2] in\n";
  for (auto const& c : all.commands) {
    if (c.name.find(' ') != c.name.npos) continue;
    text += "  " + c.name + ")\n    _arguments \\\n";
    for (auto const& o : c.options)
      for (auto const& name : {o.short_name, o.name}) {
        if (name.empty()) continue;
        auto const help = quoted(o.help, "[]:\\", "\\");
        text += "      '" + name + "[" + quoted(help, "'", "'\\'") + "]" +
                (o.value.empty() ? "" : ":" + quoted(o.value, ":'", "\\") + ":_files") + "' \\\n";
      }
    text += "      '--help[show the options]' '*:file:_files' ;;\n";
  }
  return text + "esac\n";
}

std::string fish_script(command_list const& all) {
  std::string text = "# Completes the words of cleave in fish.\n";
  auto const line = [&](std::string const& when, std::string const& what, std::string const& about) {
    text += "complete -c cleave -n '" + when + "' " + what + " -d '" + quoted(about, "'\\", "\\") + "'\n";
  };
  for (std::size_t i = 0; i < all.commands.size(); ++i)
    if (all.commands[i].name.find(' ') == std::string::npos)
      line("__fish_use_subcommand", "-f -a " + all.commands[i].name, all.abouts[i]);
  for (auto const& p : all.plain)
    line("__fish_use_subcommand", "-f -a " + p.call.substr(0, p.call.find(' ')), p.about);
  for (auto const& c : all.commands) {
    if (c.name.find(' ') != c.name.npos) continue;
    for (auto const& o : c.options)
      line("__fish_seen_subcommand_from " + c.name,
           (o.short_name.empty() ? "" : "-s " + o.short_name.substr(1) + " ") +
               (o.name.empty() ? "" : "-l " + o.name.substr(2)) + (o.value.empty() ? "" : " -r"),
           o.help);
  }
  return text;
}

}  // namespace

std::string manual_page(command_list const& all) {
  std::string text =
      ".TH CLEAVE 1 \"\" \"cleave " + std::string(CLEAVE_VERSION) +
      "\" \"User commands\"\n.SH NAME\ncleave \\- cuts models and graphs, and makes and checks "
      "pipeline schedules\n.SH SYNOPSIS\n.B cleave\n.I SUBCOMMAND\n[arguments] [options]\n"
      ".SH SUBCOMMANDS\n";
  for (std::size_t i = 0; i < all.commands.size(); ++i) text += item(all.commands[i].name, all.abouts[i]);
  for (auto const& p : all.plain) text += item(p.call, p.about);
  for (auto const& c : all.commands) {
    text += ".SH cleave " + troff(c.name) + "\n.B cleave " + troff(c.name) + "\n" + troff(c.operands) +
            " [options]\n.PP\n" + troff(c.about) + "\n";
    for (auto const& o : c.options) text += item(typed_option(o), o.help);
  }
  return text + ".SH EXIT STATUS\n" + troff(exit_codes) + "\n.SH FILES\n" +
         troff(
             "cleave never overwrites its inputs. An existing file is replaced only if cleave wrote it, or "
             "with "
             "--overwrite.") +
         "\n";
}

std::string completion_script(command_list const& all, std::string const& shell) {
  if (shell == "bash") return bash_script(all);
  if (shell == "zsh") return zsh_script(all);
  if (shell == "fish") return fish_script(all);
  throw usage_error("completions are for bash, zsh or fish, not '" + cleave::printable(shell) + "'");
}

}  // namespace tool
