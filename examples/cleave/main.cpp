// SPDX-License-Identifier: MIT
// The cleave tool: cuts ONNX models into stages and graphs into parts, and makes and checks pipeline
// schedules. Exit codes: see `exit_codes`.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/version.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "command_list.hpp"
#include "options.hpp"
#include "out_of_memory.hpp"
#include "subcommands.hpp"
#include "terminal.hpp"

using namespace tool;

namespace {

struct subcommand {
  std::string name, about;
  int (*run)(std::span<std::string const>);
};
std::vector<subcommand> const subcommands = {
    {"split", "cuts a model into balanced stages", tool::split},
    {"place", "cuts a model into stages for unlike devices and their links", tool::place},
    {"recompute", "says what a training step saves between its passes, and what fewer bytes cost",
     tool::recompute},
    {"inspect", "describes a model", tool::inspect},
    {"demo", "cuts a model, runs its stages as a pipeline and compares them with the whole model",
     tool::demo},
    {"schedule", "makes a pipeline schedule of any family and draws or writes it", tool::schedule},
    {"verify", "lists every fault of a schedule in a file", tool::verify},
    {"simulate", "simulates a schedule from a file and draws it over time", tool::simulate},
    {"partition", "cuts a graph into balanced parts with few edges between them", tool::partition},
    {"order", "orders a sparse matrix so that its Cholesky factor has few entries", tool::order},
    {"instances", "writes generated graphs for partitioners", tool::instances},
    {"bench", "compares partitioners on the same graphs", tool::bench},
    {"report", "shows the tables of cleave bench as a page or pictures", tool::report},
    {"doctor", "says what this tool was built with and what it lacks", tool::doctor}};

std::vector<plain_command> const plain_commands = {
    {"help [SUBCOMMAND]", "shows the options of a subcommand, or this list"},
    {"man", "prints the manual page: cleave man > cleave.1"},
    {"completions SHELL", "prints a script that completes words in bash, zsh or fish"},
    {"version", "prints the version"}};

/// The text that the tool prints without a subcommand.
constexpr char overview[] =
    "cleave cuts models into pipeline stages and graphs into parts, and makes the schedules of pipelines.\n"
    "\n"
    "  cleave inspect model.onnx             describes a model\n"
    "  cleave split model.onnx -k 4          cuts it into 4 stages; --out DIR writes them\n"
    "  cleave demo model.onnx                runs its stages as a pipeline and compares them with the whole\n"
    "  cleave schedule 1F1B -p 4 -m 8        draws a schedule for 4 ranks and 8 microbatches\n"
    "  cleave partition mesh.graph -k 8      cuts a graph into 8 parts with few edges between them\n"
    "\n"
    "cleave: a subcommand is missing; cleave help lists all, cleave help SUBCOMMAND shows its options\n";

std::string help_of_all() {
  std::string text = "usage: cleave SUBCOMMAND [ARGUMENTS] [options]\n\n";
  auto const show = [&](std::string const& name, std::string const& about) {
    text += "  " + name + std::string(name.size() < 19 ? 19 - name.size() : 1, ' ') + about + "\n";
  };
  for (auto const& s : subcommands) show(s.name, s.about);
  for (auto const& p : plain_commands) show(p.call, p.about);
  return text + "\n" + about_files +
         "\ncleave help SUBCOMMAND lists the options.\nExit codes: " + exit_codes + "\n";
}

/// Returns the texts and options of a subcommand, which its `--help` would print.
command described(subcommand const& s, std::vector<std::string> words) {
  words.emplace_back("--help");
  try {
    s.run(words);
  } catch (help_wanted const& h) {
    return h.of;
  }
  throw cleave::error("cleave " + s.name + " has no help");
}

command_list all_commands() {
  command_list all;
  for (auto const& s : subcommands) {
    all.abouts.push_back(s.about);
    all.commands.push_back(described(s, {}));
    if (s.name != "demo") continue;
    all.abouts.push_back("trains a small transformer in stages and compares it with the whole");
    all.commands.push_back(described(s, {"train"}));
  }
  all.plain = plain_commands;
  return all;
}

void require_count(std::vector<std::string> const& words, std::size_t most, std::string const& wants) {
  if (words.size() > most)
    throw usage_error(words[0] + " takes " + wants + "; found " + cleave::printable(words[most]));
}

/// Runs the command if it is one of `plain_commands`, or a spelling of them; otherwise returns false.
bool run_plain(std::vector<std::string> const& words) {
  auto const& name = words[0];
  if (name == "--version" || name == "-V" || name == "version") {
    require_count(words, 1, "nothing more");
    print("cleave " + std::string(CLEAVE_VERSION) + "\n");
  } else if (name == "--help" || name == "-h" || (name == "help" && words.size() == 1)) {
    print(help_of_all());
  } else if (name == "man") {
    require_count(words, 1, "nothing more");
    print(manual_page(all_commands()));
  } else if (name == "completions") {
    require_count(words, 2, "one shell");
    if (words.size() < 2) throw usage_error("a shell is missing: bash, zsh or fish");
    print(completion_script(all_commands(), words[1]));
  } else {
    return false;
  }
  return true;
}

/// Runs a command line and returns the exit code. Sets `at` to the subcommand, for messages.
int run(std::vector<std::string> words, std::string& at) {
  if (words.empty()) {
    std::fputs(overview, stderr);
    return 2;
  }
  if (words[0] == "help" && words.size() > 1) {
    words.erase(words.begin());
    if (std::ranges::find(plain_commands, words[0], first_word) != plain_commands.end())
      return print(help_of_all()), 0;
    words.emplace_back("--help");
  }
  if (run_plain(words)) return 0;
  std::vector<std::string> names;
  for (auto const& s : subcommands) {
    names.push_back(s.name);
    if (s.name != words[0]) continue;
    at = s.name == "demo" && words.size() > 1 && words[1] == "train" ? "demo train" : s.name;
    return s.run(std::span(words).subspan(1));
  }
  for (auto const& p : plain_commands) names.push_back(first_word(p));
  throw usage_error("unknown subcommand " + cleave::printable(words[0]) + suggestion(words[0], names));
}

int say(int code, std::string const& what) {
  std::fprintf(stderr, "cleave: %s\n", what.c_str());
  return code;
}

/// Opens the standard streams that are closed, so that no other file becomes one of them. They cannot be
/// written.
void occupy_closed_streams() {
  for (int stream = 0; stream <= STDERR_FILENO; ++stream)
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDONLY) != stream) std::_Exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  occupy_closed_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit of its size is then an error with a reason
  std::string at;
  try {
    try {
      return run({argv + 1, argv + argc}, at);
    } catch (tool::help_wanted const& h) {
      tool::print(help_text(h.of));
      return 0;
    }
  } catch (tool::lost_output_error const& e) {
    return say(1, e.what());
  } catch (tool::usage_error const& e) {
    return say(2, e.what() + ("\ncleave: see cleave " + at + (at.empty() ? "" : " ") + "--help"));
  } catch (cleave::infeasible_error const& e) {
    return say(1, e.what());
  } catch (std::bad_alloc const&) {
    return say(3, tool::out_of_memory_text(argc > 1 ? argv[1] : ""));
  } catch (std::system_error const& e) {
    bool const lacks_threads = e.code() == std::errc::resource_unavailable_try_again;
    return say(3, lacks_threads ? "no further thread can be started: " + std::string(e.what()) +
                                      "; allow more processes (ulimit -u, or the limit of its container)"
                                : e.what());
  } catch (std::exception const& e) {
    return say(3, e.what());
  }
}
