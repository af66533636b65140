// SPDX-License-Identifier: MIT
// cleave completions: scripts that complete words in shells, from the texts of --help.
#include <cleave/core/printable.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "command_list.hpp"

namespace tool {
namespace {

/// Returns the text with `escape` before each character that is special between quotes of the shell.
std::string quoted(std::string_view text, std::string_view special, std::string_view escape) {
  std::string out;
  for (char const c : text) {
    if (special.find(c) != special.npos) out += escape;
    out += c;
  }
  return out;
}

/// False for `demo train`, whose first word is completed alone.
bool is_subcommand(command const& c) { return c.name.find(' ') == c.name.npos; }

std::vector<std::string> words_of(command const& c) {
  std::vector<std::string> words;
  for (auto const& o : c.options)
    for (auto const& name : {o.short_name, o.name})
      if (!name.empty()) words.push_back(name);
  words.push_back("--help");
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
    if (is_subcommand(c)) words.push_back(c.name);
  for (auto const& p : all.plain) words.push_back(first_word(p));
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
    if (is_subcommand(c)) text += "      " + c.name + ") words=\"" + joined(words_of(c)) + "\" ;;\n";
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
    if (is_subcommand(all.commands[i]))
      text += "  '" + all.commands[i].name + ":" + quoted(all.abouts[i], "'", "'\\'") + "'\n";
  for (auto const& p : all.plain) text += "  '" + first_word(p) + ":" + quoted(p.about, "'", "'\\'") + "'\n";
  text +=
      ")\nif (( CURRENT == 2 )); then\n  _describe 'subcommand' commands\n  return\nfi\ncase $words[2] in\n";
  for (auto const& c : all.commands) {
    if (!is_subcommand(c)) continue;
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
    if (is_subcommand(all.commands[i]))
      line("__fish_use_subcommand", "-f -a " + all.commands[i].name, all.abouts[i]);
  for (auto const& p : all.plain) line("__fish_use_subcommand", "-f -a " + first_word(p), p.about);
  for (auto const& c : all.commands) {
    if (!is_subcommand(c)) continue;
    for (auto const& o : c.options)
      line("__fish_seen_subcommand_from " + c.name,
           (o.short_name.empty() ? "" : "-s " + o.short_name.substr(1) + " ") +
               (o.name.empty() ? "" : "-l " + o.name.substr(2)) + (o.value.empty() ? "" : " -r"),
           o.help);
  }
  return text;
}

}  // namespace

std::string completion_script(command_list const& all, std::string const& shell) {
  if (shell == "bash") return bash_script(all);
  if (shell == "zsh") return zsh_script(all);
  if (shell == "fish") return fish_script(all);
  throw usage_error("completions are for bash, zsh or fish, not '" + cleave::printable(shell) + "'");
}

}  // namespace tool
