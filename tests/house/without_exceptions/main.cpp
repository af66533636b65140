// SPDX-License-Identifier: MIT
// Reads, cuts and emits a graph, and runs its stages, in a program that is compiled with -fno-exceptions and
// -fno-rtti. With the word `fault` it then cuts a graph whose nodes are in a wrong order, which is the end of
// such a program. The status is 1 if a result is wrong.
#include <cleave/cleave.hpp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

namespace {

/// A sum of earlier values: node i makes value i.
struct sum {
  std::vector<std::size_t> reads;
  double seconds;
};

struct sums {
  std::vector<sum> const* list;

  auto nodes() const {
    return cleave::counted(list->size(), [](std::size_t i) { return i; });
  }
  std::vector<std::size_t> const& operands(std::size_t n) const { return (*list)[n].reads; }
  double weight(std::size_t n) const { return (*list)[n].seconds; }
  std::size_t bytes(std::size_t) const { return 4; }
};
static_assert(cleave::weighted_graph<sums> && cleave::sized_graph<sums>);

/// Copies a stage. Its arguments are nodes without operands.
struct copier {
  std::vector<sum> const* from;
  std::vector<sum> made{};
  std::vector<std::size_t> given{};

  std::size_t argument(std::size_t, cleave::source) {
    made.push_back({{}, 0});
    return made.size() - 1;
  }
  std::vector<std::size_t> clone(std::size_t n, auto lookup) {
    sum copy{{}, (*from)[n].seconds};
    for (auto const v : (*from)[n].reads) copy.reads.push_back(lookup(v));
    made.push_back(copy);
    return {made.size() - 1};
  }
  void result(std::size_t, std::size_t made_as) { given.push_back(made_as); }
};

int wrong = 0;

void check(bool ok, char const* sentence) {
  if (ok) return;
  std::fprintf(stderr, "wrong: %s\n", sentence);
  wrong = 1;
}

/// Each value is one more than the sum of what its node reads.
std::vector<long> values_of(std::vector<sum> const& list) {
  std::vector<long> values;
  for (auto const& s : list) {
    values.push_back(1);
    for (auto const v : s.reads) values.back() += values[v];
  }
  return values;
}

void cut_and_run() {
  std::vector<sum> const list = {{{}, 1},     {{0}, 2}, {{0, 1}, 1}, {{2}, 3},
                                 {{2, 3}, 1}, {{4}, 2}, {{4, 5}, 1}, {{6}, 2}};
  sums const g{&list};
  check(!cleave::find_adapter_fault(g) && !cleave::find_cycle(g), "the graph has no fault");
  auto const snapshot = cleave::snapshot_of(g);
  check(snapshot.nodes() == list.size(), "a snapshot has all nodes");

  auto const cut = cleave::balance(g, 3);
  check(cut.parts == 3 && cut.of.size() == list.size(), "a balanced cut has three parts");
  check(cut.bound > 0 && cut.bound <= 13, "the bound is a load");
  auto const by_name = cleave::assign(g, std::vector<std::uint32_t>{0, 0, 0, 1, 1, 1, 2, 2});
  check(by_name.parts == 3, "an assignment has three parts");

  auto const stages = cleave::split(g, by_name);
  auto const whole = values_of(list);
  auto const results = cleave::run_stages<long>(stages, {}, [&](cleave::stage_id id, std::span<long> inputs) {
    copier copy{&list};
    cleave::emit(stages, id, copy);
    std::vector<long> values;
    for (auto const& s : copy.made) {
      if (s.seconds == 0) {  // an argument
        values.push_back(inputs[values.size()]);
        continue;
      }
      values.push_back(1);
      for (auto const v : s.reads) values.back() += values[v];
    }
    std::vector<long> given;
    for (auto const v : copy.given) given.push_back(values[v]);
    return given;
  });
  check(results.size() == 1 && results[0] == whole.back(), "stages give what the whole gives");
  check(stages.plan().transfers.size() > 1, "stages exchange values");
}

void cut_a_wrong_order() {
  std::vector<sum> const list = {{{1}, 1}, {{}, 1}};
  sums const g{&list};
  check(cleave::find_adapter_fault(g).has_value(), "a fault is found without an exception");
  cleave::balance(g, 2);
  check(false, "a wrong order ends the program");
}

}  // namespace

int main(int words, char** word) {
  if (words > 1 && std::strcmp(word[1], "fault") == 0)
    cut_a_wrong_order();
  else
    cut_and_run();
  return wrong;
}
