// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/backward/stage_backward.hpp"
#include "conformance_runner/outcome.hpp"
#include "support/toy_gradients.hpp"

namespace cleave::conformance {

using namespace detail;
namespace {

using testing::tape_value, testing::tape_values;

/// Parses values as the recordings write them: names, `w*2`, `t(1,2)`, `t(1).squeeze()`, `None`, `(a,b)`,
/// `[a]` and `dict(a=x,b=y)`.
class value_text {
 public:
  value_text(std::map<std::string, tape_value> named, std::string_view text)
      : named_(std::move(named)), text_(text) {}

  tape_value read() {
    if (take("[")) return testing::composite_of(container::kind::list, row("]"));
    if (take("(")) return testing::composite_of(container::kind::tuple, row(")"));
    if (take("dict(")) return dict();
    if (take("t(")) return tensor();
    std::string name;
    while (!text_.empty() && text_.front() != ',' && text_.front() != ')' && text_.front() != ']') {
      name += text_.front();
      text_.remove_prefix(1);
    }
    auto const known = named_.find(name);
    if (known == named_.end()) throw layout_error("no value is called " + name);
    return known->second;
  }

 private:
  bool take(std::string_view word) {
    bool const there = text_.starts_with(word);
    if (there) text_.remove_prefix(word.size());
    return there;
  }

  tape_values row(std::string_view end) {
    tape_values items;
    while (!take(end)) {
      items.push_back(read());
      take(",");
    }
    return items;
  }

  tape_value dict() {
    tape_values items;
    while (!take(")")) {
      auto const equals = text_.find('=');
      items.push_back({tape_value::kind::constant, std::string(text_.substr(0, equals))});
      text_.remove_prefix(equals + 1);
      items.push_back(read());
      take(",");
    }
    auto made = testing::composite_of(container::kind::dict, std::move(items));
    made.shape.size /= 2;
    return made;
  }

  tape_value tensor() {
    testing::tensor t{{}, {}};
    auto const end = text_.find(')');
    for (auto number = text_.substr(0, end); !number.empty();) {
      auto const comma = std::min(number.find(','), number.size());
      t.data.push_back(std::stod(std::string(number.substr(0, comma))));
      number.remove_prefix(std::min(comma + 1, number.size()));
    }
    text_.remove_prefix(end + 1);
    if (!take(".squeeze()")) t.shape = {t.data.size()};
    return testing::constant_of(t);
  }

  std::map<std::string, tape_value> named_;
  std::string_view text_;
};

json write_gradient(tape_value const& v) { return v.is_null() ? json() : json(v.get().data); }
json write_gradient(std::optional<testing::tensor> const& t) { return t ? json(t->data) : json(); }

testing::tensor read_vector(json const& list) { return {{list.size()}, list.get<std::vector<double>>()}; }

/// One case for the functions that a backward pass calls.
class kernel_case {
 public:
  explicit kernel_case(json const& body) : body_(body), in_(body["input"]) {}

  outcome run() {
    if (in_.contains("left"))
      check_sum();
    else if (in_.value("program", "") == "y = w*x (elementwise), z = sum(y*x)")
      check_backward();
    else
      throw unjudged_error("no program of the kernel is known as '" + in_.value("program", "") + "'");
    return {std::move(differences_), ""};
  }

 private:
  void check_sum() {
    testing::tape_gradients hooks(tape_);
    auto const read = [](json const& j) { return j.is_null() ? tape_value{} : constant_of(read_vector(j)); };
    auto const sum = null_coalesce_accumulate(hooks, read(in_["left"]), read(in_["right"]));
    compare(body_["expect"], write_gradient(sum), "expect", differences_);
  }

  std::map<std::string, tape_value> values() {
    using namespace testing;
    auto const hold = [&](tape_value const& leaf, char const* key) {
      if (in_.contains(key)) tape_.gradient(*leaf.node) = read_vector(in_[key]);
    };
    x_ = tape_.leaf("x", read_vector(in_["x"]));
    w_ = tape_.leaf("w", read_vector(in_["w"]));
    hold(x_, "x_gradient_before");
    hold(w_, "w_gradient_before");
    auto const y = apply("mul", {w_, x_});
    return {{"x", x_},
            {"w", w_},
            {"y", y},
            {"z", apply("sum", {apply("mul", {y, x_})})},
            {"w*2", apply("mul", {w_, constant_of(tensor::filled({}, 2))})},
            {"c", constant_of(tensor::filled({3}, 1))},
            {"n", {tape_value::kind::constant, std::int64_t{3}}},
            {"None", {}}};
  }

  tape_value apply(char const* name, tape_values const& operands) {
    return testing::toy_operators().at(name)(tape_, operands);
  }

  void check_backward() {
    auto const named = values();
    auto const read = [&](char const* key) {
      return value_text(named, in_[key].get_ref<std::string const&>()).read();
    };
    std::optional<std::vector<std::size_t>> selected;
    if (auto const list = in_.find("outputs_with_grads_idxs"); list != in_.end() && !list->is_null())
      selected = list->get<std::vector<std::size_t>>();
    testing::tape_gradients hooks(tape_);
    try {
      auto const made = stage_backward(hooks, read("stage_output"), read("output_grads"),
                                       *read("input_values").items, selected);
      json gradients = json::array();
      for (auto const& g : made) gradients.push_back(write_gradient(g));
      if (body_.contains("error")) return differ("a refusal", gradients.dump());
      json const got = {{"input_gradients", gradients},
                        {"w_gradient", write_gradient(tape_.gradient_of(w_))},
                        {"x_gradient_left_behind", write_gradient(tape_.gradient_of(x_))}};
      compare(body_["expect"], got, "expect", differences_);
    } catch (gradient_error const& e) {
      check_refusal(e);
    }
  }

  void check_refusal(gradient_error const& e) {
    using enum gradient_fault::kind;
    if (!body_.contains("error")) return differ("gradients", e.what());
    auto const said = body_["error"]["cause"]["message"].get<std::string>();
    bool const fits = (said == "grad can be implicitly created only for scalar outputs" &&
                       e.witness.what == null_gradient) ||
                      (said.starts_with("Expected keys") && e.witness.what == different_keys) ||
                      (said.starts_with("Expected len") && e.witness.what == different_count);
    if (!fits || body_["error"]["type"] != "RuntimeError") differ(body_["error"].dump(), e.what());
  }

  void differ(std::string expected, std::string got) {
    differences_.push_back({"stage_backward", std::move(expected), std::move(got)});
  }

  json const& body_;
  json const& in_;
  testing::tape tape_;
  tape_value x_, w_;
  std::vector<difference> differences_;
};

}  // namespace

outcome run_pipe_kernel(test_case const&, json const& body) { return kernel_case(body).run(); }

}  // namespace cleave::conformance
