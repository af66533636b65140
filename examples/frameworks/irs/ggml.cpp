// SPDX-License-Identifier: MIT
// Cuts a graph of ggml: a small decoder, whose layers write the keys and values of a token into caches
// through views, and add in place. Each stage becomes a graph of its own, in a context with memory of its
// own. The stages compute several tokens; results and caches must equal those of the whole graph, bit for
// bit.
#include <ggml-cpu.h>
#include <ggml.h>

#include <algorithm>
#include <cleave/cut.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <vector>

// [adapter]
using tensor = ggml_tensor*;

struct ggml_graph {  // reads through views: a value is memory, and all views of it are that value
  explicit ggml_graph(ggml_cgraph* c) {
    std::span const all(ggml_graph_nodes(c), static_cast<std::size_t>(ggml_graph_n_nodes(c)));
    list = cleave::collected(all, [](tensor t) { return is_view(t) ? nullptr : t; });
    returned = cleave::collected(
        all, [](tensor t) { return t->flags & GGML_TENSOR_FLAG_OUTPUT ? memory(t) : nullptr; });
    for (tensor t : list)
      for (tensor v : operands(t))
        if (v->op == GGML_OP_NONE) {
          auto& leaves = v->flags & GGML_TENSOR_FLAG_INPUT ? given : weights;
          if (std::ranges::find(leaves, v) == leaves.end()) leaves.push_back(v);
        }
  }
  static bool is_view(tensor t) {
    return t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_PERMUTE ||
           t->op == GGML_OP_TRANSPOSE;
  }
  static tensor memory(tensor t) { return t->view_src ? t->view_src : t; }

  auto const& nodes() const { return list; }
  std::vector<tensor> operands(tensor n) const {
    return cleave::collected(n->src, [](tensor s) { return s ? memory(s) : nullptr; });
  }
  std::vector<tensor> results(tensor n) const { return {memory(n)}; }
  std::vector<tensor> overwrites(tensor n) const { return std::vector(n->view_src ? 1 : 0, memory(n)); }
  tensor storage(tensor v) const { return v; }
  auto const& inputs() const { return given; }
  auto const& outputs() const { return returned; }
  auto const& state() const { return weights; }
  double weight(tensor n) const { return static_cast<double>(ggml_nelements(n)); }
  std::size_t bytes(tensor v) const { return ggml_nbytes(v); }
  char const* name(tensor n) const { return n->name; }

  std::vector<tensor> list, given, weights, returned;
};
// [adapter]
static_assert(cleave::aliasing_graph<ggml_graph> && cleave::stateful_graph<ggml_graph> &&
              cleave::weighted_graph<ggml_graph> && cleave::sized_graph<ggml_graph> &&
              cleave::named_graph<ggml_graph>);

struct free_context {
  void operator()(ggml_context* c) const { ggml_free(c); }
};
using context = std::unique_ptr<ggml_context, free_context>;
context make_context() { return context(ggml_init({std::size_t{8} << 20, nullptr, false})); }

// [builder]
struct ggml_builder {
  tensor argument(tensor v, cleave::source from) {
    tensor const made = ggml_dup_tensor(memory.get(), v);
    if (is_held(from)) {
      std::memcpy(made->data, v->data, ggml_nbytes(v));
      state[v] = made;
    } else {
      inputs.push_back(made);
    }
    return made;
  }
  std::vector<tensor> clone(tensor n, auto lookup) {
    auto const here = [&](tensor t) { return t->view_src ? view(t, lookup(t->view_src)) : lookup(t); };
    tensor const made = n->view_src ? view(n, lookup(n->view_src)) : ggml_dup_tensor(memory.get(), n);
    made->op = n->op;
    std::ranges::copy(n->op_params, made->op_params);
    for (std::size_t i = 0; i < GGML_MAX_SRC; ++i)
      if (n->src[i]) made->src[i] = n->src[i] == n ? made : here(n->src[i]);
    ggml_build_forward_expand(graph, made);
    return {ggml_graph::memory(made)};
  }
  void result(tensor, tensor made) { outputs.push_back(made); }

  tensor view(tensor t, tensor of) {  // the same part of other memory
    tensor const made = ggml_view_tensor(memory.get(), of);
    std::ranges::copy(t->ne, made->ne);
    std::ranges::copy(t->nb, made->nb);
    made->view_offs = t->view_offs;
    made->data = static_cast<std::byte*>(of->data) + t->view_offs;
    return made;
  }

  context memory = make_context();
  ggml_cgraph* graph = ggml_new_graph(memory.get());
  std::map<tensor, tensor> state;  // by the whole graph's tensor
  std::vector<tensor> inputs, outputs;
};
// [builder]

constexpr int width = 16, tokens = 4, layers = 4;

// A decoder with one head, that computes one token. Its caches hold those before it.
struct decoder {
  context memory = make_context();
  tensor token = weight("token", 1), result = nullptr;
  std::vector<tensor> keys, values, matrices;

  decoder() {
    ggml_set_input(token);
    for (int l = 0; l < layers; ++l) {
      keys.push_back(weight("keys", tokens)), values.push_back(weight("values", tokens));
      for (char const* name : {"query", "key", "value", "up"}) matrices.push_back(weight(name, width));
    }
  }
  tensor weight(char const* name, int columns) {
    tensor const t = ggml_new_tensor_2d(memory.get(), GGML_TYPE_F32, width, columns);
    for (std::int64_t i = 0; i < ggml_nelements(t); ++i)
      ggml_get_data_f32(t)[i] = std::sin(static_cast<float>(i * 7 + columns));
    return ggml_set_name(t, name);
  }

  ggml_cgraph* graph(int at) {  // of the token at position `at`
    auto* const c = memory.get();
    tensor x = token;
    auto* const graph = ggml_new_graph(c);
    for (std::size_t l = 0; l < layers; ++l) {
      tensor const* const m = &matrices[4 * l];
      auto const store = [&](tensor cache, tensor matrix, tensor from) {
        auto* const row = ggml_view_1d(c, cache, width, static_cast<std::size_t>(at) * cache->nb[1]);
        ggml_build_forward_expand(graph, ggml_cpy(c, ggml_mul_mat(c, matrix, from), row));
        return ggml_view_2d(c, cache, width, at + 1, cache->nb[1], 0);
      };
      tensor const normed = ggml_rms_norm(c, x, 1e-5f);
      tensor const k = store(keys[l], m[1], normed), v = store(values[l], m[2], normed);
      tensor const scores = ggml_soft_max(c, ggml_mul_mat(c, k, ggml_mul_mat(c, m[0], normed)));
      tensor const mixed = ggml_mul_mat(c, ggml_cont(c, ggml_transpose(c, v)), scores);
      x = ggml_add_inplace(c, ggml_mul_mat(c, m[3], mixed), x);
    }
    result = ggml_cont(c, x);
    ggml_set_output(result);
    ggml_build_forward_expand(graph, result);
    return graph;
  }
};

using floats = std::vector<float>;
floats contents(tensor t) { return {ggml_get_data_f32(t), ggml_get_data_f32(t) + ggml_nelements(t)}; }

int main() {
  decoder whole, cut;  // each with caches of its own
  for (int at = 0; at < tokens; ++at) {
    floats token(width);
    for (std::size_t i = 0; i < width; ++i)
      token[i] = std::cos(static_cast<float>(i) + static_cast<float>(at));

    std::ranges::copy(token, ggml_get_data_f32(whole.token));
    ggml_graph_compute_with_ctx(whole.memory.get(), whole.graph(at), 1);

    // [run]
    ggml_graph const g(cut.graph(at));
    auto const stages = cleave::split(g, cleave::balance(g, 3));
    std::vector<ggml_builder> built(stages.size());
    for (auto const id : stages.plan().order) cleave::emit(stages, id, built[index(id)]);
    auto const run = [&](cleave::stage_id id, std::span<floats> in) {
      auto& stage = built[index(id)];
      for (std::size_t i = 0; i < in.size(); ++i)
        std::ranges::copy(in[i], ggml_get_data_f32(stage.inputs[i]));
      ggml_graph_compute_with_ctx(stage.memory.get(), stage.graph, 1);
      std::vector<floats> out;
      for (tensor t : stage.outputs) out.push_back(contents(t));
      return out;
    };
    auto const update = [&](cleave::stage_id id, tensor v, floats const& now) {
      std::ranges::copy(now, ggml_get_data_f32(built[index(id)].state.at(v)));
    };
    floats const result = cleave::run_stages(stages, std::vector<floats>{token}, run, update).front();
    for (auto const& stage : built)  // the caches of the next token
      for (auto const& [v, made] : stage.state) std::ranges::copy(contents(made), ggml_get_data_f32(v));
    // [run]

    bool equal = result == contents(whole.result);
    for (std::size_t l = 0; l < layers; ++l)
      equal = equal && contents(cut.keys[l]) == contents(whole.keys[l]) &&
              contents(cut.values[l]) == contents(whole.values[l]);
    std::cout << "token " << at << ": " << g.nodes().size() << " operations in " << stages.size()
              << " stages, " << (equal ? "equal" : "NOT equal") << " to the whole\n";
    if (!equal) return 1;
  }
}
