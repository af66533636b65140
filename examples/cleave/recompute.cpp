// SPDX-License-Identifier: MIT
// cleave recompute MODEL.onnx: what a training step saves between its passes, and what it saves less if
// operations run again.
//
// --json writes one object:
//   file                   the model
//   training               true if the model has its backward pass already
//   in_flight, weight_passes
//   step                   seconds of all operations, each once
//   bytes                  in flight if nothing runs again
//   cuts                   [{limit, bytes, saved, kept, again, seconds, bound, least}]: the limit in bytes; bytes in
//                          flight, and of one microbatch between the passes; operations that run again, their time,
//                          a lower bound on it and whether that is met
//   saved, kept, again     with --limit: names of the values and operations
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
                                    task.options.forward_copies, 1, 100'000));
  c.options.push_back(number_option("", "--weight-passes", "N",
                                    "microbatches between backward and weight pass; 0: no weight pass (0)",
                                    task.options.weight_copies, 0, 100'000));
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

std::vector<char> fixed_nodes(graph const& g, recompute_task const& task) {
  std::vector<char> fixed;
  for (auto const n : g.nodes()) {
    auto const& op = g.proto(n).op_type();
    bool const is_random = op.starts_with("Random") || op == "Dropout" || op == "Bernoulli";
    fixed.push_back(is_random || std::ranges::find(task.run_once, op) != task.run_once.end());
  }
  return fixed;
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
    marks->fixed = fixed_nodes(g, task);
    return cleave::joint_graph_of(g, *marks);
  }
  if (!task.inputs.empty())
    throw usage_error(
        "--input is for training graphs, whose outputs are gradients named like x_grad; "
        "this model has none");
  cleave::joint_backward_options options{.fixed = fixed_nodes(g, task)};
  for (auto const n : g.nodes()) options.reads.push_back(reads_of(g.proto(n).op_type()));
  return cleave::joint_graph_with_backward(g, options);
}

/// The cuts of one joint graph, as lines and as JSON.
class cut_table {
 public:
  cut_table(cleave::joint_arrays const& g, recompute_task const& task) : g_(g), task_(task) {
    for (std::size_t n = 0; n < g.nodes(); ++n)
      if (g.source[n] == cleave::joint_source::operation) step_ += g.cost[n];
    auto options = task.options;
    options.most_bytes.reset();
    options.bytes_per_cost = step_ > 0 ? 1e15 / step_ : 0;  // no cost is worth it
    all_ = cleave::cut_joint_graph(g, options);
  }
  double step() const { return step_; }
  cleave::joint_cut const& all() const { return all_; }

  cleave::joint_cut within(double percent) const {
    auto options = task_.options;
    if (!options.most_bytes)
      options.most_bytes = static_cast<std::size_t>(static_cast<double>(all_.bytes) * percent / 100);
    return cleave::cut_joint_graph(g_, options);
  }
  /// Returns the cut of the fewest bytes, at the least cost that these allow.
  cleave::joint_cut fewest() const {
    auto options = task_.options;
    options.most_bytes = cleave::cut_joint_graph(g_, options).bytes;
    return cleave::cut_joint_graph(g_, options);
  }

  std::string text(cleave::joint_cut const& c) const {
    auto const more = [&](double cost) {
      return step_ > 0 ? cleave::short_text(100 * cost / step_) + " %" : "0 %";
    };
    auto line = cleave::bytes_text(c.bytes) + " in flight; " + plural(c.again.size(), "operation") + " again";
    if (c.again.empty()) return line;
    line += ", " + more(c.cost) + " of the step";
    if (&c != &all_ && !c.least && c.bound > 0 && c.bound <= c.cost)
      line += " (at least " + more(c.bound) + ")";
    return line;
  }

  void add(cleave::json::writer& json, cleave::joint_cut const& c, std::size_t limit) const {
    json.open_object().member("limit", limit).member("bytes", c.bytes).member("saved", c.saved_bytes);
    json.member("kept", c.kept_bytes).member("again", c.again.size()).member("seconds", c.cost);
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
  bool const is_limited = task.percent || task.options.most_bytes;
  std::vector<std::pair<double, cleave::joint_cut>> cuts;
  if (is_limited) {
    cuts.emplace_back(0, table.within(task.percent.value_or(0)));
  } else {
    auto fewest = table.fewest();
    for (double const percent : {75.0, 50.0, 25.0, 10.0})
      if (table.all().bytes > 0 &&
          static_cast<double>(fewest.bytes) <= static_cast<double>(table.all().bytes) * percent / 100)
        cuts.emplace_back(percent, table.within(percent));
    cuts.emplace_back(0, std::move(fewest));
  }
  doing.clear();
  fact_sheet told(path, {{"node", joint.nodes()}});
  auto const& options = task.options;
  told.line("passes", (is_training ? "as in the file" : "backward pass appended") + std::string("; ") +
                          plural(options.forward_copies, "microbatch") + " in flight" +
                          (options.weight_copies > 0 ? ", " + plural(options.weight_copies, "microbatch") +
                                                           " before the weight pass"
                                                     : ""));
  told.line("step", cleave::amount_text(table.step(), "s") + " for one microbatch, by estimate");
  if (auto const lacking = lacking_of(m); lacking.values > 0)
    told.line("unknown", plural(lacking.values, "value") +
                             " without a size, counted as 0 bytes; --dim and --shape give sizes");
  told.line("all saved", table.text(table.all()));
  auto& json = told.json();
  json.member("training", is_training).member("in_flight", options.forward_copies);
  json.member("weight_passes", options.weight_copies).member("step", table.step());
  json.member("bytes", table.all().bytes).key("cuts").open_array();
  for (auto const& [percent, cut] : cuts) {
    auto const name = percent > 0 ? cleave::short_text(percent) + " %" : is_limited ? "limited" : "fewest";
    told.line(name, table.text(cut));
    table.add(json, cut, cut.bytes);
  }
  json.close_array();
  if (is_limited) {
    auto const& cut = cuts.front().second;
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
