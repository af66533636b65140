// SPDX-License-Identifier: MIT
#include "cleave/adapt/onnx/detail/folding.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/cost.hpp"
#include "cleave/adapt/onnx/types.hpp"
#include "support/cases.hpp"
#include "support/model_corpus.hpp"
#include "support/onnx_text.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using integers = std::vector<std::int64_t>;

std::string spelt(onnx_number const& x) {
  if (x.whole()) return std::to_string(x.low);
  return x.known() ? std::to_string(x.real).substr(0, std::to_string(x.real).find('.') + 3) : "?";
}

/// The numbers that the last of these nodes computes. They may read x, float32 2x3x4, and d, float32 2xn.
std::optional<onnx_numbers> computed(std::string const& nodes) {
  auto const m = onnx_text("f (float[2, 3, 4] x, float[2, n] d) => (float[] y) { " + nodes + " }");
  onnx_symbols symbols;
  onnx_arithmetic const arithmetic(symbols);
  std::map<std::string, onnx_numbers> known;
  std::optional<onnx_numbers> last;
  for (auto const& n : m.graph().node()) {
    std::vector<onnx_numbers const*> in;
    std::vector<::onnx::TypeProto const*> types;
    for (auto const& name : n.input()) {
      auto const at = known.find(name);
      in.push_back(at == known.end() ? nullptr : &at->second);
      types.push_back(nullptr);
      for (auto const& v : m.graph().input())
        if (v.name() == name) types.back() = &v.type();
    }
    auto made = arithmetic(n, in, types);
    for (int k = 0; k < n.output_size(); ++k)
      if (auto& each = made[static_cast<std::size_t>(k)]) known[n.output(k)] = *each;
    last = made.back();
  }
  return last;
}

std::string folded(std::string const& nodes) {
  auto const last = computed(nodes);
  if (!last) return "nothing";
  std::string text = last->dims.empty() ? "scalar" : "";
  for (auto const& x : last->data) text += (text.empty() ? "" : " ") + spelt(x);
  return text;
}

/// As `folded`, with the dimensions in front: `2x2: 1 2 3 4`.
std::string shaped(std::string const& nodes) {
  auto const last = computed(nodes);
  if (!last) return "nothing";
  std::string text;
  for (auto const d : last->dims) text += (text.empty() ? "" : "x") + std::to_string(d);
  return text + ": " + folded(nodes);
}

std::string const abc =
    "a = Constant<value = int64[3] {5, 6, -7}>() b = Constant<value = int64[3] {2, 6, 2}>() one = "
    "Constant<value = int64 {1}>() ";
std::string const six = "m = Constant<value = int64[2, 3] {0, 1, 2, 3, 4, 5}>() ";
std::string list(std::string const& name, std::string const& values) {
  auto const count = 1 + std::ranges::count(values, ',');
  return name + " = Constant<value = int64[" + std::to_string(count) + "] {" + values + "}>() ";
}

/// A tensor of the test's own evaluator: elements by coordinates.
struct tensor {
  integers dims;
  std::map<integers, std::int64_t> at;
};

template <class Visit>
void each(integers const& dims, Visit visit, integers place = {}) {
  if (place.size() == dims.size()) return visit(place);
  for (std::int64_t i = 0; i < dims[place.size()]; ++i) {
    place.push_back(i);
    each(dims, visit, place);
    place.pop_back();
  }
}

integers shared(integers a, integers b) {
  while (a.size() < b.size()) a.insert(a.begin(), 1);
  while (b.size() < a.size()) b.insert(b.begin(), 1);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && a[i] != 1 && b[i] != 1) return {-1};
    a[i] = a[i] == 1 ? b[i] : a[i];
  }
  return a;
}

std::int64_t read(tensor const& t, integers place) {
  place.erase(place.begin(), place.end() - static_cast<std::ptrdiff_t>(t.dims.size()));
  for (std::size_t i = 0; i < place.size(); ++i)
    if (t.dims[i] == 1) place[i] = 0;
  return t.at.at(place);
}

std::string text_of(integers const& values) {
  std::string text;
  for (auto const v : values) text += (text.empty() ? "" : ", ") + std::to_string(v);
  return text;
}

/// A random graph of integer operators as ONNX text, with the tensors that it computes.
class random_arithmetic {
 public:
  explicit random_arithmetic(rng& random) : random_(random) {
    for (int i = 0; i < 3; ++i) constant();
    for (int i = 0; i < 12; ++i) step();
  }

  std::string const& text() const { return text_; }
  std::vector<std::pair<std::string, tensor>> const& made() const { return made_; }

 private:
  std::int64_t small(std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(random_.below(static_cast<std::size_t>(to - from + 1)));
  }
  tensor const& any() { return made_[picked_ = random_.below(made_.size())].second; }
  std::string name() const { return made_[picked_].first; }

  void add(std::string const& node, tensor t) {
    auto const name = "v" + std::to_string(made_.size());
    text_ += name + " = " + node + " ";
    made_.emplace_back(name, std::move(t));
  }
  std::string number(integers const& values) {
    auto const name = "c" + std::to_string(constants_++);
    text_ += name + " = Constant<value_ints = [" + text_of(values) + "]>() ";
    return name;
  }

  void constant() {
    tensor t;
    for (auto rank = small(0, 3); rank-- > 0;) t.dims.push_back(small(1, 3));
    integers values;
    each(t.dims, [&](integers const& at) { values.push_back(t.at[at] = small(-4, 9)); });
    std::string dims = t.dims.empty() ? "" : "[" + text_of(t.dims) + "]";
    add("Constant<value = int64" + dims + " {" + text_of(values) + "}>()", t);
  }

  void step() {
    auto const a = any();
    auto const x = name();
    auto const axis = a.dims.empty() ? 0 : random_.below(a.dims.size());
    tensor t;
    switch (random_.below(12)) {
      case 0:
      case 1: {
        auto const b = any();
        auto const y = name();
        t.dims = shared(a.dims, b.dims);
        if (t.dims == integers{-1}) return constant();
        char const* const words[] = {"Add", "Sub", "Mul", "Min", "Max", "Div", "Mod"};
        auto which = random_.below(7);
        for (auto const& [at, v] : b.at)
          if (v == 0 && which > 4) which = 0;
        each(t.dims, [&](integers const& at) {
          auto const p = read(a, at), q = read(b, at);
          std::int64_t const rest = q == 0 ? 0 : ((p % q) + q) % q;
          std::int64_t const all[] = {p + q, p - q, p * q, std::min(p, q), std::max(p, q), q == 0 ? 0 : p / q,
                                      rest};
          t.at[at] = all[which];
        });
        for (auto const& [at, v] : t.at)
          if (v > 1'000'000 || v < -1'000'000) return constant();
        return add(std::string(words[which]) + "(" + x + ", " + y + ")", t);
      }
      case 2: {  // Gather
        if (a.dims.empty()) return constant();
        integers const places = {small(-a.dims[axis], a.dims[axis] - 1), small(0, a.dims[axis] - 1)};
        t.dims = a.dims;
        t.dims[axis] = 2;
        each(t.dims, [&](integers at) {
          auto const to = at;
          auto const i = places[static_cast<std::size_t>(at[axis])];
          at[axis] = i < 0 ? i + a.dims[axis] : i;
          t.at[to] = a.at.at(at);
        });
        auto const c = number(places);
        return add("Gather<axis = " + std::to_string(axis) + ">(" + x + ", " + c + ")", t);
      }
      case 3: {  // Concat with itself
        if (a.dims.empty() || a.at.size() > 200) return constant();
        t.dims = a.dims;
        t.dims[axis] *= 2;
        each(t.dims, [&](integers at) {
          auto const to = at;
          at[axis] %= a.dims[axis];
          t.at[to] = a.at.at(at);
        });
        return add("Concat<axis = " + std::to_string(axis) + ">(" + x + ", " + x + ")", t);
      }
      case 4: {  // Slice
        if (a.dims.empty()) return constant();
        auto const start = small(-5, 5), end = small(-5, 5),
                   stride = small(0, 1) == 0 ? small(1, 2) : -small(1, 2);
        auto const size = a.dims[axis];
        integers taken;
        auto const first = start < 0 ? start + size : start, last = end < 0 ? end + size : end;
        for (auto i = std::clamp(first, std::int64_t{0}, stride > 0 ? size : size - 1);
             stride > 0 ? i < std::min(last, size) : i > std::max<std::int64_t>(last, -1); i += stride)
          taken.push_back(i);
        if (taken.empty()) return constant();
        t.dims = a.dims;
        t.dims[axis] = static_cast<std::int64_t>(taken.size());
        each(t.dims, [&](integers at) {
          auto const to = at;
          at[axis] = taken[static_cast<std::size_t>(at[axis])];
          t.at[to] = a.at.at(at);
        });
        auto const s = number({start}), e = number({end}), k = number({static_cast<std::int64_t>(axis)}),
                   d = number({stride});
        return add("Slice(" + x + ", " + s + ", " + e + ", " + k + ", " + d + ")", t);
      }
      case 5: {  // Transpose reverses the axes
        t.dims.assign(a.dims.rbegin(), a.dims.rend());
        for (auto const& [at, v] : a.at) t.at[integers(at.rbegin(), at.rend())] = v;
        return add("Transpose(" + x + ")", t);
      }
      case 6: {  // Reshape to a list
        integers values;
        each(a.dims, [&](integers const& at) { values.push_back(a.at.at(at)); });
        t.dims = {static_cast<std::int64_t>(values.size())};
        for (std::size_t i = 0; i < values.size(); ++i) t.at[{static_cast<std::int64_t>(i)}] = values[i];
        auto const c = number({-1});
        return add("Reshape(" + x + ", " + c + ")", t);
      }
      case 7: {  // ReduceSum or ReduceProd of an axis
        if (a.dims.empty()) return constant();
        bool const sums = random_.one_in(2);
        t.dims = a.dims;
        t.dims[axis] = 1;
        for (auto const& [at, v] : a.at) {
          auto to = at;
          to[axis] = 0;
          auto const [place, fresh] = t.at.try_emplace(to, v);
          if (!fresh) place->second = sums ? place->second + v : place->second * v;
        }
        for (auto const& [at, v] : t.at)
          if (v > 1'000'000 || v < -1'000'000) return constant();
        auto const k = std::to_string(axis);
        return add(sums ? "ReduceSum(" + x + ", " + number({static_cast<std::int64_t>(axis)}) + ")"
                        : "ReduceProd<axes = [" + k + "]>(" + x + ")",
                   t);
      }
      case 8: {  // Unsqueeze
        if (a.dims.size() > 3) return constant();
        auto const where = small(0, static_cast<std::int64_t>(a.dims.size()));
        t.dims = a.dims;
        t.dims.insert(t.dims.begin() + where, 1);
        for (auto const& [at, v] : a.at) {
          auto to = at;
          to.insert(to.begin() + where, 0);
          t.at[to] = v;
        }
        auto const c = number({where});
        return add("Unsqueeze(" + x + ", " + c + ")", t);
      }
      case 9: {  // Where of a comparison
        auto const b = any();
        auto const y = name();
        t.dims = shared(a.dims, b.dims);
        if (t.dims == integers{-1}) return constant();
        char const* const words[] = {"Equal", "Less", "GreaterOrEqual"};
        auto const which = random_.below(3);
        each(t.dims, [&](integers const& at) {
          auto const p = read(a, at), q = read(b, at);
          t.at[at] = (which == 0 ? p == q : which == 1 ? p < q : p >= q) ? p : q;
        });
        text_ += "t" + std::to_string(made_.size()) + " = " + words[which] + "(" + x + ", " + y + ") ";
        return add("Where(t" + std::to_string(made_.size()) + ", " + x + ", " + y + ")", t);
      }
      case 10: {  // Tile
        if (a.dims.empty() || a.at.size() > 200) return constant();
        integers times;
        for (std::size_t k = 0; k < a.dims.size(); ++k) times.push_back(small(1, 2));
        for (std::size_t k = 0; k < a.dims.size(); ++k) t.dims.push_back(a.dims[k] * times[k]);
        each(t.dims, [&](integers at) {
          auto const to = at;
          for (std::size_t k = 0; k < at.size(); ++k) at[k] %= a.dims[k];
          t.at[to] = a.at.at(at);
        });
        auto const c = number(times);
        return add("Tile(" + x + ", " + c + ")", t);
      }
      default: {  // Expand by an axis in front
        if (a.dims.size() > 3) return constant();
        t.dims = a.dims;
        t.dims.insert(t.dims.begin(), 2);
        each(t.dims, [&](integers const& at) { t.at[at] = read(a, at); });
        auto const c = number(t.dims);
        return add("Expand(" + x + ", " + c + ")", t);
      }
    }
  }

  rng& random_;
  std::string text_;
  std::vector<std::pair<std::string, tensor>> made_;
  std::size_t picked_ = 0, constants_ = 0;
};

}  // namespace

TEST_CASE("onnx_arithmetic: Shape and Size return the known dimensions and leave the others unknown") {
  CHECK(folded("y = Shape(x)") == "2 3 4");
  CHECK(folded("y = Shape<start = 1>(x)") == "3 4");
  CHECK(folded("y = Shape<start = -2, end = -1>(x)") == "3");
  CHECK(folded("y = Shape(d)") == "2 ?");
  CHECK(folded("y = Shape(missing)") == "nothing");
  CHECK(folded("y = Size(x)") == "scalar 24");
  CHECK(folded("y = Size(d)") == "scalar ?");
}

TEST_CASE("onnx_arithmetic: computes each operator as ONNX defines it") {
  CHECK(folded(abc + "y = Gather(a, b)") == "nothing");  // 6 is out of range
  CHECK(folded(abc + "y = Gather(a, one)") == "scalar 6");
  CHECK(folded("s = Shape(x) i = Constant<value = int64[2] {-1, 0}>() y = Gather(s, i)") == "4 2");
  CHECK(folded(abc + "y = Concat<axis = 0>(a, b)") == "5 6 -7 2 6 2");
  CHECK(folded(abc + "y = Add(a, b)") == "7 12 -5");
  CHECK(folded(abc + "y = Sub(a, one)") == "4 5 -8");
  CHECK(folded(abc + "y = Mul(one, b)") == "2 6 2");
  CHECK(folded(abc + "y = Div(a, b)") == "2 1 -3");  // toward zero
  CHECK(folded(abc + "y = Div(b, a)") == "0 1 0");
  CHECK(folded(abc + "y = Mod(a, b)") == "1 0 1");             // the sign of the divisor
  CHECK(folded(abc + "y = Mod<fmod = 1>(a, b)") == "1 0 -1");  // the sign of the dividend
  CHECK(folded(abc + "y = Pow(b, b)") == "4 46656 4");
  CHECK(folded(abc + "y = Neg(a)") == "-5 -6 7");
  CHECK(folded(abc + "y = Abs(a)") == "5 6 7");
  CHECK(folded(abc + "y = Sign(a)") == "1 1 -1");
  CHECK(folded(abc + "y = Min(a, b, one)") == "1 1 -7");
  CHECK(folded(abc + "y = Max(a, b)") == "5 6 2");
  CHECK(folded(abc + "y = Clip(a, one, one)") == "1 1 1");
  CHECK(folded(abc + "e = Equal(a, b) y = Where(e, a, b)") == "2 6 2");
  CHECK(folded(abc + "e = Equal(a, b) y = Cast<to = 7>(e)") == "0 1 0");
  CHECK(folded(abc + "e = Greater(a, b) f = Not(e) g = Or(e, f) h = And(e, g) y = Xor(h, g)") == "0 1 1");
  CHECK(folded(abc + "y = Squeeze(one)") == "scalar 1");
  CHECK(shaped(abc + list("k", "0") + "y = Unsqueeze(one, k)") == "1: 1");
  CHECK(folded("s = Constant<value = int64[2] {2, 2}>() y = ConstantOfShape<value = int64[1] {9}>(s)") ==
        "9 9 9 9");
  CHECK(folded(abc + "five = Constant<value = int64 {5}>() two = Constant<value = int64 {2}>() y = "
                     "Range(one, five, two)") == "1 3");
  CHECK(folded(abc + "z = Constant<value = int64 {-4}>() two = Constant<value = int64 {-2}>() y = "
                     "Range(one, z, two)") == "1 -1 -3");
  CHECK(folded(six + "y = ReduceProd<keepdims = 0>(m)") == "scalar 0");
  CHECK(shaped(six + "y = ReduceMax<axes = [1]>(m)") == "2x1: 2 5");
  CHECK(shaped(six + list("k", "0") + "y = ReduceSum<keepdims = 0>(m, k)") == "3: 3 5 7");
  CHECK(folded(abc + "e = Equal(a, b) y = NonZero(e)") == "1");
}

TEST_CASE("onnx_arithmetic: moves elements as ONNX defines it") {
  CHECK(shaped(six + list("k", "2, 0") + "y = Gather<axis = 1>(m, k)") == "2x2: 2 0 5 3");
  CHECK(shaped(six + "y = Transpose(m)") == "3x2: 0 3 1 4 2 5");
  CHECK(shaped(six + "y = Flatten<axis = 0>(m)") == "1x6: 0 1 2 3 4 5");
  CHECK(shaped(six + list("s", "0, -1") + "y = Reshape(m, s)") == "2x3: 0 1 2 3 4 5");
  CHECK(shaped(six + list("s", "3, -1") + "y = Reshape(m, s)") == "3x2: 0 1 2 3 4 5");
  CHECK(folded(six + list("s", "4, -1") + "y = Reshape(m, s)") == "nothing");
  CHECK(folded(six + list("s", "-1, -1") + "y = Reshape(m, s)") == "nothing");
  CHECK(folded(six + list("s", "6, 0") + "y = Reshape<allowzero = 1>(m, s)") == "nothing");
  CHECK(shaped(six + "a, b = Split<axis = 1>(m)") == "2x1: 2 5");  // 3 into 2 and 1
  CHECK(shaped(six + list("k", "0, 2, 1, 0") + list("w", "2, 2") +
               "k2 = Reshape(k, w) y = GatherND(m, k2)") == "2: 2 3");
  CHECK(shaped(six + list("k", "1") + list("v", "9, 9, 9") + list("w", "1, 1") + list("u", "1, 3") +
               "k2 = Reshape(k, w) v2 = Reshape(v, u) y = ScatterND(m, k2, v2)") == "2x3: 0 1 2 9 9 9");
  CHECK(folded(abc + list("k", "2, 0") + list("v", "8, 9") + "y = ScatterElements(a, k, v)") == "9 6 8");
  CHECK(shaped(six + list("k", "1, 0, 1") + list("w", "1, 3") +
               "k2 = Reshape(k, w) y = GatherElements(m, k2)") == "1x3: 3 1 5");
  CHECK(folded(six + "c = Constant<value = bool[2] {0, 1}>() y = Compress<axis = 0>(m, c)") == "3 4 5");
}

TEST_CASE("onnx_arithmetic: computes in float32 where the model does") {
  auto const to_float = abc + "f = Cast<to = 1>(a) g = Cast<to = 1>(b) ";
  CHECK(folded(to_float + "y = Div(f, g)") == "2.50 1.00 -3.50");
  CHECK(folded(to_float + "q = Div(f, g) r = Floor(q) y = Cast<to = 7>(r)") == "2 1 -4");
  CHECK(folded(to_float + "q = Div(f, g) r = Ceil(q) y = Cast<to = 7>(r)") == "3 1 -3");
  CHECK(folded(to_float + "q = Div(f, g) r = Round(q) y = Cast<to = 7>(r)") == "2 1 -4");  // half to even
  // In float64 the product is 48.99999…, in float32 it is 49.
  CHECK(folded("a = Constant<value = float {0.1}>() b = Constant<value = float {490.0}>() c = Mul(a, b) "
               "f = Floor(c) y = Cast<to = 7>(f)") == "scalar 49");
  CHECK(folded(to_float + "z = Sub(f, f) q = Div(f, z) y = Cast<to = 7>(q)") == "? ? ?");  // infinite
  CHECK(folded("s = Constant<value = int64[2] {2, 1}>() y = ConstantOfShape(s)") == "0.00 0.00");
}

TEST_CASE("onnx_arithmetic: clamps slices as ONNX does") {
  auto const slice = [](std::string const& start, std::string const& end) {
    return folded(abc + "s = Constant<value = int64[1] {" + start + "}>() e = Constant<value = int64[1] {" +
                  end + "}>() y = Slice(a, s, e)");
  };
  CHECK(slice("0", "2") == "5 6");
  CHECK(slice("-1", "9223372036854775807") == "-7");
  CHECK(slice("2", "1") == "");
  CHECK(slice("-9", "1") == "5");
  for (std::int64_t size = 1; size < 5; ++size)
    for (std::int64_t start = -7; start < 8; ++start)
      for (std::int64_t end = -7; end < 8; ++end)
        for (std::int64_t const step : {-3, -2, -1, 1, 2, 3}) {
          // Negative places count from the end, those outside are moved to the border.
          auto const low = step > 0 ? std::int64_t{0} : std::int64_t{-1}, high = step > 0 ? size : size - 1;
          auto const first = std::clamp(start < 0 ? start + size : start, std::int64_t{0}, high);
          auto const last = std::clamp(end < 0 ? end + size : end, low, high);
          std::int64_t count = 0;
          for (auto i = first; step > 0 ? i < last : i > last; i += step) ++count;
          auto const found = onnx_slice_of(size, start, end, step);
          CHECK(found.count == count);
          if (count > 0) CHECK(found.first == first);
        }
  auto const least = std::numeric_limits<std::int64_t>::min(),
             most = std::numeric_limits<std::int64_t>::max();
  CHECK(onnx_slice_of(5, most, least, least).count == 1);
  CHECK(onnx_slice_of(5, least, most, most).count == 1);
  CHECK(onnx_slice_of(most, least, most, 1).count == most);
}

TEST_CASE("onnx_arithmetic: knows what holds for every size of an open dimension") {
  std::string const n = "s = Shape(d) i = Constant<value = int64 {1}>() n = Gather(s, i) ";
  CHECK(folded(n + "y = Equal(s, s)") == "1 1");
  CHECK(folded(n + "m = Constant<value = int64 {-1}>() y = Equal(n, m)") == "scalar 0");  // a size
  CHECK(folded(n + "y = Sub(n, n)") == "scalar 0");
  CHECK(folded(n + "y = Add(n, n)") == "scalar ?");
  CHECK(folded(n + "y = Concat<axis = 0>(s, s)") == "2 ? 2 ?");
  CHECK(folded(n + "z = Sub(n, n) y = Div(n, z)") == "scalar ?");
  CHECK(folded(n + "k = Constant<value = int64 {7}>() r = Mod(n, k) t = Constant<value = int64 {6}>() y = "
                   "LessOrEqual(r, t)") == "scalar 1");
}

TEST_CASE("onnx_arithmetic: leaves overflows, divisions by zero, large results and old forms unknown") {
  CHECK(folded("s = Shape(d) y = ConstantOfShape<value = int64[1] {9}>(s)") == "nothing");
  CHECK(folded("a = Constant<value = int64[1] {9223372036854775807}>() y = Add(a, a)") == "?");
  CHECK(folded("a = Constant<value = int64[1] {9223372036854775807}>() y = Mul(a, a)") == "?");
  CHECK(folded("a = Constant<value = int64[1] {-9223372036854775808}>() y = Neg(a)") == "?");
  CHECK(folded("a = Constant<value = int64[1] {-9223372036854775808}>() y = Abs(a)") == "?");
  CHECK(folded(
            "a = Constant<value = int64[1] {-9223372036854775808}>() b = Constant<value = int64[1] {-1}>() y "
            "= Div(a, b)") == "?");
  CHECK(folded(
            "a = Constant<value = int64[1] {-9223372036854775808}>() b = Constant<value = int64[1] {-1}>() y "
            "= Mod(a, b)") == "0");
  CHECK(folded("a = Constant<value = int64[1] {-9223372036854775808}>() y = Not(a)") == "?");
  CHECK(folded("a = Constant<value = int32[1] {2147483647}>() y = Add(a, a)") == "?");
  CHECK(folded("a = Constant<value = int64[1] {5}>() z = Constant<value = int64[1] {0}>() y = Div(a, z)") ==
        "?");
  CHECK(folded("a = Constant<value = int64[1] {5}>() z = Constant<value = int64[1] {0}>() y = Mod(a, z)") ==
        "?");
  CHECK(folded("s = Constant<value = int64[3] {3000000000, 3000000000, 3000000000}>() y = "
               "ConstantOfShape<value = int64[1] {9}>(s)") == "nothing");
  CHECK(folded("s = Constant<value = int64[3] {9000000000000000000, 0, 9000000000000000000}>() y = "
               "ConstantOfShape<value = int64[1] {9}>(s)") == "nothing");
  CHECK(folded("s = Constant<value = int64[1] {-1}>() y = ConstantOfShape<value = int64[1] {9}>(s)") ==
        "nothing");
  CHECK(folded("a = Constant<value = int64 {0}>() b = Constant<value = int64 {9000000000}>() c = "
               "Constant<value = int64 {1}>() y = Range(a, b, c)") == "nothing");
  CHECK(folded("a = Constant<value = int64 {-9223372036854775808}>() b = Constant<value = int64 "
               "{9223372036854775807}>() c = Constant<value = int64 {1}>() y = Range(a, b, c)") == "nothing");
  CHECK(folded("a = Constant<value = int64 {0}>() y = Range(a, a, a)") == "nothing");
  CHECK(folded(abc + list("t", "1000000000000") + "y = Tile(a, t)") == "nothing");
  CHECK(folded(abc + "y = Concat<axis = 1>(a, b)") == "nothing");
  CHECK(shaped("e = Constant<value = int64[281474976710656, 0] {}>() y = Concat<axis = 1>(e, e)") ==
        "281474976710656x0: ");
  CHECK(folded(abc + "y = Add<broadcast = 1, axis = 0>(a, b)") == "nothing");
  CHECK(folded(abc + "y = Transpose<perm = [1]>(a)") == "nothing");
  CHECK(folded(abc + list("k", "0, 0") + "y = Unsqueeze(a, k)") == "nothing");
}

TEST_CASE("onnx_arithmetic: agrees with a direct evaluation of random graphs") {
  rng random(17);
  std::size_t compared = 0;
  auto const rounds = cases(100, 300);
  for (std::size_t round = 0; round < rounds; ++round) {
    random_arithmetic const graph(random);
    CAPTURE(graph.text());
    auto const m = onnx_text("f (float[1] x) => (float[1] y) { " + graph.text() + " y = Relu(x) }");
    cleave::onnx::types const types(m, {.inference = cleave::onnx::inference::same_process});
    for (auto const& [name, t] : graph.made()) {
      CAPTURE(name);
      auto const* type = types.priced(name);
      REQUIRE(type != nullptr);
      integers dims;
      for (auto const& d : type->tensor_type().shape().dim())
        dims.push_back(d.has_dim_value() ? d.dim_value() : -1);
      CHECK(dims == t.dims);
    }
    auto const last = computed(graph.text());
    auto const& want = graph.made().back().second;
    REQUIRE(last);
    CHECK(last->dims == want.dims);
    std::size_t i = 0;
    each(want.dims, [&](integers const& at) {
      CHECK(last->data.at(i++).is(want.at.at(at)));
      ++compared;
    });
  }
  CHECK(compared > rounds * 10 / 3);
}

TEST_CASE("onnx_arithmetic: what it says of an open size holds for every size") {
  rng random(18);
  for (std::size_t round = 0; round < cases(100, 300); ++round) {
    // Random steps from the dimensions of d; then again with n known.
    std::string text = "s = Shape(d) ";
    std::vector<std::string> names = {"s"};
    for (int k = 0; k < 8; ++k) {
      auto const a = names[random.below(names.size())], b = names[random.below(names.size())];
      auto const to = "v" + std::to_string(k);
      auto const c = std::to_string(static_cast<int>(random.below(9)) - 4);
      char const* const words[] = {"Add", "Sub", "Mul", "Min", "Max", "Div", "Mod"};
      text += "c" + to + " = Constant<value_int = " + c + ">() ";
      switch (random.below(4)) {
        case 0:
          text += to + " = " + words[random.below(7)] + "(" + a + ", c" + to + ") ";
          break;
        case 1:
          text += "t" + to + " = Less(" + a + ", " + b + ") " + to + " = Where(t" + to + ", " + a + ", " + b +
                  ") ";
          break;
        case 2:
          text += to + " = Abs(" + a + ") ";
          break;
        default:
          text += to + " = " + words[random.below(6)] + "(" + a + ", " + b + ") ";
      }
      names.push_back(to);
    }
    CAPTURE(text);
    auto const open = computed(text);
    REQUIRE(open);
    for (std::int64_t const n : {0, 1, 2, 7, 100}) {
      CAPTURE(n);
      auto known = text;
      known.replace(0, 12, "s = Constant<value_ints = [2, " + std::to_string(n) + "]>()");
      auto const told = computed(known);
      REQUIRE(told);
      REQUIRE(told->data.size() == open->data.size());
      for (std::size_t i = 0; i < told->data.size(); ++i) {
        if (!told->data[i].whole()) continue;
        CHECK(open->data[i].low <= told->data[i].low);
        CHECK(told->data[i].high <= open->data[i].high);
        if (open->data[i].symbol != 0) CHECK(told->data[i].is(n));
      }
    }
  }
}

TEST_CASE("onnx::types: infers a shape computed by Equal, Where and ConstantOfShape, and keeps the nodes") {
  auto const m = onnx_text(R"(f (float[1, 8] x, float[2, 8] z) => (float[] y) {
    minus = Constant<value = int64[2] {-1, 8}>()
    rank = Constant<value = int64[1] {2}>()
    ones = ConstantOfShape<value = int64[1] {1}>(rank)
    none = Constant<value = int64[2] {-1, -1}>()
    open = Equal(minus, none)
    s = Where(open, ones, minus)
    e = Expand(x, s)
    y = Add(e, z)
  })");
  cleave::onnx::types const types(m);
  CHECK(cleave::onnx::spelling(*types.declaration("e")) == "float32 1x8");
  CHECK(cleave::onnx::spelling(*types.declaration("y")) == "float32 2x8");
  for (int i = 0; i < m.graph().node_size(); ++i)
    CHECK(types.priced_model().graph().node(i).SerializeAsString() == m.graph().node(i).SerializeAsString());
}

TEST_CASE("onnx::costs_of: knows all costs of every model with fixed inputs") {
  for (auto const& file : model_files(giants::left_out)) {
    auto const name = model_name(file);
    CAPTURE(name);
    bool const is_dynamic = name == "bert_dynamic";
    CHECK((cleave::onnx::costs_of(cleave::onnx::types(read_model(file))).unknown == 0) == !is_dynamic);
  }
  auto const priced = cleave::onnx::costs_of(
      cleave::onnx::types(model("bert_dynamic"), {.dims = {{"batch", 2}, {"sequence", 8}}}));
  CHECK(priced.unknown == 0);
}
