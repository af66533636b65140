// SPDX-License-Identifier: MIT
// The cleave tool: cuts ONNX models into stages and graphs into parts, and makes and checks pipeline
// schedules. Exit codes: 0 done, 1 infeasible or lost output, 2 usage, 3 bad input.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "options.hpp"
#include "out_of_memory.hpp"
#include "subcommands.hpp"
#include "terminal.hpp"

namespace {

struct subcommand {
  std::string name, about;
  int (*run)(std::span<std::string const>);
};
std::vector<subcommand> const subcommands = {
    {"split", "cuts a model into balanced stages", tool::split},
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
    {"report", "shows the tables of cleave bench as a page or pictures", tool::report}};

std::string names_of_subcommands() {
  std::string names;
  for (auto const& s : subcommands)
    names += (names.empty() ? "" : &s == &subcommands.back() ? " or " : ", ") + s.name;
  return names;
}

int run(std::vector<std::string> const& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    std::string text = "usage: cleave SUBCOMMAND [ARGUMENTS] [options]\n\n";
    for (auto const& s : subcommands)
      text += "  " + s.name + std::string(10 - s.name.size(), ' ') + s.about + "\n";
    text +=
        "\ncleave never overwrites its inputs. An existing file is replaced only if cleave wrote it, or "
        "with\n"
        "--overwrite. cleave SUBCOMMAND --help lists the options.\n"
        "Exit codes: 0 done, 1 infeasible or lost output, 2 usage, 3 bad input.\n";
    if (words.empty()) throw tool::usage_error("a subcommand is missing: " + names_of_subcommands());
    tool::print(text);
    return 0;
  }
  if (words[0] == "--version") {
    tool::print("cleave " + std::string(CLEAVE_VERSION) + "\n");
    return 0;
  }
  std::vector<std::string> names;
  for (auto const& s : subcommands) {
    if (s.name == words[0]) return s.run(std::span(words).subspan(1));
    names.push_back(s.name);
  }
  throw tool::usage_error("unknown subcommand " + cleave::printable(words[0]) +
                          tool::suggestion(words[0], names));
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
  try {
    try {
      return run({argv + 1, argv + argc});
    } catch (tool::help_wanted const& h) {
      tool::print(h.text);
      return 0;
    }
  } catch (tool::lost_output_error const& e) {
    return say(1, e.what());
  } catch (tool::usage_error const& e) {
    return say(2, e.what() + std::string("\ncleave: see cleave --help"));
  } catch (cleave::infeasible_error const& e) {
    return say(1, e.what());
  } catch (std::bad_alloc const&) {
    return say(3, tool::out_of_memory_text(argc > 1 ? argv[1] : ""));
  } catch (std::exception const& e) {
    return say(3, e.what());
  }
}
