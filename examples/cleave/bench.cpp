// SPDX-License-Identifier: MIT
// cleave bench --algos fast,metis --instances DIR -k 2,8,32 --out r.csv: compares partitioners. Each run has
// its own process, and each result is recounted from its parts.
#include <sys/stat.h>
#include <unistd.h>

#include <cleave/core/printable.hpp>
#include <cleave/core/real.hpp>
#include <cleave/formats/files/durable_file.hpp>
#include <cleave/formats/graph_files/part_file.hpp>
#include <cleave/partition/kway/hypergraph_options.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench_algorithms.hpp"
#include "bench_instances.hpp"
#include "bench_json.hpp"
#include "bench_judge.hpp"
#include "bench_row.hpp"
#include "bench_run.hpp"
#include "bench_sections.hpp"
#include "files.hpp"
#include "options.hpp"
#include "own_files.hpp"
#include "subcommands.hpp"
#include "terminal.hpp"

namespace tool {

namespace {

struct bench_options {
  std::vector<std::string> algorithms, instances;
  std::vector<std::uint32_t> parts{2, 8, 32};
  double eps = 0.03, time_limit = 60;
  std::uint64_t seeds = 1;
  std::uint32_t threads = 1;
  output_file out;
  std::string part_folder;
  std::vector<cleave::hypergraph_objective> goals{cleave::hypergraph_objective::connectivity};
  bool append = false, list = false, overwrite = false, as_json = false, as_lines = false;
};

bool read_counts(std::string_view text, std::vector<std::uint32_t>& to) {
  to.clear();
  for (auto const& word : names_in(text)) {
    to.push_back(0);
    if (!read_number<std::uint32_t>(word, to.back(), 1, 1u << 30)) return false;
  }
  return !to.empty();
}

/// Reads `connectivity`, `cut-nets` or both.
bool read_goals(std::string_view text, std::vector<cleave::hypergraph_objective>& to) {
  using enum cleave::hypergraph_objective;
  to.clear();
  for (auto const& word : names_in(text)) {
    if (word != "connectivity" && word != "cut-nets") return false;
    auto const goal = word == "connectivity" ? connectivity : cut_nets;
    if (std::ranges::find(to, goal) == to.end()) to.push_back(goal);
  }
  return !to.empty();
}

command command_of(bench_options& o) {
  command c{
      "bench",
      "[INSTANCE ...]",
      "Compares partitioners. Each run has its own process; cut and balance are recounted from the parts.\n"
      "An instance is a file (METIS .graph, Matrix Market, edge list, DIMACS, .dag, .json, hMETIS .hgr,\n"
      "PaToH .u), a folder of such files, or a generated one (--list). The table has the columns of "
      "bench/peers.",
      {}};
  auto const option = [&](std::string short_name, std::string name, std::string value, std::string wants,
                          std::string help,
                          auto take) { c.options.push_back({short_name, name, value, wants, help, take}); };
  option("", "--algos", "NAME,...", "names of algorithms", "algorithms to run (all; see --list)",
         [&](auto text) { return !(o.algorithms = names_in(text)).empty(); });
  option("", "--instances", "WHAT", "instances", "more instances; may be repeated", [&](auto text) {
    std::error_code unknown;
    auto const words = fs::exists(text, unknown) ? std::vector{std::string(text)} : names_in(text);
    o.instances.insert(o.instances.end(), words.begin(), words.end());
    return !words.empty();
  });
  option("-k", "--k", "K,...", "whole numbers from 1 to 1073741824, with commas", "numbers of parts (2,8,32)",
         [&](auto text) { return read_counts(text, o.parts); });
  option("", "--goal", "NAME,...", "connectivity, cut-nets or both",
         "what few nets of a hypergraph means: connectivity (λ - 1), cut-nets, or both (connectivity)",
         [&](auto text) { return read_goals(text, o.goals); });
  c.options.back().choices = {"connectivity", "cut-nets"};
  option("", "--eps", "X", range_text(0.0, 10.0),
         "imbalance: share by which a part may exceed the average (0.03)",
         [&](auto text) { return read_number(text, o.eps, 0.0, 10.0); });
  option("", "--seeds", "N", "a whole number from 1 to 1000", "run each with the seeds 1 to N (1)",
         [&](auto text) { return read_number<std::uint64_t>(text, o.seeds, 1, 1000); });
  option("", "--time-limit", "S", "seconds from 0.001 to 1e6", "end a run after this many seconds (60)",
         [&](auto text) { return read_number(text, o.time_limit, 0.001, 1e6); });
  option("", "--threads", "N", "a whole number from 1 to 1024",
         "number of threads, for algorithms that use them (1)",
         [&](auto text) { return read_number<std::uint32_t>(text, o.threads, 1, 1024); });
  c.options.push_back(answer_to_write("-o", "--out", "write the table to this file instead of stdout", o.out,
                                      is_own_bench_table));
  c.options.push_back(folder_to_write("", "--parts",
                                      "write the parts of each run to this folder, one file each",
                                      o.part_folder, [](auto name) { return name.ends_with(".part"); }));
  c.options.push_back(flag("--append", "append to an existing table", o.append));
  c.options.push_back(flag("--list", "list algorithms and generated instances", o.list));
  c.options.push_back(json_flag(o.as_json));
  c.options.push_back(
      form_flag("--json-lines", "print each row as a line of JSON as soon as it is done", o.as_lines));
  return c;
}

/// Returns the requested algorithms. One that is not built in is skipped with a note.
std::vector<bench_algorithm> chosen(std::vector<std::string> const& asked) {
  auto all = bench_algorithms();
  if (asked.empty()) return all;
  std::vector<std::string> names;
  for (auto const& a : all) {
    names.push_back(a.name);
    if (a.name.starts_with("cleave-")) names.push_back(a.name.substr(7));
  }
  std::vector<bench_algorithm> found;
  for (auto const& word : asked) {
    auto const lacking = bench_algorithms_left_out();
    auto const before = found.size();
    for (auto const& a : all)  // graphs and hypergraphs may share a name
      if (a.name == word || a.name == "cleave-" + word) found.push_back(a);
    if (found.size() > before) continue;
    if (std::ranges::find(lacking, word) != lacking.end())
      note(word + " is skipped: the tool was built without its library (Debian: libmetis-dev)");
    else
      throw usage_error("unknown algorithm " + cleave::printable(word) + suggestion(word, names) +
                        "; cleave bench --list shows all");
  }
  if (found.empty())
    throw usage_error("none of these algorithms is built in; cleave bench --list shows those that are");
  return found;
}

/// Names instances that share a name after their paths, since tables and part files need unique names.
/// \throws usage_error if one is given twice
void tell_apart(std::vector<bench_instance>& instances) {
  auto const names = [&] {
    std::map<std::string, std::vector<bench_instance*>> called;
    for (auto& i : instances) called[i.name].push_back(&i);
    return called;
  };
  for (auto const& [name, same] : names())
    for (auto* const i : same)
      if (same.size() > 1 && !i->path.empty()) {
        i->name = fs::path(i->path).lexically_normal().string();
        std::ranges::replace(i->name, '/', '_');
      }
  for (auto const& [name, same] : names())
    if (same.size() > 1)
      throw usage_error(cleave::printable(same[1]->path.empty() ? name : same[1]->path) +
                        " is given twice, or with two names that are too similar; give it once");
}

std::string list_as_json() {
  cleave::json::writer json(cleave::json::writer::layout::indented);
  json.open_object().key("algorithms").open_array();
  for (auto const& a : bench_algorithms()) {
    using enum bench_algorithm::input;
    json.open_object().member("algorithm", a.name).member("about", a.about);
    json.member("cuts", a.takes == dag ? "dag" : a.takes == hypergraph ? "hypergraph" : "graph");
    json.close_object();
  }
  json.close_array().key("not_built_in").open_array();
  for (auto const& name : bench_algorithms_left_out()) json.value(name);
  json.close_array().key("instances").open_array();
  for (auto const& [name, about] : generated_instances())
    json.open_object().member("instance", name).member("about", about).close_object();
  return json.close_array().close_object().text() + "\n";
}

int list() {
  std::string text = "Algorithms\n\n";
  auto const show = [&](std::string const& name, std::string const& about) {
    text += "  " + name + std::string(name.size() < 22 ? 22 - name.size() : 1, ' ') + about + "\n";
  };
  for (auto const& a : bench_algorithms())
    show(a.name, a.about + (a.takes == bench_algorithm::input::dag          ? " (for .dag files)"
                            : a.takes == bench_algorithm::input::hypergraph ? " (for hypergraphs)"
                                                                            : ""));
  for (auto const& name : bench_algorithms_left_out()) show(name, "not built in");
  text +=
      "\nGenerated instances; also FAMILY:NODES, as in rgg2d:100k or rows_rgg2d:100k, and all instances\n"
      "of a size: small\n\n";
  for (auto const& [name, about] : generated_instances()) show(name, about);
  print(text);
  return 0;
}

/// Writes rows one at a time. An existing table is not touched before the first row.
class row_writer {
 public:
  explicit row_writer(bench_options const& o) : o_(o) {
    if (o.out.empty() && !o.as_json && !o.as_lines) print(heading);
  }
  void operator()(bench_row const& row) {
    if (o_.as_lines) print(json_line(row));
    if (o_.out.empty()) return o_.as_json || o_.as_lines ? void() : print(csv_line(row));
    if (!end_) begin();
    struct stat before{};
    bool const is_file = fstat(end_->number(), &before) == 0 && S_ISREG(before.st_mode);
    try {
      end_->write(bytes_of(csv_line(row)));
    } catch (cleave::file_error const&) {  // half a row would spoil the table
      if (is_file && ftruncate(end_->number(), before.st_size) != 0)
        note(shown(o_.out.path) + ": ends with half a row");
      throw;
    }
  }

 private:
  void begin() {
    std::error_code missing;
    bool const goes_on =
        o_.append && fs::exists(o_.out.path, missing) && fs::file_size(o_.out.path, missing) > 0;
    if (!goes_on) write_file(o_.out, heading);
    end_ = open_end(o_.out.path);
  }

  std::string const heading = std::string(bench_columns) + "\n";
  bench_options const& o_;
  std::optional<cleave::file_handle> end_;
};

/// `rgg2d_18.metis.k8.eps0.03.seed1.threads1.part`: the name by which bench/peers finds the parts of a row.
void keep_parts(bench_options const& o, bench_row const& row, run_outcome const& run) {
  if (!row.cut || o.part_folder.empty()) return;
  auto const file =
      fs::path(o.part_folder) /
      (row.instance + "." + row.algorithm + ".k" + std::to_string(row.parts) + ".eps" + csv_number(row.eps) +
       ".seed" + std::to_string(row.seed) + ".threads" + std::to_string(row.threads) +
       (row.metric == bench_metric::cut_nets ? ".cut-nets" : "") + ".part");
  if (!o.overwrite) require_own(file, {.what = file_use::kind::written, .form = part_list_form});
  write_file({file, part_list_form}, cleave::write_part_file(partition_of(run, row.parts)));
}

/// The plural of what an algorithm cuts.
std::string_view what_is_cut(bench_algorithm::input kind) {
  using enum bench_algorithm::input;
  return kind == dag ? "directed graphs" : kind == hypergraph ? "hypergraphs" : "undirected graphs";
}

/// Returns the names of algorithms that cut undirected graphs but not such instances: `metis, fm`.
template <class Cuts>
std::string names_left_out(std::vector<bench_algorithm> const& algorithms, Cuts cuts) {
  std::string names;
  for (auto const& a : algorithms) {
    auto const is_other = [&](auto const& b) { return b.name == a.name && cuts(b); };
    if (a.takes == bench_algorithm::input::graph && std::ranges::none_of(algorithms, is_other))
      names += (names.empty() ? "" : ", ") + a.name;
  }
  return names;
}

/// Runs the algorithms one after the other on a problem, so that ratios hold on a busy machine. `share` of
/// all problems is done.
void run_problem(bench_options const& o, std::vector<bench_algorithm> const& algorithms,
                 bench_instance const& instance, loaded_instance const& loaded, bench_task task,
                 progress const& doing, double share, row_writer& write, std::vector<bench_row>& rows) {
  for (auto const& a : algorithms) {
    if (a.takes != loaded.kind() || (!a.several_weights && !loaded.further.empty())) continue;
    doing(a.name + " on " + instance.name + ", k = " + std::to_string(task.parts), rows.size(), share);
    task.threads = a.has_threads ? o.threads : 1;
    auto const run = run_apart(a, task, o.time_limit);
    bench_row row{.algorithm = a.name,
                  .instance = instance.name,
                  .nodes = task.nodes(),
                  .edges = task.edges(),
                  .parts = task.parts,
                  .eps = task.eps,
                  .seed = task.seed,
                  .threads = task.threads};
    if (loaded.hypergraph)
      row.metric = task.goal == cleave::hypergraph_objective::cut_nets ? bench_metric::cut_nets
                                                                       : bench_metric::connectivity;
    judge(row, task, run);
    keep_parts(o, row, run);
    write(row);
    rows.push_back(row);
  }
}

/// METIS takes whole weights only. \throws cleave::error if a weight is not whole
void require_whole_weights(loaded_instance const& loaded, bench_instance const& instance) {
  for (auto const& list : loaded.further)
    for (double const w : list)
      if (w != std::floor(w) || w >= 0x1p53)
        throw cleave::error(cleave::printable(instance.name) +
                            ": cleave bench compares whole weights, but one is " + cleave::short_text(w) +
                            "; use a smaller unit");
}

std::vector<bench_row> run_all(bench_options const& o, std::vector<bench_algorithm> const& algorithms,
                               std::vector<bench_instance> const& instances) {
  row_writer write(o);
  progress const doing;
  std::vector<bench_row> rows;
  // true once the names of those that are left out are printed
  bool told_nets = o.algorithms.empty(), told_weights = o.algorithms.empty(), lacks_nodes = false;
  for (auto const& instance : instances) {
    doing("reading " + instance.name);
    auto const loaded = load(instance);
    if (!loaded) continue;
    auto const kind = loaded->kind();
    if (std::ranges::find(algorithms, kind, &bench_algorithm::takes) == algorithms.end()) {
      note(cleave::printable(instance.name) + ": skipped, since none of the chosen algorithms cuts " +
           std::string(what_is_cut(kind)));
      continue;
    }
    auto const cuts_nets = [](auto const& b) { return b.takes == bench_algorithm::input::hypergraph; };
    if (kind == bench_algorithm::input::hypergraph && !std::exchange(told_nets, true))
      if (auto const names = names_left_out(algorithms, cuts_nets); !names.empty())
        note("left out for hypergraphs, which they do not cut: " + names);
    if (!loaded->further.empty()) require_whole_weights(*loaded, instance);
    if (!loaded->further.empty() && std::ranges::none_of(algorithms, &bench_algorithm::several_weights)) {
      note(cleave::printable(instance.name) +
           ": skipped, since none of the chosen algorithms balances several weights");
      continue;
    }
    if (!loaded->further.empty() && !std::exchange(told_weights, true))
      if (auto const names = names_left_out(algorithms, std::mem_fn(&bench_algorithm::several_weights));
          !names.empty())
        note("left out for nodes with several weights, since they balance only one: " + names);
    bench_task task{loaded->rows.view(), loaded->further};
    if (loaded->dag) task.dag = &*loaded->dag;
    if (loaded->hypergraph) task.hypergraph = &*loaded->hypergraph;
    task.eps = o.eps;
    auto const goals = loaded->hypergraph ? o.goals : std::vector{cleave::hypergraph_objective::connectivity};
    for (auto const k : o.parts)
      if (k > task.nodes() && (lacks_nodes = true))
        note(cleave::printable(instance.name) + ": " + plural(k, "part") + " skipped, since it has " +
             plural(task.nodes(), "node") + "; a part needs a node");
    auto const problems = static_cast<double>(goals.size() * o.parts.size()) * static_cast<double>(o.seeds);
    double done = 0;
    for (auto const goal : goals)
      for (auto const k : o.parts)
        for (std::uint64_t seed = 1; k <= task.nodes() && seed <= o.seeds; ++seed) {
          task.goal = goal, task.parts = k, task.seed = seed;
          auto const share = (static_cast<double>(&instance - instances.data()) + done++ / problems) /
                             static_cast<double>(instances.size());
          run_problem(o, algorithms, instance, *loaded, task, doing, share, write, rows);
        }
  }
  if (rows.empty() && lacks_nodes)
    throw cleave::infeasible_error(
        "nothing was run, since all graphs have fewer nodes than parts; choose a smaller -k");
  return rows;
}

}  // namespace

int bench(std::span<std::string const> words) {
  bench_options o;
  auto typed = read_options(command_of(o), words);
  if (o.as_json && o.as_lines) throw usage_error("--json and --json-lines exclude each other; leave out one");
  if (o.list) return o.as_json ? (print(list_as_json()), 0) : list();
  o.overwrite = typed.overwrite;
  o.instances.insert(o.instances.end(), typed.operands.begin(), typed.operands.end());
  if (o.instances.empty())
    throw usage_error(
        "an instance is missing; name a file, a folder, or a generated graph, as in cleave bench grid2d_10k "
        "(--list)");
  auto const algorithms = chosen(o.algorithms);
  std::vector<bench_instance> instances;
  for (auto const& word : o.instances)
    for (auto& i : instances_of(word)) instances.push_back(i);
  tell_apart(instances);
  std::set<fs::path> graphs;
  for (auto const& i : instances)
    if (!i.path.empty()) graphs.insert(i.path);
  typed.require_kept(graphs);
  if (o.append && o.overwrite)
    throw usage_error("--append and --overwrite exclude each other; leave out one");
  if (!o.part_folder.empty()) make_folder(o.part_folder);

  auto const rows = run_all(o, algorithms, instances);
  if (rows.empty())
    throw cleave::error(
        "no algorithm fits these instances, so nothing was run; cleave bench --list shows the graphs that "
        "each cuts");
  if (o.as_json) {
    cleave::json::writer json(cleave::json::writer::layout::indented);
    json.open_object();
    write_rows(json, rows);
    auto const sections = sections_of(rows);
    write_sections(json, sections);
    print(json.close_object().text() + "\n");
  }
  if (o.out.empty() || o.as_json || o.as_lines) return 0;
  print(text_of(sections_of(rows), false));
  print("  " + shown(o.out.path) + "\n");
  return 0;
}

}  // namespace tool
