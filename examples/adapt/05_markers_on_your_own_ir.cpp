// SPDX-License-Identifier: MIT
// Makes a pipe from your own IR. Cuts come from marker operations, modules and a policy. The example prints
// the values sent between stages, and relays values through stages where that is cheaper.
#include <cleave/cleave.hpp>
#include <cleave/pipe.hpp>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

struct op {
  std::string result, name;
  std::vector<std::string> reads;
  std::string module = "";
};

struct op_graph {
  std::vector<op> ops;

  auto nodes() const {
    return cleave::counted(ops.size(), [first = ops.data()](std::size_t i) { return first + i; });
  }
  auto const& operands(op const* o) const { return o->reads; }
  std::vector<std::string> results(op const* o) const {
    return o->result.empty() ? std::vector<std::string>() : std::vector{o->result};
  }
  std::size_t bytes(std::string const& v) const { return v == "tokens" ? 8 : 100; }
  std::string_view path(op const* o) const { return o->module; }
  std::string const& name(op const* o) const { return o->name; }
};

using op_snapshot = cleave::snapshot<op_graph>;

std::string stage(cleave::stage_id i) {
  return i == cleave::the_caller ? "caller" : std::to_string(index(i));
}

void print(op_snapshot const& s, cleave::pipe_plan const& p) {
  for (std::size_t i = 0; i < p.plan.stages.size(); ++i) {
    std::cout << "stage " << i << ':';
    for (auto const n : p.plan.stages[i].nodes) std::cout << ' ' << s.node[n]->name;
    std::cout << '\n';
  }
  for (auto const& e : p.edges) {
    std::cout << "  " << s.value[e.value] << ": " << stage(e.from) << " ->";
    for (auto const to : e.to) std::cout << ' ' << stage(to);
    std::cout << (skips_stages(e) ? "  (skips)\n" : "\n");
  }
}

int main() {
  op_graph const g{{{"h", "embed", {"tokens"}, "front"},
                    {"", "cut", {}, "front"},
                    {"a", "attend", {"h"}, "block.attention"},
                    {"b", "add", {"a", "h"}, "block"},
                    {"m", "mask", {"tokens"}, "block"},
                    {"", "cut", {}, "block"},
                    {"", "cut", {}, "block"},
                    {"c", "mix", {"b", "m"}, "block"},
                    {"d", "project", {"c", "h"}, "head"}}};

  // [cuts]
  auto const s = cleave::snapshot_of(g);
  auto const markers = cuts_at_markers(g, s, [](op const* o) { return o->name == "cut"; });
  auto const modules = cuts_at_modules(g, s, {{"block.attention", cleave::module_side::end}, {"head"}});
  auto const parts = cut_at(s, joined(markers, modules));
  auto const pipe = make_pipe_plan(s, parts);
  // [cuts]
  print(s, pipe);
  for (auto const& idle : pipe.idle)
    std::cout << "no effect: " << s.node[static_cast<std::uint32_t>(idle.asked_by)]->name << " (#"
              << idle.asked_by << ")\n";

  // [relay]
  cleave::snapshot_arrays const& flat = s;
  auto const routes = routes_of(flat, pipe, {.next = {1, 1}, .beyond = {1, 3}});
  auto const chained = relayed(flat, pipe, routes);
  // [relay]
  std::cout << "passed on:\n";
  for (std::size_t i = 0; i < routes.size(); ++i)
    if (routes[i] == cleave::route::relay) std::cout << "  " << s.value[pipe.edges[i].value] << '\n';
  for (auto const& t : chained.plan.transfers)
    if (index(t.to) != index(t.from) + 1) std::cout << "  another one skips\n";

  // [wrong]
  try {
    cuts_at_modules(g, s, {{"block.atention"}});
  } catch (cleave::unknown_module_error const& e) {
    std::cout << e.what() << '\n';
  }
  // [wrong]
}

// It prints:
//
//   stage 0: embed
//   stage 1: attend
//   stage 2: add mask
//   stage 3: mix
//   stage 4: project
//     tokens: caller -> 0 2
//     h: 0 -> 1 2 4  (skips)
//     a: 1 -> 2
//     b: 2 -> 3
//     m: 2 -> 3
//     c: 3 -> 4
//     d: 4 -> caller
//   no effect: cut (#6)
//   passed on:
//     h
//   cut #0: there is no module 'block.atention'; nearest: 'block.attention', 'block', 'front'
