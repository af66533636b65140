// SPDX-License-Identifier: MIT
#include "cleave/graph/adapter_fault.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/order.hpp"
#include "cleave/graph/snapshot.hpp"
#include "support/cases.hpp"
#include "support/error_text.hpp"
#include "support/random_program.hpp"
#include "support/rng.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// A program whose nodes are listed in a given order.
struct listed : toy::graph {
  std::vector<toy::op const*> order;
  explicit listed(toy::program const& p) : toy::graph(p) {
    for (auto const& o : p.ops) order.push_back(o.get());
  }
  std::vector<toy::op const*> const& nodes() const { return order; }
};

/// The same with a list of constants.
struct closed : listed {
  std::vector<std::string> list{"c"};
  using listed::listed;
  std::vector<std::string> const& constants() const { return list; }
};
static_assert(closed_graph<closed> && !closed_graph<listed>);

/// Returns whether the adapter breaks a promise, by comparing all pairs.
template <class Graph>
bool is_broken(toy::program const& p, Graph const& g) {
  auto arguments = p.inputs;
  arguments.insert(arguments.end(), p.weights.begin(), p.weights.end());
  if constexpr (closed_graph<Graph>) arguments.insert(arguments.end(), g.list.begin(), g.list.end());
  auto const repeats = [](auto list) {
    std::ranges::sort(list);
    return std::ranges::adjacent_find(list) != list.end();
  };
  auto made = arguments;
  for (auto const* o : g.order) made.insert(made.end(), o->out.begin(), o->out.end());
  bool broken = repeats(g.order) || repeats(made);
  for (std::size_t i = 0; i < g.order.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j)
      for (auto const& v : g.order[j]->in) broken |= std::ranges::count(g.order[i]->out, v) != 0;
    for (auto const* m : g.order[i]->follows)
      broken |= static_cast<std::size_t>(std::ranges::find(g.order, m) - g.order.begin()) >= i;
  }
  for (auto const* o : g.order)
    for (auto const& v : o->in) broken |= closed_graph<Graph> && std::ranges::count(made, v) == 0;
  for (auto const& v : p.outputs) {
    bool const read =
        std::ranges::any_of(g.order, [&](auto const* o) { return std::ranges::count(o->in, v) != 0; });
    broken |= std::ranges::count(made, v) == 0 && !read;
  }
  return broken;
}

/// Makes one change that may break a promise.
template <class Graph>
void change(testing::rng& r, toy::program& p, Graph& g) {
  auto const any = [&] { return r.below(p.ops.size()); };
  auto& o = *p.ops[any()];
  auto const& other = *p.ops[any()];
  auto const at = [&] { return g.order.begin() + static_cast<std::ptrdiff_t>(r.below(g.order.size())); };
  switch (r.below(12)) {
    case 0:
      std::iter_swap(at(), at());
      break;
    case 1:
      *at() = *at();
      break;
    case 2:
      o.out.push_back(other.out.front());
      break;
    case 3:
      o.out.push_back(r.one_in(2) ? "x" : "w");
      break;
    case 4:
      o.in.push_back(other.out.front());
      break;
    case 5:
      o.follows.push_back(r.one_in(5) ? nullptr : &other);
      break;
    case 6:
      p.inputs.push_back(r.one_in(2) ? "z" : "w");
      break;
    case 7:
      o.in.push_back(r.one_in(2) ? "typo" : "c");
      break;
    case 8:
      p.outputs.push_back(r.one_in(3) ? "typo" : r.one_in(2) ? "c" : other.out.front());
      break;
    case 9:
      if constexpr (closed_graph<Graph>) g.list.push_back(r.one_in(4) ? "c" : r.one_in(3) ? "w" : "typo");
      break;
    case 10:
      if (r.one_in(3)) o.out.push_back("c");
      break;
    default:
      p.weights.push_back(r.one_in(2) ? "x" : "w");
  }
}

}  // namespace

TEST_CASE_TEMPLATE(
    "find_adapter_fault: finds a fault exactly if brute force does, and snapshot_of throws the same", Graph,
    listed, closed) {
  testing::rng r(1);
  std::set<adapter_violation> kinds;
  int sound = 0, cycles = 0;
  for (int i = 0; i < 2000; ++i) {
    auto p = testing::random_program(r, 1 + r.below(7));
    Graph g(p);
    for (auto changes = r.below(4); changes-- > 0;) change(r, p, g);
    auto const fault = find_adapter_fault(g);
    REQUIRE(fault.has_value() == is_broken(p, g));
    sound += !fault;
    if (!fault) {
      snapshot_of(g);
      continue;
    }
    kinds.insert(fault->what);
    try {
      snapshot_of(g);
      FAIL("no error");
    } catch (adapter_error const& e) {
      REQUIRE(e.witness == *fault);
    } catch (cycle_error<toy::op const*> const&) {  // no order of the nodes is valid
      ++cycles;
      REQUIRE((fault->what == adapter_violation::after_its_user ||
               fault->what == adapter_violation::follows_a_later));
    }
  }
  CHECK(kinds.size() == (closed_graph<Graph> ? 9 : 8));
  CHECK(sound > 400);
  CHECK(cycles > 50);
}

TEST_CASE("adapter_error: each violation has its own sentence, which ends the message") {
  std::set<std::string> sentences;
  for (int what = 0; what <= static_cast<int>(adapter_violation::unmade_output); ++what) {
    std::string const sentence = describe(adapter_violation(what));
    CHECK(sentence.size() > 10);
    CHECK(sentences.insert(sentence).second);
    adapter_error const e({adapter_violation(what), 3}, "node conv1 (#3)");
    CHECK(std::string(e.what()) == "adapter: node conv1 (#3) " + sentence);
  }
}

TEST_CASE("is_size: accepts only numbers that std::size_t can hold") {
  CHECK(is_size(std::numeric_limits<std::size_t>::max()));
  CHECK(is_size(0));
  CHECK(!is_size(-1));
  CHECK(!is_size(std::numeric_limits<long>::min()));
  CHECK(is_size(-0.0));
  CHECK(is_size(18446744073709549568.0));  // the largest double below 2^64
  CHECK(!is_size(18446744073709551616.0));
  CHECK(!is_size(18446744073709551616.0f));
  CHECK(!is_size(std::numeric_limits<float>::quiet_NaN()));
  CHECK(!is_size(-std::numeric_limits<double>::infinity()));
}

TEST_CASE("find_adapter_fault: checks values that a body captures as operands of the enclosing node") {
  struct holder {
    std::vector<int> captured{100};
    long size = 8;
    static std::vector<int> nodes() { return {0, 1}; }
    static std::vector<int> operands(int) { return {}; }
    static std::vector<int> results(int n) { return {100 + n}; }
    static std::vector<int> regions(int n) { return n == 0 ? std::vector{7} : std::vector<int>(); }
    static std::vector<int> nodes(int) { return {}; }
    static std::vector<int> arguments(int) { return {}; }
    std::vector<int> yields(int) const { return captured; }
    long bytes(int v) const { return v == 5 ? size : 8; }
  };
  static_assert(nested_graph<holder> && sized_graph<holder>);
  CHECK(find_adapter_fault(holder{{100}}) == adapter_fault{adapter_violation::after_its_user, 0});
  CHECK(find_adapter_fault(holder{{101}}) == adapter_fault{adapter_violation::after_its_user, 1});
  CHECK(!find_adapter_fault(holder{{5}}));
  CHECK(find_adapter_fault(holder{{5}, -1}) == adapter_fault{adapter_violation::not_a_size, 0});
}

TEST_CASE(
    "find_adapter_fault: returns the place of an output without a producer and of an unlisted operand") {
  toy::program p{{"x"}, {"w"}, {"b", "bb", "x"}};
  p.add({"first", {"x", "w"}, {"a"}});
  p.add({"second", {"a", "typo"}, {"b"}});
  CHECK(find_adapter_fault(listed(p)) == adapter_fault{adapter_violation::unmade_output, 1});
  CHECK(testing::error_text([&] { snapshot_of(listed(p)); }) ==
        "adapter: output #1 " + std::string(describe(adapter_violation::unmade_output)));
  CHECK(find_adapter_fault(closed(p)) == adapter_fault{adapter_violation::unlisted_operand, 1, 1});
  CHECK(testing::error_text([&] { snapshot_of(closed(p)); }) ==
        "adapter: operand #1 of node second (#1) " +
            std::string(describe(adapter_violation::unlisted_operand)));
  p.outputs = {"b", "w", "x", "typo"};  // inputs returned unchanged, and a constant that a node reads
  CHECK(!find_adapter_fault(listed(p)));
  closed all(p);
  all.list = {"unused", "typo"};
  CHECK(!find_adapter_fault(all));
  auto const s = snapshot_of(all);
  CHECK(s.from[s.find_slot("typo")] == source::constant);
  CHECK(s.inputs.size() == 1);
  CHECK(s.state.size() == 1);
}

TEST_CASE("find_adapter_fault: accepts any handle of overwritten memory as an output") {
  struct cache {  // node 0 overwrites value 9; value 7 is another handle of the same memory
    int output = 7, second_reads = 8;
    static std::vector<int> nodes() { return {0, 1}; }
    std::vector<int> operands(int n) const { return {n == 0 ? 8 : second_reads}; }
    static std::vector<int> results(int n) { return {100 + n}; }
    static std::vector<int> inputs() { return {8, 9}; }
    std::vector<int> outputs() const { return {101, output}; }
    static std::vector<int> constants() { return {}; }
    static int storage(int v) { return v == 7 || v == 9 ? 50 : v; }
    static std::vector<int> overwrites(int n) { return n == 0 ? std::vector{9} : std::vector<int>(); }
  };
  static_assert(aliasing_graph<cache> && closed_graph<cache>);
  for (int const output : {6, 7, 9, 101})
    for (int const read : {6, 7, 8, 9}) {
      cache const g{output, read};
      auto const fault = find_adapter_fault(g);
      auto const expected = read == 6 || read == 7
                                ? std::optional(adapter_fault{adapter_violation::unlisted_operand, 1, 0})
                            : output == 6 ? std::optional(adapter_fault{adapter_violation::unmade_output, 1})
                                          : std::nullopt;
      CHECK(fault == expected);
      try {
        snapshot_of(g);
        CHECK(!fault);
      } catch (adapter_error const& e) {
        CHECK(e.witness == fault);
      }
    }
}

TEST_CASE(
    "find_adapter_fault: finds a fault of random memory with several handles exactly if snapshot_of throws") {
  struct random_memory {
    std::vector<std::vector<int>> read, made, written;  // by node
    std::vector<int> given, fixed, returned, cell;      // `cell` by value

    std::vector<int> nodes() const {
      std::vector<int> all(read.size());
      std::iota(all.begin(), all.end(), 0);
      return all;
    }
    std::vector<int> const& operands(int n) const { return read[static_cast<std::size_t>(n)]; }
    std::vector<int> const& results(int n) const { return made[static_cast<std::size_t>(n)]; }
    std::vector<int> const& overwrites(int n) const { return written[static_cast<std::size_t>(n)]; }
    std::vector<int> const& inputs() const { return given; }
    std::vector<int> const& constants() const { return fixed; }
    std::vector<int> const& outputs() const { return returned; }
    int storage(int v) const { return cell[static_cast<std::size_t>(v)]; }
  };
  static_assert(aliasing_graph<random_memory> && closed_graph<random_memory>);
  testing::rng random(7);
  std::size_t sound = 0;
  for (std::size_t turn = 0; turn < testing::cases(4000, 20'000); ++turn) {
    random_memory g;
    auto const nodes = 1 + random.below(4), values = 3 + random.below(6);
    for (int v = 0; v < static_cast<int>(values); ++v) {
      bool const is_alias = random.below(3) == 0;
      g.cell.push_back(is_alias ? static_cast<int>(random.below(values)) : v);
    }
    auto const some = [&](std::size_t most) {
      std::vector<int> list;
      for (auto left = random.below(most + 1); left > 0; --left)
        if (auto const v = static_cast<int>(random.below(values)); std::ranges::count(list, v) == 0)
          list.push_back(v);
      return list;
    };
    for (std::size_t n = 0; n < nodes; ++n) {
      g.read.push_back(some(2));
      g.made.push_back(some(1));
      g.written.push_back(some(1));
    }
    g.given = some(3);
    g.fixed = some(1);
    g.returned = some(2);
    auto const fault = find_adapter_fault(g);
    sound += !fault;
    try {
      snapshot_of(g);
      CHECK(!fault);
    } catch (error const&) {  // also of a cycle
      CHECK(fault);
    }
  }
  CHECK(sound > testing::cases(200, 1000));
}
