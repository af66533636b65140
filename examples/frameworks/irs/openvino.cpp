// SPDX-License-Identifier: MIT
// Cuts models of OpenVINO. Each stage becomes an ov::Model, which the CPU plugin compiles and runs; the
// results must equal those of the whole model. It cuts a model file, by default GPT-2's first layers, and a
// model that keeps a variable from call to call.
#include <openvino/op/ops.hpp>
#include <openvino/op/util/variable_extension.hpp>
#include <openvino/openvino.hpp>

#include <algorithm>
#include <cleave/cut.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

// [adapter]
struct model_graph {
  using node = ov::Node*;
  using value = ov::descriptor::Tensor*;

  explicit model_graph(ov::Model const& m) : model(m) {
    list = cleave::collected(m.get_ordered_ops(), [](auto const& n) {
      return ov::is_type<ov::op::v0::Parameter>(n) || ov::is_type<ov::op::v0::Result>(n) ? nullptr : n.get();
    });
    for (node n : list) sharing[variable(n)].push_back(n);
  }
  static std::string variable(node n) {
    auto const* const access = dynamic_cast<ov::op::util::VariableExtension const*>(n);
    return access ? access->get_variable_id() : "";
  }

  auto const& nodes() const { return list; }
  auto operands(node n) const {
    return cleave::counted(n->get_input_size(), [n](std::size_t i) { return &n->get_input_tensor(i); });
  }
  auto results(node n) const {
    return cleave::counted(n->get_output_size(), [n](std::size_t i) { return &n->get_output_tensor(i); });
  }
  auto inputs() const {
    return cleave::collected(model.get_parameters(), [](auto const& p) { return &p->get_output_tensor(0); });
  }
  auto outputs() const {
    return cleave::collected(model.get_results(), [](auto const& r) { return &r->get_input_tensor(0); });
  }
  bool replicable(node n) const { return ov::is_type<ov::op::v0::Constant>(n); }
  std::vector<node> together(node n) const {
    return variable(n).empty() ? std::vector<node>() : sharing.at(variable(n));
  }
  bool portable(value v) const {  // sizes and shapes are needed where they are read
    return v->get_element_type().is_real() || v->get_partial_shape().size() > 1;
  }
  double weight(node n) const { return static_cast<double>(bytes(&n->get_output_tensor(0))); }
  std::size_t bytes(value v) const { return v->get_partial_shape().is_static() ? v->size() : 0; }
  std::string const& name(node n) const { return n->get_friendly_name(); }

  ov::Model const& model;
  std::vector<node> list;
  std::map<std::string, std::vector<node>> sharing;  // by variable
};
// [adapter]
static_assert(cleave::multi_result<model_graph> && cleave::function_graph<model_graph> &&
              cleave::replicating_graph<model_graph> && cleave::grouped_graph<model_graph> &&
              cleave::bounded_graph<model_graph> && cleave::weighted_graph<model_graph> &&
              cleave::sized_graph<model_graph> && cleave::named_graph<model_graph>);

// [builder]
struct model_builder {
  ov::Output<ov::Node> argument(model_graph::value v, cleave::source) {
    return parameters.emplace_back(
        std::make_shared<ov::op::v0::Parameter>(v->get_element_type(), v->get_partial_shape()));
  }
  ov::OutputVector clone(model_graph::node n, auto lookup) {
    ov::OutputVector from;
    for (std::size_t i = 0; i < n->get_input_size(); ++i) from.push_back(lookup(&n->get_input_tensor(i)));
    auto const copy = n->clone_with_new_inputs(from);
    if (auto const sink = std::dynamic_pointer_cast<ov::op::Sink>(copy)) sinks.push_back(sink);
    return copy->outputs();
  }
  void result(model_graph::value, ov::Output<ov::Node> made) {
    results.push_back(std::make_shared<ov::op::v0::Result>(made));
  }
  std::shared_ptr<ov::Model> finish() const {
    return std::make_shared<ov::Model>(results, sinks, parameters);
  }

  ov::ParameterVector parameters;
  ov::ResultVector results;
  ov::SinkVector sinks;
};
// [builder]

using tensors = std::vector<ov::Tensor>;

tensors infer(ov::InferRequest& request, std::span<ov::Tensor const> in) {
  for (std::size_t i = 0; i < in.size(); ++i) request.set_input_tensor(i, in[i]);
  request.infer();
  tensors out;
  for (std::size_t i = 0; i < request.get_compiled_model().outputs().size(); ++i) {
    auto const made = request.get_output_tensor(i);
    made.copy_to(out.emplace_back(made.get_element_type(), made.get_shape()));
  }
  return out;
}

ov::Tensor random_tensor(ov::Output<ov::Node const> const& of, std::uint32_t seed) {
  ov::Tensor t(of.get_element_type(), of.get_shape());
  for (std::size_t i = 0; i < t.get_size(); ++i) {
    seed = seed * 1664525 + 1013904223;
    if (t.get_element_type() == ov::element::f32)
      t.data<float>()[i] = static_cast<float>(seed >> 8) * 0x1p-24f;
    if (t.get_element_type() == ov::element::i64) t.data<std::int64_t>()[i] = seed >> 31;
    if (t.get_element_type() == ov::element::i32)
      t.data<std::int32_t>()[i] = static_cast<std::int32_t>(seed >> 31);
  }
  return t;
}

double difference(ov::Tensor const& a, ov::Tensor const& b) {
  if (a.get_element_type() != ov::element::f32 || a.get_shape() != b.get_shape()) return HUGE_VAL;
  double most = 0;
  for (std::size_t i = 0; i < a.get_size(); ++i)
    most = std::max(most, std::abs(double{a.data<float>()[i]} - double{b.data<float>()[i]}));
  return most;
}

// Returns whether three calls of the model and of its stages give the same.
bool stages_equal_whole(ov::Core& core, std::shared_ptr<ov::Model> const& model) {
  auto const compiled = [&](std::shared_ptr<ov::Model> const& m) {
    return core.compile_model(m, "CPU", ov::hint::inference_precision(ov::element::f32))
        .create_infer_request();
  };
  auto whole = compiled(model);

  // [cut]
  model_graph const g(*model);
  auto const stages = cleave::split(g, cleave::balance(g, 3));
  std::vector<ov::InferRequest> requests(stages.size());
  for (auto const id : stages.plan().order) {
    model_builder made;
    cleave::emit(stages, id, made);
    requests[index(id)] = compiled(made.finish());
  }
  auto const run = [&](cleave::stage_id id, std::span<ov::Tensor> in) {
    return infer(requests[index(id)], in);
  };
  // [cut]

  double most = 0;
  for (std::uint32_t call = 0; call < 3; ++call) {
    tensors given;
    for (auto const& input : std::as_const(*model).inputs()) given.push_back(random_tensor(input, call));
    auto const expected = infer(whole, given), made = cleave::run_stages(stages, given, run);
    for (std::size_t i = 0; i < expected.size(); ++i) most = std::max(most, difference(made[i], expected[i]));
  }
  std::cout << model->get_friendly_name() << ": " << g.nodes().size() << " operations in " << stages.size()
            << " stages; the largest difference is " << most << '\n';
  return most <= 1e-5;  // the plugin optimises each model by itself
}

// A model that adds halves of its input, scaled, to a variable, and returns it.
std::shared_ptr<ov::Model> make_stateful_model() {
  namespace op = ov::op;
  auto const constant = [](ov::element::Type type, ov::Shape const& shape, std::vector<float> const& data) {
    return op::v0::Constant::create(type, shape, data);
  };
  auto const x = std::make_shared<op::v0::Parameter>(ov::element::f32, ov::Shape{1, 8});
  auto const halves = std::make_shared<op::v1::Split>(x, constant(ov::element::i64, {}, {1}), 2);
  auto const sum =
      std::make_shared<op::v0::Tanh>(std::make_shared<op::v1::Add>(halves->output(0), halves->output(1)));
  auto const variable = std::make_shared<op::util::Variable>(
      op::util::VariableInfo{ov::PartialShape{1, 4}, ov::element::f32, "total"});
  auto const zero = constant(ov::element::f32, {1, 4}, {0, 0, 0, 0});
  auto const before = std::make_shared<op::v6::ReadValue>(zero, variable);
  auto const after = std::make_shared<op::v1::Add>(before, sum);
  auto const stored = std::make_shared<op::v6::Assign>(after, variable);
  auto const y = std::make_shared<op::v0::Exp>(std::make_shared<op::v1::Multiply>(after, sum));
  return std::make_shared<ov::Model>(ov::ResultVector{std::make_shared<op::v0::Result>(y)},
                                     ov::SinkVector{stored}, ov::ParameterVector{x}, "stateful");
}

int main(int count, char** words) {
  ov::Core core;
  auto const file = count > 1 ? words[1] : CLEAVE_SOURCE_DIR "/examples/models/gpt2.onnx";
  bool const equal =
      stages_equal_whole(core, core.read_model(file)) && stages_equal_whole(core, make_stateful_model());
  return equal ? 0 : 1;
}
