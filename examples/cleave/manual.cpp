// SPDX-License-Identifier: MIT
// cleave man: the manual page, from the texts of --help.
#include <cleave/version.hpp>
#include <string>
#include <string_view>

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
  return text + ".SH EXIT STATUS\n" + troff(exit_codes) + "\n.SH FILES\n" + troff(about_files) + "\n";
}

}  // namespace tool
