// SPDX-License-Identifier: MIT
// cleave recompute MODEL.onnx: what a training step saves between its passes, and what it saves less if
// operations run again.
//
// --json writes one object:
//   file                   the model
//   training               true if the model has its backward pass already
//   in_flight, weights_in_flight    microbatches, as given
//   step                   seconds of one microbatch if each operation runs once
//   bytes                  bytes in flight if no operation that takes time runs again
//   cuts                   [{limit, bytes, saved_bytes, kept_bytes, operations_again, seconds, bound, least}]: the limit
//                          and the bytes of all microbatches in flight; the bytes that the forward pass of one microbatch
//                          saves, and those that wait for its weight pass; the number of operations that run again, the
//                          time of these runs, a lower bound on it, and whether the time meets it
//   saved, kept, again     with --limit: the names of these values and operations
#include <algorithm>
#include <cleave/backward.hpp>
#include <cleave/core/bytes.hpp>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/units.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "describe.hpp"
#include "fact_sheet.hpp"
#include "model.hpp"
#include "options.hpp"
#include "subcommands.hpp"

namespace tool {

namespace {

using graph = cleave::onnx::graph;
using value = cleave::value_t<graph>;

struct recompute_task {
  cleave::joint_cut_options options;
  std::optional<double> percent;      ///< of the limit, of what is in flight if nothing runs again
  std::vector<std::string> inputs;    ///< names of values whose gradients another stage waits for
  std::vector<std::string> run_once;  ///< operators that may not run again
  bool as_json = false;
};

bool read_limit(std::string_view text, recompute_task& task) {
  task.percent.reset(), task.options.most_bytes.reset();
  if (text.ends_with('%'))
    return read_number(text.substr(0, text.size() - 1), task.percent.emplace(), 0.0, 100.0);
  if (auto const bytes = cleave::parse_bytes(text))
    task.options.most_bytes = static_cast<std::size_t>(*bytes);
  return task.options.most_bytes.has_value();
}

void add_options(command& c, recompute_task& task) {
  c.options.push_back(
      {"", "--limit", "LIMIT", "a size as in 512MiB, or a percentage from 0% to 100%",
       "fit into a size, or a percentage such as 50% of what is saved if nothing runs again;\n" +
           std::string(30, ' ') + "without it, a table of percentages",
       [&](auto text) { return read_limit(text, task); }});
  c.options.push_back(number_option("", "--in-flight", "N",
                                    "microbatches between forward and backward pass (1)",
                                    task.options.in_flight, 1, 100'000));
  c.options.push_back(number_option("", "--weights-in-flight", "N",
                                    "microbatches between backward and weight pass; 0: no weight pass (0)",
                                    task.options.weights_in_flight, 0, 100'000));
  auto const names = [](std::vector<std::string>& to) {
    return [&to](std::string_view text) {
      for (auto& name : names_in(text)) to.push_back(std::move(name));
      return true;
    };
  };
  c.options.push_back({"", "--input", "NAME,...", "names of inputs",
                       "inputs of a training graph whose gradients another stage waits for",
                       names(task.inputs)});
  c.options.push_back({"", "--once", "OPERATOR,...", "operators, as in Conv,MatMul",
                       "operators that may not run again, such as Conv,MatMul", names(task.run_once)});
  c.options.push_back(json_flag(task.as_json));
}

/// Returns what the backward pass of an operator of ONNX reads.
cleave::backward_reads reads_of(std::string const& op) {
  static std::set<std::string> const nothing = {
      "Add",       "AveragePool", "Cast",  "Concat",     "Expand",    "Flatten", "GlobalAveragePool",
      "Identity",  "Neg",         "Pad",   "ReduceMean", "ReduceSum", "Reshape", "Resize",
      "Shape",     "Slice",       "Split", "Squeeze",    "Sub",       "Sum",     "Transpose",
      "Unsqueeze", "Upsample",    "Mean",  "Constant",   "Tile"};
  static std::set<std::string> const results = {"Exp",     "LogSoftmax", "Reciprocal", "Relu",
                                                "Sigmoid", "Softmax",    "Sqrt",       "Tanh"};
  static std::set<std::string> const operands = {"Abs",           "BatchNormalization",
                                                 "Clip",          "Conv",
                                                 "ConvTranspose", "Cos",
                                                 "Div",           "Einsum",
                                                 "Elu",           "Erf",
                                                 "Gather",        "Gelu",
                                                 "Gemm",          "HardSigmoid",
                                                 "HardSwish",     "LayerNormalization",
                                                 "LeakyRelu",     "Log",
                                                 "MatMul",        "Mul",
                                                 "Pow",           "PRelu",
                                                 "Sin",           "Softplus",
                                                 "Where"};
  if (nothing.contains(op)) return cleave::backward_reads::nothing;
  if (results.contains(op)) return cleave::backward_reads::results;
  return operands.contains(op) ? cleave::backward_reads::operands : cleave::backward_reads::both;
}

constexpr std::string_view gradient_suffix = "_grad", sum_suffix = "_grad.accumulation.out",
                           buffer_suffix = "_grad.accumulation.buffer";

/// Returns the value whose gradient `name` is, as onnxruntime names gradients, or an empty text.
std::string_view differentiated(std::string_view name) {
  for (auto const suffix : {sum_suffix, gradient_suffix})
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  return {};
}

/// Marks the backward pass of a training graph of onnxruntime by its names. Returns nothing if the graph has
/// no gradients among its outputs. \throws usage_error for names of inputs that have no gradient
std::optional<cleave::joint_marks<value>> marks_of(graph const& g, recompute_task const& task) {
  cleave::joint_marks<value> marks;
  std::set<value> trained;
  std::set<std::string_view> wanted(task.inputs.begin(), task.inputs.end());
  bool any = false;
  for (auto const v : g.outputs()) {
    auto const of = differentiated(g.name_of(v));
    auto const base = of.empty() ? std::nullopt : g.find_value(of);
    if (!base) {
      // A result. If it is the loss, the backward pass starts at its gradient.
      if (auto const seed = g.find_value(std::string(g.name_of(v)) + std::string(gradient_suffix)))
        marks.gradients.push_back(*seed);
      continue;
    }
    any = true;
    if (wanted.erase(of) > 0) {
      marks.input_gradients.push_back(v);
    } else {
      marks.weight_gradients.push_back(v);
      trained.insert(*base);
    }
  }
  if (!any) return std::nullopt;
  if (!wanted.empty())
    throw usage_error("--input: the graph returns no gradient of '" +
                      cleave::printable(std::string(*wanted.begin())) + "'");
  for (auto const v : g.inputs())
    if (auto const name = g.name_of(v);
        trained.contains(v) || name.ends_with(buffer_suffix) || name == "lazy_reset_grad")
      marks.parameters.push_back(v);
  return marks;
}

std::vector<char> run_once_nodes(graph const& g, recompute_task const& task) {
  std::vector<char> run_once;
  for (auto const n : g.nodes()) {
    auto const& op = g.proto(n).op_type();
    bool const is_random = op.starts_with("Random") || op == "Dropout" || op == "Bernoulli";
    run_once.push_back(is_random || std::ranges::find(task.run_once, op) != task.run_once.end());
  }
  return run_once;
}

/// Gives gradients without a size that of the value to which they belong.
void size_gradients(graph& g) {
  std::vector<double> weight;
  for (std::uint32_t n = 0; n < g.file_nodes(); ++n) weight.push_back(g.weight(n));
  std::vector<std::size_t> bytes;
  for (std::uint32_t v = 0; v < g.values(); ++v) {
    bytes.push_back(g.bytes(v));
    if (auto const of = differentiated(g.name_of(v)); bytes[v] == 0 && !of.empty())
      if (auto const base = g.find_value(of)) bytes[v] = g.bytes(*base);
  }
  g.price(std::move(weight), std::move(bytes));
}

cleave::joint_arrays joint_graph(graph const& g, recompute_task const& task, bool& is_training) {
  auto marks = marks_of(g, task);
  is_training = marks.has_value();
  if (marks) {
    marks->run_once = run_once_nodes(g, task);
    return cleave::joint_graph_of(g, *marks);
  }
  if (!task.inputs.empty())
    throw usage_error(
        "--input is for training graphs, whose outputs are gradients named like x_grad; "
        "this model has none");
  cleave::joint_backward_options options{.run_once = run_once_nodes(g, task)};
  for (auto const n : g.nodes()) options.reads.push_back(reads_of(g.proto(n).op_type()));
  return cleave::joint_graph_with_backward(g, options);
}

/// A cut within a limit.
struct limited_cut {
  std::string name;  ///< as it is shown: `50 %`
  std::size_t limit;
  cleave::joint_cut cut;
};

/// The cuts of one joint graph, as lines and as JSON.
class cut_table {
 public:
  cut_table(cleave::joint_arrays const& g, recompute_task const& task) : g_(g), task_(task) {
    for (std::size_t n = 0; n < g.nodes(); ++n)
      if (g.source[n] == cleave::joint_source::operation) step_ += g.cost[n];
    auto options = task.options;
    options.most_bytes.reset();
    options.bytes_per_cost = 1e300;  // only what takes no time runs again
    all_ = cleave::cut_joint_graph(g, options);
  }
  double step() const { return step_; }
  cleave::joint_cut const& all() const { return all_; }

  limited_cut within(std::string const& name, std::size_t limit) const {
    auto options = task_.options;
    options.most_bytes = limit;
    return {name, limit, cleave::cut_joint_graph(g_, options)};
  }
  limited_cut within(std::string const& name, double percent) const {
    return within(name, static_cast<std::size_t>(static_cast<double>(all_.bytes) * percent / 100));
  }
  /// Returns the cut of the fewest bytes, at the least cost that these allow.
  limited_cut fewest() const { return within("fewest", cleave::cut_joint_graph(g_, task_.options).bytes); }

  std::string text(cleave::joint_cut const& c) const {
    auto const more = [&](double cost) {
      return step_ > 0 ? cleave::short_text(100 * cost / step_) + " %" : "0 %";
    };
    auto line = cleave::bytes_text(c.bytes) + " in flight; " + plural(c.again.size(), "operation") + " again";
    if (c.again.empty()) return line;
    line += ", " + more(c.cost) + " of the step";
    if (!c.least && c.bound > 0) line += " (at least " + more(c.bound) + ")";
    return line;
  }

  static void add(cleave::json::writer& json, limited_cut const& l) {
    auto const& c = l.cut;
    json.open_object().member("limit", l.limit).member("bytes", c.bytes);
    json.member("saved_bytes", c.saved_bytes).member("kept_bytes", c.kept_bytes);
    json.member("operations_again", c.again.size()).member("seconds", c.cost);
    json.member("bound", c.bound).member("least", c.least).close_object();
  }

  std::vector<std::string> names(std::vector<std::uint32_t> const& nodes) const {
    std::vector<std::string> list;
    for (auto const n : nodes) {
      auto const name = g_.name[n];
      list.push_back(name.empty() ? "#" + std::to_string(n) : std::string(name.data(), name.size()));
    }
    return list;
  }

 private:
  cleave::joint_arrays const& g_;
  recompute_task const& task_;
  double step_ = 0;
  cleave::joint_cut all_;
};

/// Returns cuts from 75 % of the bytes down to the fewest.
std::vector<limited_cut> table_of_limits(cut_table const& table) {
  std::vector<limited_cut> cuts;
  auto fewest = table.fewest();
  auto const all = static_cast<double>(table.all().bytes);
  for (double const percent : {75.0, 50.0, 25.0, 10.0})
    if (all > 0 && static_cast<double>(fewest.cut.bytes) <= all * percent / 100)
      cuts.push_back(table.within(cleave::short_text(percent) + " %", percent));
  cuts.push_back(std::move(fewest));
  return cuts;
}

}  // namespace

int recompute(std::span<std::string const> words) {
  recompute_task task;
  cleave::onnx::type_options types;
  command c{"recompute",
            "MODEL.onnx",
            "Says how many bytes a training step saves between its forward and backward pass, and how much\n"
            "longer it takes with fewer, if operations run again. A model without backward pass gets one; a\n"
            "training graph of onnxruntime, whose outputs are gradients, is cut as it is. The file - is\n"
            "standard input.",
            {}};
  add_options(c, task);
  add_type_options(c, types);
  auto const path = only_operand(read_options(c, words).operands);
  progress const doing;
  auto m = read_model(path, types, doing);
  size_gradients(m.graph);
  bool is_training = false;
  auto const joint = joint_graph(m.graph, task, is_training);
  doing("cutting " + plural(joint.nodes(), "node"));
  cut_table const table(joint, task);
  std::vector<limited_cut> cuts;
  bool const is_limited = task.percent || task.options.most_bytes;
  if (task.percent)
    cuts.push_back(table.within("limited", *task.percent));
  else if (task.options.most_bytes)
    cuts.push_back(table.within("limited", *task.options.most_bytes));
  else
    cuts = table_of_limits(table);
  doing.clear();
  fact_sheet told(path, {{"node", joint.nodes()}});
  auto const& options = task.options;
  told.line("passes",
            (is_training ? "as in the file" : "backward pass appended") + std::string("; ") +
                plural(options.in_flight, "microbatch") + " in flight" +
                (options.weights_in_flight > 0 ? ", " + plural(options.weights_in_flight, "microbatch") +
                                                     " between backward and weight pass"
                                               : ""));
  told.line("step", cleave::amount_text(table.step(), "s") + " for one microbatch, by estimate");
  if (auto const lacking = lacking_of(m); lacking.values > 0)
    told.line("unknown", plural(lacking.values, "value") +
                             " without a size, counted as 0 bytes; --dim and --shape give sizes");
  told.line("all saved", cleave::bytes_text(table.all().bytes) + " in flight");
  auto& json = told.json();
  json.member("training", is_training).member("in_flight", options.in_flight);
  json.member("weights_in_flight", options.weights_in_flight).member("step", table.step());
  json.member("bytes", table.all().bytes).key("cuts").open_array();
  for (auto const& l : cuts) {
    told.line(l.name, table.text(l.cut));
    table.add(json, l);
  }
  json.close_array();
  if (is_limited) {
    auto const& cut = cuts.front().cut;
    told.list("saved", table.names(cut.saved));
    told.list("kept", table.names(cut.kept));
    told.list("again", table.names(cut.again));
    auto const shown = [&](std::string const& name, std::vector<std::uint32_t> const& nodes) {
      std::string line;
      for (std::size_t i = 0; auto const& n : table.names(nodes)) {
        if (i == 6) break;
        line += (i++ ? ", " : "") + cleave::printable(n, 30);
      }
      if (nodes.size() > 6) line += ", … (" + std::to_string(nodes.size()) + "; --json lists all)";
      if (!nodes.empty()) told.line(name, line);
    };
    shown("saved", cut.saved);
    shown("kept", cut.kept);
    shown("again", cut.again);
  }
  told.print_as(task.as_json);
  return 0;
}

}  // namespace tool
