// SPDX-License-Identifier: MIT
// Adapts an IR whose instructions update buffers in place, named by the member `overwrites`. cleave
// distinguishes the versions of each buffer, cuts the program into two stages, and lists the values that
// these exchange.
#include <cleave/cleave.hpp>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

struct instruction {
  std::string name;
  std::vector<std::string> reads;    // buffers
  std::vector<std::string> defines;  // first writes: the buffer was empty
  std::vector<std::string> updates;  // writes that keep part of the old contents or add to them
};

struct program {
  std::vector<instruction> body;
  std::vector<std::string> arguments, kept, returns;  // kept buffers live on from step to step

  auto nodes() const {
    return cleave::counted(body.size(), [first = body.data()](std::size_t i) { return first + i; });
  }
  auto const& operands(instruction const* i) const { return i->reads; }
  auto const& inputs() const { return arguments; }
  auto const& outputs() const { return returns; }
  auto const& state() const { return kept; }
  // [memory]
  auto const& results(instruction const* i) const { return i->defines; }
  auto const& overwrites(instruction const* i) const { return i->updates; }
  auto const& storage(std::string const& buffer) const { return buffer; }  // no two names share memory
  // [memory]
};
static_assert(cleave::aliasing_graph<program> && cleave::stateful_graph<program>);

// A write that ignores the old contents belongs in `results`, not in `overwrites`. If an IR reuses registers
// in this way, number the definitions (SSA form: t, then t', each defined once) and use these numbers as
// values. With `overwrites`, the second write would depend on the first and on its readers.

int main() {
  program const g{.body = {{"normalize", {"token", "mean"}, {"x"}, {}},
                           {"store_key", {"x"}, {}, {"cache"}},
                           {"store_value", {"x"}, {}, {"cache"}},
                           {"attend", {"x", "cache"}, {"y"}, {}},
                           {"head", {"y", "cache"}, {"scores"}, {}},
                           {"track_mean", {"y"}, {}, {"mean"}}},
                  .arguments = {"token"},
                  .kept = {"cache", "mean"},
                  .returns = {"scores"}};

  // [read]
  auto const s = cleave::snapshot_of(g);
  auto const text = [&](std::uint32_t v) {  // a buffer and its version: how often it was written before
    int version = 0;
    for (std::uint32_t u = 0; u < v; ++u) version += s.slot[u] == s.slot[v];
    return " " + s.value[v] + "." + std::to_string(version);
  };
  for (std::uint32_t n = 0; n < s.nodes(); ++n) {
    std::cout << s.node[n]->name << ':';
    for (auto const v : s.operands[n]) std::cout << text(v);
    std::cout << " ->";
    for (auto const v : s.results[n]) std::cout << text(v);
    std::cout << '\n';
  }
  // [read]

  // [cut]
  auto const cut = cleave::assign(g, [](auto i) { return i->name == "head" || i->name == "track_mean"; });
  auto const plan = cleave::make_plan(s, cut);
  for (auto const& t : plan.transfers)  // within a step
    std::cout << stage_text(t.from) << " sends" << text(t.value) << " to " << stage_text(t.to) << '\n';
  for (auto const& u : plan.updates)  // after it, for the next one
    std::cout << stage_text(u.from) << " updates" << text(u.value) << " in " << stage_text(u.to) << '\n';
  // [cut]
}

// It prints:
//
//   normalize: token.0 mean.0 -> x.0
//   store_key: x.0 cache.0 -> cache.1
//   store_value: x.0 cache.1 -> cache.2
//   attend: x.0 cache.2 -> y.0
//   head: y.0 cache.2 -> scores.0
//   track_mean: y.0 mean.0 -> mean.1
//   stage 0 sends y.0 to stage 1
//   stage 0 sends cache.2 to stage 1
//   stage 1 updates mean.1 in stage 0
