// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/with_backward.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "cleave/run/batch/loss_weights.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/pipe_training.hpp"
#include "conformance_runner/schedule_rows.hpp"
#include "support/toy_batches.hpp"
#include "support/toy_staged.hpp"

/// Training runs. A program is cut into a pipe, runs in microbatches through the pipe's backward pass, and
/// takes SGD steps stage by stage; shared state has copies. Each case runs once on this thread and once by
/// the executor in the order of the schedule.
namespace cleave::conformance {

using namespace detail;
namespace {

using testing::parameter_gradients;
using testing::state_values;
using testing::tape_values;
using testing::tensor;

double const nearly = 1e-12;

tensor tensor_of(json const& j) {
  return {j.at("shape").get<testing::toy_shape>(), j.at("data").get<std::vector<double>>()};
}

/// Reads a program as a module_graph: its lines, a marker at the begin of each stage, and then the loss. It
/// returns the last result and the loss as a pair.
class program_reader {
 public:
  program_reader(json const& input) : input_(input) {
    auto const& lines = input["program"];
    quarters_ = 1 + static_cast<std::size_t>(std::ranges::count(lines, json("|")));
  }

  module_graph read() {
    for (auto const* name : {"x", "target"}) known_[name] = add(node_kind::placeholder, name, name, {});
    std::size_t quarter = 0;
    std::string last;
    for (json const& line : input_["program"]) {
      if (line != "|")
        last = read_line(line.get<std::string>(), quarter);
      else if (++quarter * stages() % quarters_ == 0)
        add(node_kind::call_function, "cut_" + std::to_string(quarter), "pipe_split", {});
    }
    std::int64_t const reduction = input_["loss"] == "mean of squared differences" ? 1 : 2;
    auto const loss = add(node_kind::call_function, "loss", "mse_loss",
                          {node_argument(known_.at(last)), node_argument(known_.at("target")), {reduction}});
    add(node_kind::output, "output", "output", {tuple_argument({known_.at(last), loss})});
    return std::move(made_);
  }

  std::size_t quarters() const { return quarters_; }
  std::size_t stages() const { return input_["stages"].get<std::size_t>(); }
  std::size_t stage_of_quarter(std::size_t q) const { return q * stages() / quarters_; }

 private:
  /// `result = op operands`
  std::string read_line(std::string const& line, std::size_t quarter) {
    std::istringstream words(line);
    std::string result, equals, target, word;
    words >> result >> equals >> target;
    std::vector<module_argument> args;
    while (words >> word) args.push_back(read_word(word, quarter));
    known_[result] = add(node_kind::call_function, result, target, std::move(args));
    return result;
  }

  module_argument read_word(std::string const& word, std::size_t quarter) {
    if (!input_["parameters"].contains(word)) {
      auto const node = known_.find(word);
      return node != known_.end() ? node_argument(node->second) : module_argument{std::stod(word)};
    }
    auto const name = std::to_string(quarter) + "." + word;
    if (!made_.find_attribute(name))
      made_.add_attribute({name, module_attribute::kind::parameter, word, {}, {}, {}});
    return node_argument(add(node_kind::get_attr, name, name, {}));
  }

  module_graph::position add(node_kind kind, std::string const& name, std::string const& target,
                             std::vector<module_argument> args) {
    module_node n;
    n.kind = kind;
    n.name = name + (kind == node_kind::get_attr ? "_" + std::to_string(made_.list().size()) : "");
    n.target = target;
    n.args = std::move(args);
    return made_.add(std::move(n));
  }

  json const& input_;
  std::size_t quarters_ = 0;
  module_graph made_;
  std::map<std::string, module_graph::position> known_;
};

/// Returns the root of a pipe with the backward pass of its last output, the loss.
module_graph root_with_backward(module_pipe const& pipe) {
  auto const& root = pipe.outer;
  auto const given = root.outputs();
  return with_backward(root, given.back());
}

history train_whole(module_graph const& g, state_values state, training const& how) {
  history made;
  for (std::size_t step = 0; step < how.steps; ++step) {
    testing::tape t;
    testing::toy_autograd run(t, state);
    auto const given = *evaluate(g, how.batches.values.front(), run).items;
    t.backward({{given[1].node.value(), {{}, {1}}}});
    made.losses.push_back({given[1].get().data[0]});
    if (step == 0) made.first_output = given[0].get();
    if (step == 0) made.first_sums = made.first_gradients[""] = run.gradients();
    descend(state, g, run.gradients(), how.rate);
  }
  made.after[""] = std::move(state);
  return made;
}

history train_staged(module_pipe const& pipe, state_values const& state, training const& how) {
  history made;
  auto const root = root_with_backward(pipe);
  for (auto const& path : pipe.paths) made.after[path] = state;  // each has its own copy
  for (std::size_t step = 0; step < how.steps; ++step) {
    auto const done = run_step(root, how.batches.values, how.weights, state, &made.after);
    std::vector<tensor> outputs;
    made.losses.emplace_back();
    for (auto const& given : done.outputs) {
      outputs.push_back((*given.items)[0].get());
      made.losses.back().push_back((*given.items)[1].get().data[0]);
    }
    if (step == 0) made.first_output = testing::merged(outputs);
    if (step == 0) made.first_gradients = done.gradients;
    auto const sums = sum_of_copies(done.gradients);
    if (step == 0) made.first_sums = sums;
    for (auto& [path, own] : made.after) descend(own, pipe.program.whole(), sums, how.rate);
  }
  return made;
}

class parity_case {
 public:
  explicit parity_case(json const& body) : body_(body), input_(body["input"]), reader_(input_) {}

  outcome run() {
    auto const refused = refusal();
    if (body_.contains("error") && !body_.contains("defect")) {
      compare(body_["error"]["type"], refused ? "ValueError" : "nothing", "error.type", result_.differences);
      if (refused) compare_counts(body_["error"]["message"], *refused);
      return result_;
    }
    if (refused) return {{{"the run", "a result", *refused}}, ""};
    train();
    check_whole();
    if (body_.contains("defect")) {
      auto const rule = body_["better"]["rule"].get<std::string>();
      if (rule != "uncut" && rule != "uncut, or an error on every rank that names the microbatch")
        throw unjudged_error("no comparison for the rule '" + rule + "'");
      equal_whole(staged_);
      equal_whole(threaded_);
    } else {
      auto const fault = find_loss_weight_fault(policy(), batches_.rows, asked_weights());
      if (!fault) equal_whole(staged_);
      if (!fault) equal_whole(threaded_);
      bool const wrong = body_["expect"]["largest_gradient_difference_from_uncut"].get<double>() > nearly;
      compare(wrong, fault.has_value(), "loss and division do not fit", result_.differences);
      compare_expected(staged_);
      compare_gradients(body_["expect"]["gradients_first_step_by_quarter"]);
      compare_expected(threaded_);
      for (auto const& [path, own] : threaded_.first_gradients)
        for (auto const& [holder, g] : own)
          near(staged_.first_sums.at(holder)->data, g->data, "gradient of " + holder + " on threads");
    }
    return result_;
  }

 private:
  std::uint32_t asked() const { return input_["microbatches"].get<std::uint32_t>(); }

  schedule order() const {
    auto const ranks = input_["ranks"].get<std::uint32_t>();
    return make_pytorch_schedule(schedule_family_of(input_["schedule"].get<std::string>()),
                                 {ranks, static_cast<std::uint32_t>(reader_.stages()) / ranks, asked()});
  }

  json stage_of_rank() const {
    json lists = json::array();
    auto const place = order().place;
    for (std::uint32_t r = 0; r < place.ranks; ++r) {
      lists.push_back(json::array());
      for (std::uint32_t s = 0; s < place.stages(); ++s)
        if (place.rank_of[s] == rank_id{r}) lists.back().push_back(s);
    }
    return lists;
  }

  loss_policy policy() const {
    bool const mean = input_["loss"] == "mean of squared differences";
    auto const all = mean ? loss_reduction::mean : loss_reduction::sum;
    return {all, all};
  }
  /// Returns the weights of the recorded run, right or wrong.
  loss_weights asked_weights() const {
    auto const m = batches_.values.size();
    bool const divides = input_["divide_gradients_by_microbatches"].get<bool>();
    return {std::vector<double>(m, 1), divides ? 1 / static_cast<double>(m) : 1};
  }

  /// Returns the reason why the number of microbatches is invalid, if it is.
  std::optional<std::string> refusal() {
    try {
      order();
      batches_ =
          testing::divided({tensor_of(input_["x"]), tensor_of(input_["target"])}, std::int64_t{asked()});
    } catch (microbatch_error const& e) {
      return e.what();
    } catch (shape_error const& e) {
      return e.what();
    }
    return std::nullopt;
  }

  /// Checks that our message has the numbers of the recorded one.
  void compare_counts(std::string const& message, std::string const& ours) {
    std::set<std::string> named;
    std::string number;
    for (char const c : message + " ") {
      bool const digit = c >= '0' && c <= '9';
      if (digit) number += c;
      if (!digit && !number.empty()) named.insert(std::exchange(number, ""));
    }
    for (auto const& n : named)
      if (ours.find(n) == ours.npos) result_.differences.push_back({"error.message", "names " + n, ours});
  }

  void train() {
    graph_ = reader_.read();
    state_values state;
    for (auto const& a : graph_.attributes()) state[a.path] = tensor_of(input_["parameters"][a.storage]);
    training how{input_["steps"], input_["learning_rate"], {{whole_batch()}, {1}}, {1}};
    whole_ = train_whole(graph_, state, how);

    auto const pipe = make_module_pipe(graph_);
    if (pipe.paths.size() != reader_.stages())
      result_.differences.push_back(
          {"stages", std::to_string(reader_.stages()), std::to_string(pipe.paths.size())});
    how.batches = batches_;
    how.weights.clear();
    auto const weights = asked_weights();
    for (double const w : weights.losses) how.weights.push_back(w * weights.gradients);
    staged_ = train_staged(pipe, state, how);
    compare(input_["stage_of_rank"], stage_of_rank(), "stage_of_rank", result_.differences);
    threaded_ = train_by_executor(pipe, order(), state, how);
    for (std::size_t q = 0; q < reader_.quarters(); ++q)
      stage_paths_.push_back(pipe.paths.at(reader_.stage_of_quarter(q)));
  }

  tape_values whole_batch() const {
    return {testing::constant_of(tensor_of(input_["x"])), testing::constant_of(tensor_of(input_["target"]))};
  }

  /// Returns the loss of the whole batch, per step.
  std::vector<double> batch_losses(history const& h) const {
    std::vector<double> all;
    auto const rows = h.losses.front().size() == 1 ? std::vector<std::int64_t>{1} : batches_.rows;
    for (auto const& step : h.losses) all.push_back(batch_loss(step, loss_weights_for(policy(), rows)));
    return all;
  }

  void near(std::vector<double> const& expected, std::vector<double> const& got, std::string const& what) {
    tensor const a{{expected.size()}, expected}, b{{got.size()}, got};
    auto const d = largest_difference(a, b);
    if (!(d <= nearly))
      result_.differences.push_back({what, "equal within 1e-12", std::to_string(d) + " off"});
  }
  void near(json const& expected, std::vector<double> const& got, std::string const& what) {
    near(expected.get<std::vector<double>>(), got, what);
  }

  /// Checks that the whole program gives the recorded results.
  void check_whole() {
    json const& uncut = body_["uncut"];
    near(uncut["output_first_step"], whole_.first_output.data, "uncut.output_first_step");
    near(uncut["losses"], batch_losses(whole_), "uncut.losses");
    for (auto const& [name, g] : uncut["gradients_first_step"].items())
      near(g, whole_.first_gradients[""].at("storage " + name)->data, "uncut.gradients_first_step." + name);
    for (auto const& a : graph_.attributes())
      near(uncut["parameters_after"][a.storage], whole_.after[""].at(a.path).data,
           "uncut.parameters_after." + a.storage);
  }

  /// Checks that stages compute the results of the whole, and that copies stay equal.
  void equal_whole(history const& staged) {
    near(whole_.first_output.data, staged.first_output.data, "output of whole and stages");
    near(batch_losses(whole_), batch_losses(staged), "losses of whole and stages");
    for (auto const& [holder, g] : whole_.first_sums)
      near(g->data, staged.first_sums.at(holder)->data, "gradient of " + holder);
    for (auto const& a : graph_.attributes())
      for (auto const& [stage, own] : staged.after)
        if (auto const held = own.find(a.path); held != own.end())
          near(whole_.after[""].at(a.path).data, held->second.data, a.path + " in " + stage);
  }

  void compare_expected(history const& staged) {
    json const& expect = body_["expect"];
    near(expect["output_first_step"], staged.first_output.data, "expect.output_first_step");
    near(expect["combined_losses"], batch_losses(staged), "expect.combined_losses");
    for (std::size_t i = 0; i < staged.losses.size(); ++i)
      near(expect["microbatch_losses"].at(i), staged.losses[i], "expect.microbatch_losses");
    for (auto const& [name, value] : expect["parameters_after_by_quarter"].items())
      near(value, staged.after.at(stage_paths_.at(std::stoul(name))).at(name).data,
           "expect.parameters_after_by_quarter." + name);
    compare_distances(expect, staged);
  }

  /// Compares gradients. Quarters in the same stage share one copy.
  void compare_gradients(json const& by_quarter) {
    std::map<std::pair<std::string, std::string>, tensor> sums;
    for (auto const& [name, value] : by_quarter.items()) {
      auto const parameter = name.substr(name.find('.') + 1);
      auto& sum = sums[{stage_paths_.at(std::stoul(name)), "storage " + parameter}];
      auto const& data = value.get<std::vector<double>>();
      sum = sum.shape.empty() ? tensor{{data.size()}, data} : sum + tensor{{data.size()}, data};
    }
    for (auto const& [at, sum] : sums)
      near(sum.data, staged_.first_gradients.at(at.first).at(at.second)->data,
           "gradient of " + at.second + " in " + at.first);
  }

  void compare_distances(json const& expect, history const& staged) {
    double gradient = 0;
    for (auto const& [holder, g] : whole_.first_sums)
      gradient = std::max(gradient, largest_difference(*g, *staged.first_sums.at(holder)));
    double loss = 0;
    auto const ours = batch_losses(staged), theirs = batch_losses(whole_);
    for (std::size_t i = 0; i < ours.size(); ++i) loss = std::max(loss, std::abs(ours[i] - theirs[i]));
    std::vector<double> const ours_off{gradient, loss};
    near(json::array({expect["largest_gradient_difference_from_uncut"],
                      expect["largest_loss_difference_from_uncut"]}),
         ours_off, "differences from uncut");
    state_values first;
    bool equal = true;
    for (auto const& [stage, own] : staged.after)
      for (auto const& [name, value] : own) equal &= first.emplace(name, value).first->second == value;
    compare(expect["replicas_equal_after"], equal, "expect.replicas_equal_after", result_.differences);
  }

  json const& body_;
  json const& input_;
  program_reader reader_;
  testing::toy_batches batches_;
  module_graph graph_;
  history whole_, staged_, threaded_;
  std::vector<std::string> stage_paths_;  // by quarter
  outcome result_;
};

}  // namespace

outcome run_pipe_parity(test_case const&, json const& body) { return parity_case(body).run(); }

}  // namespace cleave::conformance
