// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "support/scratch_folder.hpp"
#include "support/tool.hpp"

using cleave::testing::run_tool;
using cleave::testing::scratch_folder;

namespace {

std::vector<std::string> const subcommands = {"split",     "place",  "recompute", "inspect",   "demo",
                                              "schedule",  "verify", "simulate",  "partition", "order",
                                              "instances", "bench",  "report",    "doctor"};

void write(std::string const& file, std::string const& text) { std::ofstream(file) << text; }

bool has(std::string const& text, std::string const& part) { return text.find(part) != text.npos; }

/// Returns the first words of the lines that list options.
std::vector<std::string> options_in(std::string const& help) {
  std::vector<std::string> names;
  for (auto at = help.find("\n  -"); at != help.npos; at = help.find("\n  -", at + 1)) {
    auto const line = help.substr(at + 3, help.find('\n', at + 1) - at - 3);
    auto const name = line.find("--") < line.find("  ") ? line.substr(line.find("--")) : line;
    names.push_back(name.substr(0, name.find(' ')));
  }
  return names;
}

/// Returns whether a shell accepts a script; true if the shell is not here.
bool is_accepted(std::string const& shell, std::string const& script) {
  if (std::system(("command -v " + shell + " > /dev/null 2>&1").c_str()) != 0) return true;
  scratch_folder const at;
  write(at / "script", script);
  return std::system((shell + " -n '" + (at / "script") + "'").c_str()) == 0;
}

}  // namespace

TEST_CASE("cleave help: shows the same as --help, for all and for each subcommand") {
  auto const all = run_tool({"help"});
  CHECK(all.exit == 0);
  CHECK(all.said == run_tool({"--help"}).said);
  for (auto const& name : subcommands) {
    CAPTURE(name);
    CHECK(has(all.said, "\n  " + name + " "));
    auto const help = run_tool({"help", name});
    CHECK(help.exit == 0);
    CHECK(help.said == run_tool({name, "--help"}).said);
    CHECK(has(help.said, "usage: cleave " + name));
    CHECK(options_in(help.said).size() >= 3);
  }
  CHECK(has(run_tool({"help", "demo", "train"}).said, "usage: cleave demo train"));
  CHECK(run_tool({"help", "man"}).said == all.said);
  CHECK(run_tool({"help", "ma"}).exit == 2);
  CHECK(has(run_tool({"help", "spilt"}).to_stderr, "did you mean split"));
}

TEST_CASE("cleave: without a subcommand it says what it is and shows five calls") {
  auto const bare = run_tool({});
  CHECK(bare.exit == 2);
  CHECK(bare.said.empty());
  CHECK(bare.to_stderr.starts_with("cleave cuts models into pipeline stages"));
  CHECK(has(bare.to_stderr, "\ncleave: a subcommand is missing; cleave help lists all"));
  std::size_t calls = 0;
  for (auto const& name : subcommands)
    if (has(bare.to_stderr, "\n  cleave " + name + " ")) ++calls;
  CHECK(calls == 5);
  CHECK(std::ranges::count(bare.to_stderr, '\n') < 12);
  CHECK(has(run_tool({"schedule", "1F1B", "-p", "4", "-m", "8"}).said, "1F1B"));
}

TEST_CASE("cleave: --version, -V and version print one line") {
  auto const version = run_tool({"--version"}).said;
  CHECK(version.starts_with("cleave 0."));
  CHECK(run_tool({"-V"}).said == version);
  CHECK(run_tool({"version"}).said == version);
  CHECK(run_tool({"version", "x"}).exit == 2);
}

TEST_CASE("cleave: a usage error points to the help of its subcommand") {
  CHECK(has(run_tool({"spilt"}).to_stderr, "\ncleave: see cleave --help\n"));
  CHECK(has(run_tool({"demo", "train", "--x"}).to_stderr, "\ncleave: see cleave demo train --help\n"));
  for (auto const& name : subcommands)
    CHECK(has(run_tool({name, "--nothing"}).to_stderr, "\ncleave: see cleave " + name + " --help\n"));
}

TEST_CASE("cleave man and completions: name every option of every subcommand") {
  auto const page = run_tool({"man"});
  CHECK(page.exit == 0);
  CHECK(page.said.starts_with(".TH CLEAVE 1"));
  CHECK(has(run_tool({"completions"}).to_stderr, "a shell is missing: bash, zsh or fish"));
  CHECK(has(run_tool({"completions", "csh"}).to_stderr, "completions are for bash, zsh or fish, not 'csh'"));
  std::vector<std::string> scripts;
  for (std::string const shell : {"bash", "zsh", "fish"}) {
    scripts.push_back(run_tool({"completions", shell}).said);
    CAPTURE(shell);
    CHECK(is_accepted(shell, scripts.back()));
  }
  for (auto const& name : subcommands) {
    CAPTURE(name);
    CHECK(has(page.said, "\n.SH cleave " + name + "\n"));
    for (auto const& o : options_in(run_tool({"help", name}).said)) {
      CAPTURE(o);
      std::string escaped;
      for (char const c : o) escaped += c == '-' ? std::string("\\-") : std::string(1, c);
      if (o == "--help") continue;
      CHECK(has(page.said, escaped));
      CHECK(has(scripts[0], " " + name + ") words=\""));
      CHECK(has(scripts[0], o));
      CHECK(has(scripts[1], "'" + o + "["));
      CHECK(has(scripts[2], o.starts_with("--") ? " -l " + o.substr(2) : " -s " + o.substr(1)));
    }
  }
}

TEST_CASE("cleave: bash completes subcommands and options") {
  scratch_folder const at;
  write(at / "script", run_tool({"completions", "bash"}).said);
  auto const completes = [&](std::string const& typed, std::string const& expected) {
    auto const line = "bash -c '. \"" + (at / "script") + "\"; COMP_WORDS=(cleave " + typed +
                      "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _cleave; [[ \" ${COMPREPLY[*]} \" == *\" " +
                      expected + " \"* ]]'";
    return std::system(line.c_str()) == 0;
  };
  CHECK(completes("par", "partition"));
  CHECK(completes("split model --mem", "--memory"));
  CHECK(!completes("split model --mem", "--report"));
}

TEST_CASE("cleave: --verbose tells each step with its time, --quiet tells no notes") {
  scratch_folder const at;
  auto const graph = at / "g.graph";
  write(graph, "4 3\n2\n1 3\n2 4\n3\n");
  auto const plain = run_tool({"partition", graph, "-k", "2"});
  CHECK(plain.exit == 0);
  CHECK(plain.to_stderr.empty());
  auto const verbose = run_tool({"partition", graph, "-k", "2", "--verbose"});
  CHECK(has(verbose.to_stderr, " s  reading " + graph));
  CHECK(has(verbose.to_stderr, " s  cutting into 2 parts"));
  auto const layers = at / "layers.csv";
  std::string const k = "-k has no effect here";
  write(layers, "layers.0,1\nlayers.1,1\nlayers.2,1\n");
  std::vector<std::string> by = {"split", layers, "-k", "2", "--by", "buckets=1KiB"};
  CHECK(has(run_tool(by).to_stderr, k));
  by.emplace_back("-q");
  CHECK(!has(run_tool(by).to_stderr, k));
}

TEST_CASE("cleave doctor: says what is built in and what its lack costs") {
  auto const r = run_tool({"doctor"});
  CHECK(r.exit == 0);
  for (std::string const what : {"OpenCV", "METIS", "python3"}) CHECK(has(r.said, what));
  CHECK(has(r.said, "built with "));
  auto const json = run_tool({"doctor", "--json"}).said;
  CHECK(json.starts_with("{\"version\""));
  CHECK(has(json, "\"METIS\":"));
  CHECK(run_tool({"doctor", "x"}).exit == 2);
}
