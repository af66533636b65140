// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/rng.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;

namespace {

/// A grid of `side` by `side` nodes as a list of edges.
void put_grid(std::string const& file, int side) {
  std::ofstream out(file);
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x) {
      if (x + 1 < side) out << y * side + x << ' ' << y * side + x + 1 << '\n';
      if (y + 1 < side) out << y * side + x << ' ' << (y + 1) * side + x << '\n';
    }
}

void check_said(child_report const& r, int exit, std::string const& said) {
  CAPTURE(r.said);
  CAPTURE(r.to_stderr);
  CHECK(r.exit == exit);
  CHECK((exit < 2 ? r.said + r.to_stderr : r.to_stderr).find(said) != std::string::npos);
}

}  // namespace

TEST_CASE("cleave partition: writes one part per line, the same with any threads, and verifies the file") {
  scratch_folder const at;
  put_grid(at / "grid.edges", 20);
  auto const r = run_tool({"partition", at / "grid.edges", "-k", "4", "--out", at / "parts"});
  check_said(r, 0, "400 nodes, 760 edges");
  check_said(r, 0, "imbalance  ");
  auto const parts = text_of_file(at / "parts");
  CHECK(parts.size() == 800);
  CHECK(parts.find_first_not_of("0123\n") == std::string::npos);
  auto const threads = run_tool({"partition", at / "grid.edges", "-k4", "--threads", "2", "--out", "-"});
  CHECK(threads.said == parts);
  check_said(threads, 0, "cut        ");
  for (std::string const preset : {"fast", "standard", "quality"}) {
    auto const made = run_tool({"partition", at / "grid.edges", "-k", "2", "--preset", preset, "--eps", "0"});
    check_said(made, 0, "preset " + preset);
    check_said(made, 0, "0.00");
  }

  check_said(run_tool({"partition", at / "grid.edges", "--verify", at / "parts"}), 0, "parts      4, of ");
  check_said(run_tool({"partition", at / "grid.edges", "-k", "5", "--verify", at / "parts"}), 1,
             "part 4 is empty, although there are enough nodes for all parts");
  std::ofstream(at / "parts") << "0\n" << parts.substr(2) << "1\n";
  check_said(run_tool({"partition", at / "grid.edges", "--verify", at / "parts"}), 3,
             "line 401, column 1: the file has more lines than the graph has nodes, which is 400");
}

TEST_CASE("cleave partition --connected: makes parts connected, and names parts in several pieces") {
  scratch_folder const at;
  put_grid(at / "grid.edges", 20);
  check_said(run_tool({"partition", at / "grid.edges", "-k", "5", "--connected", "--out", at / "parts"}), 0,
             "pieces     1 per part");
  check_said(run_tool({"partition", at / "grid.edges", "--connected", "--verify", at / "parts"}), 0,
             "pieces     1 per part");
  std::ofstream halves(at / "halves");  // the last node is on the other side
  for (int n = 0; n < 400; ++n) halves << (n < 200 || n == 399 ? 0 : 1) << '\n';
  halves.close();
  check_said(run_tool({"partition", at / "grid.edges", "--verify", at / "halves"}), 0, "imbalance  0.50");
  auto const found = run_tool({"partition", at / "grid.edges", "--connected", "--verify", at / "halves"});
  check_said(found, 1, "pieces     2 in part 0");
  check_said(found, 1, "part 0 has 2 connected pieces, but could have 1");
  std::ofstream(at / "net.hgr") << "1 2\n1 2\n";
  check_said(run_tool({"partition", at / "net.hgr", "-k", "2", "--connected"}), 2,
             "--connected is for undirected graphs");
}

TEST_CASE("cleave partition: cuts hypergraphs in the formats of hMETIS and PaToH") {
  scratch_folder const at;
  std::ofstream(at / "a.hgr") << "4 6 1\n2 1 2 3\n2 4 5 6\n1 3 4\n3 1 3\n";
  std::ofstream(at / "a.u") << "0 6 4 10 2\n2 0 1 2\n2 3 4 5\n1 2 3\n3 0 2\n";
  std::ofstream(at / "a.patoh") << "% the same\n1 6 4 10 2\n2 1 2 3\n2 4 5 6\n1 3 4\n3 1 3\n";
  for (std::string const file : {"a.hgr", "a.u", "a.patoh"}) {
    auto const r = run_tool({"partition", at / file, "-k", "2", "--goal", "cut-nets"});
    check_said(r, 0, "6 nodes, 4 nets, 10 pins");
    check_said(r, 0, "cut nets   1 (1 net)");
  }
  std::ofstream(at / "half.hgr") << "2 4 1\n0.5 1 2\n2.5 2 3 4\n";
  check_said(run_tool({"partition", at / "half.hgr", "-k", "2"}), 0, "lambda - 1 2.5");
  std::ofstream(at / "wrong.u") << "0 6 1 3\n0 1 6\n";
  check_said(run_tool({"partition", at / "wrong.u", "-k", "2"}), 3,
             "wrong.u: line 2, column 5: expected a pin");
}

TEST_CASE("cleave partition --machine: maps parts to places, and counts the cost of parts from anywhere") {
  scratch_folder const at;
  put_grid(at / "grid.edges", 20);
  std::vector<std::string> const to_boards{"--machine", "4:2", "--distances", "1:10"};
  auto const run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"partition", at / "grid.edges"});
    words.insert(words.end(), to_boards.begin(), to_boards.end());
    return run_tool(words);
  };
  auto const made = run({"--out", at / "parts"});
  check_said(made, 0, "parts      8, ");
  check_said(made, 0, ", edges times distances");
  auto const line = [](std::string const& text) { return text.substr(text.find("cost "), 20); };
  CHECK(line(run({"--verify", at / "parts"}).said) == line(made.said));
  check_said(run({"-k", "3"}), 2, "the machine has 8 places, but -k asks for 3 parts");
  check_said(run_tool({"partition", at / "grid.edges", "--machine", "4"}), 2,
             "--machine and --distances go together");
  check_said(run_tool({"partition", at / "grid.edges", "--machine", "4:", "--distances", "1"}), 2,
             "--machine");
  check_said(run_tool({"partition", at / "grid.edges", "--machine", "4:2", "--distances", "1"}), 3,
             "2 sizes of groups and 1 distances");
}

TEST_CASE("cleave partition: reads .mtx weights, .dag costs and edge lists that count from 1") {
  scratch_folder const at;
  std::ofstream(at / "a.mtx")
      << "%%MatrixMarket matrix coordinate real general\n4 4 3\n1 2 0.5\n2 3 0.25\n3 4 8\n";
  check_said(run_tool({"partition", at / "a.mtx", "-k", "2"}), 0, "cut        1 (1 edge)");
  check_said(run_tool({"partition", at / "a.mtx", "-k", "2", "--values", "weights"}), 0,
             "cut        0.25 (1 edge)");
  std::ofstream(at / "a.dag") << "4 3\n1 0\n1 0\n1 0\n1 0\n0 1 3\n1 2 0.5\n2 3 2\n";
  check_said(run_tool({"partition", at / "a.dag", "-k", "2", "--goal", "edges"}), 0,
             "cut        0.5 (1 edge)");
  std::ofstream(at / "one.edges") << "1 2\n2 3\n";
  check_said(run_tool({"partition", at / "one.edges", "-k", "3", "--first-node", "1"}), 0,
             "3 nodes, 2 edges");
}

TEST_CASE("cleave partition: cuts a .dag into parts that run one after the other") {
  scratch_folder const at;
  std::ofstream(at / "a.dag") << "4 3\n1 0\n1 0\n1 0\n1 0\n0 1 3\n1 2 0.5\n2 3 2\n";
  auto const r = run_tool({"partition", at / "a.dag", "-k", "2", "--out", at / "parts"});
  check_said(r, 0, "largest load (cost and transfer) 2.5; no cut into 2 parts can be below 2.5: optimal");
  CHECK(text_of_file(at / "parts") == "0\n0\n1\n1\n");
  check_said(run_tool({"partition", at / "a.dag", "--verify", at / "parts"}), 0,
             "largest load (cost and transfer) 2.5\n");
  check_said(run_tool({"partition", at / "a.dag", "-k", "2", "--goal", "cut", "--eps", "0"}), 0,
             "cut        0.5 (arcs)");
  std::ofstream(at / "circle") << "0\n1\n0\n1\n";
  check_said(run_tool({"partition", at / "a.dag", "--verify", at / "circle"}), 1,
             "part 1 depends on itself through other parts");
  std::ofstream(at / "b.dag") << "2 2\n1 0\n1 0\n0 1 3\n1 0 1\n";
  check_said(run_tool({"partition", at / "b.dag", "-k", "2"}), 3,
             "b.dag: nodes depend on each other in a cycle: #1 -> #0 -> #1");
  put_grid(at / "grid.edges", 3);
  check_said(run_tool({"partition", at / "grid.edges", "-k", "2", "--goal", "cut"}), 2, "use --goal edges");
}

TEST_CASE("cleave split, cleave partition: report the same load of a JSON graph in the same words") {
  scratch_folder const at;
  auto const page = text_of_file(std::filesystem::path(CLEAVE_SOURCE_DIR) / "docs" / "graph_json.md");
  auto const begin = page.find("{\"format\"");
  std::ofstream(at / "g.json") << page.substr(begin, page.find("```", begin) - begin);
  for (auto const& [price, said] : {std::pair<std::string, std::string>{
                                        "0", "largest load (cost; transfers are free) 12.5; no cut into 2 "},
                                    {"0.001", "largest load (cost and transfer) 16.6; no cut into 2 "}}) {
    CAPTURE(price);
    for (std::string const command : {"split", "partition"}) {
      auto const r = run_tool({command, at / "g.json", "-k", "2", "--flops-per-byte", price});
      check_said(r, 0, said + (command == "split" ? "stages" : "parts") + " can be below ");
      check_said(r, 0, price == "0" ? ": optimal" : "7.1\u00a0% above the optimum");
      auto const plain = run_tool({command, at / "g.json", "-k", "2"});
      check_said(plain, 0, "largest load (cost; transfers are free) 12.5; no cut");
    }
  }
  auto const cut = run_tool({"partition", at / "g.json", "-k", "2", "--out", at / "parts"});
  check_said(cut, 0, "2 nodes, 1 arc");
  CHECK(text_of_file(at / "parts") == "0\n1\n");
  check_said(run_tool({"partition", at / "g.json", "--verify", at / "parts", "--flops-per-byte", "1"}), 0,
             "largest load (cost and transfer) 4.11\u00a0k\n");
  std::ofstream(at / "bare.json") << R"({"format": "cleave graph 1", "nodes": [
    {"name": "a"}, {"name": "b", "operands": ["a"]}, {"name": "c", "operands": ["b"]}]})";
  check_said(run_tool({"partition", at / "bare.json", "-k", "3"}), 0,
             "largest load (cost; transfers are free) 1, each node counted as 1; no bound, "
             "for 100.0");
  std::ofstream(at / "sizeless.json") << R"({"format": "cleave graph 1", "nodes": [
    {"name": "a", "cost": 1}, {"name": "b", "operands": ["a"], "cost": 2}]})";
  for (std::string const command : {"split", "partition"})
    check_said(run_tool({command, at / "sizeless.json", "-k", "2", "--flops-per-byte", "1"}), 0,
               "largest load (cost and transfer) 2 of the priced part; no bound, for 100.0\u00a0% of values");
  std::ofstream(at / "a.dag") << "2 1\n1 0\n1 0\n0 1 3\n";
  check_said(run_tool({"partition", at / "a.dag", "-k", "2", "--flops-per-byte", "1"}), 2,
             "this file gives the costs of arcs");
  put_grid(at / "grid.edges", 3);
  check_said(run_tool({"partition", at / "grid.edges", "-k", "2", "--flops-per-byte", "1"}), 2,
             "is for directed graphs");
}

TEST_CASE("cleave split, cleave partition: agree on the load of random graphs") {
  scratch_folder const at;
  rng dice(7);
  for (int round = 0; round < 6; ++round) {
    std::string text = R"({"format": "cleave graph 1", "nodes": [{"name": "n0", "op": "placeholder"})";
    auto const calls = 3 + dice.below(12);
    for (std::size_t n = 1; n <= calls; ++n)
      text += R"(,{"name": "n)" + std::to_string(n) + R"(", "operands": ["n)" +
              std::to_string(dice.below(n)) + R"(", "n)" + std::to_string(dice.below(n)) + R"("], "cost": )" +
              std::to_string(dice.below(50)) + R"(, "bytes": )" + std::to_string(1 + dice.below(20)) + "}";
    std::ofstream(at / "g.json") << text << "]}";
    CAPTURE(text);
    auto const price = std::to_string(round % 3);
    auto const number_after = [](std::string const& said, std::string const& words) {
      auto const found = said.find(words);
      REQUIRE(found != said.npos);
      return std::stod(said.substr(found + words.size()));
    };
    auto const split = nlohmann::json::parse(
        run_tool({"split", at / "g.json", "-k", "3", "--flops-per-byte", price, "--json"}).said);
    auto const cut =
        run_tool({"partition", at / "g.json", "-k", "3", "--flops-per-byte", price, "--out", at / "parts"});
    CAPTURE(cut.said);
    auto const load = number_after(cut.said, "load (" + split.at("objective").get<std::string>() + ") ");
    CHECK(number_after(cut.said, "can be below ") == doctest::Approx(split.at("bound").get<double>()));
    CHECK(load <= split.at("bottleneck").get<double>());
    // The parts of one command, judged by the other.
    std::istringstream parts(text_of_file(at / "parts"));
    std::ofstream named(at / "by");
    for (std::size_t n = 1, part = 0; parts >> part; ++n) named << 'n' << n << ' ' << part << '\n';
    named.close();
    auto const other = nlohmann::json::parse(
        run_tool({"split", at / "g.json", "--by", "file=" + (at / "by"), "--flops-per-byte", price, "--json"})
            .said);
    CHECK(other.at("bottleneck").get<double>() == doctest::Approx(load));
  }
}

TEST_CASE("cleave partition --verify: names empty parts") {
  scratch_folder const at;
  std::ofstream(at / "path.edges") << "0 1\n1 2\n";
  std::ofstream(at / "path.dag") << "3 2\n1 0\n1 0\n1 0\n0 1 1\n1 2 1\n";
  std::ofstream(at / "gaps") << "0\n1\n7\n";
  std::ofstream(at / "one") << "0\n2\n2\n";
  std::ofstream(at / "far") << "0\n1\n4000000000\n";
  for (std::string const graph : {"path.edges", "path.dag"}) {
    CAPTURE(graph);
    auto const judged = [&](std::string const& parts, std::vector<std::string> const& more = {}) {
      std::vector<std::string> words = {"partition", at / graph, "--verify", at / parts, "--eps", "9"};
      words.insert(words.end(), more.begin(), more.end());
      return run_tool(words);
    };
    check_said(judged("gaps"), 1, "no node is in part 2, 3, 4, 5, 6; the largest number implies 8 parts\n");
    check_said(judged("gaps", {"-k", "8"}), 1, " has 3 nodes; a part needs a node");
    check_said(judged("one"), 1, graph == "path.dag" ? "no node is in part 1" : "part 1 is empty");
    check_said(judged("one", {"-k", "3"}), 1, "there are enough nodes for all parts");
    check_said(judged("far"), 1, "001 parts, but ");
  }
}

TEST_CASE("cleave partition: rejects wrong input and says how to correct it") {
  scratch_folder const at;
  put_grid(at / "grid.edges", 3);
  check_said(run_tool({"partition"}), 2, "a graph file is missing, as in cleave partition mesh.graph -k 8");
  check_said(run_tool({"partition", at / "grid.edges"}), 2,
             "the number of parts is missing; give it with -k");
  check_said(run_tool({"partition", at / "grid.edges", at / "b"}), 2, "one graph at a time");
  check_said(run_tool({"partition", at / "grid.edges", "-k", "0"}), 2,
             "-k takes a whole number from 1 to 4294967294, not '0'");
  check_said(run_tool({"partition", at / "grid.edges", "-k", "2", "--preset", "best"}), 2,
             "fast, standard or quality");
  check_said(run_tool({"partition", at / "grid.edges", "-k", "2", "--eps", "3%"}), 2,
             "as in 0.03, or one for each weight, as in 0.03,0.1, not '3%'");
  check_said(run_tool({"partition", at / "grid.edges", "-k", "2", "--out", "a", "--verify", "b"}), 2,
             "leave out --out");
  check_said(run_tool({"partition", at / "grid.edges", "-k", "100000000"}), 1,
             " has 9 nodes; a part needs a node");
  check_said(run_tool({"partition", at / "no.graph", "-k", "2"}), 3,
             "no.graph: cannot be opened: No such file");
  check_said(run_tool({"partition", at.path(), "-k", "2"}), 3, "this is a folder");
  std::ofstream(at / "a.foo") << "3 2\n";
  check_said(run_tool({"partition", at / "a.foo", "-k", "2"}), 3, "known suffixes are .graph");
  std::ofstream(at / "a.graph") << "3 2\n2\n1\n1\n";
  check_said(run_tool({"partition", at / "a.graph", "-k", "2"}), 3,
             "line 4, column 1: the row of node 3 lists node 1");
  std::ofstream(at / "b.graph") << "3000000000 2\n2\n1\n1\n";
  check_said(run_tool({"partition", at / "b.graph", "-k", "2"}), 3, "the file has only 6 bytes below it");
  check_said(run_tool({"partition", at / "grid.edges", "-k", "2", "--out", at / "no/folder/parts"}), 3,
             "No such file or directory");
}

TEST_CASE("cleave partition --stream: cuts a METIS file row by row, and verifies parts in the same way") {
  scratch_folder const at;
  std::ofstream grid(at / "grid.graph");
  grid << "400 760\n";
  for (int n = 0; n < 400; ++n) {
    if (n >= 20) grid << n - 19 << ' ';
    if (n % 20 > 0) grid << n << ' ';
    if (n % 20 < 19) grid << n + 2 << ' ';
    if (n < 380) grid << n + 21;
    grid << '\n';
  }
  grid.close();
  auto const line = [&](std::vector<std::string> const& more) {
    std::vector<std::string> words{"partition", at / "grid.graph", "--stream"};
    words.insert(words.end(), more.begin(), more.end());
    return run_tool(words);
  };
  auto const alone = line({"-k", "4", "--buffer", "0", "--rule", "fennel"});
  check_said(alone, 0, "400 nodes, 760 edges");
  check_said(alone, 0, "rule fennel, no buffer");
  auto const together = line({"-k", "4", "--buffer", "100", "--out", at / "parts"});
  check_said(together, 0, "rule ldg, buffer of 100 nodes, preset standard, seed 1, 1 thread");
  check_said(together, 0, "memory     ");
  CHECK(text_of_file(at / "parts").size() == 800);
  CHECK(line({"-k", "4", "--buffer", "100", "--threads", "2", "--out", "-"}).said ==
        text_of_file(at / "parts"));

  auto const cut = [](child_report const& r) {
    auto const from = r.said.find("  cut ");
    return r.said.substr(from, r.said.find('\n', from) - from);
  };
  CHECK(cut(together).size() > 10);
  CHECK(cut(line({"--verify", at / "parts"})) == cut(together));
  CHECK(cut(run_tool({"partition", at / "grid.graph", "--verify", at / "parts"})) == cut(together));
  check_said(line({"-k", "5", "--verify", at / "parts"}), 1,
             "part 4 is empty, although there are enough nodes for all parts");
  std::ofstream uneven(at / "parts");
  for (int n = 0; n < 400; ++n) uneven << (n < 300 ? 0 : 1) << '\n';
  uneven.close();
  check_said(line({"--verify", at / "parts"}), 1, "part 0 weighs 300, but its limit is 206");
}

TEST_CASE("cleave partition --stream: names the option, the line or the node at fault") {
  scratch_folder const at;
  auto const refused = [&](std::string const& text) {
    std::ofstream(at / "bad.graph") << text;
    return run_tool({"partition", at / "bad.graph", "-k", "2", "--stream"});
  };
  check_said(refused("2 1\n2\nx\n"), 3, "bad.graph: line 3, column 1: expected a neighbour");
  check_said(refused("3 2\n2\n1 3\n\n"), 3, "bad.graph: line 1, column 1: some edge is in the row of one");
  check_said(refused("2 1 1\n2 0.5\n1 0.5\n"), 3, "--stream takes whole weights only");
  check_said(refused("3 0 10\n9\n1\n1\n"), 3, "node #0 weighs 9, but a part may weigh only 6");
  check_said(run_tool({"partition", at / "none.graph", "-k", "2", "--stream"}), 3, "cannot be opened");
  put_grid(at / "grid.edges", 3);
  check_said(run_tool({"partition", at / "grid.edges", "-k", "2", "--stream"}), 2,
             "--stream reads METIS files");
  check_said(run_tool({"partition", at / "grid.edges", "-k", "2", "--buffer", "9"}), 2,
             "--buffer and --rule are for --stream");
  check_said(run_tool({"partition", at / "bad.graph", "-k", "2", "--stream", "--rule", "hash"}), 2,
             "ldg or fennel");
  check_said(run_tool({"partition", at / "bad.graph", "-k", "2", "--stream", "--connected"}), 2,
             "leave out --stream");
}

TEST_CASE("cleave partition: balances several weights of a METIS file, each with its imbalance") {
  scratch_folder const at;
  std::ofstream out(at / "ring.graph");
  out << "200 200 010 2\n";
  for (int n = 0; n < 200; ++n)
    out << "1 " << (n < 50 ? 3 : 1) << ' ' << (n + 199) % 200 + 1 << ' ' << (n + 1) % 200 + 1 << '\n';
  out.close();
  auto const file = at / "ring.graph", parts = at / "parts";
  auto const made = run_tool({"partition", file, "-k", "4", "--eps", "0.04,0.1", "--out", parts});
  check_said(made, 0, "of at most 4");
  check_said(made, 0, "weight 2");
  check_said(made, 0, "of at most 10");
  check_said(run_tool({"partition", file, "--verify", parts, "--eps", "0.04,0.1"}), 0, "weight 2");
  std::ofstream wrong(at / "wrong");
  for (int n = 0; n < 200; ++n) wrong << n / 50 << '\n';
  wrong.close();
  check_said(run_tool({"partition", file, "--verify", at / "wrong"}), 1,
             "part 0 weighs 150, but its limit is 77");
  check_said(run_tool({"partition", file, "-k", "4", "--eps", "0.1,0.1,0.1"}), 2,
             "have 2 weights, but --eps has 3 numbers");
  check_said(run_tool({"partition", file, "-k", "4", "--stream", "--eps", "0.1,0.1"}), 2,
             "--eps takes one number");
  check_said(run_tool({"partition", file, "-k", "4", "--stream"}), 3,
             "only one weight per node is supported here");
  check_said(run_tool({"partition", file, "--machine", "4", "--distances", "1"}), 3,
             "only one weight per node");
}
