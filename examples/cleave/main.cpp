// SPDX-License-Identifier: MIT
// cleave: cuts ONNX models into stages and graphs into parts, and orders what pipelines of stages do. Exit
// codes: 0 done, 1 infeasible, 2 usage, 3 bad input.
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "model.hpp"
#include "options.hpp"
#include "subcommands.hpp"
#include "terminal.hpp"

namespace {

struct subcommand {
  std::string name, about;
  int (*run)(std::span<std::string const>);
};
std::vector<subcommand> const subcommands = {
    {"split", "cuts a model into balanced stages", tool::split},
    {"inspect", "says what a model is", tool::inspect},
    {"demo", "cuts a model, runs its stages as a pipeline and shows that they equal the whole", tool::demo},
    {"schedule", "draws the order in which ranks run stages, of any family", tool::schedule},
    {"verify", "says everything that is wrong with such an order", tool::verify},
    {"simulate", "draws an order from a file in time", tool::simulate},
    {"partition", "cuts any graph into parts with few edges between them", tool::partition},
    {"instances", "writes graphs to try that on", tool::instances},
    {"bench", "runs partitioners side by side", tool::bench},
    {"report", "compares partitioners by the tables of a bench", tool::report}};

std::string names_of_subcommands() {
  std::string names;
  for (auto const& s : subcommands)
    names += (names.empty() ? "" : &s == &subcommands.back() ? " or " : ", ") + s.name;
  return names;
}

int run(std::vector<std::string> const& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    std::string text = "usage: cleave SUBCOMMAND WHAT [options]\n\n";
    for (auto const& s : subcommands)
      text += "  " + s.name + std::string(10 - s.name.size(), ' ') + s.about + "\n";
    text +=
        "\nNo file is written over that cleave reads, or, without --overwrite, that it has not written "
        "itself.\n"
        "cleave SUBCOMMAND --help tells more. Exit codes: 0 done, 1 infeasible, 2 usage, 3 bad input.\n";
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

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (tool::help_wanted const& h) {
    tool::print(h.text);
    return 0;
  } catch (tool::usage_error const& e) {
    return say(2, e.what() + std::string("\ncleave: see cleave --help"));
  } catch (cleave::infeasible_error const& e) {
    return say(1, e.what());
  } catch (std::bad_alloc const&) {
    return say(3, "out of memory");
  } catch (std::exception const& e) {
    return say(3, e.what());
  }
}
