// SPDX-License-Identifier: MIT
#include "cleave/backward/stage_backward.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

/// Null, a number that is a multiple of one of two leaves, a vector of numbers, or a container.
struct value {
  enum class kind { null, number, vector, row, dict };
  kind what = kind::null;
  double bits = 0;
  int leaf = 0;  // 0: a constant
  std::vector<value> items{};
  std::vector<std::string> names{};

  bool operator==(value const&) const = default;
};

value number(double x, int leaf = 0) { return {value::kind::number, x, leaf}; }
value row(std::vector<value> items) { return {value::kind::row, 0, 0, std::move(items)}; }
value dict(std::vector<std::string> names, std::vector<value> items) {
  return {value::kind::dict, 0, 0, std::move(items), std::move(names)};
}
value const vector_of_leaf_1{value::kind::vector, 1, 1};

/// An autograd in which the number `x` of leaf `k` depends on that leaf with slope `x`.
struct slopes {
  std::map<int, double> held;
  std::size_t calls = 0;

  value null() const { return {}; }
  bool is_null(value const& v) const { return v.what == value::kind::null; }
  std::optional<std::vector<value>> elements(value const& v) const {
    if (v.what != value::kind::row && v.what != value::kind::dict) return std::nullopt;
    return v.items;
  }
  std::vector<std::string> keys(value const& v) const { return v.names; }
  value rebuild(value const& like, std::vector<value> items) const {
    return {like.what, 0, 0, std::move(items), like.names};
  }
  bool needs_gradient(value const& v) const { return v.leaf != 0; }
  bool is_scalar(value const& v) const { return v.what == value::kind::number; }
  value one(value const&) const { return number(1); }
  value add(value const& x, value const& y) const { return number(x.bits + y.bits); }
  void differentiate(std::vector<value> const& outputs, std::vector<value> const& gradients) {
    ++calls;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      held[outputs[i].leaf] += outputs[i].bits * gradients[i].bits;
  }
  value take_gradient(value const& v) {
    auto const taken = held.extract(v.leaf);
    return taken.empty() ? value{} : number(taken.mapped());
  }
};
static_assert(autograd<slopes, value>);

using values = std::vector<value>;
value const leaf_1 = number(0, 1), leaf_2 = number(0, 2);

TEST_CASE("stage_backward: returns each input's gradient in the form of the input and leaves none behind") {
  slopes a;
  value const outputs = dict({"a", "b"}, {row({number(2, 1)}), number(3, 2)});
  value const gradients = dict({"b", "a"}, {number(10), row({number(5)})});
  auto const made = stage_backward(a, outputs, gradients, {row({leaf_2, number(7)}), leaf_1});
  CHECK(made == values{row({number(30), {}}), number(10)});
  CHECK(a.held.empty());
}

TEST_CASE("stage_backward: includes a gradient that an input holds already, once") {
  slopes a;
  a.held[1] = 50;
  auto const made = stage_backward(a, number(2, 1), number(1), {leaf_1, leaf_1});
  CHECK(made == values{number(52), {}});
}

TEST_CASE("stage_backward: an output that is listed twice is used twice") {
  slopes a;
  value const whole = row({number(2, 1), number(3, 2)});
  auto const made = stage_backward(a, row({number(2, 1), whole}),
                                   row({number(1), row({number(10), number(1)})}), {leaf_1, leaf_2});
  CHECK(made == values{number(22), number(3)});
}

TEST_CASE(
    "stage_backward: a null gradient is 1 for a number, nothing for a container, an error for a tensor") {
  slopes a;
  CHECK(stage_backward(a, number(2, 1), value{}, {leaf_1}) == values{number(2)});
  CHECK(stage_backward(a, row({number(2, 1)}), value{}, {leaf_1}) == values{{}});
  CHECK(a.calls == 1);
  CHECK_THROWS_AS(stage_backward(a, vector_of_leaf_1, value{}, {leaf_1}), gradient_error);
  CHECK(a.calls == 1);
}

TEST_CASE("stage_backward: with null_gradient::nothing, a null gradient contributes nothing") {
  slopes a;
  value const outputs = row({number(2, 1), vector_of_leaf_1, number(3, 2)});
  auto const made = stage_backward(a, outputs, row({{}, {}, number(1)}), {leaf_1, leaf_2}, std::nullopt,
                                   null_gradient::nothing);
  CHECK(made == values{{}, number(3)});
}

TEST_CASE("stage_backward: skips outputs that need no gradient, together with their gradients") {
  slopes a;
  CHECK(stage_backward(a, row({number(2), {}}), row({row({}), number(1)}), {leaf_1}) == values{{}});
  CHECK(a.calls == 0);
}

TEST_CASE("stage_backward: only selected outputs contribute") {
  slopes a;
  value const outputs = row({number(2, 1), vector_of_leaf_1}), gradients = row({number(1), {}});
  CHECK(stage_backward(a, outputs, gradients, {leaf_1}, std::vector<std::size_t>{0}) == values{number(2)});
  CHECK(stage_backward(a, outputs, gradients, {leaf_1}, std::vector<std::size_t>{}) == values{{}});
}

TEST_CASE("stage_backward: rejects gradients that do not fit the outputs and names the path") {
  using enum gradient_fault::kind;
  slopes a;
  auto const refused = [&](value const& output, value const& gradient, gradient_fault::kind what,
                           std::string const& path, std::optional<std::vector<std::size_t>> selected = {}) {
    try {
      stage_backward(a, output, gradient, {leaf_1}, selected);
      FAIL("accepted");
    } catch (gradient_error const& e) {
      CHECK(e.witness == gradient_fault{what, path});
      CHECK(std::string(e.what()).find(path) != std::string::npos);
    }
  };
  value const x = number(2, 1);
  refused(row({x, x}), row({x}), different_count, "");
  refused(row({x, row({x})}), row({x, x}), different_form, "[1]");
  refused(row({row({x})}), row({row({row({x})})}), different_form, "[0][0]");
  refused(dict({"a"}, {x}), row({x}), different_form, "");
  refused(row({dict({"a", "b"}, {x, x})}), row({dict({"a", "c"}, {x, x})}), different_keys, "[0]");
  refused(row({x, dict({"a"}, {vector_of_leaf_1})}), row({x, dict({"a"}, {value{}})}), null_gradient,
          "[1]['a']");
  refused(row({x}), row({x}), unknown_output, "[1]", std::vector<std::size_t>{1});
  refused(x, x, different_form, "", std::vector<std::size_t>{0});
}

TEST_CASE("null_coalesce_accumulate: adds element by element and takes the other term where one is null") {
  slopes a;
  value const three = row({number(1), {}, row({number(2)})});
  CHECK(null_coalesce_accumulate(a, value{}, value{}) == value{});
  CHECK(null_coalesce_accumulate(a, value{}, three) == three);
  CHECK(null_coalesce_accumulate(a, three, value{}) == three);
  CHECK(null_coalesce_accumulate(a, number(1), number(2)) == number(3));
  value const sum = row({number(11), number(5), row({number(2)})});
  CHECK(null_coalesce_accumulate(a, three, row({number(10), number(5)})) == sum);
  CHECK(null_coalesce_accumulate(a, row({number(10), number(5)}), three) == sum);
  value const named = dict({"x", "y"}, {number(1), {}}), other = dict({"y", "x"}, {number(2), number(3)});
  CHECK(null_coalesce_accumulate(a, named, other) == dict({"x", "y"}, {number(4), number(2)}));
}

TEST_CASE("null_coalesce_accumulate: rejects values of different structure and names the path") {
  using enum gradient_fault::kind;
  slopes a;
  auto const refused = [&](value const& old, value const& added, gradient_fault const& fault) {
    try {
      null_coalesce_accumulate(a, old, added);
      FAIL("accepted");
    } catch (gradient_error const& e) {
      CHECK(e.witness == fault);
    }
  };
  refused(row({number(1), row({})}), row({number(1), number(1)}), {different_form, "[1]"});
  refused(dict({"a"}, {number(1)}), dict({"b"}, {number(1)}), {different_keys, ""});
  refused(dict({"a"}, {number(1)}), dict({"a", "b"}, {number(1), {}}), {different_count, ""});
}

TEST_CASE(
    "element_gradient: sets the gradient of one element, null for the others, and rejects unknown keys") {
  slopes a;
  value const three = row({number(1), number(2), number(3)});
  CHECK(element_gradient(a, three, 1, number(9)) == row({{}, number(9), {}}));
  CHECK(element_gradient(a, three, -1, number(9)) == row({{}, {}, number(9)}));
  CHECK(element_gradient(a, dict({"a", "0"}, {number(1), number(2)}), "a", row({})) ==
        dict({"a", "0"}, {row({}), {}}));
  CHECK(element_gradient(a, dict({"a", "0"}, {number(1), number(2)}), 0, number(9)) ==
        dict({"a", "0"}, {{}, number(9)}));

  using enum gradient_fault::kind;
  auto const refused = [&](value const& of, element_key const& key, gradient_fault const& fault) {
    try {
      element_gradient(a, of, key, number(1));
      FAIL("accepted");
    } catch (gradient_error const& e) {
      CHECK(e.witness == fault);
    }
  };
  refused(three, 3, {unknown_output, "[3]"});
  refused(three, -4, {unknown_output, "[-4]"});
  refused(three, "a", {unknown_output, "['a']"});
  refused(dict({"a"}, {number(1)}), "b", {unknown_output, "['b']"});
  refused(number(1), 0, {different_form, "[0]"});
}

}  // namespace
