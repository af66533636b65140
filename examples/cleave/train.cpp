// SPDX-License-Identifier: MIT
// cleave demo train: trains a small transformer whole and in stages, and compares losses and gradients.
#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/json/json_writer.hpp>
#include <cleave/formats/units.hpp>
#include <cleave/partition/slices/balance.hpp>
#include <cleave/pipe/module_pipe.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "demo_files.hpp"
#include "files.hpp"
#include "options.hpp"
#include "subcommands.hpp"
#include "terminal.hpp"
#include "training.hpp"
#include "training_report.hpp"

namespace tool {

namespace {

constexpr char text[] =
    "a stage sends on what it has made and waits for what it needs; what it sends is all that it owes. ";
constexpr double most_difference = 1e-12;

void headline(char const* number, std::string const& what) {
  print("\n" + bold(std::string(number) + "  " + what) + "\n");
}

std::string table_of(cleave::quotient const& cut) {
  std::vector<std::vector<std::string>> rows{{"stage", "nodes", "work", "parameters", "in", "out"}};
  for (auto const& s : cut.stages)
    rows.push_back({std::to_string(rows.size() - 1), std::to_string(s.nodes),
                    cleave::amount_text(s.cost, "MAC"), bytes_text(s.state), bytes_text(s.in),
                    bytes_text(s.out)});
  return table_text(rows);
}

/// Requires that losses and gradients equal those of the whole model. \throws cleave::infeasible_error if not
void require_equal(gpt const& model, std::vector<staged_training> const& staged,
                   std::vector<training_difference> const& differences) {
  for (std::size_t i = 0; i < staged.size(); ++i) {
    auto const& d = differences[i];
    if (d.within(most_difference)) continue;
    auto const worst =
        std::ranges::max_element(d.by_parameter, {}, [](auto const& entry) { return entry.second; });
    throw cleave::infeasible_error(
        "the stages cut " + staged[i].how + " do not train like the whole model: the loss is " +
        difference_text(d.loss) + " off, the gradient of " + parameter_names(model).at(worst->first) + " " +
        difference_text(worst->second));
  }
}

/// Returns what the tables say:
///   blocks, nodes, parameters, tensors, steps, microbatches
///   whole    {first_loss, last_loss}
///   staged   [{cut, stages: [{nodes, work, parameters, in, out}], gradients_sent, first_loss, last_loss,
///            loss_off_by, gradients_off_by}]; parameters, in and out in bytes, null if unknown
///   report   the path of the page
std::string json_of(gpt const& model, training const& t, gpt_size const& size, std::size_t elements,
                    training_report const& r, fs::path const& page) {
  cleave::json::writer json(cleave::json::writer::layout::indented);
  auto const losses = [&](history const& h) {
    json.member("first_loss", h.losses.front()).member("last_loss", h.losses.back());
  };
  auto const bytes = [&](char const* key, cleave::byte_sum const& sum) {
    json.key(key);
    sum.unknown > 0 ? json.null() : json.value(sum.known);
  };
  json.open_object().member("blocks", size.blocks).member("nodes", model.graph.nodes().size());
  json.member("parameters", elements).member("tensors", parameter_names(model).size());
  json.member("steps", t.steps).member("microbatches", t.microbatches).key("whole").open_object();
  losses(r.whole);
  json.close_object().key("staged").open_array();
  for (std::size_t i = 0; i < r.staged.size(); ++i) {
    auto const& s = r.staged[i];
    json.open_object().member("cut", s.how).key("stages").open_array();
    for (auto const& stage : s.cut.stages) {
      json.open_object().member("nodes", stage.nodes).member("work", stage.cost);
      bytes("parameters", stage.state), bytes("in", stage.in), bytes("out", stage.out);
      json.close_object();
    }
    json.close_array().member("gradients_sent", s.gradients_sent);
    losses(s.made);
    json.member("loss_off_by", r.differences[i].loss);
    json.member("gradients_off_by", r.differences[i].gradient).close_object();
  }
  return json.close_array().member("report", page.string()).close_object().text() + "\n";
}

}  // namespace

int train(std::span<std::string const> words) {
  training t;
  std::uint32_t stages = 4;
  std::optional<std::size_t> lost;
  std::string out;
  command c{"demo train",
            "",
            "Trains a small transformer with tied weights and a skip connection: as a whole, in stages cut "
            "by markers,\n"
            "and in stages cut by balance. Stages run on threads. Compares losses and all gradients; the "
            "report also\n"
            "shows the timeline of the last step.",
            {}};
  c.options.push_back(
      number_option("-k", "--stages", "N", "number of stages for the cut by balance (4)", stages, 1, 16));
  c.options.push_back(
      number_option("-n", "--steps", "N", "number of steps of gradient descent (20)", t.steps, 1, 1000));
  c.options.push_back(
      number_option("-m", "--microbatches", "N", "microbatches per step (4)", t.microbatches, 1, 8));
  c.options.push_back(number_option("", "--lose", "N",
                                    "drop the N-th gradient between stages, to see the error detected", lost,
                                    0, 999'999));
  c.options.push_back(folder_to_write("-o", "--out", "folder of the report (build/demo/train)", out,
                                      [](auto name) { return name == "report.html"; }));
  bool as_json = false;
  c.options.push_back(json_flag(as_json));
  auto const typed = read_options(c, words);
  if (as_json) texts_go = text_target::nowhere;
  if (!typed.operands.empty())
    throw usage_error("demo train takes no operand; found " + cleave::printable(typed.operands.front()));
  auto const folder = demo_folder(out, "train");
  require_own_report(folder, typed);
  make_folder(folder, "name another folder with --out");

  lesson const read(text);
  gpt_size const size{read.vocabulary()};
  auto const model = make_gpt(size, false), marked = make_gpt(size, true);
  t.batch = read.batch(size);
  std::size_t elements = 0;
  for (auto const& [holder, name] : parameter_names(model))
    elements += model.state.at(name.substr(0, name.find(' '))).data.size();
  print(bold("1  a transformer of " + plural(size.blocks, "block")) + "\n  " +
        plural(model.graph.nodes().size(), "node") + ", " + plural(elements, "parameter") + " in " +
        plural(parameter_names(model).size(), "tensor") + "; embedding and last layer share one\n");

  training_report report{{{"Blocks", std::to_string(size.blocks)},
                          {"Parameters", cleave::count_text(elements)},
                          {"Rows of the batch", std::to_string(size.batch)},
                          {"Microbatches", std::to_string(t.microbatches)},
                          {"Steps", std::to_string(t.steps)},
                          {"Learning rate", cleave::short_text(t.rate)}},
                         &model,
                         train_whole(model, t),
                         {},
                         {}};
  auto const by_markers = cleave::make_module_pipe(marked.graph);
  report.staged.push_back(train_pipe("by markers", marked, by_markers, t, lost));
  auto const by_balance = cleave::make_module_pipe(
      model.graph, {}, [&](auto const& s) { return balance(s, stages, {.cost_per_byte = 1}); });
  report.staged.push_back(train_pipe("by balance", model, by_balance, t, lost));

  char const* numbers[] = {"2", "3"};
  for (std::size_t i = 0; i < report.staged.size(); ++i) {
    auto const& s = report.staged[i];
    headline(numbers[i], "cut " + s.how + " into " + plural(s.cut.stages.size(), "stage"));
    print(table_of(s.cut) + "  " + plural(s.gradients_sent, "gradient") +
          " between stages for each microbatch\n");
    report.differences.push_back(difference_of(report.whole, s.made));
  }
  headline("4", "trained for " + plural(t.steps, "step") + " of " + plural(t.microbatches, "microbatch"));
  std::vector<std::vector<std::string>> rows{
      {"", "first loss", "last loss", "loss off by", "gradients off by"}};
  auto const row = [&](std::string const& name, history const& h, std::string const& loss,
                       std::string const& g) {
    rows.push_back(
        {name, cleave::fixed_text(h.losses.front(), 6), cleave::fixed_text(h.losses.back(), 6), loss, g});
  };
  row("whole", report.whole, "", "");
  for (std::size_t i = 0; i < report.staged.size(); ++i)
    row(report.staged[i].how, report.staged[i].made, difference_text(report.differences[i].loss),
        difference_text(report.differences[i].gradient));
  print(table_text(rows));

  headline("5", "report");
  write_page({folder / "report.html"}, write_training_report(report));
  print("  " + shown(folder / "report.html") + "\n");
  if (as_json) write_stdout(json_of(model, t, size, elements, report, folder / "report.html"));
  require_equal(model, report.staged, report.differences);
  return 0;
}

}  // namespace tool
