// SPDX-License-Identifier: MIT
// What the tool may write over: no file that it reads, no other one that it writes, and of what is there only
// what it has written itself. Checked for all options of which --help says that they take a file or a folder.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cleave/formats/files/durable_file.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/model_corpus.hpp"
#include "support/onnx_text.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;

namespace fs = std::filesystem;

namespace {

using words = std::vector<std::string>;

/// An option by which a subcommand writes.
struct output {
  std::string subcommand, option;
  words call;                ///< what works beside it; `@a` is the file `a` of the test's folder
  std::string input;         ///< one of these that is read
  std::string name = {};     ///< of a folder: what is written there
  std::string read_in = {};  ///< of a folder: the name under which the input lies there
};

std::vector<output> const outputs = {
    {"split", "--out", {"@m.onnx", "-k", "2"}, "m.onnx", "stage_0.onnx", "stage_1.onnx"},
    {"split", "--out", {"@g.json", "-k", "2"}, "g.json", "outer.json", "stage_1.json"},
    {"split", "--out", {"@g.json", "-k", "2"}, "g.json", "stage_0.json", "outer.json"},
    {"split", "--report", {"@m.onnx", "-k", "2"}, "m.onnx"},
    {"split", "--report", {"@g.json", "-k", "2"}, "g.json"},
    {"split", "--map", {"@m.onnx", "-k", "2"}, "m.onnx"},
    {"split", "--map", {"@g.json", "--schedule", "@two.csv"}, "two.csv"},
    {"split", "--map", {"@g.json", "--by", "file=@by.txt"}, "by.txt"},
    {"split", "--map", {"@m.onnx", "--by", "ort-genai=@pipe.json"}, "pipe.json"},
    {"split", "--map", {"@g.json", "--costs", "@times.csv", "-k", "2"}, "times.csv"},
    {"split", "--report", {"@m.onnx", "--costs", "@times.csv", "-k", "2"}, "times.csv"},
    {"split",
     "--out",
     {"@g.json", "-k", "2", "--costs", "@times.csv"},
     "times.csv",
     "outer.json",
     "stage_1.json"},
    {"split", "--out", {"@g.json", "--by", "file=@by.txt"}, "by.txt", "outer.json", "stage_0.json"},
    {"split", "--out", {"@g.json", "--schedule", "@two.csv"}, "two.csv", "outer.json", "stage_0.json"},
    {"split",
     "--out",
     {"@m.onnx", "-k", "2", "--hosts", "@hosts.txt"},
     "hosts.txt",
     "stage_1.onnx",
     "stage_0.onnx"},
    {"split",
     "--out",
     {"@m.onnx", "--by", "ort-genai=@pipe.json"},
     "pipe.json",
     "stage_0.onnx",
     "stage_1.onnx"},
    {"split", "--report", {"@g.json", "--schedule", "@two.csv"}, "two.csv"},
    {"split", "--report", {"@g.json", "--by", "file=@by.txt"}, "by.txt"},
    {"split", "--report", {"@m.onnx", "--by", "ort-genai=@pipe.json"}, "pipe.json"},
    {"split", "--report", {"@g.json", "-k", "2", "--hosts", "@hosts.txt"}, "hosts.txt"},
    {"split", "--map", {"@g.json", "-k", "2", "--hosts", "@hosts.txt"}, "hosts.txt"},
    {"simulate", "--out", {"@two.csv", "--csv", "--costs", "@both.csv"}, "both.csv"},
    {"verify", "--repair", {"@crossed.csv", "--transport", "rendezvous", "--map", "@map.json"}, "map.json"},
    {"partition", "--out", {"@a.dag", "-k", "2"}, "a.dag"},
    {"partition", "--out", {"@a.graph", "-k", "2", "--stream"}, "a.graph"},
    {"report", "--profile-svg", {"@runs.csv", "--against", "@old.csv"}, "old.csv"},
    {"report", "--times-svg", {"@runs.csv", "@older.csv"}, "older.csv"},
    {"demo", "--out", {"@m.onnx", "-m", "1"}, "m.onnx", "report.html", "stage_0.onnx"},
    {"demo", "--out", {"@m.onnx", "-m", "1"}, "m.onnx", "stage_0.onnx", "stage_7.onnx"},
    {"demo train", "--out", {"-n", "1", "-k", "2"}, "", "report.html"},
    {"place", "--report", {"@m.onnx", "--devices", "@devices.json"}, "m.onnx"},
    {"place", "--report", {"@g.json", "--devices", "@devices.json"}, "devices.json"},
    {"place", "--report", {"@g.json", "--devices", "@devices.json", "--copies"}, "devices.json"},
    {"schedule", "--out", {"1F1B", "--costs", "@costs.csv"}, "costs.csv"},
    {"schedule", "--out", {"1F1B", "--costs", "@costs.csv", "--svg"}, "costs.csv"},
    {"schedule", "--out", {"1F1B", "--costs", "@costs.csv", "--html"}, "costs.csv"},
    {"schedule", "--out", {"1F1B", "--costs", "@costs.csv", "--trace"}, "costs.csv"},
    {"schedule", "--out", {"1F1B", "--costs", "@costs.csv", "--csv"}, "costs.csv"},
    {"schedule", "--out", {"1F1B", "--costs", "@costs.csv", "--json"}, "costs.csv"},
    {"simulate", "--out", {"@two.csv", "--json"}, "two.csv"},
    {"verify", "--repair", {"@crossed.csv", "--transport", "rendezvous"}, "crossed.csv"},
    {"partition", "--out", {"@a.graph", "-k", "2"}, "a.graph"},
    {"order", "--out", {"@a.graph"}, "a.graph"},
    {"bench", "--out", {"@a.graph", "-k", "2", "--algos", "fast"}, "a.graph"},
    {"bench", "--out", {"@graphs", "-k", "2", "--algos", "fast"}, "graphs/b.graph"},
    {"bench",
     "--parts",
     {"@a.graph", "-k", "2", "--algos", "fast"},
     "",
     "a.cleave-fast.k2.eps0.03.seed1.threads1.part"},
    {"report", "--out", {"@runs.csv"}, "runs.csv"},
    {"report", "--out", {"@runs.csv", "--against", "@old.csv"}, "old.csv"},
    {"report", "--out", {"@runs.csv", "--against", "@old.csv", "--against", "@older.csv"}, "old.csv"},
    {"report", "--profile-svg", {"@runs.csv"}, "runs.csv"},
    {"report", "--times-svg", {"@runs.csv"}, "runs.csv"},
};

/// Options that read a file.
std::set<std::pair<std::string, std::string>> const inputs = {
    {"split", "--costs"},      {"split", "--hosts"},    {"split", "--schedule"},
    {"schedule", "--costs"},   {"simulate", "--costs"}, {"verify", "--map"},
    {"partition", "--verify"}, {"report", "--against"}, {"place", "--devices"}};

/// What --help calls values that are no files.
std::set<std::string> const no_files = {
    "N",    "K,...",    "X",           "X[,X...]",     "R",     "S",       "SIZE",   "SIZE[,SIZE...]",
    "TIME", "SHARE",    "0|1",         "WHAT",         "HOW",   "RULE",    "POLICY", "NAME=N",
    "NAME", "NAME,...", "VALUE=SHAPE", "PRESET",       "SIZES", "LENGTHS", "RATE",   "FRAMEWORK",
    "PATH", "GOAL",     "SECONDS",     "OPERATOR,...", "LIMIT"};

/// A folder with a small file of each kind.
class workplace {
 public:
  workplace() {
    fs::copy_file(model_file("names"), at("m.onnx"));
    put("g.json", R"({"format": "cleave graph 1", "nodes": [{"name": "x", "op": "placeholder"},
      {"name": "a", "operands": ["x"], "cost": 1, "bytes": 4}, {"name": "b", "operands": ["a"], "cost": 2},
      {"name": "y", "op": "output", "operands": ["b"]}]})");
    put("by.txt", "a 0\nb 1\n");
    put("devices.json", R"({"format": "cleave devices 1", "devices": [{"name": "d"}, {"name": "e"}]})");
    put("hosts.txt", "one\ntwo\n");
    put("a.dag", "4 3\n1.5 2\n2 1\n3 .5\n1 1\n0 1 2\n2 1 .25\n1 3 1e3\n");
    put("pipe.json", R"([{"a": {"filename": "a.onnx", "inputs": ["input"], "outputs": ["output"]}}])");
    put("two.csv", "0F0,0B0\r\n1F0,1B0\r\n");
    put("costs.csv", "stage,F,B\n0,1,1\n1,1,1\n2,1,1\n3,1,1\n");
    put("both.csv", "stage,F,B\n0,1,1\n1,1,1\n");
    put("times.csv", "#0,1ms\n");
    put("crossed.csv",
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
        "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
    static auto const map =
        run_tool({"split", at("g.json"), "--schedule", at("two.csv"), "--map", at("map.json")}).exit == 0
            ? text("map.json")
            : "";
    put("map.json", map);
    put("a.graph", "4 3\n2\n1 3\n2 4\n3\n");
    fs::create_directory(at("graphs"));
    put("graphs/b.graph", "4 3\n2\n1 3\n2 4\n3\n");
    for (auto const* const table : {"runs.csv", "old.csv", "older.csv"})
      put(table,
          "peer,graph,n,m,k,eps,seed,threads,wall_s,cpu_s,cut,imbalance,empty,memory_csr,claimed_cut,status,"
          "bottleneck,bound,metric\nmetis,a,4,3,2,0.03,1,1,0.1,0.1,1,0,0,1,1,ok,,,edge-cut\n");
  }

  std::string at(std::string const& name) const { return folder_ / name; }
  void put(std::string const& name, std::string const& text) const {
    std::ofstream(at(name), std::ios::binary) << text;
  }
  std::string text(std::string const& name) const { return text_of_file(at(name)); }

  /// The files of the folder and of those in it, with what they hold.
  std::map<std::string, std::string> all() const {
    std::map<std::string, std::string> texts;
    for (auto const& entry : fs::recursive_directory_iterator(folder_.path()))
      if (entry.is_regular_file()) texts[entry.path().string()] = text_of_file(entry.path());
    return texts;
  }

  child_report run(output const& o, words const& more, std::string const& input = "") const {
    words line;
    std::istringstream names(o.subcommand);
    for (std::string name; names >> name;) line.push_back(name);
    for (auto word : o.call) {
      if (auto const mark = word.find('@'); mark != word.npos)
        word = word.substr(0, mark) +
               at(word.substr(mark + 1) == o.input && !input.empty() ? input : word.substr(mark + 1));
      line.push_back(word);
    }
    line.insert(line.end(), more.begin(), more.end());
    return run_tool(line);
  }

  /// That the tool refuses, names the file, and leaves all as it was.
  void check_refused(output const& o, words const& more, std::string const& names,
                     std::string const& input = "") const {
    auto const before = all();
    auto const r = run(o, more, input);
    CAPTURE(r.to_stderr);
    CHECK(r.exit == 3);
    CHECK(r.to_stderr.starts_with("cleave: "));
    CHECK(r.to_stderr.find(names) != std::string::npos);
    CHECK(all() == before);
  }

 private:
  scratch_folder folder_;
};

/// What an output is told, to write `file` of its folder, or to write that file.
words told(output const& o, workplace const& w) {
  if (!o.name.empty()) fs::create_directories(w.at("out"));
  return {o.option, w.at("out")};
}
std::string written(output const& o) { return o.name.empty() ? "out" : "out/" + o.name; }

}  // namespace

TEST_CASE("cleave --help: every option that takes a file is known here as an input or an output") {
  for (words const& subcommand : {words{"split"},
                                  {"place"},
                                  {"recompute"},
                                  {"inspect"},
                                  {"demo"},
                                  {"demo", "train"},
                                  {"schedule"},
                                  {"verify"},
                                  {"simulate"},
                                  {"partition"},
                                  {"order"},
                                  {"instances"},
                                  {"bench"},
                                  {"report"},
                                  {"doctor"}}) {
    auto line = subcommand;
    line.push_back("--help");
    auto name = subcommand.front() + (subcommand.size() > 1 ? " train" : "");
    std::istringstream help(run_tool(line).said);
    bool writes = false, overwrites = false;
    for (std::string text; std::getline(help, text);) {
      std::istringstream in(text.substr(std::min<std::size_t>(text.size(), 2)));
      std::string option, value;
      if (!text.starts_with("  -") || !(in >> option)) continue;
      if (option.ends_with(',')) in >> option;
      if (text[4 + text.find(option) - 2 + option.size() - 2] != ' ' || !(in >> value)) continue;
      overwrites |= option == "--overwrite";
      bool const is_output = std::ranges::any_of(
          outputs, [&](auto const& o) { return o.subcommand == name && o.option == option; });
      writes |= is_output;
      auto const first = value.front();
      bool const is_value =
          value == "0|1" ||
          (first >= 'A' && first <= 'Z' && value.find_first_of("abcdefghijklmnopqrstuvwxyz") == value.npos);
      if (!is_value || is_output || inputs.contains({name, option})) continue;
      CAPTURE(name);
      CAPTURE(option);
      CHECK_MESSAGE(no_files.contains(value), value, ": add the option to those that read or write a file");
    }
    CHECK(writes == overwrites);
  }
  std::set<std::string> names;
  std::istringstream all(run_tool({"--help"}).said);
  for (std::string text; std::getline(all, text);)
    if (text.starts_with("  ")) names.insert(text.substr(2, text.find(' ', 2) - 2));
  CHECK(names == std::set<std::string>{"split", "place", "recompute", "inspect", "demo", "schedule", "verify",
                                       "simulate", "partition", "order", "instances", "bench", "report",
                                       "doctor", "help", "man", "completions", "version"});
}

TEST_CASE("cleave: never writes an output over an input") {
  for (auto const& o : outputs) {
    if (o.input.empty()) continue;
    CAPTURE(o.subcommand);
    CAPTURE(o.option);
    workplace const w;
    auto const is_folder = !o.name.empty();
    auto const input = is_folder ? "out/" + o.read_in : o.input;
    if (is_folder) {
      fs::create_directory(w.at("out"));
      fs::copy_file(w.at(o.input), w.at(input));
    }
    auto const file = is_folder ? "out" : o.input;
    auto const read = is_folder ? input : "";
    for (words const& more : {words{}, {"--overwrite"}}) {
      words line{o.option, w.at(file)};
      line.insert(line.end(), more.begin(), more.end());
      // a graph in a folder is known to be read only after what is typed was looked at
      auto const said = more.empty() && o.input == "graphs/b.graph" ? "" : "would overwrite ";
      w.check_refused(o, line, said + w.at(input), read);
    }
    if (is_folder) continue;
    fs::create_hard_link(w.at(o.input), w.at("hard"));
    fs::create_symlink(w.at(o.input), w.at("soft"));
    for (auto const* link : {"hard", "soft"})
      w.check_refused(o, {o.option, w.at(link), "--overwrite"}, "would overwrite " + w.at(o.input));
  }
}

TEST_CASE("cleave: never writes two outputs to one file") {
  for (auto const& a : outputs)
    for (auto const& b : outputs) {
      if (a.subcommand != b.subcommand || a.option == b.option || a.call != b.call) continue;
      CAPTURE(a.subcommand);
      CAPTURE(a.option);
      CAPTURE(b.option);
      workplace const w;
      auto const one = w.at(a.name.empty() && !b.name.empty() ? "x/" + b.name : "x");
      auto const other = w.at(b.name.empty() && !a.name.empty() ? "x/" + a.name : "x");
      w.check_refused(a, {a.option, one, b.option, other}, "would overwrite ");
      fs::create_directory(w.at("d"));
      if (a.name.empty() && b.name.empty())
        w.check_refused(a, {a.option, w.at("d/x"), b.option, w.at("d/../d/x")}, "and so would --");
    }
}

TEST_CASE("cleave: recognizes different spellings of one new output file") {
  workplace const w;
  fs::create_symlink("target", w.at("link"));
  auto const before = fs::current_path();
  fs::current_path(w.at(""));
  for (auto const& [map, report] :
       std::vector<std::pair<std::string, std::string>>{{"q", "./q"},
                                                        {"link", "target"},
                                                        {"target", "./link"},
                                                        {"d/stage_0.onnx", "r"},
                                                        {"./d/stage_1.onnx", "r"}}) {
    auto const said =
        run_tool({"split", "m.onnx", "-k", "2", "--out", "d", "--map", map, "--report", report});
    CHECK(said.exit != 0);
    CHECK((said.said + said.to_stderr).find("would overwrite") != std::string::npos);
    CHECK(!fs::exists("d"));
    CHECK(!fs::exists("target"));
  }
  fs::current_path(before);
}

TEST_CASE("cleave: replaces a foreign file only with --overwrite, and a foreign stage never") {
  for (auto const& o : outputs) {
    CAPTURE(o.subcommand);
    CAPTURE(o.option);
    CAPTURE(o.name);
    workplace const w;
    auto const line = told(o, w);
    for (std::string const text : {"somebody's own\n", "{\"mine\": 1}", "<html></html>\n", "4 3\n1 2\n"}) {
      w.put(written(o), text);
      w.check_refused(o, line, written(o).substr(4 * (o.name.empty() ? 0 : 1)));
    }
    bool const is_stage = o.name.starts_with("stage_") || o.name == "outer.json";
    if (is_stage) continue;  // never, for it may be a model
    auto more = line;
    more.push_back("--overwrite");
    auto const r = w.run(o, more);
    CAPTURE(r.to_stderr);
    CHECK(r.exit == 0);
    CHECK(w.text(written(o)) != "4 3\n1 2\n");
  }
}

TEST_CASE("cleave: replaces its own file in a common format only if it is unchanged") {
  workplace const w;
  struct text {
    words call;
    std::string of_another_program;
  };
  for (auto const& [call, theirs] :
       std::vector<text>{{{"partition", w.at("a.graph"), "-k", "2", "--out", w.at("out")}, "0\n1\n1\n0\n"},
                         {{"schedule", "1F1B", "--csv", "-o", w.at("out")}, "0F0,0B0\r\n1F0,1B0\r\n"},
                         {{"simulate", w.at("two.csv"), "--json", "-o", w.at("out")}, w.text("two.csv")}}) {
    CAPTURE(call.front());
    auto const refused = [&] {
      auto const before = w.text("out");
      auto const r = run_tool(call);
      CAPTURE(r.to_stderr);
      CHECK(r.exit == 3);
      CHECK(r.to_stderr.find("out: exists, and this option did not write it, or it was changed since") !=
            std::string::npos);
      CHECK(w.text("out") == before);
    };
    w.put("out", theirs);
    refused();
    fs::remove(w.at("out"));
    REQUIRE(run_tool(call).exit == 0);
    auto const ours = w.text("out");
    fs::copy_file(w.at("out"), w.at("copy"));
    bool const knows_attributes = setxattr(w.at("copy").c_str(), "user.cleave.test", "1", 1, 0) == 0;
    if (knows_attributes)
      CHECK(run_tool(call).exit == 0);
    else
      refused();
    CHECK(w.text("out") == ours);
    w.put("out", ours + "0\n");  // changed by hand
    refused();
    fs::remove(w.at("out"));
    fs::remove(w.at("copy"));
  }
}

TEST_CASE("cleave: a page that was edited is not replaced") {
  workplace const w;
  words const call{"split", w.at("g.json"), "-k", "2", "--report", w.at("page.html")};
  REQUIRE(run_tool(call).exit == 0);
  if (getxattr(w.at("page.html").c_str(), "user.cleave.written", nullptr, 0) <= 0) return;  // no attributes
  CHECK(run_tool(call).exit == 0);
  auto const edited = "my notes\n" + w.text("page.html");
  w.put("page.html", edited);
  auto const r = run_tool(call);
  CHECK(r.exit == 3);
  CHECK(r.to_stderr.find("page.html: exists, and this option did not write it, or it was changed since") !=
        std::string::npos);
  CHECK(w.text("page.html") == edited);
  auto again = call;
  again.emplace_back("--overwrite");
  CHECK(run_tool(again).exit == 0);
  CHECK(run_tool(call).exit == 0);
}

TEST_CASE("cleave: rows that were appended do not make a table somebody else's") {
  workplace const w;
  words const call{"bench", w.at("a.graph"), "-k", "2", "--algos", "fast", "--out", w.at("table.csv")};
  for (auto const* more : {"--quiet", "--append", "--append", "--quiet"}) {
    auto line = call;
    line.emplace_back(more);
    CHECK(run_tool(line).exit == 0);
  }
}

TEST_CASE("cleave: a file that appears while a command runs is not replaced") {
  workplace const w;
  auto const tool = "'" + tool_path().string() + "'", out = "'" + w.at("out.csv") + "'";
  auto const shell = [&](std::string const& script) { return run_built("/bin/sh", {"-c", script}); };
  auto const input = "{ sleep 1; echo mine > " + out + "; cat '" + w.at("two.csv") + "'; }";
  CHECK(shell(input + " | " + tool + " simulate - --csv -o " + out).exit == 3);
  CHECK(w.text("out.csv") == "mine\n");
  CHECK(shell(input + " | " + tool + " simulate - --csv --overwrite -o " + out).exit == 0);
  CHECK(w.text("out.csv") != "mine\n");
}

TEST_CASE("cleave: a named pipe gets the output, once a process reads it") {
  workplace const w;
  REQUIRE(mkfifo(w.at("pipe").c_str(), 0600) == 0);
  auto const r = run_built(
      "/bin/sh", {"-c", "{ sleep 1; cat '" + w.at("pipe") + "'; } & '" + tool_path().string() +
                            "' simulate '" + w.at("two.csv") + "' --csv -o '" + w.at("pipe") + "' && wait"});
  CHECK(r.exit == 0);
  CHECK(r.said.find(w.text("two.csv").substr(0, 3)) != std::string::npos);
}

TEST_CASE("cleave split: refuses a pipe with the name of a stage without reading it") {
  workplace const w;
  fs::create_directory(w.at("out"));
  for (std::string const ending : {".onnx", ".json"}) {
    auto const pipe = w.at("out/stage_0" + ending);
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    for (std::string const more : {"--json", "--overwrite"}) {
      auto const r = run_tool(
          {"split", w.at((ending == ".onnx" ? "m" : "g") + ending), "-k", "2", "--out", w.at("out"), more});
      CAPTURE(r.to_stderr);
      CHECK(r.exit == 3);
      CHECK(r.to_stderr.find(ending == ".onnx"
                                 ? "is not a stage written by cleave; move it away"
                                 : "is not a graph that cleave wrote; move it") != std::string::npos);
    }
    CHECK(fs::is_fifo(pipe));
    fs::remove(pipe);
  }
}

TEST_CASE("cleave split: removes unfinished files of killed runs") {
  workplace const w;
  auto const call = [&](std::string const& name, std::string const& ending) {
    return run_tool({"split", w.at(name + ending), "-k", "2", "--out", w.at("out")}).exit;
  };
  for (std::string const ending : {".onnx", ".json"}) {
    auto const name = ending == ".onnx" ? "m" : "g";
    REQUIRE(call(name, ending) == 0);
    in_child([&]() -> std::string {
      cleave::pending_file first(w.at("out"), "stage_0" + ending), seventh(w.at("out"), "stage_7" + ending);
      raise(SIGKILL);
      return "";
    });
    auto const unfinished = [&] {
      return std::ranges::count_if(
          w.all(), [](auto const& file) { return file.first.find(".unfinished") != std::string::npos; });
    };
    CHECK(unfinished() == 2);
    CHECK(call(name, ending) == 0);
    CHECK(unfinished() == 0);
  }
}

TEST_CASE("cleave demo: writes below the current folder by default") {
  workplace const w;
  auto const before = fs::current_path();
  fs::current_path(w.at(""));
  auto const r = run_tool({"demo", "m.onnx", "-m", "1"});
  fs::current_path(before);
  CHECK(r.exit == 0);
  CHECK(fs::exists(w.at("build/demo/m/report.html")));
}

TEST_CASE("cleave bench: distinguishes instances of one name, and reports that nothing was run") {
  workplace const w;
  for (auto const* folder : {"i1", "i2"}) fs::create_directory(w.at(folder));
  w.put("i1/b.graph", w.text("a.graph"));
  w.put("i2/b.graph", w.text("graphs/b.graph"));
  auto const before = fs::current_path();
  fs::current_path(w.at(""));
  auto const r =
      run_tool({"bench", "i1/b.graph", "i2/b.graph", "--algos", "fast", "-k", "2", "--parts", "parts"});
  auto const twice = run_tool({"bench", "i1", "./i1/b.graph", "--algos", "fast", "-k", "2"});
  auto const none = run_tool({"bench", "i1/b.graph", "--algos", "cleave-slices", "-k", "2", "-o", "r.csv"});
  fs::current_path(before);
  CHECK(r.exit == 0);
  for (std::string const name : {"i1_b.graph", "i2_b.graph"}) {
    CHECK(w.text("parts/" + name + ".cleave-fast.k2.eps0.03.seed1.threads1.part").size() == 8);
    CHECK(r.said.find("," + name + ",") != std::string::npos);
  }
  CHECK(twice.exit == 2);
  CHECK(twice.to_stderr.find("i1/b.graph is given twice") != std::string::npos);
  CHECK(none.exit == 3);
  CHECK(none.to_stderr.find("b: skipped, since none of the chosen algorithms cuts undirected graphs") !=
        std::string::npos);
  CHECK(none.to_stderr.find("nothing was run") != std::string::npos);
  CHECK(!fs::exists(w.at("r.csv")));
}

TEST_CASE("cleave: replaces its own outputs and empty files") {
  for (auto const& o : outputs) {
    CAPTURE(o.subcommand);
    CAPTURE(o.option);
    CAPTURE(o.name);
    workplace const w;
    auto const line = told(o, w);
    w.put(written(o), "");
    auto first = w.run(o, line);
    CAPTURE(first.to_stderr);
    CHECK(first.exit == 0);
    auto const before = w.all();
    CHECK(!w.text(written(o)).empty());
    auto const second = w.run(o, line);
    CAPTURE(second.to_stderr);
    CHECK(second.exit == 0);
    CHECK(!w.text(written(o)).empty());
    auto const after = w.all();
    CHECK(after.size() == before.size());
    for (auto const& [name, text] : after) CHECK(name.find(".unfinished") == name.npos);
  }
}

TEST_CASE("cleave split: keeps the stages of another model") {
  workplace const w;
  fs::copy_file(model_file("one_node"), w.at("other.onnx"));
  w.put("other.json", R"({"format": "cleave graph 1", "nodes": [{"name": "only", "cost": 1}]})");
  for (std::string const ending : {".onnx", ".json"}) {
    auto const mine = w.at((ending == ".onnx" ? "m" : "g") + ending), out = w.at("out" + ending);
    REQUIRE(run_tool({"split", mine, "-k", "2", "--out", out}).exit == 0);
    auto const before = w.all();
    fs::copy_file(out + "/stage_1" + ending, w.at("stage" + ending));
    for (auto const& another : {w.at("other" + ending), w.at("stage" + ending)}) {
      auto const r = run_tool({"split", another, "-k", "1", "--out", out});
      CAPTURE(r.to_stderr);
      CHECK(r.exit == 3);
      CHECK(r.to_stderr.find("another ") != std::string::npos);
    }
    fs::remove(w.at("stage" + ending));
    CHECK(w.all() == before);
    CHECK(run_tool({"split", mine, "-k", "1", "--out", out}).exit == 0);
    CHECK(!fs::exists(out + "/stage_1" + ending));
    CHECK(run_tool({"split", w.at("other" + ending), "-k", "1", "--out", out, "--overwrite"}).exit == 0);
  }
}

TEST_CASE("cleave split: never writes over external weight files of a model") {
  workplace const w;
  auto m = model("googlenet");
  ::onnx::TensorProto* weight = nullptr;
  for (auto& t : *m.mutable_graph()->mutable_initializer()) weight = &t;
  REQUIRE(weight != nullptr);
  w.put("weights.bin", std::string(1 << 16, 'w'));
  for (auto* field : {"raw_data", "float_data", "int64_data", "int32_data"})
    weight->GetReflection()->ClearField(weight, weight->GetDescriptor()->FindFieldByName(field));
  weight->set_data_location(::onnx::TensorProto::EXTERNAL);
  auto& where = *weight->add_external_data();
  where.set_key("location");
  where.set_value("weights.bin");
  w.put("m.onnx", m.SerializeAsString());
  for (std::string const option : {"--report", "--map"})
    w.check_refused({"split", option, {"@m.onnx", "-k", "2"}, "m.onnx"},
                    {option, w.at("weights.bin"), "--overwrite"}, "weights.bin, which is an input");
}

TEST_CASE("cleave: never writes over external weights in bodies") {
  workplace const w;
  w.put("weights.bin", std::string(8, 'w'));
  w.put("devices.json", R"({"format": "cleave devices 1", "devices": [{"count": 2}]})");
  auto m = onnx_text(
      "f (bool c, float[2] x) => (float[2] y) { a = Relu(x) y = If(c) <then_branch = g () => (float[2] p) "
      "{ p = Add(a, k) }, else_branch = h () => (float[2] q) { q = Tanh(a) }> }");
  add_external(*m.mutable_graph()->mutable_node(1)->mutable_attribute(0)->mutable_g(), "k", 2, "weights.bin");
  w.put("m.onnx", m.SerializeAsString());
  for (auto const& o : {output{"split", "--report", {"@m.onnx", "-k", "2"}, "m.onnx"},
                        output{"place", "--report", {"@m.onnx", "--devices", "@devices.json"}, "m.onnx"}})
    w.check_refused(o, {o.option, w.at("weights.bin"), "--overwrite"}, "weights.bin, which is an input");
}

TEST_CASE("cleave: never writes over the file behind standard input") {
  workplace const w;
  w.put("v.csv", run_tool({"schedule", "1F1B", "-p", "2", "-m", "2", "--csv"}).said);
  w.put("devices.json", R"({"format": "cleave devices 1", "devices": [{"count": 2}]})");
  for (auto const& [call, file] : std::vector<std::pair<std::string, std::string>>{
           {"simulate - --json -o @", "v.csv"},
           {"verify - --repair @", "v.csv"},
           {"split - -k 2 --report @", "g.json"},
           {"partition - --format metis -k 2 --out @", "a.graph"},
           {"place '" + w.at("g.json") + "' --devices - --report @", "devices.json"}}) {
    CAPTURE(call);
    auto const before = w.text(file), path = "'" + w.at(file) + "'";
    auto line = call;
    line.replace(line.find('@'), 1, path);
    auto const code = std::system((tool_path().string() + " " + line + " --overwrite < " + path +
                                   " > /dev/null 2> '" + w.at("said") + "'")
                                      .c_str());
    CHECK(WEXITSTATUS(code) == 3);
    CHECK(w.text("said").find("would overwrite standard input, which ") != std::string::npos);
    CHECK(w.text(file) == before);
  }
}

TEST_CASE("cleave: writes to a pipe that it is given as a file") {
  workplace const w;
  auto const code = std::system(("bash -c \"set -o pipefail; " + tool_path().string() +
                                 " schedule 1F1B --csv -o /dev/stdout 2> '" + w.at("said") + "' | cat > '" +
                                 w.at("csv") + "'\"")
                                    .c_str());
  CHECK(WEXITSTATUS(code) == 0);
  CHECK(w.text("said").empty());
  CHECK(w.text("csv").starts_with("0F0"));
}

TEST_CASE("cleave bench: --append leaves no half row behind where the disk is full") {
  workplace const w;
  words const call = {"bench", w.at("a.graph"), "-k", "2", "--algos", "fast", "--out", w.at("t.csv")};
  REQUIRE(run_tool(call).exit == 0);
  auto const before = w.text("t.csv");
  auto again = call;
  again.push_back("--append");
  auto const r = run_tool_within(RLIMIT_FSIZE, before.size() + 10, again);
  CHECK(r.exit == 3);
  CHECK(r.to_stderr.find("File too large") != std::string::npos);
  CHECK(w.text("t.csv") == before);
  CHECK(run_tool(again).exit == 0);
}

TEST_CASE("cleave bench: --append adds rows only to a table that bench wrote") {
  workplace const w;
  output const o = {"bench", "--out", {"@a.graph", "-k", "2", "--algos", "fast", "--append"}, "a.graph"};
  w.put("mine.csv", "peer,graph\nmetis,a\n");
  w.check_refused(o, {"--out", w.at("mine.csv")}, "mine.csv");
  w.check_refused(o, {"--out", w.at("a.graph")}, "a.graph, which is an input");
  auto const before = w.text("runs.csv");
  CHECK(w.run(o, {"--out", w.at("runs.csv")}).exit == 0);
  auto const after = w.text("runs.csv");
  CHECK(after.starts_with(before));
  CHECK(std::ranges::count(after, '\n') == 3);
}

TEST_CASE("cleave bench: keeps an existing table if no graph can be read") {
  workplace const w;
  w.put("bad.graph", "3 1\n2\n1 9\n\n");
  output const o = {"bench", "--out", {"@bad.graph", "-k", "2", "--algos", "fast"}, "bad.graph"};
  w.check_refused(o, {"--out", w.at("runs.csv")}, "bad.graph");
}

TEST_CASE("cleave instances: can be repeated, but never writes over another graph") {
  workplace const w;
  output const o = {"instances", "", {"@out", "grid2d:100"}, ""};
  CHECK(w.run(o, {}).exit == 0);
  CHECK(w.run(o, {}).exit == 0);
  w.put("out/grid2d_100.graph", "4 3\n2\n1 3\n2 4\n3\n");
  w.check_refused(o, {}, "grid2d_100.graph: exists and holds another graph");
}

TEST_CASE("cleave: writes to devices and pipes directly, and keeps the permissions of files") {
  workplace const w;
  auto const call = [&](std::string const& to) {
    return run_tool({"schedule", "1F1B", "--csv", "--out", to});
  };
  CHECK(call("/dev/null").exit == 0);
  CHECK(fs::is_character_file("/dev/null"));
  auto const r = call("/dev/stdout");
  CHECK(r.exit == 0);
  CHECK(r.said.starts_with("0F0,"));
  CHECK(call(w.at("s.csv")).exit == 0);
  CHECK(chmod(w.at("s.csv").c_str(), 0640) == 0);
  fs::create_symlink(w.at("s.csv"), w.at("link.csv"));
  CHECK(call(w.at("link.csv")).exit == 0);
  CHECK(fs::is_symlink(w.at("link.csv")));
  CHECK(fs::status(w.at("s.csv")).permissions() == fs::perms(0640));
  auto const full = call("/dev/full");
  CHECK(full.exit == 3);
  CHECK(full.to_stderr.find("'/dev/full' cannot be written: No space left on device") != std::string::npos);
}

TEST_CASE("cleave: `-` as an output is stdout, which a folder cannot be") {
  workplace const w;
  for (auto const& o : outputs) {
    CAPTURE(o.subcommand);
    CAPTURE(o.option);
    bool const is_folder = !o.name.empty();
    auto const r = w.run(o, {o.option, "-"});
    CAPTURE(r.to_stderr);
    CHECK(r.exit == (is_folder ? 2 : 0));
    CHECK(r.said.empty() == is_folder);
    if (is_folder)
      CHECK(r.to_stderr.find(o.option + " takes a folder for several files") != std::string::npos);
    CHECK(!fs::exists("-"));
  }
}

TEST_CASE("cleave: reports the reason if a file cannot be written") {
  workplace const w;
  CHECK(run_tool({"schedule", "1F1B", "--out", w.at("no/such/s.csv")})
            .to_stderr.find("no/such/s.csv' cannot be created: No such file or directory") !=
        std::string::npos);
  CHECK(run_tool({"demo", w.at("m.onnx"), "--out", "/dev/null/x"})
            .to_stderr.find("cannot create this folder: Not a directory; name another folder with --out") !=
        std::string::npos);
}
