// SPDX-License-Identifier: MIT
// Adapts an IR in the style of ggml: operations write caches through views, and add in place. Cuts a step of
// a small decoder between a write and a read of its cache, and runs the stages by hand, each with memory of
// its own, over several steps.
#include <cleave/cleave.hpp>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <ranges>
#include <span>
#include <string>
#include <vector>

// [ir]
enum class kind : std::uint8_t { leaf, view, norm, mul, copy, attend, add, track };
struct tensor {  // an operation and its result
  kind op;
  std::string name;
  std::size_t size;
  std::vector<tensor*> src{};
  tensor* view_src = nullptr;  // the tensor whose memory this one is part of, if any
  std::size_t offset = 0;      // its place in that memory
};
struct cgraph {
  std::vector<tensor*> nodes, inputs, outputs, weights;
};
// [ir]

// [adapter]
struct ggml_graph {
  cgraph const* c;

  static tensor* memory(tensor* t) { return t->view_src != nullptr ? t->view_src : t; }

  auto nodes() const {  // a view is no node: whoever reads it reads the memory
    return c->nodes | std::views::filter([](tensor* t) { return t->op != kind::view; });
  }
  auto operands(tensor* n) const { return n->src | std::views::transform(memory); }
  std::vector<tensor*> results(tensor* n) const { return {memory(n)}; }
  std::vector<tensor*> overwrites(tensor* n) const { return std::vector(n->view_src ? 1 : 0, memory(n)); }
  tensor* storage(tensor* t) const { return t; }
  auto const& inputs() const { return c->inputs; }
  auto const& outputs() const { return c->outputs; }
  auto const& state() const { return c->weights; }
  double weight(tensor* n) const { return static_cast<double>(n->size); }
  std::size_t bytes(tensor* t) const { return t->size * sizeof(float); }
  std::string const& name(tensor* n) const { return n->name; }
};
// [adapter]
static_assert(cleave::aliasing_graph<ggml_graph> && cleave::stateful_graph<ggml_graph> &&
              cleave::weighted_graph<ggml_graph> && cleave::sized_graph<ggml_graph>);

// [views]
struct views_as_values : ggml_graph {  // each view is a node and a value
  auto const& nodes() const { return c->nodes; }
  auto const& operands(tensor* n) const { return n->src; }
  std::vector<tensor*> results(tensor* n) const { return {n}; }
  std::vector<tensor*> overwrites(tensor* n) const {
    return std::vector(n->view_src && n->op != kind::view ? 1 : 0, n->view_src);
  }
  tensor* storage(tensor* t) const { return memory(t); }
};
// [views]

using floats = std::vector<float>;
using memories = std::map<tensor*, floats>;  // a stage has its own

void compute(tensor* n, memories& m) {
  auto const at = [&](tensor* t) {
    auto& all = m[ggml_graph::memory(t)];
    if (all.empty()) all.resize(t->size);
    return std::span(all).subspan(t->offset, t->size);
  };
  auto const to = at(n), a = at(n->src[0]), b = at(n->src[1]);
  for (std::size_t i = 0; i < n->size; ++i) {
    if (n->op == kind::norm) to[i] = a[i] - b[i];
    if (n->op == kind::mul) to[i] = a[i] * b[i];
    if (n->op == kind::copy) to[i] = a[i];
    if (n->op == kind::add) to[i] = a[i] + b[i];
    if (n->op == kind::track) to[i] = (a[i] + b[i]) / 2;
    if (n->op != kind::attend) continue;
    to[i] = 0;
    for (std::size_t row = i; row < b.size(); row += n->size) to[i] += a[i] * b[row];
  }
}

int main() {
  tensor token{kind::leaf, "token", 2}, scale{kind::leaf, "scale", 2}, mean{kind::leaf, "mean", 2},
      cache{kind::leaf, "cache", 6};
  tensor x{kind::norm, "x", 2, {&token, &mean}}, key{kind::mul, "key", 2, {&x, &scale}};
  tensor slot{kind::view, "slot", 2, {&cache}, &cache};
  tensor store{kind::copy, "store", 2, {&key, &slot}, &cache};
  tensor rows{kind::view, "rows", 6, {&cache}, &cache};
  tensor y{kind::attend, "y", 2, {&x, &rows}};
  tensor skip{kind::add, "skip", 2, {&y, &x}, &y};            // in place
  tensor track{kind::track, "track", 2, {&mean, &y}, &mean};  // in place, and read by the next step
  cgraph const c{
      {&x, &key, &slot, &store, &rows, &y, &skip, &track}, {&token}, {&y}, {&scale, &mean, &cache}};
  ggml_graph const g{&c};
  auto const in_second = [](tensor* n) { return n->name == "y" || n->name == "skip" || n->name == "track"; };

  auto const stages = cleave::split(g, cleave::assign(g, in_second));
  for (auto const id : stages.plan().order) {
    std::cout << "stage " << cleave::index(id) << ':';
    for (tensor* n : stages[id].nodes) std::cout << ' ' << n->name;
    std::cout << "; receives";
    for (tensor* v : stages[id].inputs) std::cout << ' ' << v->name;
    std::cout << "; holds";
    for (tensor* v : stages[id].state) std::cout << ' ' << v->name;
    std::cout << '\n';
  }

  memories whole{{&scale, {2, 3}}, {&mean, {1, 1}}, {&cache, floats(6)}};
  // [run]
  std::vector<memories> own(stages.size());
  for (auto const id : stages.plan().order)
    for (tensor* v : stages[id].state) own[cleave::index(id)][v] = whole.at(v);

  auto const run = [&](cleave::stage_id id, std::span<floats> in) {
    auto const stage = stages[id];
    auto& m = own[cleave::index(id)];
    for (std::size_t i = 0; i < in.size(); ++i) m[stage.inputs[i]] = in[i];
    for (tensor* n : stage.nodes) compute(n, m);
    std::vector<floats> out;
    for (tensor* v : stage.outputs) out.push_back(m.at(v));
    return out;
  };
  auto const update = [&](cleave::stage_id id, tensor* v, floats const& now) {
    std::cout << "  stage " << cleave::index(id) << " gets " << v->name << '\n';
    own[cleave::index(id)][v] = now;
  };
  for (std::size_t step = 0; step < 3; ++step) {
    slot.offset = 2 * step;
    floats const given{static_cast<float>(step + 1), 2};
    auto const result = cleave::run_stages(stages, std::vector<floats>{given}, run, update).front();
    // [run]
    whole[&token] = given;
    for (tensor* n : g.nodes()) compute(n, whole);
    std::cout << "step " << step << ": " << result[0] << ' ' << result[1] << ", the whole " << whole[&y][0]
              << ' ' << whole[&y][1] << '\n';
  }

  views_as_values const v{{&c}};
  try {
    cleave::split(v, cleave::assign(v, in_second));
  } catch (cleave::partition_error const& e) {
    std::cout << "with a value for each view: " << e.what() << '\n';
  }
}

// It prints:
//
//   stage 0: x key store; receives token; holds mean scale cache
//   stage 1: y skip track; receives x cache; holds mean
//     stage 0 gets mean
//   step 0: 0 4, the whole 0 4
//     stage 0 gets mean
//   step 1: 6 0.25, the whole 6 0.25
//     stage 0 gets mean
//   step 2: -0.125 1.79688, the whole -0.125 1.79688
//   with a value for each view: nodes that must share a part (because of together(n) or carried(v), or because one writes memory that the other views) are in different parts: slot (#2) in part 0, y (#5) in part 1; put both into the same part
