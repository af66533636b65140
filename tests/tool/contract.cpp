// SPDX-License-Identifier: MIT
// What the tool promises to scripts: the exit code, the stream and a piece of the text of many command lines,
// `-` for files, and one JSON object for `--json`.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/model_corpus.hpp"
#include "support/scratch_folder.hpp"
#include "support/tool.hpp"

using cleave::testing::child_report;
using cleave::testing::model_file;
using cleave::testing::run_tool;
using cleave::testing::scratch_folder;
using cleave::testing::text_of_file;

namespace {

/// A folder with a small file of each kind.
class inputs {
 public:
  inputs() {
    put("g.graph", "4 3\n2\n1 3\n2 4\n3\n");
    put("ring.graph", "3 3\n2 3\n1 3\n1 2\n");
    put("g.edges", "0 1\n1 2\n2 3\n0 3\n1 3\n");
    put("g.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n");
    put("g.col", "c a path\np edge 3 2\ne 1 2\ne 2 3\n");
    put("g.dag", "4 3\n1.5 2\n2 1\n3 .5\n1 1\n0 1 2\n2 1 .25\n1 3 1e3\n");
    put("g.hgr", "3 4\n1 2 3\n2 4\n1 2 3 4\n");
    put("g.u", "1 4 3 9\n1 2 3\n2 4\n1 2 3 4\n");
    put("g.json", R"({"format": "cleave graph 1", "nodes": [{"name": "x", "op": "placeholder"},
      {"name": "a", "operands": ["x"], "cost": 1, "bytes": 4}, {"name": "b", "operands": ["a"], "cost": 2},
      {"name": "y", "op": "output", "operands": ["b"]}]})");
    put("devices.json",
        R"({"format": "cleave devices 1", "devices": [{"name": "d", "speed": 2}, {"name": "e"}]})");
    put("alike.json", R"({"format": "cleave devices 1", "devices": [{"count": 3}]})");
    put("noext", "4 3\n2\n1 3\n2 4\n3\n");
    put("bad.graph", "4 3\n2\n");
    put("parts", "0\n0\n1\n1\n");
    put("parts3", "0\n0\n1\n7\n");
    put("layers.csv", "layers.0,1\nlayers.1,1\nlayers.2,1\n");
    put("by.txt", "a 0\nb 1\n");
    put("times.csv", "a,1ms\nb,2ms\n");
    put("hosts", "one\ntwo\n");
    put("two.csv", "0F0,0B0\r\n1F0,1B0\r\n");
    put("broken.csv", "0F0\r\n1F0,1B0\r\n");
    put("crossed.csv",
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
        "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
    put("both.csv", "stage,F,B\n0,1,1\n1,1,1\n");
    put("runs.csv",
        "peer,graph,n,m,k,eps,seed,threads,wall_s,cpu_s,cut,imbalance,empty,memory_csr,claimed_cut,status,"
        "bottleneck,bound,metric\nmetis,a,4,3,2,0.03,1,1,0.1,0.1,1,0,0,1,1,ok,,,edge-cut\n");
    put("worse.csv",
        "peer,graph,n,m,k,eps,seed,threads,wall_s,cpu_s,cut,imbalance,empty,memory_csr,claimed_cut,status,"
        "bottleneck,bound,metric\nmetis,a,4,3,2,0.03,1,1,0.1,0.1,9,0,0,1,1,ok,,,edge-cut\n");
    put("empty", "");
    std::filesystem::copy_file(model_file("names"), folder_ / "m.onnx");
    std::filesystem::create_symlink(model_file("resnet18"), folder_ / "resnet.onnx");
    std::filesystem::create_directory(folder_ / "dir");
  }
  std::string at(std::string const& name) const { return folder_ / name; }
  std::string text(std::string const& name) const { return text_of_file(at(name)); }

  /// Runs a line in which `@a` is the file `a`, with the text of the file `input` as stdin.
  child_report run(std::string const& line, std::string const& input = "empty") const {
    std::vector<std::string> words;
    std::istringstream in(line);
    for (std::string word; in >> word; words.push_back(word))
      if (auto const mark = word.find('@'); mark != word.npos)
        word = word.substr(0, mark) + at(word.substr(mark + 1));
    return cleave::testing::run_built(cleave::testing::tool_path(), words, text(input));
  }

 private:
  void put(std::string const& name, std::string const& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  scratch_folder folder_;
};

bool has(std::string const& text, std::string const& part) { return text.find(part) != text.npos; }

/// A command line and what it promises: the exit code, and a piece of what it says. That is on stdout after 0
/// and on stderr after another code, unless `stream` says otherwise.
struct promise {
  int exit;
  std::string line, says;
  std::string input = "empty";
  enum class stream : std::uint8_t { by_exit, out, err, both } where = stream::by_exit;
};
using enum promise::stream;

// clang-format off
std::vector<promise> const promises = {
    // help and version
    {0, "--help", "usage: cleave SUBCOMMAND"}, {0, "-h", "Exit codes: 0 done"}, {0, "help", "usage: cleave"},
    {0, "help split", "usage: cleave split"}, {0, "help demo train", "usage: cleave demo train"},
    {0, "version", "cleave 0."}, {0, "-V", "cleave 0."}, {0, "--version", "cleave 0."},
    {0, "man", ".TH CLEAVE"}, {0, "completions bash", "complete"}, {0, "doctor", "built with"},
    {2, "", "a subcommand is missing", "empty", both}, {2, "spilt", "did you mean split"}, {2, "qqqqqq", "unknown subcommand qqqqqq\n"},
    {2, "help spilt", "did you mean split"}, {2, "version x", "takes nothing more"},
    {2, "completions", "a shell is missing"}, {2, "completions csh", "bash, zsh or fish, not 'csh'"},
    {2, "doctor x", "takes no operand"},
    // operands
    {2, "split", "a model is missing"}, {2, "place", "a model is missing"}, {2, "place @m.onnx", "--devices is missing"},
    {2, "place @g.json --devices @devices.json --copies --goal latency", "do not make one pass faster"}, {2, "place @g.json --devices @alike.json --copies --schedule GPipe", "leave out --schedule"},
    {2, "recompute", "a model is missing"}, {2, "inspect", "a model is missing"}, {2, "schedule", "the name of a schedule is missing"},
    {2, "verify", "a schedule is missing"}, {2, "simulate", "a schedule is missing"}, {2, "partition", "a graph file is missing"},
    {2, "order", "a graph file is missing"}, {2, "bench", "an instance is missing"}, {2, "report", "a table is missing"},
    {2, "instances @dir", "the names of graphs are missing"}, {2, "split @m.onnx @m.onnx", "one model at a time"},
    {2, "partition @g.graph @g.graph -k 2", "one graph at a time"}, {2, "order @g.graph @g.graph", "one graph at a time"},
    {2, "verify @two.csv @two.csv", "one schedule at a time"}, {2, "demo train x", "takes no operand"},
    // options
    {2, "partition @g.graph", "the number of parts is missing"}, {2, "partition @g.graph -k 0", "a whole number from 1"},
    {2, "partition @g.graph -k 4x", "not '4x'"}, {2, "partition @g.graph -k", "-k needs a value"},
    {2, "partition @g.graph --jsom -k 2", "did you mean --json"}, {2, "partition @g.graph --json=1 -k 2", "takes no value"},
    {2, "partition @g.graph -k 2 --eps 3%", "not '3%'"}, {2, "partition @g.graph -k 2 --goal cut", "needs a directed graph"},
    {2, "partition @g.hgr -k 2 --connected", "is for undirected graphs"}, {2, "partition @g.graph -k 2 --buffer 4", "are for --stream"},
    {2, "partition @g.graph --verify @parts --out @p", "leave out --out"}, {2, "partition @g.graph -k 2 --machine 2:2", "go together"},
    {2, "split @m.onnx --memory", "--memory needs a value"}, {2, "split @g.json --dim a=2", "are for ONNX models"},
    {2, "split @m.onnx --svg --json", "cannot be combined"}, {2, "recompute @m.onnx --input x", "is for training graphs"}, {2, "recompute @m.onnx --limit 2x", "--limit"}, {2, "inspect @g.json --shapes", "is for ONNX models"},
    {2, "report @runs.csv --fail-if-worse 1", "--against"}, {2, "bench @g.graph --json --json-lines", "exclude each other"},
    {2, "report @runs.csv --json --markdown", "exclude each other"}, {2, "schedule all --svg", "with --markdown or --json"},
    {2, "schedule 1F1B --svg --csv", "one output form at a time"}, {2, "schedule 1F1B --max-file 0", "a size from 1B"},
    // slips
    {2, "partition @g.graph -k 2 --preset standart", "not 'standart'; did you mean standard"},
    {2, "partition @g.graph -k 2 --preset whatever", "not 'whatever'\n"},
    {2, "partition @g.graph -k 2 --goal edge", "did you mean edges"}, {2, "partition @g.graph -k 2 --format metos", "did you mean metis"},
    {2, "partition @g.graph -k 2 --rule fennell", "did you mean fennel"}, {2, "partition @g.mtx -k 2 --values weight", "did you mean weights"},
    {2, "split @m.onnx --weights splot", "did you mean split"}, {2, "split @m.onnx --cycles merg", "did you mean merge"},
    {2, "split @m.onnx --for megatrom", "did you mean megatron"}, {2, "split @m.onnx --by balanse", "did you mean balance"},
    {2, "split @m.onnx --by xyzzy", "not 'xyzzy'\n"}, {2, "verify @two.csv --transport rendevous", "did you mean rendezvous"},
    {2, "verify @two.csv --match by-nam", "did you mean by-name"}, {2, "report @runs.csv --metric edgecut", "did you mean edge-cut"},
    {2, "report @runs.csv --baseline metos", "did you mean metis"}, {2, "bench @g.graph --algos fasst", "did you mean fast"},
    {2, "bench @g.graph --algos zzzzzzzz", "unknown algorithm zzzzzzzz; cleave"}, {2, "bench @g.hgr --goal cut-net", "did you mean cut-nets"},
    {2, "schedule 1F2B", "nearest: '1F1B'"}, {2, "schedule nonexistent", "called 'nonexistent'; cleave schedule --list"},
    {2, "instances @dir rgg2d_15", "nearest: 'rgg2d_14'"}, {2, "instances @dir zzzzzzzzzzzz", "unknown graph 'zzzzzzzzzzzz'; cleave instances"},
    {2, "instances @dir smal", "nearest: 'small'"}, {3, "bench rgg2d_15", "nearest: 'rgg2d_14'"},
    {2, "split @m.onnx --by buckets=-1", "not 'buckets=-1'\n"}, {2, "verify @two.csv --transport buffers=x", "not 'buffers=x'\n"},
    {3, "split @m.onnx --by capability=Qqqqqqqqqq", "no node is a 'Qqqqqqqqqq'\n"},
    // bad files
    {3, "inspect @nothing.onnx", "cannot be opened"}, {3, "split @dir", "this is a folder"}, {3, "partition @bad.graph -k 2", "the heading says"},
    {3, "partition @noext -k 2", "--format"}, {3, "place @m.onnx --devices @two.csv", "two.csv: topology: line 1"}, {3, "order @noext", "--format"}, {3, "report @empty", "the table is empty"},
    {3, "verify @by.txt", "by.txt"}, {3, "split @m.onnx --report @no/r.html", "cannot be created"},
    {3, "schedule 1F1B --out @no/s.csv", "cannot be created"}, {3, "partition @g.graph --max-file 3B -k 2", "--max-file raises it"},
    {3, "bench @nothing.graph", "no such file"}, {3, "partition @g.graph -k 2 --out @g.graph", "would overwrite"},
    {3, "simulate @two.csv --costs @by.txt", "by.txt"}, {3, "split @m.onnx --dim batch=2", "'batch'"},
    // infeasible
    {1, "partition @g.graph -k 9", "a part needs a node"}, {1, "split @resnet.onnx --memory 1KiB", "memory limit"},
    {1, "simulate @broken.csv", "cleave verify shows more"}, {1, "verify @broken.csv", "1 fault", "empty", out},
    {1, "partition @g.graph --verify @parts3", "no node is in part", "empty", out},
    {1, "report @worse.csv --against @runs.csv --fail-if-worse 1", "worse than recorded", "empty", out},
    {1, "bench @g.graph -k 9 --algos fast", "choose a smaller -k", "empty", both},
    // results
    {0, "partition @g.graph -k 2", "cut        1 (1 edge)"}, {0, "partition @noext -k 2 --format metis", "cut        1 (1 edge)"},
    {0, "partition @g.dag -k 2", "2 parts"}, {0, "partition @g.hgr -k 2", "cut nets"}, {0, "partition @g.u -k 2", "cut nets"},
    {0, "partition @g.graph -k 2 --stream", "cut        1 (1 edge)"}, {0, "partition @g.graph --verify @parts", "cut        1 (1 edge)"},
    {0, "order @g.graph", "factor"}, {0, "place @g.json --devices @devices.json", "period"},
    {0, "place @g.json --devices @alike.json --copies", "copies"}, {0, "place @g.json --devices @devices.json --copies", "copies"},
    {0, "place @g.json --devices @alike.json --copies --gains", "would save"},
    {0, "inspect @m.onnx", "nodes"}, {0, "inspect @g.json", "calls"}, {0, "split @g.json -k 2", "in 2 stages"},
    {0, "split @layers.csv -k 3", "in 3 stages"}, {0, "schedule 1F1B", "the step takes"}, {0, "schedule all", "ZBVZeroBubble"},
    {0, "schedule --list", "GPipe"}, {0, "verify @two.csv", "no fault"}, {0, "simulate @two.csv", "the step takes"},
    {0, "report @runs.csv", "metis"}, {0, "instances", "rgg2d"}, {0, "bench --list", "Algorithms"},
    {0, "bench @g.graph --algos fast -k 2", "peer,graph"},
    // stdin
    {0, "partition - -k 2", "standard input: 4 nodes, 3 edges", "g.graph"}, {0, "partition - -k 2", "standard input: 4 nodes, 5 edges", "g.edges"},
    {0, "partition - -k 2", "3 nodes, 2 edges", "g.mtx"}, {0, "partition - -k 2", "3 nodes, 2 edges", "g.col"},
    {0, "partition - -k 2", "4 nodes, 3 arcs", "g.dag"}, {0, "partition - -k 2", "4 nodes, 3 nets", "g.hgr"},
    {0, "partition - -k 2", "4 nodes, 3 nets", "g.u"}, {0, "partition - -k 2", "arc", "g.json"},
    {3, "partition - -k 2", "could be METIS or a list of edges; say which with --format", "ring.graph"},
    {0, "partition - -k 2 --format metis", "3 nodes, 3 edges", "ring.graph"}, {0, "partition - -k 2 --format edges", "4 nodes", "ring.graph"},
    {3, "partition - -k 2", "there is nothing in it"}, {3, "partition - -k 2", "standard input: ", "m.onnx"},
    {3, "partition - -k 2", "standard input: its content has no format", "by.txt"},
    {3, "partition - -k 2 --format metis", "standard input", "bad.graph"},
    {3, "partition - -k 2 --max-file 3B", "standard input: it has more bytes than the limit of 3", "g.graph"},
    {2, "partition - -k 2 --stream", "standard input can be read once", "g.graph"},
    {0, "partition @g.graph --verify -", "of standard input", "parts"}, {3, "partition @g.graph --verify -", "standard input:", "by.txt"},
    {2, "partition - --verify -", "the operand and --verify are both -", "g.graph"},
    {0, "order -", "standard input: 3 nodes", "g.mtx"}, {0, "inspect -", "standard input", "m.onnx"}, {0, "inspect -", "calls", "g.json"},
    {3, "inspect -", "standard input: ", "empty"}, {0, "split - -k 2", "standard input in 2 stages", "m.onnx"},
    {0, "split - -k 2", "standard input in 2 stages", "g.json"}, {0, "split - -k 3", "standard input in 3 stages", "layers.csv"},
    {0, "split @g.json -k 2 --costs -", "measured", "times.csv"}, {3, "split @g.json -k 2 --costs -", "standard input: ", "by.txt"},
    {0, "split @g.json --by file=-", "in 2 stages", "by.txt"}, {3, "split @g.json --by file=-", "standard input, line 1", "parts"},
    {0, "split @g.json --schedule -", "in 2 stages", "two.csv"}, {0, "split @g.json -k 2 --hosts -", "stage 0 on one", "hosts"},
    {2, "split - --by file=-", "are both -; name a file", "g.json"},
    {0, "verify -", "standard input: 2 ranks", "two.csv"}, {1, "verify -", "standard input", "broken.csv", out},
    {3, "verify -", "standard input:1:1: ", "by.txt"}, {0, "simulate -", "the step takes", "two.csv"},
    {0, "simulate @two.csv --costs -", "the step takes", "both.csv"}, {3, "simulate @two.csv --costs -", "standard input: ", "by.txt"},
    {0, "report -", "metis", "runs.csv"}, {0, "report @runs.csv --against -", "equal", "runs.csv"},
    {2, "report - -", "the operand and the operand are both -", "runs.csv"}, {3, "report -", "standard input:1: ", "empty"},
    {2, "bench - -k 2", "standard input has no name; name a file", "g.graph"}, {2, "demo -", "standard input can be read once", "m.onnx"},
    {2, "instances - small", "written to a folder"},
    // stdout
    {0, "partition @g.graph -k 2 --out -", "0\n", "empty", both}, {0, "order @g.graph --out -", "\n", "empty", both},
    {0, "split @g.json -k 2 --map -", "\"cleave stage map", "empty", both}, {0, "split @g.json -k 2 --report -", "Written by cleave", "empty", both},
    {0, "report @runs.csv --out -", "Written by cleave", "empty", both}, {0, "report @runs.csv --times-svg -", "<svg", "empty", both},
    {0, "schedule 1F1B --csv -o -", "0F0"}, {0, "simulate @two.csv --csv -o -", "0F0"}, {0, "bench @g.graph --algos fast -k 2 -o -", "peer,graph"},
    {0, "verify @crossed.csv --transport rendezvous --repair -", "0F0", "empty", both},
    {2, "split @g.json -k 2 --map - --report -", "--map and --report would both write to stdout"},
    {2, "partition @g.graph -k 2 --out - --json", "--json and --out would both write to stdout"},
    {2, "split @m.onnx --svg --report -", "--svg and --report would both write to stdout"},
    {2, "split @m.onnx --out -", "takes a folder for several files"}, {2, "demo @m.onnx --out -", "takes a folder for several files"},
    {2, "bench @g.graph --parts -", "takes a folder for several files"},
};
// clang-format on

/// Begun by the tool's name, in at most two lines without controls.
bool is_refusal(std::string const& text) {
  bool const plain = std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 && c != '\n'; });
  return text.starts_with("cleave: ") && text.ends_with('\n') && std::ranges::count(text, '\n') <= 2 && plain;
}

/// Command lines with --json, and some keys of the object.
struct json_call {
  std::string line;
  std::set<std::string> keys;
  std::string input = "empty";
  int exit = 0;
};
std::vector<json_call> const json_calls = {
    {"inspect @m.onnx", {"file", "nodes", "weights"}},
    {"recompute @m.onnx", {"file", "nodes", "bytes", "cuts"}},
    {"inspect @g.json", {"file", "nodes", "calls"}},
    {"inspect -", {"file", "nodes", "calls"}, "g.json"},
    {"split @m.onnx -k 2", {"file", "stages", "transfers"}},
    {"split @g.json -k 2", {"file", "stages", "carried"}},
    {"schedule 1F1B", {"ranks"}},
    {"schedule all", {"ranks", "microbatches", "schedules"}},
    {"schedule --list", {"schedules"}},
    {"verify @two.csv", {"file", "ranks", "faults"}},
    {"verify @broken.csv", {"file", "ranks", "faults"}, "empty", 1},
    {"verify @crossed.csv --transport rendezvous --repair @repaired.csv", {"file", "moved", "written"}},
    {"simulate @two.csv", {"ranks"}},
    {"partition @g.graph -k 2 --out @p1",
     {"file", "nodes", "edges", "parts", "preset", "seed", "threads", "cut", "cut_edges", "imbalance",
      "empty", "wrong", "seconds", "cpu_seconds", "memory", "written"}},
    {"partition @g.graph -k 2 --stream",
     {"file", "nodes", "parts", "rule", "buffer", "cut", "memory", "wrong"}},
    {"partition @g.graph -k 2 --connected", {"pieces"}},
    {"partition @g.graph --machine 2 --distances 1", {"cost"}},
    {"partition @g.dag -k 2",
     {"nodes", "arcs", "parts", "goal", "bottleneck", "bound", "cut", "traffic", "wrong"}},
    {"partition @g.hgr -k 2", {"nodes", "nets", "pins", "connectivity", "cut_nets", "wrong"}},
    {"partition @g.graph --verify @parts", {"verified", "cut", "imbalance", "wrong"}},
    {"partition @g.graph --verify @parts3", {"verified", "wrong"}, "empty", 1},
    {"place @g.json --devices @devices.json --gains",
     {"file", "devices", "goal", "unit", "period", "latency", "step", "bound", "optimal", "limit", "stages",
      "unused", "gains"}},
    {"place @g.json --devices @alike.json --copies --gains",
     {"file", "devices", "goal", "unit", "period", "step", "microbatches", "schedule", "bound", "optimal",
      "stages", "unused", "without_copies", "saved", "gains"}},
    {"order @g.graph", {"file", "nodes", "edges", "factor", "separators", "seconds"}},
    {"instances", {"instances", "families"}},
    {"instances @made grid2d:100", {"written"}},
    {"bench @g.graph --algos fast -k 2", {"rows", "sections"}},
    {"bench --list", {"algorithms", "instances"}},
    {"report @runs.csv", {"sections"}},
    {"report @worse.csv --against @runs.csv", {"sections"}},
    {"demo @m.onnx -m 1 -k 2 -o @demo", {"models"}},
    {"demo train -n 1 -k 2 -o @train", {"whole", "staged", "report"}},
    {"doctor", {"version", "compiler", "processors", "found"}},
};

/// Objects whose keys are names from the input, or of things.
std::set<std::string> const named = {"operators",  "opsets",          "attributes", "shapes",
                                     "transports", "priced_by_bytes", "found"};

void check_keys(nlohmann::json const& value) {
  if (value.is_array())
    for (auto const& item : value) check_keys(item);
  if (!value.is_object()) return;
  for (auto const& [key, item] : value.items()) {
    CAPTURE(key);
    CHECK(std::ranges::all_of(
        key, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }));
    if (!named.contains(key)) check_keys(item);
  }
}

/// Returns the first key that an object has twice, or an empty text.
std::string repeated_key(std::string const& text) {
  std::vector<std::set<std::string>> open;
  std::string found;
  using event = nlohmann::json::parse_event_t;
  [[maybe_unused]] auto const all =
      nlohmann::json::parse(text, [&](int, event what, nlohmann::json const& value) {
        if (what == event::object_start) open.emplace_back();
        if (what == event::object_end) open.pop_back();
        if (what == event::key && !open.back().insert(value.get<std::string>()).second && found.empty())
          found = value.get<std::string>();
        return true;
      });
  return found;
}

}  // namespace

TEST_CASE("cleave: keeps its promises about exit code, stream and text") {
  inputs const files;
  CHECK(promises.size() >= 150);
  for (auto const& p : promises) {
    CAPTURE(p.line);
    CAPTURE(p.input);
    auto const r = files.run(p.line, p.input);
    CAPTURE(r.said);
    CAPTURE(r.to_stderr);
    CHECK(r.exit == p.exit);
    bool const on_stdout =
        p.where == out || (p.where == by_exit ? p.exit == 0 : p.where == both && p.exit == 0);
    CHECK(has(on_stdout ? r.said : r.to_stderr, p.says));
    if (p.where == both) continue;
    if (on_stdout) CHECK(r.to_stderr.empty());
    if (!on_stdout) CHECK(r.said.empty());
    if (!on_stdout) CHECK(is_refusal(r.to_stderr));
  }
}

TEST_CASE("cleave: --json prints one object and nothing else") {
  inputs const files;
  for (auto const& c : json_calls) {
    CAPTURE(c.line);
    auto const r = files.run(c.line + " --json", c.input);
    CAPTURE(r.to_stderr);
    CAPTURE(r.said);
    CHECK(r.exit == c.exit);
    auto const object = nlohmann::json::parse(r.said, nullptr, false);
    REQUIRE(object.is_object());
    CHECK(repeated_key(r.said) == "");
    for (auto const& key : c.keys) {
      CAPTURE(key);
      CHECK(object.contains(key));
    }
    check_keys(object);
  }
}

TEST_CASE("cleave --json: says the same as the lines for readers") {
  inputs const files;
  auto const parsed = [&](std::string const& line) { return nlohmann::json::parse(files.run(line).said); };
  auto const cut = parsed("partition @g.graph -k 2 --json");
  CHECK(cut["file"] == files.at("g.graph"));
  CHECK(cut["cut"] == 1);
  CHECK(cut["wrong"].empty());
  CHECK(parsed("partition @g.graph --verify @parts3 --json")["wrong"].size() > 0);
  CHECK(parsed("schedule all -p 4 -m 8 --json")["schedules"].size() >= 15);
  CHECK(parsed("instances @made grid2d:100 --json")["written"][0]["nodes"] == 100);
  auto const bench = parsed("bench @g.graph --algos fast -k 2 --json");
  CHECK(bench["rows"][0]["cut"] == 1);
  CHECK(bench["sections"][0]["algorithms"][0]["good"] == 1);
  auto const demo = parsed("demo train -n 1 -k 2 -o @train --json");
  CHECK(demo["staged"].size() == 2);
  CHECK(demo["staged"][0]["loss_off_by"].get<double>() < 1e-12);
}

TEST_CASE("cleave bench --json-lines: prints one object for each row, also beside a file") {
  inputs const files;
  for (std::string const more : {"", " -o @table.csv"}) {
    auto const r = files.run("bench @g.graph @g.hgr --algos fast -k 2,4 --json-lines" + more);
    CHECK(r.exit == 0);
    std::istringstream lines(r.said);
    std::size_t rows = 0;
    for (std::string line; std::getline(lines, line); ++rows) {
      auto const row = nlohmann::json::parse(line);
      CHECK(row["peer"] == "cleave-fast");
      CHECK(row["status"] == "ok");
      check_keys(row);
    }
    CHECK(rows == 4);
  }
  CHECK(files.text("table.csv").starts_with("peer,graph,"));
}

TEST_CASE("cleave: a graph or a model from stdin gives what its file gives") {
  inputs const files;
  for (std::string const name : {"g.graph", "g.edges", "g.mtx", "g.col", "g.dag", "g.hgr", "g.u", "g.json"}) {
    CAPTURE(name);
    auto const of_file = files.run("partition @" + name + " -k 2 --out -");
    CHECK(of_file.exit == 0);
    CHECK(files.run("partition - -k 2 --out -", name).said == of_file.said);
  }
  auto const map = files.run("split @m.onnx -k 2 --map -");
  CHECK(map.exit == 0);
  CHECK(files.run("split - -k 2 --map -", "m.onnx").said == map.said);
  CHECK(has(map.to_stderr, "in 2 stages"));
  auto const packed = "gzip -c '" + files.at("m.onnx") + "' | '" + cleave::testing::tool_path().string() +
                      "' split - -k 2 --map - 2> /dev/null > '" + files.at("packed.json") + "'";
  CHECK(std::system(packed.c_str()) == 0);
  CHECK(files.text("packed.json") == map.said);
}

TEST_CASE("cleave: chains of commands need no files between them") {
  inputs const files;
  auto const tool = "'" + cleave::testing::tool_path().string() + "' ";
  auto const chain = [&](std::string const& text) {
    return std::system(("{ " + text + "; } > '" + files.at("said") + "' 2>&1").c_str());
  };
  CHECK(chain(tool + "schedule ZBV -p 4 -m 8 --json | " + tool + "verify -") == 0);
  CHECK(has(files.text("said"), "no fault"));
  CHECK(chain(tool + "partition '" + files.at("g.graph") + "' -k 2 --out - 2> /dev/null | " + tool +
              "partition '" + files.at("g.graph") + "' --verify -") == 0);
  CHECK(chain(tool + "bench '" + files.at("g.graph") + "' -k 2 --algos fast | " + tool + "report -") == 0);
  CHECK(has(files.text("said"), "fast"));
}
