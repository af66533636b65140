// SPDX-License-Identifier: MIT
#pragma once
#include <span>
#include <string>
#include <vector>

#include "options.hpp"

namespace tool {

/// A command that has no options, such as `cleave version`.
struct plain_command {
  std::string call, about;  ///< `completions SHELL`, and what it does
};
inline std::string first_word(plain_command const& p) { return p.call.substr(0, p.call.find(' ')); }

/// All commands, for the manual page and the completions.
struct command_list {
  std::vector<command> commands;    ///< those with options, `demo train` among them
  std::vector<std::string> abouts;  ///< what each of `commands` does, in a line
  std::vector<plain_command> plain;
};

/// The lines about files at the end of the help and of the manual.
inline constexpr char about_files[] =
    "cleave never overwrites its inputs. An existing file is replaced only if it is empty, if the\n"
    "same option of cleave wrote it, or with --overwrite. A file named - is standard input or standard "
    "output.";
inline constexpr char exit_codes[] =
    "0 done, 1 infeasible or lost output, 2 usage, 3 a file that is bad or cannot be written.";

/// Returns the manual page, in the language of man.
std::string manual_page(command_list const& all);

/// Returns a script that completes words for a shell: bash, zsh or fish. \throws usage_error for another
std::string completion_script(command_list const& all, std::string const& shell);

}  // namespace tool
